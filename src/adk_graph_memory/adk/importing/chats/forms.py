"""The forms of chats that can be imported, by what `--from` calls them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from adk_graph_memory.adk.importing.chats.assistants import read_chatgpt, read_claude, read_openai
from adk_graph_memory.adk.importing.chats.conversation import read_conversation
from adk_graph_memory.adk.importing.chats.files import ChatFiles
from adk_graph_memory.adk.importing.chats.messages import ChatOptions, Row
from adk_graph_memory.adk.importing.chats.slack import read_slack
from adk_graph_memory.adk.importing.chats.tables import read_csv
from adk_graph_memory.adk.importing.chats.whatsapp import read_whatsapp


class Form(NamedTuple):
    """How a form is read, and which options of ``import`` it has a use for.

    It yields every message with its place, or what it is instead of one, so that a receipt accounts for all of them.
    """

    read: Callable[[ChatFiles, ChatOptions], Iterator[Row]]
    options: tuple[str, ...]


FORMS: Mapping[str, Form] = {
    "whatsapp": Form(read_whatsapp, ("--me", "--timezone", "--date-order")),
    "chatgpt": Form(read_chatgpt, ("--timezone", "--at")),
    "claude": Form(read_claude, ("--timezone", "--at")),
    "openai": Form(read_openai, ("--timezone", "--at")),
    "slack": Form(read_slack, ("--me", "--timezone", "--at")),
    "csv": Form(read_csv, ("--me", "--timezone", "--date-order", "--column", "--at")),
    "conversation": Form(read_conversation, ("--me", "--timezone", "--at")),
}
