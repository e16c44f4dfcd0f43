"""What a simulated memory and its users are like: one setting of the simulator."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from datasette_limbic.routing import STRATEGIES
from datasette_limbic.scoring import BETA_SAL, GAMMA

PREFERENCES = ("scores", "none", "position")
CLICK_MODELS = ("position", "geometric", "cascade", "none")
ALONE: tuple[tuple[str, float], ...] = (("limbic", 1.0),)
AUTO: tuple[tuple[str, float], ...] = (
    ("hybrid_balanced", 0.65),
    ("cosine_heavy", 0.2),
    ("limbic_heavy", 0.15),
)
"""What ``strategy=auto`` comes to: most queries are short phrases of no kind."""

OPENED_AFTER_S, RATED_AFTER_S = 20, 60
"""How long after its search a result is opened, and rated."""
_COUNTS = ("searches", "candidates", "limit", "clients", "days", "queries", "entities")
_SHARES = ("baseline_share", "stop", "opens", "noise", "blind", "rating_share", "own")
_POSITIVE = ("taste", "decay")


@dataclass(frozen=True)
class Scenario:
    """Raises ValueError, naming the value, for what cannot be simulated."""

    searches: int = 500
    """Fewer where clients would have to ask the same again within the hour, which is no search of
    its own."""
    candidates: int = 30
    """In each pool."""
    limit: int = 10
    """Results of a search: nobody sees the rest of the pool."""
    clients: int = 8
    """Some ask much more than others (Zipf, exponent 1)."""
    days: int = 60
    beta_true: float = 1.5
    """Under these two, final scores say best what is relevant (preference "scores")."""
    gamma_true: float = 0.1
    beta_sal: float = BETA_SAL
    """These two ranked what was served."""
    gamma: float = GAMMA
    baseline_share: float = 0.0
    """The probability with which a search is served in the order of base similarity, 0 to 1."""
    preference: str = "scores"
    """"scores": the better the true score, the likelier relevant. "none": relevance is a coin that
    knows no factor. "position": nothing is relevant, and a result is opened for its rank alone."""
    taste: float = 1.7
    """How much of relevance no factor knows: the scale of Gumbel noise on true scores, which have
    standard deviation 1 within a pool. Above 0; the larger, the less the parameters matter."""
    click_model: str = "position"
    """What is looked at of the results. "position": rank^−eta; "geometric": decay^(rank − 1);
    "cascade": from the top, and the rest no more after an opening with probability ``stop``;
    "none": everything."""
    eta: float = 1.0
    decay: float = 0.8
    stop: float = 0.7
    opens: float = 0.8
    """The chance that a relevant result that is looked at is opened, on average over clients."""
    noise: float = 0.05
    """The same for one that is not relevant."""
    blind: float = 0.25
    """The same for any result where preference is "position"."""
    rating_share: float = 0.1
    """The share of openings that are rated: useful where relevant, not useful where not. With
    preference "position" the rating is a coin."""
    strategies: tuple[tuple[str, float], ...] = ALONE
    """Which strategies rank, with their shares (``AUTO``); each distinct query has one."""
    queries: int = 1000
    """Distinct queries that there are to ask."""
    query_tail: float = 1.0
    """Exponent of Zipf's law over them; 0: all are as frequent."""
    own: float = 0.5
    """The share of searches about a client's own matters: it has favourites of its own then."""
    entities: int = 400
    entity_tail: float = 0.8
    """Exponent of Zipf's law over entities: how often each is retrieved and accessed."""
    drift: float = 1.0
    """How fast signals go on: 1: entities are accessed in the time of the log as before it; 0:
    factors of a query stay as they are."""
    feedback: bool = False
    """Whether an opening is an access: from the next day on what was opened is more important and
    fresh, so that what is served strengthens itself. What is relevant in the log stays so."""

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if isinstance(value, float) and not math.isfinite(value):
                raise ValueError(f"{each.name} must be a finite number, not {value!r}")
        for name in _COUNTS:
            least, value = int(name != "searches"), getattr(self, name)
            if not isinstance(value, int) or value < least:
                raise ValueError(f"{name} must be a whole number from {least} on, not {value!r}")
        for name in _SHARES:
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} must be from 0 to 1, not {getattr(self, name)!r}")
        for name in _POSITIVE:
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be above 0, not {getattr(self, name)!r}")
        for name in ("eta", "drift", "query_tail", "entity_tail"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must be 0 or more, not {getattr(self, name)!r}")
        if self.decay > 1:
            raise ValueError(f"decay must be at most 1, not {self.decay!r}")
        if self.entities < self.candidates:
            raise ValueError(
                f"a pool of {self.candidates} candidates needs as many entities: "
                f"there are {self.entities}"
            )
        for name, value, known in (
            ("preference", self.preference, PREFERENCES),
            ("click_model", self.click_model, CLICK_MODELS),
            *(("strategies", strategy, tuple(STRATEGIES)) for strategy, _ in self.strategies),
        ):
            if value not in known:
                raise ValueError(f"{name} has {value!r}; there are: {', '.join(known)}")
        if not self.strategies or min(share for _, share in self.strategies) <= 0:
            raise ValueError(f"strategies needs names with shares above 0, not {self.strategies!r}")
