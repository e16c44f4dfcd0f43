"""The SQL of the reports: one text each, for a view and for pages with values of their own."""

from __future__ import annotations

import re
from functools import cache

from datasette.utils.sqlite import sqlite3

from ..report_settings import NUMBERS
from ..schema import SPLIT_RELATIONS, statements

# Letters that a type may be written with, and what they count as: SQL knows no other way.
_ACCENTS = {
    "a": "áàâäãåÁÀÂÄÃÅ",
    "e": "éèêëÉÈÊË",
    "i": "íìîïÍÌÎÏ",
    "o": "óòôöõÓÒÔÖÕ",
    "u": "úùûüÚÙÛÜ",
    "n": "ñÑ",
    "c": "çÇ",
    "": "\u0300\u0301\u0302\u0303\u0308\u030a\u0327",
}
_CREATE = re.compile(r"create view (\w+) as\s+", re.I)
# by way of a real: of the text '1e3' as an integer SQLite reads the 1 alone
_WHOLE = "cast(cast(value as real) as integer)"
# What Python strips of a text; SQLite by itself strips the space alone.
_SPACES = f"char({', '.join(str(n) for n in range(0x3001) if chr(n).isspace())})"


def _usable(key: str) -> str:
    """Whether ``value`` is a number that ``report_settings`` takes for ``key`` too."""
    low, high, whole = NUMBERS[key]
    # compared with a real, all of a text must be a number: '90 days' is none, though it casts
    usable = (
        f"cast(value as real) = value and cast(value as real) between {low:.15g} and {high:.15g}"
    )
    return usable + (f" and cast(value as real) = {_WHOLE}" if whole else "")


def _setting(key: str, default: float) -> str:
    """A number of limbic_settings, or ``default`` where it is none (as report_settings reads)."""
    return (
        f"coalesce((select cast(value as real) from limbic_settings where key = '{key}'"
        f" and {_usable(key)}), {default:g})"
    )


def _types() -> str:
    """A common table ``types`` (entity_type, threshold), and those it is made of.

    Types are compared without case and accents, as ``config.type_key`` does it, in Latin letters;
    in those of other scripts as they are written.
    Letter by letter: calls of replace() inside each other overflow the parser of most SQLites.
    """
    letters = [(letter, plain) for plain, each in _ACCENTS.items() for letter in each]
    values = ", ".join(f"({n}, '{a}', '{b}')" for n, (a, b) in enumerate(letters, 1))
    own = f"substr(key, 1, 16) = 'split_threshold:' and {_usable('split_threshold')}"
    last = len(letters)
    return f"""letters(n, letter, plain) as (values {values}),
words(word) as (
  select distinct entity_type from entities
  union select substr(key, 17) from limbic_settings where {own}
), folded(word, folded, n) as (
  select word, lower(word), case when word glob '*[^ -~]*' then 0 else {last} end from words
  union all
  select f.word, replace(f.folded, l.letter, l.plain), l.n
  from folded f join letters l on l.n = f.n + 1
), thresholds(folded, threshold) as (
  select trim(f.folded), min({_WHOLE})
  from limbic_settings s join folded f on f.word = substr(s.key, 17) and f.n = {last}
  where {own} group by 1
), types(entity_type, threshold) as (
  select f.word, coalesce(t.threshold, {_setting("split_threshold", 20)})
  from folded f left join thresholds t on t.folded = trim(f.folded)
  where f.n = {last}
)"""


# What the views compare letter by letter, our function compares in every script. Called once for
# each type: it reads the settings.
_EXACT_TYPES = """types(entity_type, threshold) as materialized (
  select entity_type, limbic_threshold(case when typeof(entity_type) = 'text' then entity_type
    else '' end)
  from (select distinct entity_type from entities)
)"""


def current(alias: str, now: str = "'now'") -> str:
    """Whether a row holds within valid_from … valid_to at ``now``: an SQL expression of a time."""
    # What cannot be read never begins and never ends, as in search. Nearly all rows have neither:
    # to ask that first takes half as long.
    return (
        f"(({alias}.valid_to is null or coalesce(datetime({alias}.valid_to) > datetime({now}), 1))"
        f" and ({alias}.valid_from is null"
        f" or coalesce(datetime({alias}.valid_from) <= datetime({now}), 1)))"
    )


def _counts(alias: str, now: str) -> str:
    """Whether a relation counts for the degree."""
    apart = ", ".join(f"'{name}'" for name in SPLIT_RELATIONS)
    return f"{alias}.relation_type not in ({apart}) and {current(alias, now)}"


