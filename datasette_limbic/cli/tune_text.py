"""Tuning on a terminal: what the log says, the verdict, and what was changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..status import parameter_warning
from ..text import counted
from ..tuning.advice import NO_ESTIMATE, advice, not_counted, not_shown
from . import tune_tables as tables
from .acting import hint
from .printing import line, printable
from .tune_tables import between, wrapped

MOVERS = 3
"""So many of the searches that would gain, and that would lose the most."""
_LABELS = {
    "opened": "opened",
    "reaccessed": "opened again later",
    "useful": "rated useful",
    "not_useful": "rated not useful",
}
_CAME_FROM = {
    "constants": "no version was applied, so the defaults count",
    "configuration": "no version was applied, so what configuration has counts",
}


def analysis(database: str, found: Mapping[str, Any], same: Sequence[str]) -> Iterator[str]:
    """What ``tuning.report.report`` gives; ``same`` are the options to be given again."""
    yield wrapped(_in_force(found))
    yield from _warning(found["in_force"])
    yield ""
    yield from _counts(found)
    if found["counts"]["searches"]:
        yield ""
        yield from tables.arms(found)
        yield "\nBy strategy"
        yield tables.both("strategy", found["strategies"])
        yield "\nBy week, from its Monday on (UTC)"
        yield from tables.weeks(found)
    if found["grid"] is not None:
        yield ""
        yield from tables.grid(found)
    movers = found["movers"]
    if movers is not None and movers["gain"] + movers["lose"]:
        yield ""
        yield from _movers(movers)
    yield ""
    yield from verdict(database, found["proposal"], found["counts"], same)


def verdict(
    database: str, proposal: Mapping[str, Any], counts: Mapping[str, Any], same: Sequence[str]
) -> Iterator[str]:
    """A proposal (``Proposal.as_dict``) with the command that applies it, or why there is none.

    ``counts`` as ``labels.counts`` gives them.
    """
    refusal = proposal["refusal"]
    if refusal is not None:
        yield wrapped(f"Nothing is proposed: {printable(refusal['message'])}.")
        if refusal["code"] not in NO_ESTIMATE:
            yield from _basis(proposal, counts)
        yield "\nTo get further:"
        yield from (wrapped(f"- {said}.") for said in advice(proposal))
        return
    now, target, gain = proposal["in_force"], proposal["target"], proposal["gain"]
    yield wrapped(f"Proposed: {_moves(now, target)}")
    later = counted(proposal["counts"]["holdout_searches"], "later search", "later searches")
    yield wrapped(
        f"It gains {gain['value']:+.4f} in NDCG@{proposal['k']} ({between(gain, '+.4f')}, 95 %) "
        f"on {later}, which had no part in choosing it.",
        "  ",
    )
    yield from _basis(proposal, counts)
    step, gain = proposal["step"], proposal["step_gain"]
    yield wrapped(
        f"Applying moves {_share(proposal['blend'])} of the way: {_said(step)}; that gains "
        f"{gain['value']:+.4f} ({between(gain, '+.4f')}).",
        "  ",
    )
    yield from _warning(step, target)
    yield "Nothing has been changed. To apply it:"
    yield f"  {_again(database, '--tune', '--apply', *same)}"


def not_applied(proposal: Mapping[str, Any]) -> Iterator[str]:
    """What ``--tune --apply`` says where nothing passes."""
    yield wrapped(f"Nothing is applied: {printable(proposal['refusal']['message'])}.")
    yield wrapped(f"{_said(proposal['in_force'])} stay in force.")


def changed(database: str, row: Mapping[str, Any]) -> Iterator[str]:
    """A version that was just written: a row of ``tuning.versions.history``."""
    evidence = row["evidence"]
    yield wrapped(f"Version {row['version']} is in force: {_moves(row['from'], row['to'])}")
    if row["source"] == "rollback":
        yield wrapped(f"These are the values of version {evidence['to']}.", "  ")
    else:
        share = _share(evidence["blend"])
        more = " Say it again to go further." if row["source"] == "manual" else ""
        yield wrapped(f"That is {share} of the way to {_said(evidence['asked'])}.{more}", "  ")
    if row["source"] == "tuned":
        gain = evidence["gain"]
        yield wrapped(
            f"The whole way gains {gain['value']:+.4f} in NDCG@{evidence['k']} "
            f"({between(gain, '+.4f')}, 95 %) on the later searches.",
            "  ",
        )
    yield from _warning(row["to"])
    yield wrapped("Running servers rank by them from their next search on.", "  ")
    yield "To take it back:"
    yield f"  {_again(database, '--rollback', str(row['from']['version']))}"


def history(database: str, in_force: Mapping[str, Any], rows: Sequence[Any]) -> Iterator[str]:
    """All versions and what is in force."""
    yield wrapped(_in_force({"in_force": in_force, "history": rows}))
    if not rows:
        return
    yield ""
    yield tables.history(rows)
    for row in rows:
        if row["unusable"]:
            yield wrapped(
                f"Version {row['version']} was never in force: {line(row['unusable'], 200)}"
            )
    yield f"\nTo bring one back: {_again(database, '--rollback')} VERSION"


def _in_force(found: Mapping[str, Any]) -> str:
    now = found["in_force"]
    said = f"In force: {_said(now)} (version {now['version']}: "
    if now["version"] == 0:
        return f"{said}{_CAME_FROM[now['source']]})"
    row = next(each for each in found["history"] if each["version"] == now["version"])
    by = f" by {line(row['applied_by'], 40)}" if row["applied_by"] else ""
    back = row["stands_for"] != row["version"]
    how = f"back to version {row['stands_for']}" if back else line(row["source"], 20)
    return f"{said}{how}{by}, {line(row['created_at'])[:19]})"


def _counts(found: Mapping[str, Any]) -> Iterator[str]:
    counts = found["counts"]
    if counts["searches"]:
        yield wrapped(
            f"Searches: {counts['searches']:,} from {counts['first']} to {counts['last']} (UTC): "
            f"{counted(counts['queries'], 'query', 'queries')}, "
            f"{counted(counts['clients'], 'client', 'clients')}, "
            f"{counted(counts['client_days'], 'day of a client', 'days of clients')}; "
            f"{counts['treatment']:,} were served in the limbic order, {counts['baseline']:,} in "
            "that of the baseline"
        )
        labels = ", ".join(f"{counts['labels'][name]:,} {said}" for name, said in _LABELS.items())
        yield wrapped(f"Labels: {counts['labelled']:,} searches have any; results: {labels}")
    else:
        yield "Searches: none that can be read" if found["left_out"] else "Searches: none yet"
    yield from map(wrapped, not_shown(counts))
    if found["left_out"]:
        reasons = ", ".join(f"{number:,} {why}" for why, number in found["left_out"].items())
        yield wrapped(f"Left out: {reasons}")


def _movers(movers: Mapping[str, Any]) -> Iterator[str]:
    yield wrapped(
        f"With {_said(movers)}, {movers['better']:,} searches would be better, "
        f"{movers['worse']:,} worse, {movers['same']:,} the same (NDCG as now, and then)"
    )
    for side, word in (("gain", "gain"), ("lose", "lose")):
        if movers[side]:
            yield f"Those that {word} the most:"
        for row in movers[side][:MOVERS]:
            yield wrapped(
                f"{row['before']:.2f} → {row['after']:.2f}  {line(row['query'], 40)}"
                + _used(row["relevant"]),
                "  ",
            )


def _used(relevant: Sequence[Mapping[str, Any]]) -> str:
    """What of a search was used and moves the furthest."""
    if not relevant:  # a search that counts for what chance would have brought
        return ""
    row = max(relevant, key=lambda each: abs(each["rank_after"] - each["rank_before"]))
    return f": {line(row['name'], 40)} from rank {row['rank_before']} to {row['rank_after']}"


def _basis(proposal: Mapping[str, Any], counts: Mapping[str, Any]) -> Iterator[str]:
    """What an estimate rests on."""
    labelled = counted(proposal["labelled"], "labelled search", "labelled searches")
    if proposal["biased"]:
        yield wrapped(
            f"Replay, biased: from {labelled} that were ranked by what is in force. "
            f"{line(proposal['reason'], 400).capitalize()}. So it speaks for what is in force, "
            "and moves a value by a factor of 2 at most.",
            "  ",
        )
        return
    yield wrapped(
        f"Unbiased: from {labelled}, served in either order by chance, weighted by how "
        "likely each result was to be looked at.",
        "  ",
    )
    yield from (wrapped(f"{said}.", "  ") for said in not_counted(proposal, counts))


def _warning(*several: Mapping[str, Any]) -> Iterator[str]:
    """The first of these parameters at which co-occurrence outweighs salience."""
    for each in several:
        warning = parameter_warning({name: each[name] for name in ("beta_sal", "gamma")})
        if warning is not None:
            yield wrapped(f"Warning: {warning}")
            return


def _moves(old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{name} {value(old[name])} → {value(new[name])}"
        if old[name] != new[name]
        else f"{name} stays {value(new[name])}"
        for name in ("beta_sal", "gamma")
    )


def _said(values: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{name} {value(values[name])}" for name in ("beta_sal", "gamma") if name in values
    )


def value(number: float | None) -> str:
    """A parameter for people; None where nobody wrote it down."""
    return "unknown" if number is None else f"{number:.4g}"


def _share(of_one: float) -> str:
    return f"{of_one * 100:.0f} %"


def _again(database: str, *options: str) -> str:
    file = f"./{database}" if database.startswith("-") else database
    return hint("tune", file, *options)
