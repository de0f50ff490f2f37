"""Of chats in which every message is odd, each is stored or named, once, also after a kill."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from tests.support.odd_chats import ODD_CHATS, OddChat

from adk_graph_memory.adk.importing.chats import source
from adk_graph_memory.adk.importing.chats.messages import ChatOptions
from adk_graph_memory.adk.importing.chats.source import ChatSource
from adk_graph_memory.adk.importing.importer import ImportOptions, import_source
from adk_graph_memory.memory.graph_memory import GraphMemory
from adk_graph_memory.records.scopes import Scope
from adk_graph_memory.testing import HashEmbedder


@pytest.fixture
async def memory(neo4j_server: Any) -> AsyncIterator[GraphMemory]:
    async with GraphMemory(settings=neo4j_server.settings(label_prefix="TestHash"), embedder=HashEmbedder()) as memory:
        yield memory


def make_options(chat: OddChat, app_name: str) -> ImportOptions:
    at = datetime.fromisoformat(chat.at) if chat.at else None
    return ImportOptions(chat.form, app_name, "u1", chat=ChatOptions(ZoneInfo("Europe/Berlin"), at=at, me=chat.me))


async def read_graph(memory: GraphMemory, app_name: str) -> list[tuple[Any, ...]]:
    """All nodes of the user, without what differs from import to import, and how many relationships each begins."""
    rows = await memory.connection.run_cypher(
        "MATCH (n) WHERE n.scope = $scope OPTIONAL MATCH (n)-[r]->() "
        "RETURN labels(n) AS labels, properties(n) AS properties, count(r) AS relationships",
        {"scope": Scope(app_name, "u1").key},
    )
    random = {"uid", "session_uid", "scope", "app_name", "lock"}

    def list_properties(node: dict[str, Any]) -> list[tuple[str, str]]:
        return sorted((name, str(value)) for name, value in node.items() if name not in random)

    return sorted((row["labels"], list_properties(row["properties"]), row["relationships"]) for row in rows)


@pytest.mark.parametrize("name", ODD_CHATS)
async def test_every_message_is_stored_or_named_once(
    memory: GraphMemory, app_name: str, tmp_path: Path, name: str
) -> None:
    chat = ODD_CHATS[name]
    assert len({oddity.what for oddity in chat.oddities}) >= 10
    texts = [text for oddity in chat.oddities for text in oddity.texts]
    kinds = Counter(kind for oddity in chat.oddities for kind in oddity.kinds)
    path, options = str(chat.write_file(tmp_path)), make_options(chat, app_name)
    dry = await import_source(None, path, options)
    assert (dry.events, dry.skipped) == ({"read": len(texts)}, kinds)
    real = await import_source(memory, path, options)
    assert (real.events, real.skipped) == ({"new": len(texts), "read": len(texts)}, kinds)
    assert [(one.sessions["read"], one.speakers, one.period, one.problems) for one in (dry, real)] == [
        (real.sessions["new"], real.speakers, real.period, real.problems)
    ] * 2
    before = await read_graph(memory, app_name)
    stored = [dict(properties).get("text") for labels, properties, _ in before if "TestHashEvent" in labels]
    assert Counter(stored) == Counter(texts)
    again = await import_source(memory, path, options)
    assert (again.events, again.skipped) == ({"known": len(texts), "read": len(texts)}, kinds)
    assert await read_graph(memory, app_name) == before


class Killed(Exception):
    pass


@pytest.mark.parametrize("name", ODD_CHATS)
async def test_a_killed_import_comes_to_the_same_graph(
    memory: GraphMemory, app_name: str, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    chat = ODD_CHATS[name]
    path = str(chat.write_file(tmp_path))
    monkeypatch.setattr(source, "PAGE_SIZE", 2)
    await import_source(memory, path, make_options(chat, app_name))
    whole = await read_graph(memory, app_name)
    iterate_event_pages = ChatSource.iterate_event_pages
    for page_count in (0, 1, 2):
        left = iter(range(page_count))

        async def die(self: ChatSource, session: Any, left: Any = left) -> AsyncIterator[Any]:
            async for page in iterate_event_pages(self, session):
                if next(left, None) is None:
                    raise Killed
                yield page

        options = make_options(chat, f"{app_name}-{page_count}")
        with monkeypatch.context() as patch, pytest.raises(Killed):
            patch.setattr(ChatSource, "iterate_event_pages", die)
            await import_source(memory, path, options)
        receipt = await import_source(memory, path, options)
        assert receipt.events.get("known", 0) > 0 or page_count == 0
        assert await read_graph(memory, f"{app_name}-{page_count}") == whole
