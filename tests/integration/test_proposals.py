"""What agents propose to correct or to forget: nothing changes until the owner accepts, and it goes with its memory."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from mcp import Client
from tests.support.inspector_pages import ParsedPage

from adk_graph_memory import AsOf, GraphMemory, Statement, Turn, errors
from adk_graph_memory.records.history import GuardCandidate, GuardVerdict
from adk_graph_memory.records.scopes import Scope
from adk_graph_memory.servers.inspector.application import inspector
from adk_graph_memory.servers.mcp.tools import make_mcp_server
from adk_graph_memory.testing import HashEmbedder

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
DOG, CAT = "My dog Rex is afraid of thunder.", "My cat is called Tom."
Owner = dict[str, str]


@pytest.fixture
async def memory(neo4j_server: Any, owner: Owner, stranger: Owner) -> AsyncIterator[GraphMemory]:
    """Ada and Bruno said the same, so that their facts have the same ids."""
    settings = neo4j_server.settings(label_prefix="TestHash")
    async with GraphMemory(settings=settings, model="rules", embedder=HashEmbedder()) as memory:
        for whose in (owner, stranger):
            turns = [Turn("t1", "user", DOG, NOON), Turn("t2", "user", CAT, NOON + timedelta(minutes=1))]
            await memory.remember(turns, session_id="s1", **whose)
        yield memory


async def find_id(memory: GraphMemory, owner: Owner, text: str) -> str:
    [fact] = [fact async for fact in memory.facts(**owner) if text in fact.text]
    return fact.id


async def list_texts(memory: GraphMemory, owner: Owner) -> list[str]:
    return sorted([fact.text async for fact in memory.facts(**owner)])


# -- what becomes of a proposal ---------------------------------------------------------------------------------


async def test_a_correction_waits_until_the_owner_accepts_it(
    memory: GraphMemory, owner: Owner, stranger: Owner
) -> None:
    before, id = await list_texts(memory, owner), await find_id(memory, owner, "Rex")
    made = await memory.user(**owner).propose_correction(
        id, text="Rex is afraid of rain.", reason="misheard", by="helper"
    )
    assert await list_texts(memory, owner) == before
    assert await memory.user(**owner).proposals() == [made]
    await memory.user(**owner).pin(id)
    [pinned] = await memory.user(**owner).proposals()
    assert (made.is_pinned, pinned.is_pinned) == (False, True)
    await memory.user(**owner).unpin(id)
    assert (made.memory_text, made.text, made.by) == (DOG, "Rex is afraid of rain.", "helper")
    assert await memory.user(**stranger).proposals() == []
    preview = await memory.user(**owner).accept_proposal(made.id, preview=True)
    assert await list_texts(memory, owner) == before
    change = await memory.user(**owner).accept_proposal(made.id)
    assert {fact.id for fact in change.facts} >= {id} == {fact.id for fact in preview.facts if fact.before}
    assert await list_texts(memory, owner) == [CAT, "Rex is afraid of rain."]
    reasons = [entry.reason for entry in (await memory.user(**owner).history(id)).entries]
    assert "proposed by helper: misheard" in reasons
    assert await memory.user(**owner).proposals() == []
    with pytest.raises(errors.NotFound, match="proposal"):
        await memory.user(**owner).accept_proposal(made.id)
    await memory.user(**owner).undo(change.ingest_id)
    assert await list_texts(memory, owner) == before
    assert await memory.user(**owner).proposals() == []
    assert await list_texts(memory, stranger) == before


async def test_forgetting_waits_until_the_owner_accepts_it(memory: GraphMemory, owner: Owner, stranger: Owner) -> None:
    id = await find_id(memory, owner, "Tom")
    [turn] = [found.id for found in await memory.recall(DOG, **owner) if found.kind == "event" and found.text == DOG]
    proposals = [await memory.user(**owner).propose_forgetting(one) for one in (id, turn)]
    assert [proposal.memory_text for proposal in await memory.user(**owner).proposals()] == [CAT, DOG]
    assert await list_texts(memory, owner) == [CAT, DOG]
    assert (await memory.user(**owner).accept_proposal(proposals[1].id, preview=True)).turns == 1
    for proposal in proposals:
        assert (await memory.user(**owner).accept_proposal(proposal.id)).ingest_id == ""
    assert await list_texts(memory, owner) == await memory.user(**owner).proposals() == []
    assert await list_texts(memory, stranger) == [CAT, DOG]


@pytest.mark.slow
async def test_what_is_declined_leaves_no_trace(memory: GraphMemory, owner: Owner) -> None:
    id = await find_id(memory, owner, "Rex")
    made = await memory.user(**owner).propose_correction(id, text="Rex is afraid of zebras.")
    assert await memory.user(**owner).decline_proposal(made.id) == made
    assert await memory.user(**owner).proposals() == []
    assert await list_texts(memory, owner) == [CAT, DOG]
    await assert_untold(memory, owner, "zebras")


@pytest.mark.slow
async def test_the_latest_proposal_stands_and_no_other_can_be_accepted(memory: GraphMemory, owner: Owner) -> None:
    """What an owner saw is what an owner accepts: an agent cannot change it between two clicks."""
    id = await find_id(memory, owner, "Rex")
    seen = await memory.user(**owner).propose_correction(id, text="Rex is afraid of rain.")
    later = await memory.user(**owner).propose_correction(id, text="Rex belongs to the agent.")
    with pytest.raises(errors.NotFound):
        await memory.user(**owner).accept_proposal(seen.id)
    assert await memory.user(**owner).proposals() == [later]
    await asyncio.gather(*(memory.user(**owner).propose_forgetting(id, by=str(n)) for n in range(20)))
    assert len(await memory.user(**owner).proposals()) == 1


async def test_what_cannot_be_corrected_is_refused_with_what_to_do(memory: GraphMemory, owner: Owner) -> None:
    id = await find_id(memory, owner, "Rex")
    [turn] = [found.id for found in await memory.recall(DOG, **owner) if found.kind == "event" and found.text == DOG]
    await memory.user(**owner).add_statements([Statement("Tea is at five.", NOON, id="tea")])
    [direct] = [found.id for found in await memory.recall("tea", **owner) if "Tea" in found.text]
    for given, text, match in (
        (turn, "x", "propose to forget it"),
        (direct, "x", "propose to forget it"),
        (id, DOG, "says so already"),
        (id, " ", "empty"),
    ):
        with pytest.raises(errors.InvalidArgument, match=match):
            await memory.user(**owner).propose_correction(given, text=text)
    with pytest.raises(errors.NotFound, match="no-such-id"):
        await memory.user(**owner).propose_forgetting("no-such-id")
    made = await memory.user(**owner).propose_correction(id, text="Rex is afraid of rain.")
    await memory.user(**owner).retract(id)
    assert await memory.user(**owner).proposals() == []
    with pytest.raises(errors.NotFound):
        await memory.user(**owner).accept_proposal(made.id)
    with pytest.raises(errors.InvalidArgument, match="retracted"):
        await memory.user(**owner).propose_correction(id, text="Rex is afraid of rain.")
    for wrong in ({"reason": 1}, {"by": 1}, {"text": 1}):
        with pytest.raises(errors.InvalidArgument):
            await memory.user(**owner).propose_correction(id, **{"text": "x", **wrong})  # type: ignore[arg-type]


# -- forgetting, exporting --------------------------------------------------------------------------------------


async def assert_untold(memory: GraphMemory, owner: Owner, word: str) -> None:
    """No node of the user says a word."""
    connection = memory.connection
    await connection.prepare()
    query = "MATCH (n {scope: $scope}) RETURN properties(n) AS node"
    rows = await connection.run_cypher(query, {"scope": Scope(**owner).key})
    assert rows and not [row["node"] for row in rows if word in repr(row["node"])]


@pytest.mark.slow
async def test_a_proposal_goes_with_its_memory(memory: GraphMemory, owner: Owner) -> None:
    await memory.user(**owner).propose_correction(await find_id(memory, owner, "Rex"), text="Rex is afraid of zebras.")
    [turn] = [found.id for found in await memory.recall(CAT, **owner) if found.kind == "event" and found.text == CAT]
    await memory.user(**owner).propose_forgetting(turn, reason="zebras")
    await memory.user(**owner).forget_event("t1", session_id="s1")
    assert [proposal.reason for proposal in await memory.user(**owner).proposals()] == ["zebras"]
    await memory.user(**owner).forget_event("t2", session_id="s1")
    await assert_untold(memory, owner, "zebras")


@pytest.mark.slow
async def test_a_proposal_goes_with_the_words_that_it_repeats(memory: GraphMemory, owner: Owner) -> None:
    """It is about the cat, but it tells what was said of the dog."""
    id = await find_id(memory, owner, "Tom")
    await memory.user(**owner).propose_correction(id, text="Tom is afraid of thunder.")
    await memory.user(**owner).forget_event("t1", session_id="s1")
    assert await memory.user(**owner).proposals() == []
    await assert_untold(memory, owner, "thunder")


@pytest.mark.slow
async def test_an_export_holds_what_is_proposed(memory: GraphMemory, owner: Owner, tmp_path: Path) -> None:
    """One as of a time does not: a proposal is made to the owner of today."""
    await memory.user(**owner).propose_forgetting(await find_id(memory, owner, "Tom"), reason="a zebra")
    [turn] = [found.id for found in await memory.recall(DOG, **owner) if found.kind == "event" and found.text == DOG]
    await memory.user(**owner).propose_forgetting(turn, reason="a zebra")
    await memory.export(tmp_path / "now", **owner)
    await memory.export(tmp_path / "then", as_of=AsOf(recorded=datetime.now(UTC)), **owner)
    assert [(tmp_path / name).read_text("utf-8").count("a zebra") for name in ("now", "then")] == [2, 0]


# -- the doors --------------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_a_model_proposes_by_mcp_and_changes_nothing(memory: GraphMemory, owner: Owner) -> None:
    id, before = await find_id(memory, owner, "Rex"), await list_texts(memory, owner)
    server = make_mcp_server(
        memory, lambda request: (owner["app_name"], owner["user_id"]), allow_write=True, speaks_for_user=True
    )
    async with Client(server) as client:
        tools = (await client.list_tools()).tools
        assert [tool.name for tool in tools] == ["recall", "explain", "profile", "remember", "correct", "forget"]
        arguments = {"fact_id": id, "text": "Rex is afraid of rain.", "reason": "Ada said so"}
        answer = await client.call_tool("correct", arguments)
        assert "Nothing has changed; the owner decides." in answer.content[0].text  # type: ignore[union-attr]
        answer = await client.call_tool("forget", {"memory_id": id, "reason": "asked to"})
        assert "Nothing has changed; the owner decides." in answer.content[0].text  # type: ignore[union-attr]
        wrong = await client.call_tool("forget", {"memory_id": "fact:none", "reason": ""})
        assert wrong.is_error and "'fact:none'" in wrong.content[0].text  # type: ignore[union-attr]
    assert await list_texts(memory, owner) == before
    [proposal] = await memory.user(**owner).proposals()
    assert (proposal.action, proposal.reason) == ("forget", "asked to")
    assert proposal.by


async def test_the_page_lists_what_is_to_be_decided(
    neo4j_server: Any, memory: GraphMemory, owner: Owner, stranger: Owner
) -> None:
    def hold(candidate: GuardCandidate) -> GuardVerdict | None:
        return GuardVerdict("hold", "all", "nothing is trusted")

    settings = neo4j_server.settings(label_prefix="TestHash")
    async with GraphMemory(settings=settings, model="rules", embedder=HashEmbedder(), guard=hold) as guarded:
        turns = [Turn("t3", "user", "My owl is called Eve.", NOON), Turn("t4", "user", "My hen is called Pip.", NOON)]
        await guarded.remember(turns, session_id="s2", **owner)
    rex, tom = await find_id(memory, owner, "Rex"), await find_id(memory, owner, "Tom")
    correction = await memory.user(**owner).propose_correction(rex, text="Rex is afraid of rain.", by="helper")
    forgetting = await memory.user(**owner).propose_forgetting(tom, reason="it is another's")
    foreign = await memory.user(**stranger).propose_forgetting(tom, reason="Bruno's own")
    app = inspector(memory, lambda request: (owner["app_name"], owner["user_id"]), write=True)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1:7") as client:
        token = (await client.get("/api/token")).json()
        client.headers[token["header"]] = token["token"]
        page = ParsedPage((await client.get("/review")).text)
        page.check_inert()
        for text in ("Rex is afraid of rain.", "helper", "it is another's", "My owl is called Eve.", "all"):
            assert text in page.text
        assert "Bruno" not in page.text

        async def decide(name: str, id: str) -> str:
            preview = ParsedPage((await client.post(f"/changes/{name}", data={"id": id})).text)
            [confirm] = [json.loads(values["hx-vals"]) for _, values in preview.tags if "hx-vals" in values]
            receipt = await client.post(f"/changes/{name}", data=confirm)
            assert receipt.status_code == 200, receipt.text
            return preview.text + ParsedPage(receipt.text).text

        assert (await client.post("/changes/accept", data={"id": foreign.id, "confirmed": "yes"})).status_code == 404
        assert "Rex is afraid of rain." in await decide("accept", correction.id)
        assert "cannot be undone" in await decide("accept", forgetting.id)
        owl, hen = (fact.id for fact in await memory.user(**owner).held_facts())
        assert "It is remembered." in await decide("release", owl)
        assert "It is deleted." in await decide("reject", hen)
        assert "Nothing waits for you." in ParsedPage((await client.get("/review")).text).text
        assert await list_texts(memory, owner) == ["My owl is called Eve.", "Rex is afraid of rain."]
        again = await memory.user(**owner).propose_forgetting(await find_id(memory, owner, "owl"))
        assert "Memory is as it was." in await decide("decline", again.id)
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(inspector(memory, lambda request: (owner["app_name"], owner["user_id"]))),
        base_url="http://127.0.0.1:7",
    ) as reader:
        await memory.user(**owner).propose_forgetting(await find_id(memory, owner, "owl"))
        page = ParsedPage((await reader.get("/review")).text)
        assert "My owl is called Eve." in page.text
        assert not [values for _, values in page.tags if "hx-post" in values]
    assert await memory.user(**stranger).proposals() == [foreign]


@pytest.mark.slow
async def test_the_owner_decides_on_the_command_line(neo4j_server: Any, command: Any, owner: Owner) -> None:
    whose = ("--app", owner["app_name"], "--user", owner["user_id"])
    async with GraphMemory(settings=neo4j_server.settings(), embedder=False, model="rules") as memory:
        await memory.remember([Turn("t1", "user", DOG, NOON), Turn("t2", "user", CAT, NOON)], session_id="s1", **owner)
        assert "Nothing is proposed." in (await command("proposals", *whose)).output
        rex, tom = await find_id(memory, owner, "Rex"), await find_id(memory, owner, "Tom")
        await memory.user(**owner).propose_correction(
            rex, text="Rex is afraid of rain.", reason="misheard", by="helper"
        )
        await memory.user(**owner).propose_forgetting(tom)
        shown = " ".join((await command("proposals", *whose)).output.split())
        for text in ("correct", "→ Rex is afraid of rain.", "helper: misheard", "forget", CAT):
            assert text in shown
        correction, forgetting = json.loads((await command("proposals", *whose, "--json")).stdout)
        refused = await command("accept", correction["id"], *whose, stdin="n\n")
        assert "Rex is afraid of rain." in refused.output and "Change this?" in refused.output
        assert await list_texts(memory, owner) == [CAT, DOG]
        assert "undo" in (await command("accept", correction["id"], *whose, "--yes")).output
        asked = await command("accept", forgetting["id"], *whose, stdin="n\n")
        assert "Forget this for good?" in asked.output
        assert "memory still says: My cat" in (await command("decline", forgetting["id"], *whose)).output
        await memory.user(**owner).propose_forgetting(tom)
        [forgetting] = json.loads((await command("proposals", *whose, "--json")).stdout)
        done = await command("accept", forgetting["id"], *whose, "--yes")
        assert (done.exit_code, "undo" in done.output) == (0, False)
        assert await list_texts(memory, owner) == ["Rex is afraid of rain."]
        missing = await command("decline", forgetting["id"], *whose)
        assert (missing.exit_code, "NotFound" in missing.output) == (1, True)
