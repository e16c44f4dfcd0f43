"""Settings: names, values, and what a wrong one says."""

from __future__ import annotations

import pytest

from datasette_limbic import scoring
from datasette_limbic.config import Settings
from datasette_limbic.errors import BadParameter


def test_defaults_are_the_documents_constants():
    settings = Settings()
    assert (settings.beta_sal, settings.gamma, settings.rrf_k) == (0.5, 0.01, 60)
    assert settings.parameters() == scoring.Parameters()
    assert Settings.from_mapping(None) == settings


@pytest.mark.parametrize(
    ("given", "attribute", "value"),
    [
        ({"gamma": 0.05}, "gamma", 0.05),
        ({"limit": "25"}, "limit", 25),
        ({"consolidation": "yes"}, "consolidation", True),
        ({"exempt_types": ["Anchor"]}, "exempt_types", ("Anchor",)),
        ({"half_life_days_by_type": {"Sesion": "7"}}, "half_life_days_by_type", {"Sesion": 7}),
        ({"confidence_floor": {"m": 0.4}}, "confidence_floor", {"m": 0.4}),
    ],
)
def test_values_are_read(given, attribute, value):
    assert getattr(Settings.from_mapping(given), attribute) == value


@pytest.mark.parametrize(
    ("given", "part"),
    [
        ({"colour": "red"}, "no setting 'colour'"),
        ({"gamma": -1}, "gamma"),
        ({"gamma": "much"}, "gamma"),
        ({"limit": 0}, "limit is 0"),
        ({"mode": "psychic"}, "'psychic'"),
        ({"exempt_types": "Domain"}, "use a list"),
        ({"half_life_days_by_type": 3}, "mapping"),
        ({"confidence_floor": 7}, "confidence_floor"),
        ({"query_prefix": 5}, "query_prefix"),
        ({"d_max": 0}, "d_max"),
    ],
)
def test_a_wrong_setting_names_itself_and_its_value(given, part):
    with pytest.raises(BadParameter, match=part):
        Settings.from_mapping(given)


@pytest.mark.parametrize(
    ("entity_type", "days"),
    [
        ("Proyecto", 180),
        ("Insight", 30),
        ("insight", 30),
        ("Domain", None),
        ("Dominio", None),
        ("DOMINIO", None),
        (None, 180),
        ("", 180),
    ],
)
def test_half_lives_by_type(entity_type, days):
    assert Settings().half_life_days(entity_type) == days


def test_a_half_life_of_a_single_type_comes_first():
    settings = Settings(half_life_days_by_type={"Sesión": 7.0, "Domain": 10.0})
    assert settings.half_life_days("sesion") == 7
    assert settings.half_life_days("Domain") == 10


@pytest.mark.parametrize(
    ("entity_type", "threshold"), [("Sesion", 15), ("sesión", 15), ("Proyecto", 25), ("Person", 20)]
)
def test_split_thresholds(entity_type, threshold):
    assert Settings().split_threshold(entity_type) == threshold


@pytest.mark.parametrize(
    ("floor", "model", "expected"),
    [(None, None, 0.3), (0.2, "any", 0.2), ({"m": 0.6}, "m", 0.6), ({"m": 0.6}, "other", 0.3)],
)
def test_confidence_floors(floor, model, expected):
    assert Settings(confidence_floor=floor).floor(model) == expected
