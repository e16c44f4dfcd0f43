"""The drawings of the tuning page: what is drawn says the same as the numbers."""

from __future__ import annotations

import itertools
from datetime import date, timedelta
from typing import Any

import pytest
from sheet_helpers import contrast, mixed, rules, themes, variable

from datasette_limbic.views import heat_map, tuning_charts


def surface(**changed: Any) -> dict[str, Any]:
    return {
        "beta_sal": [0.1, 0.5, 1.5],
        "gamma": [0.01, 0.1],
        "ndcg": [[0.4, 0.5], [0.45, 0.55], [0.6, 0.5]],
        "in_force": [1, 0],
        "best": [2, 0],
        "target": None,
        "gain": 0.15,
        **changed,
    }


def drawn(**changed: Any) -> dict[str, Any]:
    found = heat_map.heat_map(surface(**changed))
    assert found is not None
    return found


@pytest.mark.parametrize("given", [None, surface(ndcg=[[None, None]] * 3)])
def test_nothing_to_draw(given: Any) -> None:
    assert heat_map.heat_map(given) is None


def test_cells_lie_in_rows_of_beta_sal_and_columns_of_gamma() -> None:
    found = drawn()
    cells = found["cells"]
    assert len(cells) == 6
    ys = sorted({cell["y"] for cell in cells})
    xs = sorted({cell["x"] for cell in cells})
    assert len(ys) == 3
    assert len(xs) == 2
    # they touch, and the whole picture holds them
    assert [b - a for a, b in itertools.pairwise(ys)] == [heat_map.CELL_HEIGHT] * 2
    assert xs[1] - xs[0] == pytest.approx(found["cell_width"])
    assert xs[-1] + found["cell_width"] <= found["width"]
    assert ys[-1] + heat_map.CELL_HEIGHT < found["height"]
    at = {(cell["y"], cell["x"]): cell["title"] for cell in cells}
    assert at[ys[0], xs[1]] == "beta_sal 0.1, gamma 0.1: 0.5000"
    assert at[ys[1], xs[0]] == "beta_sal 0.5, gamma 0.01: 0.4500 (in force)"
    assert at[ys[2], xs[0]] == "beta_sal 1.5, gamma 0.01: 0.6000 (best)"
    assert [row["text"] for row in found["rows"]] == ["0.1", "0.5", "1.5"]
    assert [column["text"] for column in found["columns"]] == ["0.01", "0.1"]


def test_the_higher_the_deeper() -> None:
    cells = drawn()["cells"]
    value = [0.4, 0.5, 0.45, 0.55, 0.6, 0.5]
    order = sorted(range(6), key=lambda i: value[i])
    shades = [cells[i]["depth"] for i in order]
    assert shades == sorted(shades)
    assert len(set(shades)) == 5  # two are the same
    swatches = [each["depth"] for each in drawn()["swatches"]]
    assert swatches == sorted(set(swatches))
    assert (swatches[0], swatches[-1]) == (shades[0], shades[-1])


@pytest.mark.parametrize(
    ("share", "expected"),
    [(-1.0, 0.08), (0.0, 0.08), (0.25, 0.31), (0.5, 0.54), (1.0, 1.0), (2.0, 1.0)],
)
def test_the_lowest_is_seen_and_the_highest_is_full(share: float, expected: float) -> None:
    assert heat_map.depth(share) == expected


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_depth_is_a_shade(theme: str) -> None:
    """The sheet fills the cells with one colour, as deep as they say: further from the page."""
    own = [
        rule
        for rule in rules()
        if ".limbic-heat > rect" in rule.selector and "forced-colors" not in rule.media
    ]
    # an attribute gives way to any sheet
    assert [r.selector for r in own if {"opacity", "fill-opacity"} & set(r.says)] == []
    [fill] = [rule.says["fill"] for rule in own if not rule.selector.endswith("-unknown")]
    colours = themes()[theme]
    hue, page = colours[str(variable(fill))], colours["page"]
    depths = [0.0, *(each["depth"] for each in drawn()["swatches"])]
    shades = [contrast(mixed(hue, page, depth), page) for depth in depths]
    # the palest differs from no cell, and each from the next
    assert min(b / a for a, b in itertools.pairwise(shades)) > 1.05
    assert shades[-1] > 4.5


def test_a_flat_surface_is_of_one_depth_and_an_unknown_cell_of_none() -> None:
    found = drawn(ndcg=[[0.5, 0.5], [0.5, None], [0.5, 0.5]])
    depths = [cell["depth"] for cell in found["cells"]]
    assert depths == [0.54, 0.54, 0.54, None, 0.54, 0.54]
    assert found["cells"][3]["title"].endswith("not known")
    assert found["table"]["rows"][1]["cells"][1]["text"] == "–"
    assert (found["low"], found["high"]) == ("0.5000", "0.5000")


