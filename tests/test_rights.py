"""Rights on Datasette 1.0 are asked for all tables at once, and say what each question would."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import Context, ContextVar
from pathlib import Path
from typing import Any

import pytest
from datasette import Response, hookimpl
from view_helpers import AGENT, ONE_POINT_ZERO, as_actor, base, get, recording_datasette

from datasette_limbic import compat, derived, plugin, rights, schema

pytestmark = pytest.mark.skipif(not ONE_POINT_ZERO, reason="0.65 asks for rights without SQL")

ROOT = {"id": "root"}
ONLY_ROOT = {"allow": {"id": "root"}}
FOR_AGENTS = {"allow": {"id": "agent"}}
TOKEN = {"id": "agent", "_r": {"r": {"demo": {"entities": ["vt"], "limbic_topics": ["vt"]}}}}
ACTORS: tuple[dict[str, Any] | None, ...] = (None, AGENT, ROOT, TOKEN)
DENIED: dict[str, dict[str, Any]] = {
    "nothing": {},
    "observations": {"tables": {"observations": ONLY_ROOT}},
    "entities, but not to agents": {"tables": {"entities": FOR_AGENTS}},
    "pairs": {"tables": {"limbic_duplicates": ONLY_ROOT}},
    "a table in another case": {"tables": {"OBSERVATIONS": ONLY_ROOT}},
    "a table that is not there": {"tables": {"limbic_reports": ONLY_ROOT}},
    "the database": ONLY_ROOT,
    "the database, one table is open": {**ONLY_ROOT, "tables": {"entities": {"allow": True}}},
}
NAMES = sorted({*schema.RATED_TABLES, *schema.REPORTED_TABLES, *schema.CORE_TABLES})
MADE = sorted(name for layer in derived.layers() for name in layer)


async def one_by_one(datasette: Any, actor: Any, database: str, names: list[str]) -> dict[str, Any]:
    """What Datasette says of each, kept nowhere between the questions."""
    from datasette.resources import TableResource

    async def ask(name: str) -> bool:
        return bool(
            await datasette.allowed(
                action="view-table", resource=TableResource(database, name), actor=actor
            )
        )

    return {name: await Context().run(asyncio.ensure_future, ask(name)) for name in names}


@pytest.mark.parametrize("denied", DENIED.values(), ids=DENIED)
async def test_all_at_once_says_what_each_question_would(
    denied: dict[str, Any],
    demo_db: Path,
    make_datasette: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    datasette = recording_datasette(make_datasette, demo_db, more={"databases": {"demo": denied}})
    datasette.root_enabled = True
    await datasette.invoke_startup()
    await get(datasette, "/")  # which lists the tables
    for actor in ACTORS:
        listed = await rights.tables(datasette, actor, "demo")
        found = {name: await listed.may_view(name) for name in NAMES + MADE}
        shown = await compat.may_view(datasette, actor, "demo", ())
        with monkeypatch.context() as patch:
            # the rules of others alone, and ours by their definition
            patch.setattr(rights, "asking", lambda: True)
            own = await one_by_one(datasette, actor, "demo", NAMES + MADE)

        def all_of(name: str, own: dict[str, Any] = own) -> bool:
            return own[name] and all(all_of(needed) for needed in derived.made_of(name))

        assert found == {name: all_of(name) for name in NAMES + MADE}, actor
        told = await one_by_one(datasette, actor, "demo", NAMES + MADE)
        assert told == {
            name: all_of(name) and (shown or not derived.made_of(name)) for name in NAMES + MADE
        }, actor


async def test_what_is_listed_gives_no_right_later_in_the_request(
    demo_db: Path, make_datasette: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Datasette keeps its answers for a request: those of others' rules alone must not be kept."""
    denied = {"databases": {"demo": {"tables": {"observations": ONLY_ROOT}}}}
    datasette = recording_datasette(make_datasette, demo_db, more=denied)
    answers: dict[str, bool] = {}

    async def ask(datasette: Any, actor: Any) -> list[Any]:
        from datasette.resources import TableResource

        for name in MADE:
            answers[name] = await datasette.allowed(
                action="view-table", resource=TableResource("demo", name), actor=actor
            )
        return []

    # within a request for a page, after its menu has asked for rights
    menu = plugin.memories

    async def memories(datasette: Any) -> list[str]:
        if not rights.asking() and not answers and rights.kept(datasette, None, "demo"):
            answers["asked"] = True
            await ask(datasette, None)
        return await menu(datasette)

    monkeypatch.setattr(plugin, "memories", memories)
    assert (await get(datasette, "/demo/entities")).status_code == 200
    assert answers.pop("asked")
    assert answers == {name: not _made_of(name, "observations") for name in MADE}


def _made_of(name: str, table: str) -> bool:
    return any(each == table or _made_of(each, table) for each in derived.made_of(name))


async def test_an_answer_is_of_one_actor_and_one_request(
    demo_db: Path, make_datasette: Any
) -> None:
    tables: dict[str, Any] = {"observations": ONLY_ROOT}
    datasette = recording_datasette(
        make_datasette, demo_db, more={"databases": {"demo": {"tables": tables}}}
    )
    datasette.root_enabled = True
    url = f"{base(demo_db)}.json"
    root = as_actor(datasette, ROOT)
    for cookies, status in (({}, 403), (root, 200), ({}, 403)):
        assert (await get(datasette, url, cookies=cookies)).status_code == status
    del tables["observations"]
    assert (await get(datasette, url)).status_code == 200
    tables["observations"] = ONLY_ROOT
    assert (await get(datasette, url)).status_code == 403


