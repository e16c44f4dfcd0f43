"""``datasette limbic duplicates``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import click

from .. import connection
from ..answers import plain
from ..config import Settings
from ..errors import BadParameter
from ..reports.entities import typed
from ..text import short
from .common import reports_errors, takes_settings

_TITLES = {
    "contradictions": "Contradictions? (alike, but they state something different)",
    "pairs": "Duplicates",
    "worth_a_look": "Worth a look",
}
_KINDS = {"duplicate": "duplicate", "contradiction": "contradiction?", "look": "worth a look"}
_LENGTH = 300


@click.command("duplicates")
@click.argument("database", type=click.Path(dir_okay=False))
@click.argument("entity", required=False)
@click.option("--threshold", help="Cosine from which two are duplicates, 0 to 1; of one entity")
@click.option(
    "--containment-threshold",
    help="Share of the shorter text's words that one twice as long holds, 0 to 1; of one entity",
)
@click.option("--look", help="Cosine from which two are worth a look, 0 to 1; of one entity")
@click.option(
    "--kind",
    type=click.Choice(list(_KINDS)),
    help="Only pairs of this kind; of the whole memory",
)
@click.option("--page", type=int, default=1, show_default=True, help="Page of each list")
@click.option("--size", type=int, default=50, show_default=True, help="Rows of each list on a page")
@click.option("--json", "as_json", is_flag=True, help="The whole answer, as the JSON pages give it")
@reports_errors
@takes_settings
def duplicates_command(
    database: str,
    entity: str | None,
    threshold: str | None,
    containment_threshold: str | None,
    look: str | None,
    kind: str | None,
    page: int,
    size: int,
    as_json: bool,
    settings: Settings,
) -> None:
    """Observations of an entity that say the same, or contradict each other.

    ENTITY is an id or a name. Without it the whole memory: pairs within each entity, equal texts
    in different entities, and names that are the same but for case, accents and punctuation.
    What changed since 'datasette limbic sync' is looked at anew.

    Pairs that differ in a number, a date, a name or a negation are no duplicates: perhaps one of
    the two is out of date. Reads only; nothing is flagged or deleted.

    \b
      datasette limbic duplicates memory.db
      datasette limbic duplicates memory.db --kind contradiction
      datasette limbic duplicates memory.db "Atlas" --threshold 0.9 --json
    """
    from ..reports.similar import find_duplicate_observations
    from ..reports.similar_graph import find_duplicates

    own = {"threshold": threshold, "containment_threshold": containment_threshold, "look": look}
    conn = connection.connect(database, readonly=True, settings=settings)
    try:
        if entity is None:
            for name, value in own.items():
                if value is not None:
                    raise BadParameter(
                        f"--{name.replace('_', '-')} {value:.40} is for one ENTITY: name it, or set"
                        " the threshold for all of them in the table limbic_settings"
                    )
            found = find_duplicates(conn, kind=kind, page=page, size=size, settings=settings)
        else:
            if kind is not None:
                raise BadParameter(
                    f"--kind {kind} is for the whole memory: leave ENTITY out, or --kind"
                )
            found = find_duplicate_observations(
                conn, typed(conn, entity), **own, page=page, size=size, settings=settings
            )
    finally:
        conn.close()
    if as_json:
        click.echo(json.dumps(plain(found), ensure_ascii=False, indent=2))
    else:
        click.echo("\n".join(_graph(found) if entity is None else _entity(found)))


def _entity(found: dict[str, Any]) -> Iterator[str]:
    entity, counts = found["entity"], found["counts"]
    yield f"{entity['name']} ({entity['entityType']}): {found['observations']:,} observations"
    if found["similarity"]["reason"]:
        computed = "in part" if found["similarity"]["computed"] else "not"
        yield f"Similarity {computed} computed: {found['similarity']['reason']}."
    yield _by(found["thresholds"], found["model"])
    for name, title in _TITLES.items():
        if counts[name]:
            yield f"\n{title}: {counts[name]:,}"
            for pair in found[name]:
                yield from _pair(pair)
    if found["clusters"]:
        yield f"\nSuggested to keep, of {counts['clusters']:,} that hang together:"
        for cluster in found["clusters"]:
            kept = cluster["survivor"]
            yield (
                f"  [{kept['id']}] of {len(cluster['ids'])}, {cluster['why']}: "
                f"{short(kept['content'], _LENGTH)}"
            )
    if not any(counts.values()):
        yield "No two of them are alike."
    yield from _paged(found)


def _graph(found: dict[str, Any]) -> Iterator[str]:
    counts, kept = found["counts"], found["kept"]
    yield _by(kept["thresholds"], kept["model"])
    yield (
        f"{counts['duplicate']:,} duplicates, {counts['contradiction']:,} contradictions?, "
        f"{counts['look']:,} worth a look"
    )
    for pair in found["pairs"]:
        yield f"\n{pair['entity']['name']} ({pair['entity']['entityType']}): {_KINDS[pair['kind']]}"
        yield from _pair(pair)
    across, clashes = found["across_entities"], found["name_clashes"]
    yield f"\nThe same text in several entities: {across['count']:,}"
    for group in across["groups"]:
        names = ", ".join(f"{m['entity']} [{m['id']}]" for m in group["members"])
        yield f"  {short(group['content'], _LENGTH)}"
        yield f"    in {group['entities']:,} entities: {names}"
    yield f"\nNames the same but for case, accents and punctuation: {clashes['count']:,}"
    for group in clashes["groups"]:
        yield "  " + "; ".join(
            f"{m['name']} [{m['id']}] ({m['entityType']}, {m['observations']:,} observations"
            f"{', archived' if m['archived_at'] else ''})"
            for m in group["members"]
        )
    yield from _paged(found)


def _by(thresholds: dict[str, float], model: str | None) -> str:
    return (
        f"duplicates from cosine {thresholds['cosine']:g} ({model or 'no vectors'}), worth a look "
        f"from {thresholds['look']:g}, words held from {thresholds['containment']:g}"
    )


def _pair(pair: dict[str, Any]) -> Iterator[str]:
    said = [pair["rule"]]
    said += [f"cosine {pair['cosine']:.3f}"] if pair["cosine"] is not None else ["no cosine"]
    said += [f"words held {pair['containment']:.2f}"] if pair["containment"] is not None else []
    said += [f"differ in {pair['difference']}"] if pair["difference"] else []
    yield "  " + ", ".join(said)
    for side in (pair["earlier"], pair["later"]):
        flag = " (flagged)" if side["similarity_flag"] else ""
        yield f"    [{side['id']}]{flag} {short(side['content'], _LENGTH)}"


def _paged(found: dict[str, Any]) -> Iterator[str]:
    if found["pages"] > 1 or found["page"] > 1:
        yield f"\nPage {found['page']:,} of {found['pages']:,}: --page turns it"
