"""Geometry and shades of the heat map: NDCG@K over beta_sal (rows) and gamma (columns).

The template draws what stands here. Three marks that can lie upon each other show what is in
force (a ring), the best cell (a dot) and the target (a frame).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..i18n import figure, marked
from ..i18n import gettext as _

CELL_HEIGHT = 22
LEAST_WIDTH = 24
LETTER = 6.2
"""Width of a digit of a label."""
TOP, EDGE = 6, 6
SWATCHES = 7
PALEST = 0.08
"""Opacity of the lowest: of one hue, so that it is read without telling hues apart."""
MARKS = {"target": marked("target"), "in_force": marked("in force"), "best": marked("best")}
"""Key of a place in the surface → what it is called; drawn in this order."""


def heat_map(surface: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """``surface`` as ``analysing.surface`` gives it; None where there is nothing to draw."""
    if surface is None:
        return None
    values = [value for row in surface["ndcg"] for value in row if value is not None]
    if not values:
        return None
    low, high = min(values), max(values)
    rows, columns = labels(surface["beta_sal"]), labels(surface["gamma"])
    left = round(max(map(len, rows)) * LETTER + 10, 1)
    width = round(max(LEAST_WIDTH, max(map(len, columns)) * LETTER + 8), 1)
    marks = _marks(surface, left, width)
    cells = [
        {
            "x": round(left + width * j, 1),
            "y": TOP + CELL_HEIGHT * i,
            "depth": None if value is None else depth(_share(value, low, high)),
            "title": _title(row, column, value, [m["name"] for m in marks if m["at"] == [i, j]]),
        }
        for i, (row, line) in enumerate(zip(rows, surface["ndcg"], strict=True))
        for j, (column, value) in enumerate(zip(columns, line, strict=True))
    ]
    floor = TOP + CELL_HEIGHT * len(rows)
    return {
        "width": round(left + width * len(columns) + EDGE, 1),
        "height": floor + 20,
        "cell_width": width,
        "cell_height": CELL_HEIGHT,
        "cells": cells,
        "marks": marks,
        "rows": [
            {"x": left - 5, "y": TOP + CELL_HEIGHT * (i + 0.5), "text": text}
            for i, text in enumerate(rows)
        ],
        "columns": [
            {"x": round(left + width * (j + 0.5), 1), "y": floor + 13, "text": text}
            for j, text in enumerate(columns)
        ],
        "low": figure(low, ".4f"),
        "high": figure(high, ".4f"),
        "swatches": [{"x": 14 * i, "depth": depth(i / (SWATCHES - 1))} for i in range(SWATCHES)],
        "swatch": 14,
        "swatches_width": 14 * SWATCHES,
        "desc": _desc(surface, rows, columns, low, high),
        "table": {
            "columns": columns,
            "rows": [
                {
                    "label": row,
                    "cells": [
                        {
                            "text": "–" if value is None else figure(value, ".4f"),
                            "marks": [m["name"] for m in marks if m["at"] == [i, j]],
                        }
                        for j, value in enumerate(line)
                    ],
                }
                for i, (row, line) in enumerate(zip(rows, surface["ndcg"], strict=True))
            ],
        },
    }


def labels(values: Sequence[float]) -> list[str]:
    """The values as short as they stay different; 17 digits tell any two apart."""
    for digits in range(2, 18):
        found = [figure(value, f".{digits}g") for value in values]
        if len(set(found)) == len(set(values)):
            break
    return found


def depth(share: float) -> float:
    """Opacity at ``share`` (0 to 1) of the way from the lowest to the highest.

    The sheet has the colour: what is deep is dark on a light page, and bright on a dark one.
    """
    return round(PALEST + (1 - PALEST) * min(max(share, 0.0), 1.0), 3)


def _share(value: float, low: float, high: float) -> float:
    return 0.5 if low == high else (value - low) / (high - low)


def _marks(surface: Mapping[str, Any], left: float, width: float) -> list[dict[str, Any]]:
    return [
        {
            "key": key.replace("_", "-"),
            "name": _(name),
            "at": list(surface[key]),
            "x": round(left + width * surface[key][1], 1),
            "y": TOP + CELL_HEIGHT * surface[key][0],
            "cx": round(left + width * (surface[key][1] + 0.5), 1),
            "cy": TOP + CELL_HEIGHT * (surface[key][0] + 0.5),
        }
        for key, name in MARKS.items()
        if surface[key] is not None
    ]


def _title(row: str, column: str, value: float | None, marks: Sequence[str]) -> str:
    shown = _("not known") if value is None else figure(value, ".4f")
    beside = f" ({', '.join(marks)})" if marks else ""
    return f"beta_sal {row}, gamma {column}: {shown}{beside}"


def _desc(
    surface: Mapping[str, Any], rows: Sequence[str], columns: Sequence[str], low: float, high: float
) -> str:
    places = [
        _("%(mark)s is beta_sal %(beta_sal)s with gamma %(gamma)s.")
        % {
            "mark": _(name).capitalize(),
            "beta_sal": rows[surface[key][0]],
            "gamma": columns[surface[key][1]],
        }
        for key, name in MARKS.items()
        if surface[key] is not None
    ]
    said = _(
        "%(rows)s values of beta_sal by %(columns)s of gamma; NDCG from %(low)s to %(high)s."
    ) % {
        "rows": len(rows),
        "columns": len(columns),
        "low": figure(low, ".4f"),
        "high": figure(high, ".4f"),
    }
    return " ".join([said, *places])
