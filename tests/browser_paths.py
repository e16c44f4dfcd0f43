"""Pages of ours, by name: of a sample, of a memory that is hard to lay out, of an empty one."""

from odd_memory import ODD_NAMES

PATHS = {
    "overview": "/demo/-/limbic",
    "list": "/demo/-/limbic/search",
    "results": "/demo/-/limbic/search?q=geocoder",
    "explain": "/demo/-/limbic/search?q=geocoder&explain=1&limit=3",
    "no confident match": "/demo/-/limbic/search?q=quantum+chromodynamics",
    "filtered to nothing": "/demo/-/limbic/search?q=paella&type=Nope",
    "long filter": "/demo/-/limbic/search?q=paella&type=" + "T" * 3000,
    "long query": "/demo/-/limbic/search?q=" + "q" * 2048,
    "entity": "/demo/-/limbic/entity/4",
    "archived": "/demo/-/limbic/entity/10",
    "near it": "/demo/-/limbic/entity/4/graph",
    "map": "/demo/-/limbic/graph",
    "odd map": "/odd/-/limbic/graph",
    "empty map": "/empty/-/limbic/graph",
    "empty": "/empty/-/limbic",
    "empty search": "/empty/-/limbic/search?q=x",
    "odd overview": "/odd/-/limbic",
    "odd list": "/odd/-/limbic/search?include_archived=1&explain=1&limit=2",
    "odd results": "/odd/-/limbic/search?q=word+unbroken&include_archived=1",
    "paged": "/odd/-/limbic/entity/4?page=2",
    "tuning": "/demo/-/limbic/tuning",
    "tuning by nothing": "/empty/-/limbic/tuning",
    "odd tuning": "/odd/-/limbic/tuning?k=3&gamma_range=0.01,0.1",
    "imports": "/demo/-/limbic/imports",
    "one import": "/demo/-/limbic/imports/1",
    "no imports": "/empty/-/limbic/imports",
    "odd imports": "/odd/-/limbic/imports?page=2",
    "filtered imports": "/odd/-/limbic/imports?source=again.jsonl",
    "imports of no such name": "/odd/-/limbic/imports?source=" + "s" * 2048,
    "odd import": "/odd/-/limbic/imports/1",
    "rejects of no reason": "/odd/-/limbic/imports/1?reason=" + "r" * 2000,
    "import of an odd name": "/odd/-/limbic/imports/3",
    **{f"near odd entity {i}": f"/odd/-/limbic/entity/{i}/graph" for i in (1, 2, 6)},
    **{f"odd entity {i}": f"/odd/-/limbic/entity/{i}" for i in range(1, len(ODD_NAMES) + 1)},
}
# Pages of maintenance: of a sample, of a memory that is hard to lay out, and of an empty one.
MAINTENANCE = {
    "maintenance": "/demo/-/limbic/consolidation",
    "stale": "/demo/-/limbic/consolidation?list=stale_entities&stale_days=30&size=5&page=2",
    "duplicates": "/demo/-/limbic/duplicates",
    "duplicates of one": "/demo/-/limbic/duplicates/7?threshold=0.3&look=0.2",
    "split": "/demo/-/limbic/split/2",
    "health": "/demo/-/limbic/health",
    "orphans": "/demo/-/limbic/health?list=orphans",
    "odd maintenance": "/odd/-/limbic/consolidation?stale_days=0",
    "odd duplicates": "/odd/-/limbic/duplicates",
    "odd health": "/odd/-/limbic/health",
    "empty maintenance": "/empty/-/limbic/consolidation",
    "empty duplicates": "/empty/-/limbic/duplicates",
    "empty health": "/empty/-/limbic/health",
}
# The head of these pages is that of an entity's, where each odd name stands: here those without
# a space and the ones that a browser could take for something else.
ODD_MAINTENANCE = {
    **{f"odd duplicates {i}": f"/odd/-/limbic/duplicates/{i}" for i in (2, 6)},
    **{f"odd split {i}": f"/odd/-/limbic/split/{i}" for i in (1, 3, 4)},
}
PATHS |= MAINTENANCE | ODD_MAINTENANCE
