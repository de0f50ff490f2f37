"""Load a conversation with its questions from a JSON file."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from pydantic import ValidationError

from adk_graph_memory import errors
from adk_graph_memory.adk.importing.chats.conversation import Conversation


def load_conversation(path: Path | None = None) -> Conversation:
    """Load the conversation in a file, by default the one that ships with the package.

    Raises:
        errors.InvalidArgument: the file cannot be read, or does not fit the schema.
    """
    try:
        source = path or resources.files(__package__) / "conversation.json"
        return Conversation.model_validate_json(source.read_text(encoding="utf-8"))
    except OSError as error:
        raise errors.InvalidArgument(reason=f"{path} cannot be read ({error.strerror})") from error
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise errors.InvalidArgument(
            reason=f"{path} is not a conversation as the demo reads it ({place}: {first['msg']})"
        ) from error
