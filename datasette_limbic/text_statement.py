"""What a search reads of the texts: the part of its statement that is about them.

Of common words the newest texts alone are read, and of thousands that match the best are looked at.
``further`` tells where that was not enough.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

from . import frequency, substrings

if TYPE_CHECKING:
    from .statement import Shape

# Without vectors, the rarest word that there is, however common.
RAREST = "or total = df"
# Texts times words that are kept.
MOST_KEPT = 30 * frequency.COUNTED
MOST_RATED = 10 * frequency.COUNTED
# bm25() reads all texts of a word; where there are so many it has next to nothing to say.
BM25 = "bm25(_limbic_fts, 4.0, 1.0)"
RATED = f"iif((select sum(iif(leads, df * tokens, 0)) from kept) < {MOST_RATED},\n      {BM25}, 0)"
# Texts of words kept that do not lead: they are passed over, and rated where one that leads stands.
MOST_FOLLOWING = 4 * frequency.COUNTED
# Not a phrase: its frequency is that of its rarest part.
LEADS = """df <= ifnull((select min(df) from terms, p
      where tokens = 1 and df > {looked_at}), df)"""
PART_RATED = "bm25(_limbic_trigram)"
UNRATED = "-(select max(idf) from terms)"
# A phrase of such words is looked for in the newest texts of its rarest one alone: SQLite reads
# every place of each of its words, also where they never stand together, and in this order alone it
# begins where it is told to. To rate it would read them all.
SINGLE = "where rarest is null"
PHRASE_FROM = """(select rowid from _limbic_fts where _limbic_fts match (
    select ifnull(max('"' || rarest || '"'), '""') from kept)
  order by rowid desc limit 1 offset (
    select {places} / ifnull(max(iif(rarest is null, null, tokens)), 1) from kept))"""
PHRASE = f"""select rowid, 0 from _limbic_fts
  where _limbic_fts match (
    select ifnull(max(term), '""') from kept where rarest is not null)
    and rowid >= ifnull({PHRASE_FROM}, 0) /*of_phrase*/
  order by +rowid desc limit {{texts}}"""
# What is read where the newest texts do not fill the pool although there are more: of them those
# that count. A text that is not of a type is passed over by its number, where the type has few.
COUNTS = """exists (select 1 from live where live_id = iif({doc} & 1,
  (select entity_id from observations where id = {doc} >> 1
    and (valid_to is null and valid_from is null or exists (select 1 from p
      where ifnull(julianday(valid_to) > at, 1) and ifnull(julianday(valid_from) <= at, 1)))),
  {doc} >> 1))"""
# Not :type itself: SQLite prepares a statement anew whose plan may depend on a parameter, 30 ms.
OF_TYPE = """select id * 2 from entities where entity_type = (select typ from p) union all
  select o.id * 2 + 1 from entities e cross join observations o on entity_id = e.id
  where entity_type = (select typ from p)"""
COUNTS_OF_TYPE = f"iif({{doc}} in ({OF_TYPE}), {COUNTS}, 0)"
# Where thousands of texts match, the best of them fill the pool, with room for archived entities.
# Where they do not (one entity has most of them, or they held at another time, or are of another
# type), search runs again and looks at all. Of a type it does so at once beside vectors, where a
# second run would compare them all again.
CUT_PER_CANDIDATE = 12
CUT_PER_CANDIDATE_OF_TYPE = 165
# What another retriever is asked for, which knows of no types.
ASKED_PER_CANDIDATE_OF_TYPE = 60
CUT = "order by 2, 1 limit (select {looked_at} from p)"
# One or two characters of scripts without spaces between words: see substrings.py.
SHORT_RUNS = f"""union all select * from (select * from (select value as doc,
  {UNRATED} from json_each(limbic_short_runs(:q{{of_runs}}))) /*of_runs*/)"""


@dataclass(frozen=True)
class Reading:
    """How many of the newest texts are read of those that a search by text matches."""

    texts: int
    """Of those that hold its words."""
    places: int
    """Places of a phrase of common words: each of its parts in the texts of the rarest one."""
    parts: int
    """Of those that hold a part of a word, or a run of three characters."""
    short_runs: int
    """Places of one and two characters."""
    only: str = ""
    """Which of the texts are taken; without it all of them are."""
    since: tuple[int, int] = field(default=(0, 0), compare=False)
    """The oldest text that is read of those that hold its words, and of those that hold a part of a
    word: values of the statement's SINCE; 0 where all are."""


