"""Turns, statements and questions go in as they were said, and come out as they may be stored and sent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from pydantic_core import to_jsonable_python

from adk_graph_memory import errors
from adk_graph_memory.records import Statement, Turn
from adk_graph_memory.redaction import secrets

Function = Callable[[str], str]
Choice = Function | Literal["secrets"] | None

NOTHING_LEFT = "[redacted]"
"""Stands for a turn or statement of which a redaction leaves nothing: an embedder may refuse empty text."""


class Redactor:
    """A redaction of any kind, as the memory uses it.

    Args:
        choice: a function from text to text; ``"secrets"`` for
            :func:`adk_graph_memory.redaction.without_secrets`; or None, which changes nothing.

    Raises:
        errors.RedactorMissing: the libraries behind ``"secrets"`` are not installed.
        errors.ConfigurationError: there is no such redaction.
    """

    def __init__(self, choice: Choice) -> None:
        if choice == "secrets":
            secrets.detectors()
            choice = secrets.without_secrets
        if isinstance(choice, str) or not (choice is None or callable(choice)):
            reason = f'redact={choice!r} is neither "secrets" nor a function from text to text'
            raise errors.ConfigurationError(reason=reason)
        self._redact = choice

    @property
    def function(self) -> Function | None:
        """The redaction of one text; None where none was chosen."""
        return self._text if self._redact else None

    async def text(self, text: str) -> str:
        """The text, redacted.

        Raises:
            errors.RedactionFailed: the function raised, or did not return text.
        """
        return await asyncio.to_thread(self._text, text) if self._redact else text

    async def turns(self, turns: Sequence[Turn]) -> Sequence[Turn]:
        """The turns with their text redacted; ids, times and order stay."""
        if not self._redact:
            return turns
        return await asyncio.to_thread(lambda: [replace(turn, text=self._said(turn.text)) for turn in turns])

    async def statements(self, statements: Sequence[Statement]) -> Sequence[Statement]:
        """The statements with their text and metadata redacted; ids, times and order stay."""
        if not self._redact:
            return statements
        return await asyncio.to_thread(
            lambda: [replace(one, text=self._said(one.text), metadata=self._inside(one.metadata)) for one in statements]
        )

    async def metadata(self, metadata: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
        """The metadata with every text in them redacted, however deep; the keys stay."""
        return await asyncio.to_thread(self._inside, metadata) if self._redact and metadata else metadata

    def _text(self, text: str) -> str:
        assert self._redact is not None  # noqa: S101  # callers look first
        name = getattr(self._redact, "__qualname__", type(self._redact).__qualname__)
        try:
            redacted: Any = self._redact(text)
        except Exception as error:
            # The error's own words may quote the text, and ours may end in a log: only its kind is named.
            raise errors.RedactionFailed(name=name, reason=f"it raised {type(error).__name__}") from error
        if not isinstance(redacted, str):
            raise errors.RedactionFailed(name=name, reason=f"it returned {type(redacted).__name__}, not text")
        return redacted

    def _said(self, text: str) -> str:
        redacted = self._text(text)
        return NOTHING_LEFT if text.strip() and not redacted.strip() else redacted

    def _inside(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, Mapping):
            return {key: self._inside(one) for key, one in value.items()}
        if isinstance(value, list | tuple):
            return [self._inside(one) for one in value]
        if value is None or isinstance(value, bool | int | float):
            return value
        return self._inside(to_jsonable_python(value, bytes_mode="base64", serialize_unknown=True))