async def test_where_nothing_is_checked_all_may_be_seen(demo_db: Path, make_datasette: Any) -> None:
    datasette = recording_datasette(
        make_datasette, demo_db, more={"databases": {"demo": ONLY_ROOT}}
    )
    url = f"{base(demo_db)}.json"
    for skip, status in ((False, 403), (True, 200), (False, 403)):
        response = await get(datasette, url, skip_permission_checks=skip)
        assert response.status_code == status


async def test_a_page_asks_for_rights_with_few_statements(
    demo_db: Path, make_datasette: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    datasette = recording_datasette(make_datasette, demo_db)
    await get(datasette, base(demo_db))
    internal = datasette.get_internal_database()
    asked = 0
    execute = internal.execute

    async def counted(*args: Any, **kwargs: Any) -> Any:
        nonlocal asked
        asked += 1
        return await execute(*args, **kwargs)

    monkeypatch.setattr(internal, "execute", counted)
    for path in ("", "/changes", "/nothing"):
        asked = 0
        await get(datasette, base(demo_db) + path)
        # one for each table that some page reads would be twenty
        assert asked <= 8, path


@contextmanager
def registered(plugin: Any) -> Iterator[None]:
    """Another plugin, for as long as that."""
    from datasette.plugins import pm

    pm.register(plugin, name="another")
    try:
        yield
    finally:
        pm.unregister(name="another")


class OfContext:
    """Another plugin, whose rule depends on what it sets for each request."""

    __name__ = "another"
    tenant: ContextVar[str] = ContextVar("tenant", default="inside")

    @hookimpl
    def asgi_wrapper(self) -> Any:
        def wrap(app: Any) -> Any:
            async def inner(scope: Any, receive: Any, send: Any) -> None:
                headers = dict(scope.get("headers") or ())
                self.tenant.set(headers.get(b"x-tenant", b"inside").decode())
                await app(scope, receive, send)

            return inner

        return wrap

    @hookimpl
    def permission_resources_sql(self, action: str) -> Any:
        from datasette.permissions import PermissionSQL

        if action != "view-table" or self.tenant.get() == "inside":
            return None
        return PermissionSQL(
            sql="select 'demo' as parent, 'observations' as child, 0 as allow, 'x' as reason"
        )


async def test_rules_of_others_may_depend_on_the_context_of_the_request(
    demo_db: Path, make_datasette: Any
) -> None:
    paths = ("/observations", "/limbic_flagged_observations", "/limbic_duplicates", "/-/limbic")
    with registered(OfContext()):
        datasette = make_datasette(demo_db)
        for tenant, status in (("inside", 200), ("outside", 403), ("inside", 200)):
            for path in paths:
                url = f"/demo{path}.json"
                response = await get(datasette, url, headers={"x-tenant": tenant})
                assert response.status_code == status, (tenant, path)
            found = await get(datasette, "/-/jump.json?q=elena", headers={"x-tenant": tenant})
            assert ("Elena" in found.text) is (status == 200)


@pytest.mark.parametrize("backwards", [False, True])
async def test_what_is_kept_in_a_request_is_of_one_actor_and_one_database(
    backwards: bool, demo_db: Path, make_datasette: Any
) -> None:
    """All asked in one request: those who may first or those who may not, and once it is kept."""
    from datasette.permissions import SkipPermissions

    other = Path(shutil.copy(demo_db, demo_db.with_name("other.db")))
    denied = {
        "databases": {
            "demo": {"tables": {"observations": ONLY_ROOT, "relations": ONLY_ROOT}},
            "other": {"tables": {"entities": FOR_AGENTS}},
        }
    }
    seen = {
        "demo": {"observations": (ROOT,), "entities": ACTORS[:3]},
        "other": {"observations": ACTORS[:3], "entities": (AGENT,)},
    }
    asked = [(actor, db, table) for actor in ACTORS[:3] for db in seen for table in seen[db]]
    if backwards:
        asked.reverse()

    answers = []

    async def ask(datasette: Any, request: Any) -> Any:
        for actor, db, table in asked * 2:
            # a view of ours first, for which the tables are listed
            for name in ("limbic_flagged_observations", table):
                may = await compat.may_view(datasette, actor, db, (name,))
            answers.append((actor, db, table, may))
        with SkipPermissions():  # which gives no right later in the request
            assert await compat.may_view(datasette, None, "demo", ("relations",))
        assert not await compat.may_view(datasette, None, "demo", ("relations",))
        return Response.text("asked")

    class Asking:
        __name__ = "another"

        @hookimpl
        def register_routes(self) -> Any:
            return [(r"^/-/asking$", ask)]

    with registered(Asking()):
        datasette = recording_datasette(make_datasette, demo_db, other, more=denied)
        datasette.root_enabled = True
        assert (await get(datasette, "/-/asking")).text == "asked"
    assert len(answers) == 2 * len(asked)
    for actor, db, table, may in answers:
        assert may is (actor in seen[db][table]), (actor, db, table)
