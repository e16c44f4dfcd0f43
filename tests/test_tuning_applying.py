"""Applying what passed: worked out again, compared with what was agreed to, never twice."""

from __future__ import annotations

import json
import math
import shutil
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from empty_memory import empty_memory

from benchmarks.simulator import Scenario, simulate, write
from datasette_limbic import connection
from datasette_limbic.errors import BadParameter, NotProposed, Refused, StaleProposal
from datasette_limbic.times import parse_time
from datasette_limbic.tuning import versions
from datasette_limbic.tuning.applying import agree, apply_proposal, write_agreed
from datasette_limbic.tuning.reading import BAD_FACTORS, BAD_SERVING, read
from datasette_limbic.tuning.report import Options, decided_until, work

RANGES: dict[str, Any] = {"beta_sal": (0.1, 0.5, 1.0, 1.5), "gamma": (0.001, 0.01, 0.1)}
SEARCHES = 900
HALF = Options(**RANGES, until=SEARCHES * 2 // 3)
ALL = Options(**RANGES)
CLEAR: dict[str, Any] = {
    **{"candidates": 12, "entities": 80, "queries": 600, "clients": 6, "days": 45},
    **{"searches": SEARCHES, "taste": 0.3, "noise": 0.01, "click_model": "none"},
}
NOTHING: dict[str, Any] = {**CLEAR, "preference": "none", "searches": 300}
SCENARIOS = {
    "random": (Scenario(baseline_share=0.4, **CLEAR), 1),
    "replay": (Scenario(**CLEAR), 1),
    # the later searches refuse what the earlier ones speak for; and those speak for nothing
    "refused at last": (Scenario(**NOTHING), 0),
    "no signal": (Scenario(**NOTHING), 1),
}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("applying")
    for name, (scenario, seed) in SCENARIOS.items():
        with closing(connection.connect(empty_memory(folder / f"{name}.db"))) as conn:
            write(conn, simulate(scenario, seed))
    return folder


@pytest.fixture
def opened(made, tmp_path):
    """Opens a copy of the memory of a scenario."""
    conns = []

    def connected(name):
        path = Path(shutil.copy(made / f"{name}.db", tmp_path / f"{name}.db"))
        conns.append(connection.connect(path))
        return conns[-1]

    yield connected
    for conn in conns:
        conn.close()


def rows(conn):
    return conn.execute("select * from limbic_parameters order by version").fetchall()


def test_what_passes_is_blended_into_what_is_in_force(opened):
    conn = opened("random")
    before = work(conn, options=ALL).proposal
    assert before.proposed
    now, worked = apply_proposal(conn, options=ALL, actor="ana")
    assert worked.proposal.as_dict() == before.as_dict()
    beta, gamma = before.target
    assert now.version == 1
    assert now.source == "tuned"
    assert now.beta_sal == pytest.approx(0.9 * 0.5 + 0.1 * beta)
    assert now.gamma == pytest.approx(0.9 * 0.01 + 0.1 * gamma)
    assert (now.beta_sal, now.gamma) == before.step
    assert versions.in_force(conn) == now
    row = versions.history(conn)[0]
    assert row["applied_by"] == "ana"
    assert row["log_digest"] == versions.digest(worked.log)
    kept = row["evidence"]
    assert kept["asked"] == {"beta_sal": beta, "gamma": gamma}
    assert kept["gain"] == before.gain.as_dict()
    assert (
        kept["decided_until"]
        == before.decided_until
        == decided_until([row], latest=before.decided_until)
    )
    assert kept["labels"]["version"] == 1
    assert kept["ranges"] == {name: list(values) for name, values in RANGES.items()}
    json.dumps(kept, allow_nan=False)


def test_the_same_log_is_never_applied_twice(opened):
    conn = opened("random")
    _, worked = apply_proposal(conn, options=ALL)
    there = rows(conn)
    # nothing is left that could decide
    with pytest.raises(NotProposed, match=r"only 0 distinct .* decided once does not decide"):
        apply_proposal(conn, options=ALL)
    # nor where the version was taken back
    versions.rollback(conn)
    assert versions.in_force(conn).beta_sal == 0.5
    with pytest.raises(NotProposed, match="decided once does not decide again"):
        apply_proposal(conn, options=ALL)
    # and whoever goes around that is held by the digest of the log
    with pytest.raises(Refused, match="this log was applied already, as version 1"):
        versions.apply(
            conn,
            worked.evidence,
            worked.proposal.target,
            log_digest=versions.digest(read(conn)),
            expected_version=2,
        )
    assert rows(conn)[:1] == there
    assert len(rows(conn)) == 2


def test_after_a_version_only_what_came_since_decides(opened):
    conn = opened("random")
    _, first = apply_proposal(conn, options=HALF)
    assert first.proposal.until == HALF.until
    decided = first.proposal.decided_until
    assert decided == first.log.at.max()
    found = work(conn, options=ALL).proposal
    assert found.in_force == first.proposal.step
    assert found.cut == decided
    labelled = found.basis.log
    assert found.counts["holdout_searches"] <= (labelled.at > decided).sum()
    assert found.counts["holdout_searches"] > 50
    # searches that other parameters ranked speak as well, since the orders were served by chance
    assert not found.basis.biased
    now, second = apply_proposal(conn, options=ALL)
    assert now.version == 2
    assert second.proposal.decided_until > decided
    assert np.hypot(*np.subtract(second.proposal.step, (1.5, 0.1))) < np.hypot(
        *np.subtract(first.proposal.step, (1.5, 0.1))
    )


def test_a_replay_needs_searches_under_what_is_in_force_now(opened):
    conn = opened("replay")
    now, worked = apply_proposal(conn, options=HALF)
    assert worked.proposal.basis.biased
    with pytest.raises(NotProposed, match=r"only 0 of 900 searches were ranked by what is in fo"):
        apply_proposal(conn, options=ALL)
    assert versions.in_force(conn) == now


def test_what_was_agreed_to_has_to_be_what_is_proposed(opened):
    conn = opened("random")
    target = work(conn, options=ALL).proposal.target
    other = (target[0], target[1] / 2)
    with pytest.raises(StaleProposal, match="was proposed when this was looked at, and now it is"):
        apply_proposal(conn, options=ALL, target=other)
    with pytest.raises(StaleProposal, match="version 7 was in force"):
        apply_proposal(conn, options=ALL, target=target, expected_version=7)
    assert rows(conn) == []
    now, _ = apply_proposal(conn, options=ALL, target=target, expected_version=0)
    assert now.version == 1


def test_a_version_that_came_between_makes_it_stale(opened):
    """Between working it out and writing: what a person set meanwhile stays."""
    conn = opened("random")
    agreed, _ = agree(conn, options=ALL)
    manual = versions.set_manual(conn, beta_sal=2.0, actor="bo")
    with pytest.raises(StaleProposal, match="version 0 was in force"):
        write_agreed(conn, agreed)
    with pytest.raises(StaleProposal):
        apply_proposal(conn, options=ALL, expected_version=0)
    assert versions.in_force(conn) == manual
    assert len(rows(conn)) == 1


def test_a_version_that_comes_while_it_is_worked_out_makes_it_stale(opened):
    conn = opened("random")
    path = conn.execute("pragma database_list").fetchone()[2]
    manual = []

    def meanwhile(done, total):
        # the log has been read: those that are ranked again are fewer
        if total < SEARCHES and not manual:
            with closing(connection.connect(path)) as other:
                manual.append(versions.set_manual(other, beta_sal=2.0))

    with pytest.raises(StaleProposal, match="version 0 was in force"):
        apply_proposal(conn, options=ALL, progress=meanwhile)
    assert [versions.in_force(conn)] == manual
    assert len(rows(conn)) == 1


def test_agreeing_reads_only(made):
    path = made / "random.db"
    before = path.read_bytes()
    with closing(connection.connect(path, readonly=True)) as conn:
        agreed, worked = agree(conn, options=ALL)
    assert agreed.target == worked.proposal.target
    assert agreed.version == 0
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("name", "code"),
    [("refused at last", "interval"), ("no signal", "no_better"), ("too few", "events")],
)
def test_a_refusal_applies_nothing(name, code, opened):
    conn = opened("random" if name == "too few" else name)
    options = Options(**RANGES, until=23) if name == "too few" else ALL
    found = work(conn, options=options).proposal
    refusal = found.refusal
    assert refusal.code == code
    assert (found.target is not None) == (code == "interval")
    with pytest.raises(NotProposed) as raised:
        apply_proposal(conn, options=options)
    assert str(raised.value) == f"nothing was changed: {refusal.message}"
    assert rows(conn) == []


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("update limbic_searches set probability = 5e-324 where id = :id", BAD_SERVING),
        (
            "update limbic_search_candidates set cooc_boost = 1e308 where search_id = :id",
            BAD_FACTORS,
        ),
    ],
    ids=["a probability that would have all the weight", "factors that overflow"],
)
def test_one_hostile_row_is_as_if_it_were_not_there(opened, statement, reason):
    found = []
    delete = "delete from limbic_searches where id = :id"
    for each in (statement, delete):
        conn = opened("random")
        # one of those that were opened, and served in the baseline's order
        (hostile,) = conn.execute(
            "select max(search_id) from limbic_feedback join limbic_searches s on s.id = search_id"
            " where s.policy = 'baseline'"
        ).fetchone()
        conn.execute("pragma ignore_check_constraints = on")
        with conn:
            conn.execute(each, {"id": hostile})
        found.append(work(conn, options=ALL))
    bad, without = found
    assert bad.log.left_out == {**without.log.left_out, reason: 1}
    assert bad.proposal.proposed
    assert bad.proposal.as_dict() == without.proposal.as_dict()