def test_marks_lie_on_their_cells() -> None:
    found = drawn(target=[2, 1])
    cells = {(cell["x"], cell["y"]): cell["title"] for cell in found["cells"]}
    assert [mark["key"] for mark in found["marks"]] == ["target", "in-force", "best"]
    for mark in found["marks"]:
        assert mark["name"] in cells[mark["x"], mark["y"]]
        assert mark["cx"] == pytest.approx(mark["x"] + found["cell_width"] / 2, abs=0.1)
        assert mark["cy"] == mark["y"] + heat_map.CELL_HEIGHT / 2
    assert "Target is beta_sal 1.5 with gamma 0.1." in found["desc"]
    together = drawn(target=[1, 0], best=[1, 0])
    assert "(target, in force, best)" in together["cells"][2]["title"]
    assert together["table"]["rows"][1]["cells"][0]["marks"] == ["target", "in force", "best"]


def test_the_table_says_the_same() -> None:
    found = drawn()
    said = [[cell["text"] for cell in row["cells"]] for row in found["table"]["rows"]]
    assert said == [["0.4000", "0.5000"], ["0.4500", "0.5500"], ["0.6000", "0.5000"]]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([0.1, 1.5], ["0.1", "1.5"]),
        ([0.5, 0.501], ["0.5", "0.501"]),
        ([0.0], ["0"]),
        ([10.0, 0.0001], ["10", "0.0001"]),
        ([0.1, 0.1 + 2e-17, 0.10000000000000002], None),
    ],
)
def test_labels_are_as_short_as_they_differ(values: list[float], expected: Any) -> None:
    found = heat_map.labels(values)
    assert found == expected or (expected is None and len(set(found)) == len(set(values)))


def test_twenty_by_twenty_is_drawn() -> None:
    many = [0.1 + 0.01 * i for i in range(20)]
    found = drawn(beta_sal=many, gamma=many, ndcg=[many] * 20, best=[19, 19])
    assert len(found["cells"]) == 400
    assert len({(cell["x"], cell["y"]) for cell in found["cells"]}) == 400


# intervals and the meter -----------------------------------------------------------------------


def estimate(value: Any, low: Any, high: Any) -> dict[str, Any]:
    return {"value": value, "low": low, "high": high, "clusters": 9}


def test_an_interval_lies_where_it_is() -> None:
    bar = tuning_charts.interval_bar(estimate(0.5, 0.25, 1.0), 0.0, 1.0)
    assert bar is not None
    length = bar["right"] - bar["left"]
    assert bar["at"] == pytest.approx(bar["left"] + length / 2)
    assert bar["from"] == pytest.approx(bar["left"] + length / 4)
    assert bar["to"] == pytest.approx(bar["right"])
    assert bar["zero"] is None


@pytest.mark.parametrize(
    ("found", "zero_is"),
    [
        (estimate(0.03, 0.01, 0.05), "left"),
        (estimate(0.03, -0.01, 0.05), "inside"),
        (estimate(-0.03, -0.05, -0.01), "right"),
    ],
)
def test_a_gain_stands_beside_zero(found: dict[str, Any], zero_is: str) -> None:
    bar = tuning_charts.gain_bar(found, tuning_charts.gain_axis(found))
    assert bar is not None
    assert bar["zero"] == pytest.approx((bar["left"] + bar["right"]) / 2)
    where = "left" if bar["zero"] < bar["from"] else "inside"
    assert ("right" if bar["zero"] > bar["to"] else where) == zero_is
    assert bar["left"] <= bar["from"] <= bar["at"] <= bar["to"] <= bar["right"]


@pytest.mark.parametrize(
    "found", [None, estimate(None, None, None), estimate(0.1, None, 0.2), estimate(0, 0, 0)]
)
def test_what_is_not_known_has_no_bar(found: Any) -> None:
    assert tuning_charts.gain_bar(found, tuning_charts.gain_axis(found)) is None


def test_gains_that_stand_together_are_as_long_as_they_are() -> None:
    """A step that gains a tenth is drawn a tenth as far from 0 as its target."""
    target, step = estimate(0.5, 0.3, 0.7), estimate(0.05, 0.03, 0.07)
    axis = tuning_charts.gain_axis(target, None, step, estimate(None, None, None))
    assert axis == pytest.approx(1.15 * 0.7)
    far, near = (tuning_charts.gain_bar(each, axis) for each in (target, step))
    assert far is not None
    assert near is not None
    assert far["zero"] == near["zero"]
    for end in ("from", "at", "to"):
        assert near[end] - near["zero"] == pytest.approx((far[end] - far["zero"]) / 10, abs=0.02)


def test_words_of_an_estimate() -> None:
    assert tuning_charts.words(None) == "–"
    assert tuning_charts.words(estimate(None, None, None)) == "–"
    assert tuning_charts.words(estimate(0.5, 0.25, None)) == "0.500 (0.250 to –)"
    signed = tuning_charts.words(estimate(0.03, -0.01, 0.05), signed=True)
    assert signed == "+0.0300 (-0.0100 to +0.0500)"


@pytest.mark.parametrize(
    ("figure", "bound", "full", "percent"),
    [(23, 50, 0.46, "46 %"), (0, 10, 0.0, "0 %"), (0.08, 0.1, 0.8, "80 %")],
)
def test_a_meter_is_filled_so_far(figure: Any, bound: Any, full: float, percent: str) -> None:
    found = tuning_charts.meter(figure, bound)
    assert found is not None
    assert found["full"] == pytest.approx(full * found["width"])
    assert found["percent"] == percent