def _day(expression: str) -> str:
    """A time as a Julian day, in the spellings that ``times.parse_time`` reads; else NULL."""
    stamp = f"trim({expression}, {_SPACES})"
    number = f"cast({stamp} as real)"
    date, time = f"substr({stamp}, 1, 10)", f"substr({stamp}, 11)"
    # Nearly all are written as SQLite writes them: those are asked for first.
    # Of text SQLite reads more than a date: 'now', '12:00' of the year 2000, the 31st of February,
    # 24:00. Zones it knows up to 14:00, and neither '+0200' nor '+02' nor 'UTC'.
    return f"""(select case when day between 1721425.5 and 5373484.499999999 then day end
  from (select case
    when datetime({expression}, '+0 days') = {expression} then julianday({expression})
    when typeof({expression}) = 'blob' then null
    when {number} = {stamp} then 2440587.5 + (
      case when abs({number}) >= 1e11 then {number} / 1000 else {number} end) / 86400
    when date({date}, '+0 days') <> {date} then null
    when {time} = '' then julianday({date})
    when {time} not glob '[Tt ][0-2][0-9]:*' or {time} glob '?24*' or {time} glob '*  *' then null
    when {time} glob '*[Zz]' then {_clock(date, time, 1)}
    when {time} glob '*UTC' then {_clock(date, time, 3)}
    when {time} glob '*[+-][0-9][0-9]:[0-9][0-9]' then {_clock(date, time, 6)}
    when {time} glob '*[+-][0-9][0-9][0-9][0-9]' then {_clock(date, time, 5)}
    when {time} glob '*[+-][0-9][0-9]' then {_clock(date, time, 3, hours_alone=True)}
    else {_clock(date, time, 0)} end as day))"""


def _clock(date: str, time: str, zone: int, *, hours_alone: bool = False) -> str:
    """A date with a time of which the last ``zone`` characters are a zone, as a Julian day."""
    clock = f"replace(substr({time}, 2, length({time}) - {zone + 1}), ',', '.')"
    found = f"julianday({date} || ' ' || {clock})"
    usable = f"{clock} not glob '*[^0-9:. ]*'"
    if hours_alone or zone > 3:
        hours = f"substr({time}, {-zone}, 3)"
        minutes = "'00'" if hours_alone else f"substr({time}, -2)"
        # with the sign of the hours, which 00 has too
        found += f" - ({hours} * 60 + (substr({hours}, 1, 1) || {minutes})) / 1440.0"
        usable += f" and substr({hours}, 2) < '24' and {minutes} < '60'"
    return f"case when {usable} then {found} end"


_AT_NOW = {"current": current, "counts": _counts}
# What a view takes from the settings and a page from its own parameters, by name.
PARAMETERS = {
    "now": "'now'",
    "stale_days": _setting("stale_days", 90),
    "stale_max_access": _setting("stale_max_access", 2),
    "approaching": "0.8",
}


@cache
def queries(*, parametrised: bool = False) -> dict[str, str]:
    """The select of each view by its name.

    ``parametrised`` puts ``:now``, ``:stale_days`` and ``:stale_max_access`` where the views read
    the clock and the settings, and calls ``limbic_threshold``: for a connection with our functions.
    """
    found = {}
    for text in statements("report_views"):
        match = _CREATE.match(text)
        if match is None:
            raise ValueError(f"no view: {text[:60]!r}")
        found[match[1]] = _filled(text[match.end() :].rstrip("; \n"), parametrised)
    return found


def _filled(text: str, parametrised: bool) -> str:
    def value_of(name: str) -> str:
        return f":{name}" if parametrised and name != "approaching" else PARAMETERS[name]

    def value(match: re.Match[str]) -> str:
        name, argument = match[1], match[2]
        if name == "day":
            return _day(argument)
        if argument is not None:
            return _AT_NOW[name](argument, value_of("now"))
        if name == "types":
            return _EXACT_TYPES if parametrised else _types()
        return value_of(name)

    return re.sub(r"\{(\w+)(?::([\w.]+))?\}", value, text)


def create_views(conn: sqlite3.Connection) -> None:
    """Make the views that are missing."""
    for name, text in queries().items():
        conn.execute(f"create view if not exists {name} as\n{text}")


def views_there(conn: sqlite3.Connection) -> set[str]:
    """Those of the views that this file has: one of an earlier version may have none."""
    found = conn.execute("select name from sqlite_master where type = 'view'")
    return {row[0] for row in found} & queries().keys()
