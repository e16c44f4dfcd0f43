"""The SQL functions: one table, `FUNCTIONS`, and `register`, which puts them on a connection.

Docs and tests read the same table. Numbers may come as numeric text and `''` counts as NULL,
because Datasette's SQL form sends text. Mostly NULL in gives NULL out; each entry's `nulls` says
where not. SQLite hides the text of an exception ("user-defined function raised exception"), so it
is logged as well, under `datasette_limbic`. Importing this needs neither numpy nor llm.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from datasette_limbic import sql_values
from datasette_limbic.errors import LimbicError
from datasette_limbic.sql_values import Embed, TypeSettings

logger = logging.getLogger("datasette_limbic")


@dataclass(frozen=True)
class SqlFunction:
    """One SQL function.

    `arities` are the numbers of arguments it takes, (-1,) any. `deterministic` holds for every
    arity but `clock_arities`, those that read the current time. An aggregate's `implementation`
    is a class with `step` and `finalize`; one with `needs` ('settings', …) is called with
    that object first.
    """

    name: str
    signature: str
    arities: tuple[int, ...]
    implementation: Callable[..., Any]
    help: str
    nulls: str = "NULL in, NULL out."
    deterministic: bool = True
    clock_arities: tuple[int, ...] = ()
    aggregate: bool = False
    needs: str = ""

    def is_deterministic(self, arity: int) -> bool:
        """Whether the same arguments always give the same result."""
        return self.deterministic and arity not in self.clock_arities


def register(
    conn: Any,
    *,
    settings: TypeSettings | None = None,
    embed: Embed | None = None,
    threshold: Callable[[str], int] | None = None,
    nearest: Callable[..., str] | None = None,
    hits: Callable[..., str] | None = None,
    frequency: Callable[..., int | None] | None = None,
    frequencies: Callable[..., str | None] | None = None,
    parts: Callable[..., str] | None = None,
    short_runs: Callable[..., str] | None = None,
) -> None:
    """Put every function of `FUNCTIONS` on a SQLite connection.

    `settings` answers for half-lives of entity types, `threshold` for the number of observations
    from which one is large (default of both: the documents' values); `embed` turns a text, for a
    collection or None, into a vector blob (default: NULL); `nearest` and `hits` call a retriever
    (default: they find nothing); `frequency` counts the texts that hold a word, `frequencies`
    those of each word of a query, `parts` says what of it is looked for within words (default:
    NULL), `short_runs` finds the texts that hold one or two characters of a script without spaces
    (default: none).
    """
    from datasette_limbic.config import Settings

    settings = settings or Settings()
    context = {
        "settings": settings,
        "embed": embed,
        "threshold": threshold or Settings().split_threshold,
        "nearest": nearest or sql_values.nothing,
        "hits": hits or sql_values.nothing,
        "frequency": frequency or sql_values.unknown,
        "frequencies": frequencies or sql_values.unknown,
        "parts": parts or sql_values.unknown,
        "short_runs": short_runs or sql_values.nothing,
    }
    for function in FUNCTIONS:
        if function.aggregate:
            aggregate = _logged_aggregate(function.implementation, function.name)
            for arity in function.arities:
                conn.create_aggregate(function.name, arity, aggregate)
            continue
        implementation = function.implementation
        if function.needs:
            implementation = functools.partial(implementation, context[function.needs])
        implementation = _logged(implementation, function.name)
        for arity in function.arities:
            conn.create_function(
                function.name,
                arity,
                implementation,
                deterministic=function.is_deterministic(arity),
            )


def _logged(implementation: Callable[..., Any], name: str) -> Callable[..., Any]:
    def call(*args: Any) -> Any:
        try:
            return implementation(*args)
        except LimbicError as error:
            # one line: what it was made from may hold what no log should, such as a password
            if not getattr(error, "told", False):
                logger.warning("%s(): %s", name, error)
            raise
        except Exception as error:
            logger.error("%s(): %s", name, error)
            raise

    return call


def _logged_aggregate(implementation: Any, name: str) -> type:
    class Aggregate(implementation):  # type: ignore[misc]
        step = _logged(implementation.step, name)
        finalize = _logged(implementation.finalize, name)

    return Aggregate


FUNCTIONS: tuple[SqlFunction, ...] = (
    SqlFunction(
        "limbic_score",
        "limbic_score(base, importance, temporal_factor, cooc_boost[, beta_sal, gamma])",
        (4, 5, 6),
        sql_values.limbic_score,
        "The composite: base·(1 + beta_sal·importance)·temporal_factor·(1 + gamma·cooc_boost).",
        "A NULL temporal_factor counts as 0.5 (unknown), a NULL cooc_boost as 0 (no pairs).",
    ),
    SqlFunction(
        "limbic_blend",
        "limbic_blend(strategy, base, limbic_norm)",
        (3,),
        sql_values.blend,
        "The final score: base and normalised limbic score, with the strategy's weights; "
        "for 'limbic' the third argument itself.",
    ),
    SqlFunction(
        "cosine_sim",
        "cosine_sim(distance)",
        (1,),
        sql_values.cosine_sim,
        "Base similarity of a cosine distance: max(0, 1 - distance).",
    ),
    SqlFunction(
        "limbic_importance",
        "limbic_importance(access_count, max_access, degree[, beta_deg, d_max])",
        (3, 4, 5),
        sql_values.importance,
        "How much an entity is used and linked, against the most used one of the pool; 0 to 1.15.",
    ),
    SqlFunction(
        "temporal_factor",
        "temporal_factor(last_access, created_at[, now[, lambda_hourly, floor]])",
        (2, 3, 4, 5),
        sql_values.temporal_factor,
        "Recency of the last access, else of creation: exponential decay to a floor of 0.1.",
        "NULL when neither time is known or readable; a NULL now is the current time.",
        clock_arities=(2,),
    ),
    SqlFunction(
        "temporal_score",
        "temporal_score(last_activity_at, half_life_days[, degree[, now]])",
        (2, 3, 4),
        sql_values.temporal_score,
        "Recency of the last activity by half-life, which neighbours lengthen; 0 to 1.",
        "A NULL half-life is exempt: 1. An unknown time gives NULL, a NULL degree is 0.",
        clock_arities=(2, 3),
    ),
    SqlFunction(
        "cooc_boost",
        "cooc_boost(co_count, last_co[, now[, lambda_hourly, floor[, cap[, unknown]]]])",
        (2, 3, 4, 5, 6, 7),
        sql_values.CoocBoost,
        "Aggregate: Σ log2(1 + co_count), each decayed since last_co, over an entity's pairs.",
        "A NULL co_count adds nothing, an unknown last_co decays to unknown (0.5); no rows: NULL.",
        clock_arities=(2,),
        aggregate=True,
    ),
    SqlFunction(
        "cooc_term",
        "cooc_term(co_count, last_co[, now[, lambda_hourly, floor[, unknown]]])",
        (2, 3, 4, 5, 6),
        sql_values.cooc_term,
        "One pair's part of cooc_boost, to be worked out once for both of its entities.",
        "A NULL co_count gives NULL, an unknown last_co decays to unknown (0.5).",
        clock_arities=(2,),
    ),
    SqlFunction(
        "rrf",
        "rrf(rank, rank…)",
        (-1,),
        sql_values.rrf,
        "Reciprocal rank fusion: Σ 1/(60 + rank), ranks from 1.",
        "A NULL rank adds nothing; all NULL: NULL.",
    ),
    SqlFunction(
        "limbic_rrf",
        "limbic_rrf(k, rank, rank…)",
        (-1,),
        sql_values.limbic_rrf,
        "The same with a chosen k.",
        "A NULL k is 60, a NULL rank adds nothing; all ranks NULL: NULL.",
    ),
    SqlFunction(
        "limbic_norm",
        "limbic_norm(value, low, high)",
        (3,),
        sql_values.norm,
        "Min-max normalisation: (value - low) / (high - low); 1 where low and high are equal.",
    ),
    SqlFunction(
        "fused_base",
        "fused_base(cosine_sim, coverage)",
        (2,),
        sql_values.fused_base,
        "Base similarity of fusion 'fused': max(cosine_sim, 0.8·coverage).",
        "A NULL adds nothing; both NULL: 0.",
    ),
    SqlFunction(
        "limbic_coverage",
        "limbic_coverage(query, name, content, terms)",
        (4,),
        sql_values.coverage,
        "The share of a query's terms, each by its idf, that a name and an observation hold; "
        "1.25 for an exact name. terms: JSON array of [match, document frequency, idf].",
        "NULL content holds nothing; NULL for a NULL query, name or terms, and without terms.",
    ),
    SqlFunction(
        "limbic_idf",
        "limbic_idf(frequency, rows)",
        (2,),
        sql_values.idf,
        "Inverse document frequency as bm25() takes it: ln((N - n + 0.5)/(n + 0.5)), above 0.",
        "A NULL number of rows counts as 0.",
    ),
    SqlFunction(
        "limbic_arg",
        "limbic_arg(value, default[, least])",
        (2, 3),
        sql_values.arg,
        "A parameter of a form: the default for '' and NULL, a number where the default is one, "
        "which may not be less than the least.",
        "A NULL value gives the default, which may be NULL.",
    ),
    SqlFunction(
        "consolidation_importance",
        "consolidation_importance(total_accesses, days)",
        (2,),
        sql_values.consolidation_importance,
        "How well an entity has been consolidated by use: 0.2·ln(1 + accesses)·0.9976^days.",
        "Without accesses 0, whatever the days.",
    ),
    SqlFunction(
        "limbic_half_life",
        "limbic_half_life(entity_type)",
        (1,),
        sql_values.half_life,
        "The half-life in days that applies to an entity type.",
        "NULL for a type that does not age, and for NULL.",
        deterministic=False,
        needs="settings",
    ),
    SqlFunction(
        "limbic_threshold",
        "limbic_threshold(entity_type)",
        (1,),
        sql_values.threshold,
        "The number of observations above which an entity of this type is large, as limbic_settings"
        " has it.",
        deterministic=False,
        needs="threshold",
    ),
    SqlFunction(
        "limbic_hours",
        "limbic_hours(then[, now])",
        (1, 2),
        sql_values.hours,
        "Hours from one time to another, or to now; 0 for a time in the future.",
        "NULL for an unknown or unreadable time; a NULL now is the current time.",
        clock_arities=(1,),
    ),
    SqlFunction(
        "limbic_route",
        "limbic_route(query, limit)",
        (2,),
        sql_values.route,
        "The strategy that routing chooses: cosine_heavy, hybrid_balanced or limbic_heavy.",
    ),
    SqlFunction(
        "limbic_embed",
        "limbic_embed(text[, collection])",
        (1, 2),
        sql_values.embed,
        "The vector of a text, as a blob of 32-bit floats, by the collection's model.",
        "NULL for blank text, and where no model is to be had.",
        deterministic=False,
        needs="embed",
    ),
    SqlFunction(
        "limbic_nearest",
        "limbic_nearest(retriever, query, k[, type, include_archived])",
        (3, 5),
        sql_values.call,
        "The entities nearest to a text as a JSON array of [id, cosine distance], by a retriever: "
        "approximate, memory, or one of a plugin.",
        "A NULL or blank query finds nothing: []. A NULL type is any.",
        deterministic=False,
        needs="nearest",
    ),
    SqlFunction(
        "limbic_hits",
        "limbic_hits(retriever, query, k)",
        (3,),
        sql_values.call,
        "The texts that match a query best as a JSON array of [doc, score], by a retriever that "
        "finds texts.",
        "A NULL or blank query finds nothing: [].",
        deterministic=False,
        needs="hits",
    ),
    SqlFunction(
        "limbic_frequency",
        "limbic_frequency([word])",
        (0, 1),
        sql_values.call,
        "In how many names and observations a word stands: counted up to 10,000, estimated over "
        "that. Of a word with punctuation inside, its rarest part. Without a word: how many names "
        "and observations there are.",
        deterministic=False,
        needs="frequency",
    ),
    SqlFunction(
        "limbic_frequencies",
        "limbic_frequencies(query)",
        (1,),
        sql_values.call,
        "The words of a query as a JSON array of [match, frequency as limbic_frequency has it, its "
        "limbic_idf, places where parts of a phrase are looked up, number of tokens, the rarest "
        "token of a phrase of common words]. For all of them together 40,000 texts are counted; of "
        "further words the frequency is estimated.",
        deterministic=False,
        needs="frequencies",
    ),
    SqlFunction(
        "limbic_fts_query",
        "limbic_fts_query(text)",
        (1,),
        sql_values.fts_query,
        "A valid FTS5 MATCH expression for any of the words of a text; '' when it has none.",
    ),
    SqlFunction(
        "limbic_match",
        "limbic_match(term, leads)",
        (2,),
        sql_values.Match,
        "Aggregate: an FTS5 MATCH expression of the matches of words. It finds texts that hold one "
        "that leads (not 0), and bm25() rates those by all words.",
        "NULL and empty terms are left out; no rows at all: NULL.",
        aggregate=True,
    ),
    SqlFunction(
        "limbic_fts_terms",
        "limbic_fts_terms(text)",
        (1,),
        sql_values.fts_terms,
        "The words of a query as a JSON array of {match, tokens, cjk}.",
    ),
    SqlFunction(
        "limbic_cjk_runs",
        "limbic_cjk_runs(text)",
        (1,),
        sql_values.cjk_runs,
        "JSON array of the runs of scripts without spaces (Chinese, Japanese, Thai…).",
    ),
    SqlFunction(
        "limbic_parts",
        "limbic_parts(query)",
        (1,),
        sql_values.call,
        "A valid FTS5 MATCH expression for what of a query is looked for within words: words that "
        "no text holds, and three characters and more of a script without spaces. At most 4 parts "
        "of 20 characters together.",
        'A NULL query finds nothing: "".',
        deterministic=False,
        needs="parts",
    ),
    SqlFunction(
        "limbic_short_runs",
        "limbic_short_runs(query[, places])",
        (1, 2),
        sql_values.call,
        "JSON array of texts that hold a run of one or two characters of such a script: twice the "
        "id of an entity, or twice that of an observation and 1. Of 10,000 places, or of as many "
        "as are given.",
        "A NULL query finds nothing: [].",
        deterministic=False,
        needs="short_runs",
    ),
    SqlFunction(
        "text_containment",
        "text_containment(a, b)",
        (2,),
        sql_values.text_containment,
        "The share of the shorter text's words that the longer one has too, 0 to 1.",
        "NULL for NULL and for text without words.",
    ),
    SqlFunction(
        "topic_count",
        "topic_count(content)",
        (1,),
        sql_values.TopicCount,
        "Aggregate: how many topics of three or more observations stand apart.",
        "NULL content is left out; no rows at all: NULL.",
        aggregate=True,
    ),
    SqlFunction(
        "topic_clusters",
        "topic_clusters(id, content)",
        (2,),
        sql_values.TopicClusters,
        "Aggregate: the topics as JSON, with labels, terms, silhouettes and the ids in each.",
        "NULL content is left out; no rows at all: NULL.",
        aggregate=True,
    ),
)
