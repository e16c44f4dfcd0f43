"""The log of searches, on which tuning learns: what no search of ours writes.

A search that was logged wrongly teaches wrongly, and no page shows it before. Logs grow large:
each check is one pass over its table, in the order of its key.
"""

from __future__ import annotations

from ..search import BASELINE, LIMBIC
from .context import Check, scan
from .report import Repair
from .rows import bad_rows
from .schema import SEARCH_UID, reference

_CANDIDATES = "limbic_search_candidates"
_KEY = ("search_id", "entity_id")
_RANKS = ("baseline_rank", "treatment_rank")
# The order in which a search was served says what of its pool it returned.
_RETURNED = (
    f"coalesce((select iif(s.policy = '{BASELINE}', baseline_rank, treatment_rank)"
    " <= s.result_limit from limbic_searches s where s.id = search_id), 0)"
)
_SHOWN = f"(select count(*) from {_CANDIDATES} c where c.search_id = limbic_searches.id"


def checks() -> tuple[Check, ...]:
    """All of them; the factors are read from the schema that ``init`` makes."""
    return (_uids(), *_SEARCHES, *_RANKED, _factors(), _FEEDBACK)


def _without(searches: str) -> tuple[str, ...]:
    """Statements that take searches away with all that hangs on them, foreign keys on or off."""
    return (
        f"delete from limbic_feedback where search_id in ({searches});",
        f"delete from limbic_searches where id in ({searches});",
        f"delete from {_CANDIDATES} where not exists"
        " (select 1 from limbic_searches s where s.id = search_id);",
    )


def _uids() -> Check:
    """Past its index, which may be missing or lack rows; so the repair makes it anew."""
    sql = (
        "select uid, count(*) from limbic_searches not indexed where uid is not null"
        " group by uid having count(*) > 1 order by uid"
    )
    return Check(
        "several.limbic_searches",
        "several searches with one uid",
        lambda context: scan(context.conn.execute(sql), ("uid", "rows")),
        Repair(
            "person",
            (
                f"drop index if exists {SEARCH_UID};",
                "update limbic_searches set uid = null where uid is not null and id not in"
                " (select min(id) from limbic_searches group by uid);",
                f"{reference().objects[SEARCH_UID][1]};",
            ),
            "this leaves the name to the first of each: what is rated from now on is rated there",
        ),
        ("limbic_searches.id", "limbic_searches.uid"),
    )


_SEARCHES = (
    bad_rows(
        "values.limbic_searches.policy",
        f"searches whose policy is neither {LIMBIC} nor {BASELINE}",
        "limbic_searches",
        f"policy is null or policy not in ('{LIMBIC}', '{BASELINE}')",
        "update limbic_searches set policy ="
        f" iif(treatment = 0, '{BASELINE}', '{LIMBIC}') where {{where}}",
        shown=("id", "query", "policy", "treatment"),
    ),
    bad_rows(
        "values.limbic_searches.served",
        "searches whose policy and treatment contradict each other",
        "limbic_searches",
        f"(policy = '{LIMBIC}' and treatment = 0) or (policy = '{BASELINE}' and treatment = 1)",
        f"update limbic_searches set treatment = (policy = '{LIMBIC}') where {{where}}",
        shown=("id", "query", "policy", "treatment"),
        text="this believes the policy",
    ),
    bad_rows(
        "values.limbic_searches.probability",
        "searches whose probability is not above 0 and at most 1",
        "limbic_searches",
        "typeof(probability) not in ('real', 'integer') or probability <= 0 or probability > 1",
        "update limbic_searches set probability = 1.0 where {where}",
        shown=("id", "query", "policy", "probability"),
        text="this takes every search of that time for served by that policy: where only a share "
        "was, write the share",
    ),
    bad_rows(
        "values.limbic_searches.result_limit",
        "searches whose result_limit is no number of results",
        "limbic_searches",
        "typeof(result_limit) <> 'integer' or result_limit < 1",
        f"update limbic_searches set result_limit = max(1, {_SHOWN} and c.returned = 1))"
        " where {where}",
        shown=("id", "query", "result_limit"),
        text="this writes how many it returned",
    ),
)

