"""Who may record and edit: denied by default, granted by configuration and by tokens."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from view_helpers import (
    AGENT,
    ONE_POINT_ZERO,
    added,
    as_actor,
    base,
    digest,
    get_json,
    post,
    post_json,
    recording_datasette,
    signals,
)

from datasette_limbic import compat, permissions, recorder

ROOT = {"id": "root"}
ACTORS: tuple[dict[str, Any] | None, ...] = (None, AGENT, ROOT)
SEARCH = {"query": "geocoder", "limit": 2, "wait": True}


def plain_datasette(make_datasette: Any, path: Path, *, root: bool = True, **kwargs: Any) -> Any:
    datasette = make_datasette(path, **kwargs)
    if ONE_POINT_ZERO:
        datasette.root_enabled = root
    return datasette


async def answers(datasette: Any, actor: dict[str, Any] | None) -> list[bool]:
    """For search, open and feedback: whether ``actor`` may record. Search and open answer all."""
    url = f"{base(Path(datasette.get_database('demo').path))}"
    search = await post_json(datasette, f"{url}/search", SEARCH, actor=actor)
    assert len(search["results"]) == 2
    opened = await post_json(datasette, f"{url}/open", {"ids": [1], "wait": True}, actor=actor)
    assert [e["id"] for e in opened["entities"]] == [1]
    rating = {"search_id": search["search_id"] or "none", "id": 1, "rating": "useful"}
    rating["id"] = search["results"][0]["id"]
    rated = await post(datasette, f"{url}/feedback", rating, actor=actor)
    assert rated.status_code in (200, 403)
    for found in (search, opened):
        if found["recorded"]["status"] == "nothing":
            assert found["recorded"]["reason"] == "this needs the permission limbic-record"
            assert found["recorded"]["accesses"] == 0
    if rated.status_code == 403:
        assert permissions.RECORD in rated.json()["error"]
    done = [found["recorded"]["status"] == "done" for found in (search, opened)]
    return [*done, rated.status_code == 200]


async def test_denied_to_everybody_but_root(demo_db: Path, make_datasette: Any) -> None:
    datasette = plain_datasette(make_datasette, demo_db)
    before = digest(demo_db)
    for actor in (None, AGENT, {"id": 5}, {}, {"name": "root"}):
        assert await answers(datasette, actor) == [False] * 3
    await recorder.drain(datasette)
    assert digest(demo_db) == before
    assert await answers(datasette, ROOT) == [True] * 3
    assert digest(demo_db) != before


@pytest.mark.skipif(not ONE_POINT_ZERO, reason="0.65 has no switch for root")
async def test_root_without_the_switch_is_anybody(demo_db: Path, make_datasette: Any) -> None:
    datasette = plain_datasette(make_datasette, demo_db, root=False)
    assert await answers(datasette, ROOT) == [False] * 3


# An allow block → whether it allows nobody signed in, the agent, and root.
BLOCKS: list[tuple[Any, tuple[bool, bool, bool]]] = [
    (True, (True, True, True)),
    (1, (True, True, True)),
    (False, (False, False, False)),
    (0, (False, False, False)),
    ({}, (False, False, False)),
    (None, (False, False, True)),
    ({"id": "agent"}, (False, True, False)),
    ({"id": ["agent", "root"]}, (False, True, True)),
    ({"id": ["other"]}, (False, False, False)),
    ({"id": "*"}, (False, True, True)),
    ({"role": "agents"}, (False, False, False)),
    ({"unauthenticated": True}, (True, False, False)),
]


@pytest.mark.parametrize("name", list(permissions.DESCRIBED))
@pytest.mark.parametrize("level", ["top", "database", "database before top", "other database"])
@pytest.mark.parametrize(("block", "allowed"), BLOCKS, ids=[repr(b) for b, _ in BLOCKS])
async def test_blocks_mean_the_same_on_both_lines(
    block: Any, allowed: tuple[bool, ...], level: str, name: str, demo_db: Path, make_datasette: Any
) -> None:
    of_database = {"databases": {demo_db.stem: {"permissions": {name: block}}}}
    more: dict[str, Any] = {"permissions": {}}
    if level == "top":
        more = {"permissions": {name: block}}
    elif level == "database":
        more |= of_database
    elif level == "database before top":
        # the top level says the opposite for the agent
        top = not block if isinstance(block, (bool, int)) else {"id": "nobody"}
        more = {"permissions": {name: top}, **of_database}
        if block is None:
            allowed = (False, False, False)
    else:
        more |= {"databases": {"other": {"permissions": {name: block}}}}
        allowed = (False, False, True)
    datasette = recording_datasette(make_datasette, demo_db, more=more)
    if ONE_POINT_ZERO:
        datasette.root_enabled = True
    await datasette.invoke_startup()
    found = [await compat.may(datasette, actor, name, demo_db.stem) for actor in ACTORS]
    assert tuple(found) == allowed


@pytest.mark.skipif(ONE_POINT_ZERO, reason="1.0 reads blocks itself")
@pytest.mark.parametrize("block", ["agent", ["agent"], 5.5])
async def test_a_block_that_is_none_allows_nobody_and_says_so(
    block: Any, demo_db: Path, make_datasette: Any, caplog: pytest.LogCaptureFixture
) -> None:
    datasette = recording_datasette(make_datasette, demo_db, allow=block)
    assert await answers(datasette, AGENT) == [False] * 3
    assert "allows nobody" in caplog.text


async def test_what_is_granted_over_http(demo_db: Path, make_datasette: Any) -> None:
    datasette = recording_datasette(make_datasette, demo_db, allow=AGENT)
    before = signals(demo_db)
    assert await answers(datasette, AGENT) == [True] * 3
    assert added(before, signals(demo_db))["entity_access"] == 3
    between = signals(demo_db)
    assert await answers(datasette, {"id": "other"}) == [False] * 3
    assert await answers(datasette, None) == [False] * 3
    assert signals(demo_db) == between


DENIED = {
    "the database": {"allow": {"id": "root"}},
    "a table": {"tables": {"observations": {"allow": {"id": "root"}}}},
    "the accesses": {"tables": {"entity_access": {"allow": {"id": "root"}}}},
}


@pytest.mark.parametrize("denial", DENIED.values(), ids=DENIED)
async def test_who_may_not_see_the_tables_gets_and_records_nothing(
    denial: dict[str, Any], demo_db: Path, make_datasette: Any
) -> None:
    more = {"databases": {demo_db.stem: denial}}
    datasette = recording_datasette(make_datasette, demo_db, allow=True, more=more)
    before = digest(demo_db)
    for path, body in (
        ("search", SEARCH),
        ("open", {"names": ["Atlas"], "wait": True}),
        ("feedback", {"search_id": "x", "id": 1, "rating": "useful"}),
    ):
        for actor in (None, AGENT):
            found = await post_json(
                datasette, f"{base(demo_db)}/{path}", body, status=403, actor=actor
            )
            assert found["error"].startswith("you are not allowed to see this: it needs view-")
    await recorder.drain(datasette)
    assert digest(demo_db) == before


@pytest.mark.skipif(not ONE_POINT_ZERO, reason="0.65 knows no permission that needs another")
@pytest.mark.parametrize("visible", [True, False])
async def test_to_record_needs_the_database_to_be_visible(
    visible: bool, demo_db: Path, make_datasette: Any
) -> None:
    """Also for whoever asks for the permission alone, as other plugins and the API may."""
    more = {} if visible else {"databases": {demo_db.stem: DENIED["the database"]}}
    datasette = recording_datasette(make_datasette, demo_db, allow=True, more=more)
    datasette.root_enabled = True
    await datasette.invoke_startup()
    for actor, may in ((AGENT, visible), (ROOT, True)):
        found = await compat.may(datasette, actor, permissions.RECORD, demo_db.stem)
        assert found is may, actor


async def test_ratings_need_the_tables_of_the_log(demo_db: Path, make_datasette: Any) -> None:
    more = {"databases": {demo_db.stem: {"tables": {"limbic_searches": {"allow": False}}}}}
    datasette = recording_datasette(make_datasette, demo_db, more=more)
    found = await post_json(datasette, f"{base(demo_db)}/search", SEARCH)
    rating = {"search_id": found["search_id"], "id": found["results"][0]["id"], "rating": "useful"}
    refused = await post_json(datasette, f"{base(demo_db)}/feedback", rating, status=403)
    assert "view-table on demo/limbic_searches" in refused["error"]


async def test_nothing_needs_the_right_to_see_the_access_log(
    demo_db: Path, make_datasette: Any
) -> None:
    hidden = {"entity_access_log": {"allow": {"id": "root"}}}
    more = {"databases": {demo_db.stem: {"tables": hidden}}}
    datasette = recording_datasette(make_datasette, demo_db, more=more)
    assert await answers(datasette, AGENT) == [True] * 3


# -- tokens -------------------------------------------------------------------------------------


async def with_token(datasette: Any, token: str, status: int = 200) -> dict[str, Any]:
    found: dict[str, Any] = await post_json(
        datasette,
        "/demo/-/limbic/search",
        SEARCH,
        status,
        actor=None,
        headers={"authorization": f"Bearer {token}", "sec-fetch-site": "cross-site"},
    )
    recorded: dict[str, Any] = found["recorded"] if status == 200 else found
    return recorded


if ONE_POINT_ZERO:
    from datasette.tokens import TokenRestrictions

    VIEW = ("view-instance", "view-database", "view-table")

    def restricted(*names: str) -> TokenRestrictions:
        made = TokenRestrictions()
        for name in (*VIEW, *names):
            made = made.allow_all(name)
        return made

    RESTRICTIONS: dict[str, tuple[Any, bool]] = {
        "none": (None, True),
        "to views": (restricted(), False),
        "to recording": (restricted("limbic-record"), True),
        "to recording, abbreviated": (restricted("lr"), True),
        "to recording here": (restricted().allow_database("demo", "limbic-record"), True),
        "as the page on signals has it": (
            TokenRestrictions()
            .allow_database("demo", "view-database")
            .allow_database("demo", "view-table")
            .allow_database("demo", "limbic-record"),
            True,
        ),
        "to recording elsewhere": (restricted().allow_database("other", "limbic-record"), False),
    }

    @pytest.mark.parametrize(
        ("restrictions", "allowed"), RESTRICTIONS.values(), ids=RESTRICTIONS.keys()
    )
    async def test_tokens_of_datasette(
        restrictions: Any, allowed: bool, demo_db: Path, make_datasette: Any
    ) -> None:
        datasette = recording_datasette(make_datasette, demo_db)
        await datasette.invoke_startup()
        token = await datasette.create_token("agent", restrictions=restrictions)
        before = signals(demo_db)
        recorded = await with_token(datasette, token)
        assert recorded["status"] == ("done" if allowed else "nothing")
        assert (signals(demo_db) == before) is not allowed

    @pytest.mark.parametrize(
        ("name", "allowed"),
        [("limbic-edit", True), ("le", True), ("limbic-record", False), ("lr", False)],
    )
    async def test_tokens_for_editing(
        name: str, allowed: bool, demo_db: Path, make_datasette: Any
    ) -> None:
        granted = {"limbic-edit": AGENT, "limbic-record": AGENT}
        datasette = recording_datasette(make_datasette, demo_db, more={"permissions": granted})
        await datasette.invoke_startup()
        token = await datasette.create_token("agent", restrictions=restricted(name))
        await post_json(
            datasette,
            "/demo/-/limbic/observations",
            {"observations": [{"entityName": "Atlas", "contents": ["A fact by token"]}]},
            200 if allowed else 403,
            actor=None,
            headers={"authorization": f"Bearer {token}"},
        )

    async def test_a_token_gives_no_more_than_its_actor_has(
        demo_db: Path, make_datasette: Any
    ) -> None:
        datasette = recording_datasette(make_datasette, demo_db, allow={"id": "other"})
        await datasette.invoke_startup()
        token = await datasette.create_token("agent", restrictions=restricted("limbic-record"))
        assert (await with_token(datasette, token))["status"] == "nothing"

    async def test_the_permissions_are_listed(demo_db: Path, make_datasette: Any) -> None:
        datasette = plain_datasette(make_datasette, demo_db)
        await datasette.invoke_startup()
        cookies = as_actor(datasette, ROOT)
        body = (await datasette.client.get("/-/actions.json", cookies=cookies)).json()
        listed = body if isinstance(body, list) else body["actions"]
        [found] = [each for each in listed if each["name"] == permissions.RECORD]
        assert found["abbr"] == "lr"
        assert "Record how a memory is used" in found["description"]
        [found] = [each for each in listed if each["name"] == permissions.EDIT]
        assert found["abbr"] == "le"
        assert "Change what a memory says" in found["description"]
        page = await datasette.client.get("/-/permissions", cookies=cookies)
        assert page.status_code == 200
        assert permissions.RECORD in page.text


@pytest.fixture
def tokens_by_plugin() -> Iterator[None]:
    """A plugin that signs requests in by a token; one token may only look."""
    from datasette import hookimpl
    from datasette.plugins import pm

    class Tokens:
        __name__ = "Tokens"

        @hookimpl
        def actor_from_request(self, request: Any) -> Any:
            token = request.headers.get("authorization", "").removeprefix("Bearer ")
            return {"all": AGENT, "look": {**AGENT, "only": "view"}}.get(token)

        @hookimpl
        def permission_allowed(self, actor: Any, action: str) -> Any:
            looks = actor and actor.get("only") == "view"
            return False if looks and not action.startswith("view-") else None

    plugin = Tokens()
    pm.register(plugin, name="tokens")
    yield
    pm.unregister(plugin)


@pytest.mark.skipif(ONE_POINT_ZERO, reason="1.0 has tokens of its own")
@pytest.mark.usefixtures("tokens_by_plugin")
async def test_tokens_of_a_plugin(demo_db: Path, make_datasette: Any) -> None:
    datasette = recording_datasette(make_datasette, demo_db)
    assert (await with_token(datasette, "all"))["status"] == "done"
    # the plugin that restricts has the last word, also over what the configuration grants
    assert (await with_token(datasette, "look"))["status"] == "nothing"
    # one that signs nobody in protects nothing: any page can make it up
    assert "another site" in (await with_token(datasette, "wrong", 403))["error"]


@pytest.mark.skipif(ONE_POINT_ZERO, reason="1.0 has another page, tested above")
async def test_the_page_of_permission_checks(demo_db: Path, make_datasette: Any) -> None:
    datasette = plain_datasette(make_datasette, demo_db)
    await answers(datasette, AGENT)
    page = await datasette.client.get("/-/permissions", cookies=as_actor(datasette, ROOT))
    assert page.status_code == 200
    assert permissions.RECORD in page.text


async def test_other_permissions_are_left_alone(demo_db: Path, make_datasette: Any) -> None:
    # recording is no right to write SQL or rows
    datasette = recording_datasette(make_datasette, demo_db, allow=True)
    await get_json(datasette, f"{base(demo_db)}/search.json?q=x")
    for action in ("permissions-debug", "view-nothing"):
        if not ONE_POINT_ZERO:
            assert await datasette.permission_allowed(AGENT, action, default=False) is False
    if ONE_POINT_ZERO:
        from datasette.resources import DatabaseResource, TableResource

        for action in ("insert-row", "delete-row"):
            resource = TableResource("demo", "entities")
            assert not await datasette.allowed(action=action, resource=resource, actor=AGENT)
        assert not await datasette.allowed(
            action="create-table", resource=DatabaseResource("demo"), actor=AGENT
        )
