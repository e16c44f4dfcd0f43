"""Random edits in two sources and in the memory, with imports between, against a plain model."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from again_helpers import FULL, JSONL, MCP, Fact, Thing, World, do, fresh_memory, run, unchanged
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from mcp_v2_helpers import T1, T2, T3

# minutes in all: CI runs these on both lines, and leaves them out on further Pythons
pytestmark = pytest.mark.slow

NAMES = st.sampled_from("ABC")
TEXTS = st.sampled_from(["one", "two", "three"])
KINDS = st.sampled_from(["T", "U", "Generic"])
ENDS = st.sampled_from([None, T1, T2])
SIDE = st.sampled_from([0, 1])

Link = tuple[int, int, str]


@dataclass
class Known:
    """An entity of the memory, as it has to be."""

    name: str
    kind: str
    archived: str | None = None
    texts: dict[str, str | None] = field(default_factory=dict)
    count: int | None = None


@dataclass
class Told:
    """What one source has said so far."""

    ids: dict[str, int] = field(default_factory=dict)
    kinds: dict[str, str | None] = field(default_factory=dict)
    archived: dict[str, str | None] = field(default_factory=dict)
    texts: dict[str, dict[str, str | None]] = field(default_factory=dict)
    gone: dict[str, set[str]] = field(default_factory=dict)
    links: dict[Link, bool] = field(default_factory=dict)
    counts: dict[int, int] = field(default_factory=dict)


class Model:
    """The rules of importing again, as the documentation says them."""

    def __init__(self) -> None:
        self.things: dict[int, Known] = {}
        self.links: dict[Link, str | None] = {}
        self.told = (Told(), Told())
        self.last_id = 0

    def named(self, name: str) -> int | None:
        return next((n for n, thing in self.things.items() if thing.name == name), None)

    def delete(self, number: int) -> None:
        del self.things[number]
        self.links = {link: end for link, end in self.links.items() if number not in link}

    def take(self, side: int, world: World, restore: bool) -> None:
        told, says_all = self.told[side], world.format != JSONL
        for name, thing in world.things.items():
            self._entity(told, name, thing, says_all, restore)
        for (source, target, kind), end in world.links.items():
            ends = (told.ids[source], told.ids[target])
            if all(number in self.things for number in ends):
                self._link(told, (*ends, kind), end, restore)
        for name, count in world.counts.items():
            if told.ids[name] in self.things:
                self._count(told, told.ids[name], count, restore)

    def _entity(self, told: Told, name: str, thing: Thing, says_all: bool, restore: bool) -> None:
        is_known = name in told.ids
        number = told.ids.get(name)
        if number not in self.things:
            number = self.named(name)
        if number is None and is_known and not restore:
            told.texts[name] |= {text: fact.ended for text, fact in thing.texts.items()}
            self._note(told, name, thing, says_all)
            return
        if number is None:
            self.last_id += 1
            number = self.last_id
            self.things[number] = Known(name, thing.kind, thing.archived)
            self.things[number].texts = {text: fact.ended for text, fact in thing.texts.items()}
        else:
            known, was = self.things[number], told.kinds.get(name)
            if thing.kind not in (known.kind, "Generic") and (
                was == known.kind or (known.kind == "Generic" and was in (None, "Generic"))
            ):
                known.kind = thing.kind
            then = told.archived.get(name)
            if thing.archived and not then:
                known.archived = known.archived or thing.archived
            elif then and not thing.archived and says_all and known.archived == then:
                known.archived = None
            self._texts(known, told, name, thing, says_all, restore)
        told.ids[name] = number
        told.texts.setdefault(name, {})
        told.texts[name] |= {text: fact.ended for text, fact in thing.texts.items()}
        self._note(told, name, thing, says_all)

    def _note(self, told: Told, name: str, thing: Thing, says_all: bool) -> None:
        told.kinds[name] = thing.kind
        then = told.archived.get(name)
        told.archived[name] = (then or thing.archived) if thing.archived else None
        told.gone[name] = told.texts[name].keys() - thing.texts.keys()

    def _texts(
        self, known: Known, told: Told, name: str, thing: Thing, says_all: bool, restore: bool
    ) -> None:
        before, gone = told.texts.get(name, {}), told.gone.get(name, set())
        for text, fact in thing.texts.items():
            if text not in known.texts:
                if text not in before or restore:
                    known.texts[text] = fact.ended
            elif fact.ended and not before.get(text):
                known.texts[text] = known.texts[text] or fact.ended
            elif not fact.ended and says_all and (before.get(text) or text in gone):
                known.texts[text] = None

    def _link(self, told: Told, link: Link, end: str | None, restore: bool) -> None:
        was = told.links.get(link)
        told.links[link] = end is not None
        if link not in self.links:
            if was is None or restore:
                self.links[link] = end
        elif was != (end is not None):
            self.links[link] = (self.links[link] or end) if end else None

    def _count(self, told: Told, number: int, count: int, restore: bool) -> None:
        was, thing = told.counts.get(number), self.things[number]
        told.counts[number] = max(count, was or 0)
        if thing.count is None:
            if was is None or restore:
                thing.count = count
        elif was is None:
            thing.count = max(thing.count, count)
        else:
            thing.count += max(0, count - was)


class Again(RuleBasedStateMachine):
    """Two sources about the same three entities, and a person who edits the memory."""

    formats = (JSONL, MCP)

    @initialize()
    def begin(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        folder = Path(self.folder.name)
        self.conn = fresh_memory(folder / "memory.db")
        # so that a full export is merged
        do(self.conn, "insert into entities(id, name, entity_type) values (1, 'Here', 'T')")
        self.worlds = [World(kind, folder / f"source {n}") for n, kind in enumerate(self.formats)]
        self.model = Model()
        self.model.last_id = 1
        self.model.things[1] = Known("Here", "T")
        self.made = 0

    def teardown(self) -> None:
        if hasattr(self, "conn"):
            self.conn.close()
            self.folder.cleanup()

    # in a source

    @rule(side=SIDE, name=NAMES, texts=st.lists(TEXTS, unique=True), kind=KINDS)
    def grow(self, side: int, name: str, texts: list[str], kind: str) -> None:
        self.worlds[side].add(name, *texts).kind = kind

    @rule(side=SIDE, name=NAMES, text=TEXTS, ended=ENDS)
    def end_there(self, side: int, name: str, text: str, ended: str | None) -> None:
        thing = self.worlds[side].things.get(name)
        if thing and text in thing.texts:
            thing.texts[text] = Fact(ended)

    @rule(side=SIDE, name=NAMES, text=TEXTS)
    def forget_there(self, side: int, name: str, text: str) -> None:
        thing = self.worlds[side].things.get(name)
        if thing:
            thing.texts.pop(text, None)

    @rule(side=SIDE, name=NAMES, archived=ENDS)
    def archive_there(self, side: int, name: str, archived: str | None) -> None:
        # a line that leaves it out says nothing, and nobody takes it back
        world = self.worlds[side]
        if name in world.things and (archived or world.format != JSONL):
            world.things[name].archived = archived

    @rule(side=SIDE, ends=st.tuples(NAMES, NAMES), end=ENDS)
    def relate(self, side: int, ends: tuple[str, str], end: str | None) -> None:
        world = self.worlds[side]
        if set(ends) <= world.things.keys():
            world.links[(*ends, "uses")] = end

    @rule(side=SIDE, name=NAMES, count=st.integers(0, 9))
    def use_there(self, side: int, name: str, count: int) -> None:
        world = self.worlds[side]
        if name in world.things and world.format != JSONL:
            world.counts[name] = world.counts.get(name, 0) + count - 2 * (count > 7)
            world.counts[name] = max(0, world.counts[name])

    # here

    def _some(self, pick: int) -> int | None:
        """Any entity but the one that was here first."""
        numbers = [number for number in self.model.things if number != 1]
        return numbers[pick % len(numbers)] if numbers else None

    @rule(pick=st.integers(0, 9))
    def delete_entity(self, pick: int) -> None:
        number = self._some(pick)
        if number is not None:
            do(self.conn, "delete from entities where id = ?", number)
            self.model.delete(number)

    @rule(pick=st.integers(0, 9))
    def rename(self, pick: int) -> None:
        number = self._some(pick)
        if number is not None:
            self.made += 1
            name = f"renamed {self.made}"
            do(self.conn, "update entities set name = ? where id = ?", name, number)
            self.model.things[number].name = name

    @rule(pick=st.integers(0, 9), kind=KINDS)
    def set_type(self, pick: int, kind: str) -> None:
        number = self._some(pick)
        if number is not None:
            do(self.conn, "update entities set entity_type = ? where id = ?", kind, number)
            self.model.things[number].kind = kind

    @rule(pick=st.integers(0, 9), at=st.sampled_from([None, T3]))
    def archive(self, pick: int, at: str | None) -> None:
        number = self._some(pick)
        if number is not None:
            do(self.conn, "update entities set archived_at = ? where id = ?", at, number)
            self.model.things[number].archived = at

    @rule(pick=st.integers(0, 9), text=TEXTS, what=st.sampled_from(["delete", "edit", "move"]))
    def change_text(self, pick: int, text: str, what: str) -> None:
        number = self._some(pick)
        if number is None or text not in self.model.things[number].texts:
            return
        where = "where entity_id = ? and content = ?"
        end = self.model.things[number].texts.pop(text)
        self.made += 1
        if what == "delete":
            do(self.conn, f"delete from observations {where}", number, text)
        elif what == "edit":
            mine = f"mine {self.made}"
            do(self.conn, f"update observations set content = ? {where}", mine, number, text)
            self.model.things[number].texts[mine] = end
        else:
            mine = f"moved {self.made}: {text}"
            do(
                self.conn,
                f"update observations set entity_id = 1, content = ? {where}",
                *(mine, number, text),
            )
            self.model.things[1].texts[mine] = end

    @rule(pick=st.integers(0, 9), text=TEXTS, end=st.sampled_from([None, T3]))
    def end_text(self, pick: int, text: str, end: str | None) -> None:
        number = self._some(pick)
        if number is not None and text in self.model.things[number].texts:
            sql = "update observations set valid_to = ? where entity_id = ? and content = ?"
            do(self.conn, sql, end, number, text)
            self.model.things[number].texts[text] = end

    @rule(pick=st.integers(0, 9), what=st.sampled_from(["delete", None, T3]))
    def change_relation(self, pick: int, what: str | None) -> None:
        links = list(self.model.links)
        if not links:
            return
        link = links[pick % len(links)]
        where = "where from_entity = ? and to_entity = ? and relation_type = ?"
        if what == "delete":
            do(self.conn, f"delete from relations {where}", *link)
            del self.model.links[link]
        else:
            do(self.conn, f"update relations set valid_to = ? {where}", what, *link)
            self.model.links[link] = what

    @rule(pick=st.integers(0, 9), more=st.integers(1, 5), forget=st.booleans())
    def use(self, pick: int, more: int, forget: bool) -> None:
        number = self._some(pick)
        if number is None or self.model.things[number].count is None:
            return
        if forget and more == 1:
            do(self.conn, "delete from entity_access where entity_id = ?", number)
            self.model.things[number].count = None
            return
        sql = "update entity_access set access_count = access_count + ? where entity_id = ?"
        do(self.conn, sql, more, number)
        self.model.things[number].count = (self.model.things[number].count or 0) + more

    # between the two

    @rule(side=SIDE, restore=st.sampled_from([False, False, False, True]))
    def bring(self, side: int, restore: bool) -> None:
        world = self.worlds[side]
        if not world.things:
            return
        counts = {number: thing.count or 0 for number, thing in self.model.things.items()}
        run(self.conn, world, restore_removed=restore)
        self.model.take(side, world, restore)
        for number, count in counts.items():
            assert (self.model.things[number].count or 0) >= count
        self.agree()
        unchanged(self.conn, world.path, restore_removed=restore)
        unchanged(self.conn, world.path)

    @rule(first=SIDE)
    def bring_both(self, first: int) -> None:
        if not all(world.things for world in self.worlds):
            return
        sides = (first, 1 - first)
        # twice: what the second file brings anew, the first one knows something of
        for _ in range(2):
            run(self.conn, *(self.worlds[side] for side in sides))
            for side in sides:
                self.model.take(side, self.worlds[side], restore=False)
            self.agree()
        unchanged(self.conn, *(self.worlds[side].path for side in reversed(sides)))

    @invariant()
    def agree(self) -> None:
        if not hasattr(self, "conn"):
            return
        found: dict[int, Any] = {
            number: Known(name, kind, archived, {}, count)
            for number, name, kind, archived, count in self.conn.execute(
                "select id, name, entity_type, archived_at, access_count from entities"
                " left join entity_access on entity_id = id"
            )
        }
        for number, content, end in self.conn.execute(
            "select entity_id, content, valid_to from observations order by id"
        ):
            assert content not in found[number].texts
            found[number].texts[content] = end
        assert found == self.model.things
        links = {
            (source, target, kind): end
            for source, target, kind, end in self.conn.execute(
                "select from_entity, to_entity, relation_type, valid_to from relations"
            )
        }
        assert links == self.model.links


class AgainWithDatabases(Again):
    formats = (MCP, FULL)


@pytest.mark.parametrize("machine", [Again, AgainWithDatabases])
def test_both_sides_change(machine: Callable[[], Again]) -> None:
    test = machine.TestCase  # type: ignore[attr-defined]
    test.settings = SHORT
    test().runTest()


@pytest.mark.load
@pytest.mark.parametrize("machine", [Again, AgainWithDatabases])
def test_both_sides_change_for_long(machine: Callable[[], Again]) -> None:
    test = machine.TestCase  # type: ignore[attr-defined]
    test.settings = settings(SHORT, max_examples=80, stateful_step_count=50)
    test().runTest()


SHORT = settings(
    max_examples=12,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