def test_until_leaves_out_what_came_later(opened):
    """What a person saw is applied, however many searches were recorded since."""
    conn = opened("random")
    seen = work(conn, options=HALF).proposal
    now, worked = apply_proposal(conn, options=HALF, target=seen.target)
    assert len(worked.log) <= HALF.until
    assert worked.log.id.max() == HALF.until
    assert (now.beta_sal, now.gamma) == seen.step


@pytest.mark.parametrize(
    "wrong", [{"k": 0}, {"k": 101}, {"k": 2.5}, {"until": -1}, {"until": 2**63}]
)
def test_options_out_of_range(wrong):
    with pytest.raises(BadParameter):
        Options(**wrong)


@pytest.mark.parametrize(
    ("history", "expected"),
    [
        ([], None),
        ([{"source": "manual", "evidence": {"decided_until": 9.0}}], None),
        ([{"source": "rollback", "evidence": {}}], None),
        ([{"source": "tuned", "evidence": "no JSON"}], None),
        ([{"source": "tuned", "evidence": {"decided_until": True}}], None),
        ([{"source": "tuned", "evidence": {"decided_until": "soon"}}], None),
        # the latest of all, and not of the newest version alone
        (
            [
                {"source": "rollback", "evidence": {}},
                {"source": "tuned", "evidence": {"decided_until": 5}},
                {"source": "tuned", "evidence": {"decided_until": 7.5}},
            ],
            7.5,
        ),
        # what no search can have decided: numbers beyond every float, and later than all
        *(
            (
                [
                    {"source": "tuned", "evidence": {"decided_until": nonsense}},
                    {"source": "tuned", "evidence": {"decided_until": 5}},
                ],
                5.0,
            )
            for nonsense in (10**400, -(10**400), math.inf, -math.inf, math.nan, 101, None)
        ),
        ([{"source": "tuned", "evidence": {"decided_until": 100}}], 100.0),
    ],
)
def test_until_when_searches_have_decided(history, expected):
    found = decided_until(history, latest=100.0)
    assert found == expected
    assert found is None or type(found) is float


