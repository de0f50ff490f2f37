"""Read conversations with an assistant: ChatGPT's and Claude's exports, and messages as OpenAI's API takes them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from adk_graph_memory.adk.importing.chats.files import (
    ChatFiles,
    PartedRows,
    get_id,
    get_value,
    list_rows,
    part_objects,
)
from adk_graph_memory.adk.importing.chats.messages import AGENT_AUTHOR, USER_AUTHOR, ChatOptions, Row, make_message
from adk_graph_memory.language.text import digest
from adk_graph_memory.records.reports import SUPERSEDED_ANSWER, SYSTEM_LINE, SkippedRow

_SILENT_ROLES = ("system", "developer", "tool", "function")


def _skip_role(place: str, role: Any) -> SkippedRow:
    """Leave out what a system or a tool says; whatever has another role cannot be read."""
    is_silent = isinstance(role, str) and role in _SILENT_ROLES
    return SkippedRow(place, SYSTEM_LINE if is_silent else "unreadable", f"its role is {role!r}"[:80])


def _join_texts(content: Any) -> str:
    """Join the texts of a message's content: a text, or a list of texts and of objects with a text."""
    parts = content if isinstance(content, list) else [content]
    texts = (part if isinstance(part, str) else get_value(part, "text") for part in parts)
    return "\n".join(text for text in texts if isinstance(text, str) and text.strip())


def _read_conversations(files: ChatFiles, key: str, kind: type, expected: str) -> PartedRows:
    names = files.find_names(r"^conversations.*\.json$", expected)
    return part_objects([row for name in names for row in files.read_rows(name, expected)], key, kind).check(expected)


def read_chatgpt(files: ChatFiles, options: ChatOptions) -> Iterator[Row]:
    """Read ``conversations.json`` of ChatGPT's export: of each conversation the branch that it shows."""
    chats, others = _read_conversations(files, "mapping", dict, "ChatGPT's conversations.json")
    yield from others
    for place, chat in chats:
        nodes = chat["mapping"]
        branch = _follow_branch(nodes, get_id(chat, "current_node"))
        session_id = f"chatgpt-{get_id(chat, 'conversation_id') or get_id(chat, 'id') or digest(*branch)}"
        at = chat.get("create_time")
        for id in branch | dict.fromkeys(nodes):
            if not (message := get_value(nodes[id], "message")):
                continue
            role, kind = get_value(message, "author", "role"), get_value(message, "content", "content_type")
            is_hidden = get_value(message, "metadata", "is_visually_hidden_from_user")
            if role not in ("user", "assistant") or kind is None:
                yield _skip_role(place, role)
            elif kind not in ("text", "multimodal_text") or is_hidden:
                yield SkippedRow(place, SYSTEM_LINE, f"{role}, {kind}")
            elif id not in branch:
                yield SkippedRow(place, SUPERSEDED_ANSWER, id)
            else:
                at = get_value(message, "create_time") or at
                text = _join_texts(get_value(message, "content", "parts"))
                yield _make_message(place, role == "assistant", text, at, options, session_id, id)


def _follow_branch(nodes: Mapping[str, Any], shown: str | None) -> dict[str, None]:
    """List the ids from a conversation's root to the node that is shown, or, without one, to its last leaf."""
    ids = dict[str, None]()
    leaves = [id for id, node in nodes.items() if not get_value(node, "children")]
    node = shown if shown in nodes else next(iter(leaves[::-1]), None)
    while node is not None and node in nodes and node not in ids:
        ids[node] = None
        node = get_id(nodes[node], "parent")
    return dict.fromkeys(reversed(ids))


def read_claude(files: ChatFiles, options: ChatOptions) -> Iterator[Row]:
    """Read ``conversations.json`` of Claude's export."""
    chats, others = _read_conversations(files, "chat_messages", list, "Claude's conversations.json")
    yield from others
    for place, chat in chats:
        session_id = f"claude-{get_id(chat, 'uuid') or digest(json.dumps(chat, sort_keys=True))[:16]}"
        messages, others = part_objects(list_rows(chat["chat_messages"], place, "message"))
        yield from others
        for here, message in messages:
            blocks = message.get("content")
            said = [block for block in blocks if get_value(block, "type") == "text"] if isinstance(blocks, list) else []
            text = _join_texts(said) or _join_texts(message.get("text"))
            if (sender := message.get("sender")) not in ("human", "user", "assistant"):
                yield _skip_role(here, sender)
                continue
            at, id = message.get("created_at") or chat.get("created_at"), get_id(message, "uuid")
            yield _make_message(here, sender == "assistant", text, at, options, session_id, id)


def read_openai(files: ChatFiles, options: ChatOptions) -> Iterator[Row]:
    """Read messages as OpenAI's API takes them: one, a list or several of them, or one of these on each line."""
    expected = 'messages such as {"role": "user", "content": "Hello"}'
    rows = files.read_rows(files.find_only_name(r"\.jsonl?$", expected), expected)
    if any("role" in row.value and "messages" not in row.value for row in rows if isinstance(row.value, dict)):
        chats = [(dict[str, Any](), part_objects(rows))]
    else:
        rows = [row._replace(value={"messages": row.value}) if isinstance(row.value, list) else row for row in rows]
        parted = part_objects(rows, "messages", list).check(expected)
        yield from parted.others
        chats = [(chat, part_objects(list_rows(chat["messages"], place, "message"))) for place, chat in parted.objects]
    seen = Counter[str]()
    for chat, (messages, others) in chats:
        yield from others
        id = get_id(chat, "id") or get_id(chat, "conversation_id") or digest(*_first_said(messages))[:16]
        seen[id] += 1
        session_id = f"openai-{id}" if seen[id] == 1 else f"openai-{id}-{seen[id]}"
        for here, message in messages:
            if (role := message.get("role")) not in ("user", "assistant"):
                yield _skip_role(here, role)
                continue
            text = _join_texts(message.get("content"))
            keys = ("created_at", "timestamp", "create_time", "created")
            at = next(filter(None, (one.get(key) for key in keys for one in (message, chat))), None)
            yield _make_message(here, role == "assistant", text, at, options, session_id, get_id(message, "id"))


def _first_said(messages: Sequence[tuple[str, Mapping[str, Any]]]) -> list[str]:
    """The first message of the user, which tells conversations of one system prompt apart."""
    return [json.dumps(message.get("content")) for _, message in messages if message.get("role") == "user"][:1]


def _make_message(
    place: str, is_agent: bool, text: str, at: object, options: ChatOptions, session_id: str, id: str | None
) -> Row:
    author = AGENT_AUTHOR if is_agent else USER_AUTHOR
    return make_message(place, author, text, at, options, is_agent=is_agent, session_id=session_id, id=id)
