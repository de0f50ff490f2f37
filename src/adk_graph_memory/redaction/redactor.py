"""Apply the configured redaction to turns, statements, questions and metadata."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from pydantic_core import to_jsonable_python

from adk_graph_memory import errors
from adk_graph_memory.records import Statement, Turn
from adk_graph_memory.redaction import secrets

RedactFunction = Callable[[str], str]
RedactOption = RedactFunction | Literal["secrets"] | None

REDACTED_PLACEHOLDER = "[redacted]"
"""Replaces a turn or statement that redaction leaves empty: an embedder may refuse empty text."""


class Redactor:
    """Redacts texts, turns, statements and metadata in a worker thread.

    Args:
        choice: a function from text to text; ``"secrets"`` for
            :func:`adk_graph_memory.redaction.remove_secrets`; or None, which changes nothing.

    Raises:
        errors.RedactorMissing: the libraries that ``"secrets"`` needs are not installed.
        errors.InvalidArgument: ``choice`` is none of these.
    """

    def __init__(self, choice: RedactOption) -> None:
        if choice == "secrets":
            secrets.load_detectors()
            choice = secrets.remove_secrets
        if isinstance(choice, str) or not (choice is None or callable(choice)):
            reason = f'redact={choice!r} is neither "secrets" nor a function from text to text'
            raise errors.InvalidArgument(reason=reason)
        self._function = choice

    @property
    def redact_function(self) -> RedactFunction | None:
        """The function that redacts one text; None if there is no redaction."""
        return self._apply_function if self._function else None

    async def redact_text(self, text: str) -> str:
        """Redact one text.

        Raises:
            errors.RedactionFailed: the function raised, or did not return text.
        """
        return await asyncio.to_thread(self._apply_function, text) if self._function else text

    async def redact_turns(self, turns: Sequence[Turn]) -> Sequence[Turn]:
        """Redact the text of each turn; ids, times and order stay."""
        if not self._function:
            return turns
        return await asyncio.to_thread(
            lambda: [replace(turn, text=self._redact_or_placeholder(turn.text)) for turn in turns]
        )

    async def redact_statements(self, statements: Sequence[Statement]) -> Sequence[Statement]:
        """Redact the text and metadata of each statement; ids, times and order stay."""
        if not self._function:
            return statements
        return await asyncio.to_thread(
            lambda: [
                replace(item, text=self._redact_or_placeholder(item.text), metadata=self._redact_value(item.metadata))
                for item in statements
            ]
        )

    async def redact_metadata(self, metadata: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
        """Redact every text value of the metadata at any depth; the keys stay."""
        return await asyncio.to_thread(self._redact_value, metadata) if self._function and metadata else metadata

    def _apply_function(self, text: str) -> str:
        assert self._function is not None  # noqa: S101  # callers check first
        name = getattr(self._function, "__qualname__", type(self._function).__qualname__)
        try:
            redacted: Any = self._function(text)
        except Exception as error:
            # The error's message may quote the text, and ours may end up in a log: name only its type.
            raise errors.RedactionFailed(name=name, reason=f"it raised {type(error).__name__}") from error
        if not isinstance(redacted, str):
            raise errors.RedactionFailed(name=name, reason=f"it returned {type(redacted).__name__}, not text")
        return redacted

    def _redact_or_placeholder(self, text: str) -> str:
        redacted = self._apply_function(text)
        return REDACTED_PLACEHOLDER if text.strip() and not redacted.strip() else redacted

    def _redact_value(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._apply_function(value)
        if isinstance(value, Mapping):
            return {key: self._redact_value(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self._redact_value(item) for item in value]
        if value is None or isinstance(value, bool | int | float):
            return value
        return self._redact_value(to_jsonable_python(value, bytes_mode="base64", serialize_unknown=True))