_RANKLESS = " or ".join(f"typeof({rank}) <> 'integer' or {rank} < 1" for rank in _RANKS)
_TWICE = (
    f"select search_id from {_CANDIDATES} group by search_id"
    " having count(distinct baseline_rank) < count(*)"
    " or count(distinct treatment_rank) < count(*)"
)
_NO_ORDER = "an order that is not known teaches nothing: this takes those searches away"

_RANKED = (
    bad_rows(
        f"values.{_CANDIDATES}.rank",
        "candidates whose baseline_rank or treatment_rank is no rank",
        _CANDIDATES,
        _RANKLESS,
        shown=(*_KEY, *_RANKS),
        repair=Repair(
            "person",
            _without(f"select search_id from {_CANDIDATES} where {_RANKLESS}"),
            _NO_ORDER,
        ),
    ),
    Check(
        f"several.{_CANDIDATES}",
        "searches with several candidates of one rank",
        lambda context: scan(context.conn.execute(_TWICE), ("search_id",)),
        Repair("person", _without(_TWICE), _NO_ORDER),
        tuple(f"{_CANDIDATES}.{column}" for column in ("search_id", *_RANKS)),
    ),
    bad_rows(
        f"values.{_CANDIDATES}.returned",
        "candidates whose returned is none of 0, 1",
        _CANDIDATES,
        "returned is null or returned not in (0, 1)",
        f"update {_CANDIDATES} set returned = {_RETURNED} where {{where}}",
        shown=(*_KEY, "returned"),
    ),
    bad_rows(
        f"values.{_CANDIDATES}.shown",
        "candidates whose returned contradicts the order in which the search was served",
        _CANDIDATES,
        f"returned in (0, 1) and not ({_RANKLESS}) and returned <> {_RETURNED}"
        " and exists (select 1 from limbic_searches s where s.id = search_id"
        f" and s.policy in ('{LIMBIC}', '{BASELINE}')"
        " and typeof(s.result_limit) = 'integer' and s.result_limit > 0)",
        f"update {_CANDIDATES} set returned = {_RETURNED} where {{where}}",
        shown=(*_KEY, "returned", *_RANKS),
    ),
)


def _factors() -> Check:
    """NULL is a factor that was not known, and SQLite stores no NaN."""
    columns = reference().columns[_CANDIDATES].values()
    factors = tuple(column.name for column in columns if column.type.lower() == "real")
    # SQLite sorts texts and blobs behind all numbers
    wrong = "{0} >= 9e999 or {0} <= -9e999"
    return bad_rows(
        f"values.{_CANDIDATES}.factors",
        "candidates with a factor that is no finite number",
        _CANDIDATES,
        " or ".join(wrong.format(factor) for factor in factors),
        f"update {_CANDIDATES} set "
        + ", ".join(f"{f} = iif({wrong.format(f)}, null, {f})" for f in factors)
        + " where {where}",
        shown=(*_KEY, *factors),
        text="null is a factor that is not known",
    )


_FEEDBACK = bad_rows(
    "values.limbic_feedback.entity_id",
    "feedback on what was no candidate of its search",
    "limbic_feedback",
    "limbic_feedback.entity_id is not null and exists (select 1 from limbic_searches s"
    " where s.id = limbic_feedback.search_id) and not exists"
    f" (select 1 from {_CANDIDATES} c where c.search_id = limbic_feedback.search_id"
    " and c.entity_id = limbic_feedback.entity_id)",
    "delete from limbic_feedback where {where}",
    shown=("id", "search_id", "entity_id", "entity_name", "event"),
    needs=(f"{_CANDIDATES}.search_id", f"{_CANDIDATES}.entity_id", "limbic_searches.id"),
)
