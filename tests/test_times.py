from __future__ import annotations

import math
import re
from datetime import date, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datasette_limbic.times import hours_since, now_sql, parse_time, to_sql

NOON = 1795953600.0  # 2026-11-29 12:00:00 UTC
SPELLINGS = [
    "2026-11-29 12:00:00",
    "2026-11-29T12:00:00",
    "2026-11-29T12:00:00Z",
    "2026-11-29t12:00:00z",
    "2026-11-29T12:00:00.000Z",
    "2026-11-29T12:00:00.000000+00:00",
    "2026-11-29T12:00",
    "2026-11-29 14:00:00+02:00",
    "2026-11-29T14:00:00+0200",
    "2026-11-29T14:00:00+02",
    "2026-11-29T06:30:00-05:30",
    "2026-11-29 12:00:00 UTC",
    "  2026-11-29 12:00:00\n",
    1795953600,
    1795953600.0,
    1795953600000,
    "1795953600",
    "1795953600.0",
    "1795953600000",
    datetime(2026, 11, 29, 12, tzinfo=timezone.utc),
    datetime(2026, 11, 29, 12),
    datetime(2026, 11, 29, 14, tzinfo=timezone(timedelta(hours=2))),
]
UNREADABLE = [
    None,
    "",
    "   ",
    "yesterday-ish",
    "2026-02-30",
    "2026-13-01",
    "2026-11-29 25:00:00",
    "2026-11-29 12:61:00",
    "2026-11-29T12:00:00+99:00",
    "2026-11-29T12:00:00+02:75",
    "2026-W48-7",
    "2026-11-29T12:00:00Zulu",
    "0000-01-01",
    "0001-01-01T00:00:00+10:00",
    "٢٠٢٦-١١-٢٩",
    "1_000",
    "infinity",
    "nan",
    math.nan,
    math.inf,
    -math.inf,
    10**400,
    1e300,
    1795953600 * 10**6,
    True,
    b"2026-11-29",
    Ellipsis,
]


@pytest.mark.parametrize("value", SPELLINGS, ids=repr)
def test_every_spelling_of_noon(value):
    assert parse_time(value) == NOON


@pytest.mark.parametrize("value", UNREADABLE, ids=repr)
def test_unreadable_is_unknown(value):
    assert parse_time(value) is None
    assert to_sql(value) is None


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("2026-11-29", NOON - 12 * 3600),
        (date(2026, 11, 29), NOON - 12 * 3600),
        ("1969-12-31 23:59:59", -1.0),
        ("2026-11-29 12:00:00.5", NOON + 0.5),
        ("2026-11-29 12:00:00,25", NOON + 0.25),
        ("2026-11-29 12:00:00.123456789", NOON + 0.123456789),
        (0, 0.0),
        ("-1", -1.0),
        # The boundary between seconds and milliseconds.
        (99_999_999_999, 99_999_999_999.0),
        (100_000_000_000, 100_000_000.0),
    ],
)
def test_parse_time_values(value, expected):
    assert parse_time(value) == pytest.approx(expected, rel=1e-15, abs=1e-6)


@given(st.one_of(st.text(), st.floats(), st.integers(), st.binary(), st.none(), st.datetimes()))
def test_parse_time_never_raises(value):
    result = parse_time(value)
    assert result is None or math.isfinite(result)


@given(
    st.datetimes(timezones=st.just(timezone.utc)).map(
        lambda moment: moment.replace(microsecond=moment.microsecond // 1000 * 1000)
    )
)
def test_to_sql_round_trips_to_the_millisecond(moment):
    text = to_sql(moment)
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d{3})?", text)
    assert parse_time(text) == pytest.approx(parse_time(moment), abs=1e-4)
    assert to_sql(text) == text


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("2026-11-29T12:00:00Z", "2026-11-29 12:00:00"),
        ("2026-11-29T12:00:00.040Z", "2026-11-29 12:00:00.040"),
        ("2026-11-29T14:00:00+02:00", "2026-11-29 12:00:00"),
        ("0001-01-01", "0001-01-01 00:00:00"),
        ("9999-12-31 23:59:59.999", "9999-12-31 23:59:59.999"),
        (-0.5, "1969-12-31 23:59:59.500"),
    ],
)
def test_to_sql(value, expected):
    assert to_sql(value) == expected


@pytest.mark.parametrize(
    ("then", "now", "hours"),
    [
        ("2026-11-28 12:00:00", "2026-11-29T12:00:00Z", 24.0),
        ("2026-11-29T12:00:00Z", "2026-11-29T12:00:00Z", 0.0),
        ("2027-11-29", "2026-11-29T12:00:00Z", 0.0),
        (None, "2026-11-29", None),
        ("2026-11-29", "no time", None),
    ],
)
def test_hours_since(then, now, hours):
    assert hours_since(then, now) == hours


def test_now_sql_is_now():
    before = datetime.now(timezone.utc).timestamp()
    assert before - 0.01 <= parse_time(now_sql()) <= before + 5