@pytest.mark.parametrize(
    ("figure", "bound"), [(5, 1), (-0.01, 0.0), (0.0, 0.0), (None, 1), (1, None), (50, 50)]
)
def test_no_meter_where_it_is_no_way_to_go(figure: Any, bound: Any) -> None:
    assert tuning_charts.meter(figure, bound) is None


# weeks -----------------------------------------------------------------------------------------


def weeks(*values: float | None, gap: int = 0, baseline: Any = None) -> list[dict[str, Any]]:
    """Weeks of these NDCG, with ``gap`` weeks left out after the second."""

    def side(value: float | None) -> dict[str, Any]:
        known = None if value is None else estimate(value, value - 0.1, value + 0.1)
        return {"ndcg": known, "searches": 3, "labelled": 2}

    first = date(2026, 6, 1)
    return [
        {
            "week": (first + timedelta(weeks=i + (gap if i > 1 else 0))).isoformat(),
            "limbic": side(value),
            "baseline": side(baseline),
        }
        for i, value in enumerate(values)
    ]


def bands(*args: Any, **options: Any) -> dict[str, Any]:
    found = tuning_charts.week_bands(weeks(*args, **options))
    assert found is not None
    return found


def test_no_week_no_chart() -> None:
    assert tuning_charts.week_bands([]) is None
    assert tuning_charts.week_bands(weeks(None, None)) is None


def test_weeks_stand_in_order_and_as_high_as_they_are() -> None:
    found = bands(0.5, 0.75, 0.25)
    [arm] = found["arms"]
    assert arm["arm"] == "limbic"
    xs = [point["x"] for point in arm["points"]]
    assert xs == sorted(xs)
    assert xs[1] - xs[0] == pytest.approx(xs[2] - xs[1], abs=0.02)
    line = {each["text"]: each["y"] for each in found["lines"]}
    assert [p["y"] for p in arm["points"]] == [line["0.5"], line["0.75"], line["0.25"]]
    for point in arm["points"]:
        assert point["high"] < point["y"] < point["low"]
    assert arm["points"][1]["title"].startswith("Week of 2026-06-08, limbic: 0.750 (0.650 to 0.85")
    [line], [band] = arm["lines"], arm["bands"]
    assert (line.count(","), band.count(",")) == (3, 6)


def test_a_band_ends_where_the_interval_is_not_known() -> None:
    """Pinched to its point it would say that the figure is known exactly; the line goes on."""
    rows = weeks(0.5, 0.6, 0.7, 0.8, 0.9)
    for end in ("low", "high"):
        rows[2]["limbic"]["ndcg"][end] = None
    found = tuning_charts.week_bands(rows)
    assert found is not None
    [arm] = found["arms"]
    xs = [str(point["x"]) for point in arm["points"]]
    assert [point["known"] for point in arm["points"]] == [True, True, False, True, True]
    [line] = arm["lines"]
    assert [place.split(",")[0] for place in line.split()] == xs
    bands = [[place.split(",")[0] for place in band.split()] for band in arm["bands"]]
    assert bands == [[xs[0], xs[1], xs[1], xs[0]], [xs[3], xs[4], xs[4], xs[3]]]


def test_a_week_without_searches_ends_the_line() -> None:
    [arm] = bands(0.5, 0.6, 0.7, 0.8, gap=3)["arms"]
    assert [line.count(",") for line in arm["lines"]] == [2, 2]
    assert arm["points"][2]["x"] - arm["points"][1]["x"] == pytest.approx(
        4 * (arm["points"][1]["x"] - arm["points"][0]["x"]), abs=0.05
    )
    [arm] = bands(0.5, None, 0.7)["arms"]
    assert len(arm["points"]) == 2
    assert arm["lines"] == arm["bands"] == []


def test_both_orders_and_an_interval_out_of_range() -> None:
    found = bands(0.95, 0.05, baseline=0.5)
    assert [arm["arm"] for arm in found["arms"]] == ["limbic", "baseline"]
    ends = [point[end] for point in found["arms"][0]["points"] for end in ("low", "high")]
    top, floor = tuning_charts.TOP, tuning_charts.HEIGHT - tuning_charts.BOTTOM
    assert min(ends) == top
    assert max(ends) == floor
    assert "The baseline order in 2 weeks" in found["desc"]


def test_labels_of_many_weeks_keep_apart() -> None:
    labels = bands(*[0.5] * 120)["labels"]
    places = [label["x"] for label in labels]
    apart = [b - a for a, b in itertools.pairwise(places)]
    assert min(apart) >= tuning_charts.LABEL_ROOM
    assert places[-1] <= tuning_charts.WIDTH - tuning_charts.LABEL_ROOM
    assert labels[0]["text"] == "2026-06-01"
    [one] = bands(0.5)["labels"]
    assert one["text"] == "2026-06-01"
