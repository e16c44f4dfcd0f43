"""The scripts on the page for agents, run as they stand there against a real server."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from server_helpers import Server

from datasette_limbic import connection

PAGE = Path(__file__).resolve().parents[1] / "docs" / "agents.md"
MISSING = [name for name in ("sh", "curl", "jq") if shutil.which(name) is None]

pytestmark = [
    pytest.mark.slow,  # no other on another Python
    pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}"),
]


@pytest.fixture(scope="module")
def server(demo_master: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("served")
    with Server(shutil.copy(demo_master, folder / "memory.db"), folder) as found:
        # the first search loads the model, which may take longer than a hook waits
        found.search("warm", mode="hybrid")
        yield found


def script(name: str, folder: Path) -> Path:
    text = PAGE.read_text("utf-8")
    match = re.search(rf"^<!-- script: {re.escape(name)} -->\n```sh\n(.*?)^```$", text, re.M | re.S)
    assert match, f"docs/agents.md has no script {name}"
    path = folder / name
    path.write_text(match[1], "utf-8")
    path.chmod(0o755)
    return path


def run(
    path: Path, *args: str, url: str, given: str = "", **more: str
) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("LIMBIC_")}
    return subprocess.run(
        ["sh", str(path), *args],
        input=given,
        env={**environment, "LIMBIC_URL": url, **more},
        capture_output=True,
        text=True,
        timeout=60,
    )


def url_of(server: Server) -> str:
    return f"http://127.0.0.1:{server.port}/memory/-/limbic"


def rows(server: Server, sql: str, *values: Any) -> list[tuple[Any, ...]]:
    with closing(connection.connect(server.path, readonly=True)) as conn:
        return [tuple(row) for row in conn.execute(sql, values)]


def test_recall_and_use(server, tmp_path):
    url = url_of(server)
    recall, use = script("memory-recall.sh", tmp_path), script("memory-use.sh", tmp_path)
    prompt = 'Why did "INC-19" double invoices happen? It\'s $(touch oops) `x` \\ 🤖'
    given = json.dumps({"hook_event_name": "UserPromptSubmit", "prompt": prompt})
    result = run(recall, url=url, given=given)
    assert (result.returncode, result.stderr) == (0, "")
    first, *lines = result.stdout.splitlines()
    uid = re.fullmatch(r"From the memory \(search_id: (\w{16})\):", first)[1]
    assert len(lines) == 5
    assert any(line.startswith("- INC-19 double invoices (Incident): Eleven") for line in lines)

    name = "INC-19 double invoices"
    opened = json.loads(run(use, "open", uid, name, url=url).stdout)
    assert opened["entities"][0]["name"] == name
    assert opened["recorded"]["opened"] == 1
    rated = json.loads(run(use, "useful", uid, name, url=url).stdout)
    assert (rated["ok"], rated["rating"]) == (True, "useful")
    # a rating is answered after all that waited was written
    found = rows(server, "select query, client from limbic_searches where uid = ?", uid)
    assert found == [(prompt, "coding-agent")]
    events = "select event, f.client from limbic_feedback f join limbic_searches s"
    assert rows(server, f"{events} on s.id = f.search_id where uid = ? order by f.id", uid) == [
        ("opened", "coding-agent"),
        ("useful", "coding-agent"),
    ]


def test_a_prompt_that_the_memory_knows_nothing_about_is_not_recorded(server, tmp_path):
    recall = script("memory-recall.sh", tmp_path)
    junk = "quantum chromodynamics lattice"
    run(recall, url=url_of(server), given=json.dumps({"prompt": junk}))
    known = json.dumps({"prompt": "double invoices INC-19"})
    first = run(recall, url=url_of(server), given=known).stdout.splitlines()[0]
    uid = re.search(r"search_id: (\w{16})", first)[1]
    # a rating is answered after all that waited was written
    run(script("memory-use.sh", tmp_path), "useful", uid, "billing-api", url=url_of(server))
    asked = "select query from limbic_searches where query = ? or uid = ?"
    assert rows(server, asked, junk, uid) == [("double invoices INC-19",)]
    assert rows(server, "select * from entity_access_log where query = ?", junk) == []


def test_the_first_examples_answer_what_they_promise(server, tmp_path):
    """The three calls with curl, one after the other, as they stand on the page."""
    [block] = re.findall(r"^```\n(url=http.*?)^```$", PAGE.read_text("utf-8"), re.M | re.S)
    given = block.replace("http://127.0.0.1:8001/memory/-/limbic", url_of(server))
    lines = [line.partition("  #")[0] for line in given.splitlines()]
    [place] = [number for number, line in enumerate(lines) if line.strip() == "id=…"]
    lines[place] = "id=$(jq -r .search_id first)"
    assert lines[place - 1].startswith("curl")
    lines[place - 1] += " > first"
    lines[place + 1] += " > second"
    lines[place + 2] += " > third"
    subprocess.run(
        ["sh", "-ec", "\n".join(lines)],
        cwd=tmp_path,
        env={**os.environ, "LIMBIC_TOKEN": "none"},
        check=True,
        timeout=60,
    )
    first, second, third = (
        json.loads((tmp_path / name).read_text("utf-8")) for name in ("first", "second", "third")
    )
    assert first["confident"] is True
    assert "billing-api" in [row["name"] for row in first["results"]]
    assert second["recorded"]["opened"] == 1
    assert (third["ok"], third["rating"]) == (True, "useful")


@pytest.mark.parametrize(
    "given",
    [
        "",
        "no JSON",
        "[1]",
        '{"prompt": ""}',
        '{"prompt": " \\n "}',
        '{"prompt": 5}',
        '{"other": "x"}',
        '{"prompt": "quantum chromodynamics lattice"}',
    ],
)
def test_recall_says_nothing_where_there_is_nothing_to_say(given, server, tmp_path):
    result = run(script("memory-recall.sh", tmp_path), url=url_of(server), given=given)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


def test_recall_takes_a_long_prompt(server, tmp_path):
    given = json.dumps({"prompt": "double invoices INC-19 🤖 " * 1000})
    result = run(script("memory-recall.sh", tmp_path), url=url_of(server), given=given)
    assert result.returncode == 0
    assert "INC-19" in result.stdout


@pytest.mark.parametrize("url", ["http://127.0.0.1:9/memory/-/limbic", "{base}/nothing/-/limbic"])
def test_recall_never_blocks_where_the_server_is_away(url, server, tmp_path):
    url = url.replace("{base}", f"http://127.0.0.1:{server.port}")
    given = json.dumps({"prompt": "double invoices"})
    result = run(script("memory-recall.sh", tmp_path), url=url, given=given)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


def test_a_token_is_sent(server, tmp_path):
    """Whatever stands in it, it stays one header."""
    (tmp_path / "bin").mkdir()
    fake = tmp_path / "bin" / "curl"
    fake.write_text('#!/bin/sh\nprintf "%s\\n" "$@" > "$ARGUMENTS"\n')
    fake.chmod(0o755)
    seen = tmp_path / "arguments"
    run(
        script("memory-recall.sh", tmp_path),
        url=url_of(server),
        given='{"prompt": "x"}',
        LIMBIC_TOKEN="a b*c",
        ARGUMENTS=str(seen),
        PATH=f"{fake.parent}{os.pathsep}{os.environ['PATH']}",
    )
    assert "authorization: Bearer a b*c" in seen.read_text().splitlines()
