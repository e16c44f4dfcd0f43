"""The tables of tuning on a terminal: both orders, strategies, weeks, the grid, versions."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tabulate import tabulate

from ..text import counted
from .printing import line

WIDEST, NARROWEST = 100, 60
WEEKS = 12
"""So many of the last weeks."""
NONE = "–"
_THOUSAND = 1000
_DIGITS = range(2, 7)


def width() -> int:
    """Columns to write in: those of the terminal, within reason."""
    return min(max(shutil.get_terminal_size((WIDEST, 24)).columns, NARROWEST), WIDEST)


def wrapped(text: str, indent: str = "") -> str:
    """A paragraph in lines that fit; what follows the first line is indented by two more."""
    return textwrap.fill(
        text,
        width(),
        initial_indent=indent,
        subsequent_indent=f"{indent}  ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def arms(found: Mapping[str, Any]) -> Iterator[str]:
    """NDCG, lift and recall of both orders: where each was served, and over the same searches."""
    k = found["k"]
    rows = [
        [
            f"{each['arm']}, {how}{'*' * (how == 'shadow')}",
            _interval(each[how]["ndcg"]),
            _figure(each[how]["lift"], ".2f"),
            _figure(each[how]["recall"], ".2f"),
            f"{each[how]['searches']:,}",
            f"{each[how]['labelled']:,}",
        ]
        for how in ("served", "shadow")
        for each in found["arms"]
    ]
    heads = ("order", f"NDCG@{k} (95 %)", "lift", "recall", "searches", "labelled")
    yield _table(rows, heads)
    yield wrapped(
        "* either order over all searches: it favours the one that was served, since what was not "
        "shown cannot be used. Labelled are those with a relevant result, and figures are means "
        "over these."
    )
    difference = found["difference"]
    if difference is None:
        yield wrapped("Difference: not known, since only one of both orders was served.")
    else:
        yield wrapped(
            f"Difference: limbic {difference['value']:+.3f} ({between(difference, '+.3f')}) over "
            "the baseline where chance chose between them; a search without a relevant result "
            "counts 0 here."
        )


def both(name: str, rows: Sequence[Mapping[str, Any]]) -> str:
    """NDCG of both orders as served, by strategy or by week (``name``)."""
    orders = ["limbic", "baseline"]
    if not any(row["baseline"]["searches"] for row in rows):
        orders.remove("baseline")
    table = [
        [
            line(row[name], 20),
            *(
                cell
                for order in orders
                for cell in (_interval(row[order]["ndcg"]), f"{row[order]['labelled']:,}")
            ),
        ]
        for row in rows
    ]
    heads = [name, *(head for order in orders for head in (f"{order} (95 %)", "labelled"))]
    return _table(table, heads)


def weeks(found: Mapping[str, Any]) -> Iterator[str]:
    """The last weeks, and how many come before them."""
    rows = found["weeks"]
    yield both("week", rows[-WEEKS:])
    if len(rows) > WEEKS:
        earlier = counted(len(rows) - WEEKS, "earlier week", "earlier weeks")
        yield f"{earlier}: --json has all"


def grid(found: Mapping[str, Any]) -> Iterator[str]:
    """How much better or worse each pair of parameters would have ranked all searches."""
    surface = found["grid"]
    yield wrapped(
        f"Gain in NDCG@{found['k']} over what is in force on all searches, in thousandths "
        "(= in force, * best here, > chosen on the earlier searches):"
    )
    marks = {tuple(surface[name] or ()): mark for name, mark in _MARKS.items()}
    now = surface["ndcg"][surface["in_force"][0]][surface["in_force"][1]]
    cells = {
        (i, j): f"{_thousandths(value - now)}{marks.get((i, j), ' ')}"
        for i, row in enumerate(surface["ndcg"])
        for j, value in enumerate(row)
    }
    down, across = labels(surface["beta_sal"]), labels(surface["gamma"])
    first = max(len("beta_sal"), *map(len, down))
    each = 1 + max(*(len(label) + 1 for label in across), *map(len, cells.values()))
    fitting = max((width() - first) // each, len(_MARKS))
    kept = {j for _, j in filter(None, marks)}
    columns = thinned(len(across), fitting, kept)
    rows = thinned(len(down), MOST_ROWS, {i for i, _ in filter(None, marks)})
    yield f"{'gamma':>{first}}" + "".join(f"{across[j] + ' ':>{each}}" for j in columns).rstrip()
    for number, i in enumerate(rows):
        label = f"{down[i]:>{first}}"
        if number == 0:
            yield f"{'beta_sal':>{first}}"
        yield label + "".join(f"{cells[i, j]:>{each}}" for j in columns).rstrip()
    left_out = len(across) * len(down) - len(columns) * len(rows)
    if left_out:
        yield f"{counted(left_out, 'pair', 'pairs')} left out: --json has all"


# the later one stands where two are the same
_MARKS = {"best": "*", "target": ">", "in_force": "="}
MOST_ROWS = 24


def labels(values: Sequence[float]) -> list[str]:
    """Numbers as short as they can be told apart: two digits mostly, without a leading zero."""
    found: list[str] = []
    for digits in _DIGITS:
        found = [f"{value:.{digits}g}" for value in values]
        if len(set(found)) == len(found):
            break
    return [text.removeprefix("0") if text.startswith("0.") else text for text in found]


def thinned(count: int, most: int, kept: set[int]) -> list[int]:
    """At most so many of ``range(count)``, evenly, with those that must be among them."""
    if count <= most:
        return list(range(count))
    chosen = set(kept)
    free = [i for i in range(count) if i not in kept]
    room = most - len(chosen)
    if room > 0:
        chosen |= {free[i * (len(free) - 1) // max(room - 1, 1)] for i in range(room)}
    return sorted(chosen)


def history(rows: Sequence[Mapping[str, Any]]) -> str:
    """All versions, newest first."""
    table = [
        [
            f"{row['version']}{' =' * row['in_force']}",
            line(row["to"]["beta_sal"] if row["unusable"] else f"{row['to']['beta_sal']:.4g}", 10),
            line(row["to"]["gamma"] if row["unusable"] else f"{row['to']['gamma']:.4g}", 10),
            "unusable" if row["unusable"] else _source(row),
            _gain(row["evidence"]),
            line(row["applied_by"], 16),
            line(row["created_at"])[:19],
        ]
        for row in rows
    ]
    return _table(table, ("version", "beta_sal", "gamma", "source", "gain", "by", "when (UTC)"))


def _source(row: Mapping[str, Any]) -> str:
    if row["stands_for"] != row["version"]:
        return f"back to {row['stands_for']}"
    return line(row["source"], 12)


def _gain(evidence: Any) -> str:
    """The gain that a tuned version was applied for; empty where nobody wrote down any."""
    gain = evidence.get("gain") if isinstance(evidence, Mapping) else None
    if not isinstance(gain, Mapping):
        return ""
    try:
        value = float(gain["value"])
        bounds = {n: None if gain[n] is None else float(gain[n]) for n in ("low", "high")}
    except (KeyError, TypeError, ValueError, OverflowError):  # another program's row
        return ""
    interval = f" ({between(bounds, '+.3f')})" if width() >= WIDEST else ""
    return f"{value:+.3f}{interval}"


def between(found: Mapping[str, float | None], form: str, to: str = " to ") -> str:
    """The bounds of an interval; a dash where nobody knows them, such as of one client's day."""
    low, high = found["low"], found["high"]
    return NONE if low is None or high is None else f"{low:{form}}{to}{high:{form}}"


def _interval(found: Mapping[str, float | None] | None) -> str:
    if found is None:
        return NONE
    return f"{found['value']:.3f} ({between(found, '.3f', '–')})"


def _figure(value: float | None, form: str) -> str:
    return NONE if value is None else format(value, form)


def _thousandths(gain: float) -> str:
    found = round(gain * _THOUSAND)
    return f"{found:+d}" if found else "0"


def _table(rows: Sequence[Sequence[str]], heads: Sequence[str]) -> str:
    text = ("source", "gain", "by")
    align = ["left" if not i or head in text else "right" for i, head in enumerate(heads)]
    table: str = tabulate(rows, headers=heads, disable_numparse=True, colalign=align)
    return table
