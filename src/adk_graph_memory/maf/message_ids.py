"""Give messages ids that stay the same when a transcript is sent again; most messages of the framework have none.

An id is a digest of who said what, and of how many times it has been said in its session. The memory and the history
of a session so agree on a message's id.
"""

from __future__ import annotations

import json
import unicodedata
from collections import Counter
from collections.abc import Sequence

from agent_framework import Message

from adk_graph_memory.language.text import digest
from adk_graph_memory.records.scopes import is_blank
from adk_graph_memory.records.turns import Origin

SEPARATOR = "."
"""Between the digest and the count."""


def get_spoken_text(message: Message) -> str:
    """Join the message's text, without reasoning, in Unicode's NFC; half characters are replaced."""
    text = "\n".join(content.text for content in message.contents if content.type == "text" and content.text)
    return unicodedata.normalize("NFC", text.encode("utf-8", "replace").decode()).strip()


def choose_author(message: Message, *others: str | None) -> str:
    """Choose the author of a message: the user, or of the message's own name and the others the first that is one."""
    names = ("user",) if message.role == "user" else (message.author_name, *others)
    return next((name for name in names if name and not is_blank(name)), "assistant")


def find_origin(message: Message) -> Origin:
    """Find whose words the message's text is: beside a tool's result it is the tool's, whatever the message's role."""
    if any(content.type == "function_result" for content in message.contents):
        return "tool"
    return "user" if message.role == "user" else "agent"


def digest_message(message: Message) -> str:
    """A digest of the role, the text, and whatever else the message holds, such as a tool's call."""
    others = [content for content in message.contents if content.type != "text"]
    parts = [content.to_dict(exclude={"additional_properties"}) for content in others]
    return digest(str(message.role), get_spoken_text(message), json.dumps(parts, sort_keys=True, default=str))


def count_known(known: Sequence[str], later: Sequence[str]) -> int:
    """Count how many of the later messages are known: callers send a message alone, or the conversation so far again.

    Args:
        known: the digests of a session's messages so far, in order.
        later: the digests of those that came now.

    Returns:
        The number of messages at the beginning of ``later`` that overlap with the end of ``known``, or that end with
        all of ``known``.
    """
    known, later = list(known), list(later)
    for start in range(len(later) - len(known) + 1 if known else 0):
        if later[start : start + len(known)] == known:
            return start + len(known)
    return next(
        (overlap for overlap in range(min(len(known), len(later)), 0, -1) if known[-overlap:] == later[:overlap]), 0
    )


def derive_message_ids(digests: Sequence[str]) -> list[str]:
    """Derive the ids of a session's messages from their digests, in order."""
    counts = Counter[str]()
    ids = []
    for name in digests:
        counts[name] += 1
        ids.append(f"{name}{SEPARATOR}{counts[name]}")
    return ids


def get_digest(message_id: str) -> str:
    """The digest in a message's id; of an id that was made elsewhere, all of it."""
    return message_id.rpartition(SEPARATOR)[0] or message_id