@pytest.mark.parametrize("number", [2**53 + 1, 2**63 - 1])
def test_the_last_search_is_taken_exactly(number):
    assert Options(until=number).until == number


def test_a_version_of_another_program_stops_nothing(opened):
    """Its evidence says that searches to come have decided."""
    conn = opened("random")
    before = work(conn, options=ALL).proposal
    with conn:
        conn.executemany(
            "insert into limbic_parameters(version, beta_sal, gamma, source, evidence)"
            " values (?, 0.5, 0.01, 'tuned', ?)",
            [(1, f'{{"decided_until": {10**400}}}'), (2, '{"decided_until": 9000000000}')],
        )
    after = work(conn, options=ALL).proposal
    assert (after.target, after.gain) == (before.target, before.gain)


def test_a_search_that_is_dated_in_the_future_ends_nothing(opened):
    """Of a wrong clock: what it decides about is over as soon as it has decided."""
    conn = opened("random")
    with conn:
        conn.execute(
            "update limbic_searches set created_at = '2099-01-01 00:00:00' where id ="
            " (select max(search_id) from limbic_feedback where event = 'opened')"
        )
    apply_proposal(conn, options=ALL)
    [row] = versions.history(conn)
    assert row["evidence"]["decided_until"] <= parse_time(row["created_at"]) + 1