NEWEST = Reading(texts=10_000, places=15_000, parts=4_000, short_runs=substrings.MOST_PLACES)
FURTHER = Reading(texts=12_500, places=25_000, parts=15_000, short_runs=15_000, only=COUNTS)
FURTHER_OF_TYPE = replace(FURTHER, texts=45_000, only=COUNTS_OF_TYPE)
SINCE = ("words_since", "parts_since")
"""Named parameters of a statement that reads further: what they are is found out before, and the
statement stays the same, which takes long to prepare."""


@cache
def query_file(name: str) -> str:
    """The text of ``queries/NAME.sql``."""
    return (resources.files("datasette_limbic") / "queries" / f"{name}.sql").read_text("utf-8")


def terms(shape: Shape) -> str:
    """``terms`` of the query, and those of them that are ``kept``; without vectors one in any
    case."""
    sql = query_file("terms").replace("/*rarest*/", "" if shape.vectors else RAREST)
    leads = LEADS.format(looked_at=looked_at(shape)) if is_cut(shape) else "1"
    sql = sql.replace("/*leads*/", leads)
    for mark, most in (
        ("{following}", MOST_FOLLOWING),
        ("{counted}", frequency.COUNTED),
        ("{places}", frequency.MOST_PLACES),
        ("{rated}", MOST_KEPT),
    ):
        sql = sql.replace(mark, str(most))
    return sql.strip()


def hits(shape: Shape) -> str:
    """``hits`` by the file's own indexes."""
    reading = shape.reading
    sql = query_file("hits")
    for mark, piece in (
        # with vectors no phrase of so many texts is kept
        ("/*single*/", "" if shape.vectors else SINGLE),
        ("/*phrase*/", "" if shape.vectors else f"\n    union all select * from ({PHRASE})"),
        ("/*rated*/", BM25 if shape.vectors else RATED),
        # in the second run to read all texts that hold a part would take as long once more
        ("/*part_rated*/", UNRATED if reading.only else PART_RATED),
        ("/*short_runs*/", SHORT_RUNS if shape.unspaced else ""),
        ("/*of_words*/", _condition(reading, "_limbic_fts.rowid", SINCE[0])),
        ("/*of_phrase*/", _condition(reading, "_limbic_fts.rowid")),
        ("/*of_parts*/", _condition(reading, "_limbic_trigram.rowid", SINCE[1])),
        ("/*of_runs*/", f"where {_only(reading, 'doc')}" if reading.only else ""),
        ("{texts}", str(taken(reading))),
        ("{places}", str(reading.places)),
        ("{parts}", str(NEWEST.parts)),
        ("{of_runs}", f", {reading.short_runs}" if reading.only else ""),
    ):
        sql = sql.replace(mark, piece)
    return sql


def _condition(reading: Reading, doc: str, since: str = "") -> str:
    """The condition on which texts are taken, of those from the oldest that is read."""
    if not reading.only:
        return ""
    oldest = f"{doc} >= limbic_arg(:{since}, 0) and " if since else ""
    return f"and {oldest}{_only(reading, doc)}"


def taken(reading: Reading) -> int:
    """How many texts that hold the words are taken, at most."""
    return min(reading.texts, FURTHER.texts)


def _only(reading: Reading, doc: str) -> str:
    return reading.only.replace("{doc}", doc)


def per_candidate(shape: Shape) -> int:
    """How many texts are looked at for each candidate, where they are cut."""
    return CUT_PER_CANDIDATE_OF_TYPE if shape.by_type else CUT_PER_CANDIDATE


def asked_per_candidate(shape: Shape) -> int:
    """How many texts another retriever is asked for, for each candidate."""
    return ASKED_PER_CANDIDATE_OF_TYPE if shape.by_type else CUT_PER_CANDIDATE


def is_cut(shape: Shape) -> bool:
    """Whether only the best texts are looked at."""
    return shape.cut and not (shape.by_type and shape.vectors)


def looked_at(shape: Shape) -> str:
    """How many texts are looked at, in SQL."""
    return f"{per_candidate(shape)} * k + invalid + hidden"


def cut(shape: Shape) -> str:
    """What keeps the best texts alone, where they are cut."""
    return CUT.format(looked_at=looked_at(shape)) if is_cut(shape) else ""


def phrase_from(shape: Shape) -> str:
    """The oldest text in which a phrase of common words is looked for; null: in all."""
    return PHRASE_FROM.replace("{places}", str(shape.reading.places))
