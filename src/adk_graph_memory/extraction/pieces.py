"""Cut what a model reads by its size: turns into windows, long turns into pieces, the turns before a window short."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from adk_graph_memory.language.text import (
    CUT_MARK,
    MAX_TOKEN_CHARACTERS,
    count_tokens,
    find_token_end,
    leave_out_middle,
)
from adk_graph_memory.records.extractions import Extraction
from adk_graph_memory.records.turns import Turn

_MIN_DIVIDED_TOKENS = 200
"""Tokens above which a piece that a model cannot read is divided."""
_BREAKS = tuple(map(re.compile, (r"\n\s*\n", r"\n", r"[.!?…؟]++[\"'”’»)\]*_]*+\s|[。！？]++[」』”）)]*+", r"\s")))
"""Where a text is best cut: after a paragraph, a line, a sentence, a word."""
_BLANK_REST = re.compile(r"\s*+\Z")


class Piece(NamedTuple):
    """Words of a turn that stand together: ``turn`` has them alone, ``start`` is their place in the whole turn."""

    turn: Turn
    start: int = 0
    has_more: bool = False
    """whether more of the turn follows"""

    @property
    def prompt_text(self) -> str:
        """The words, with a mark where others of the turn are missing."""
        if not (self.start or self.has_more):
            return self.turn.text
        before, after = f"{CUT_MARK} " if self.start else "", f" {CUT_MARK}" if self.has_more else ""
        return f"{before}{self.turn.text.strip()}{after}"


def split_into_windows(turns: Iterable[Turn], *, size: int) -> list[tuple[Turn, ...]]:
    """Split the turns, in order, into windows of at most ``size`` tokens; a longer turn gets a window of its own."""
    return [tuple(piece.turn for piece in window) for window in _pack(map(Piece, turns), size)]


def pack_pieces(turns: Iterable[Turn], *, size: int) -> list[list[Piece]]:
    """Pack the turns, in order, into windows of at most ``size`` tokens; a longer turn is cut into pieces."""
    return _pack((piece for turn in turns for piece in _cut_piece(Piece(turn), size)), size)


def cut_text(text: str, *, size: int) -> list[str]:
    """Cut a text into parts of at most ``size`` tokens, where a paragraph or a sentence ends if it can be."""
    parts, start = list[str](), 0
    while (end := _find_end(text, start, size)) < len(text):
        parts.append(text[start:end])
        start = end
    return [*parts, text[start:]]


def divide_window(pieces: Sequence[Piece]) -> tuple[Sequence[Piece], Sequence[Piece]] | None:
    """Divide a window that a model cannot read in two; None if it is one short text."""
    if len(pieces) > 1:
        middle = len(pieces) // 2
        return pieces[:middle], pieces[middle:]
    tokens = count_tokens(pieces[0].turn.text)
    if tokens <= _MIN_DIVIDED_TOKENS:
        return None
    piece = pieces[0]
    first = next(_cut_piece(piece, tokens // 2 + 1))
    rest = _cut_turn(piece.turn, len(first.turn.text), len(piece.turn.text))
    return [first], [Piece(rest, piece.start + len(first.turn.text), piece.has_more)]


def shorten_context(context: Sequence[Piece], *, max_tokens: int) -> list[str]:
    """The texts of turns before a window, with so many tokens in all: of the longest, the middle is left out."""
    texts = [piece.prompt_text for piece in context]
    counts = [count_tokens(text[: find_token_end(text, max_tokens)]) for text in texts]
    limit = _share_tokens(counts, max_tokens)
    return [leave_out_middle(text, limit) for text in texts]


def place_sources(extraction: Extraction, pieces: Iterable[Piece]) -> Extraction:
    """Move the sources of facts from their place in a piece to that in the whole turn."""
    starts: Mapping[str, int] = {piece.turn.id: piece.start for piece in pieces if piece.start}
    if not starts:
        return extraction
    facts = []
    for fact in extraction.facts:
        shifts = [(source, starts.get(source.turn_id, 0)) for source in fact.sources]
        sources = tuple(replace(source, start=source.start + n, end=source.end + n) for source, n in shifts)
        facts.append(replace(fact, sources=sources))
    return replace(extraction, facts=tuple(facts))


def _pack(pieces: Iterable[Piece], size: int) -> list[list[Piece]]:
    windows: list[list[Piece]] = []
    used = 0
    for piece in pieces:
        tokens = count_tokens(piece.turn.text)
        is_same_turn = bool(windows) and windows[-1][-1].turn.id == piece.turn.id  # a prompt names each turn once
        if not windows or used + tokens > size or (is_same_turn and piece.start > 0):
            windows.append([])
            used = 0
        windows[-1].append(piece)
        used += tokens
    return windows


def _cut_piece(piece: Piece, size: int) -> Iterator[Piece]:
    """Cut a piece into smaller ones of at most ``size`` tokens, where a paragraph or a sentence ends if it can be."""
    text, start = piece.turn.text, 0
    while (end := _find_end(text, start, size)) < len(text):
        yield Piece(_cut_turn(piece.turn, start, end), piece.start + start, has_more=True)
        start = end
    yield Piece(_cut_turn(piece.turn, start, len(text)), piece.start + start, piece.has_more) if start else piece


def _cut_turn(turn: Turn, start: int, end: int) -> Turn:
    """Cut a part out of a turn; what of it is the author's own words stays so."""
    own_text = None if turn.own_text is None else turn.own_text[start:end]
    return replace(turn, text=turn.text[start:end], own_text=own_text)


def _find_end(text: str, start: int, size: int) -> int:
    """The end of the piece that begins at ``start``."""
    end = min(find_token_end(text, size, start), start + size * MAX_TOKEN_CHARACTERS)
    return len(text) if _BLANK_REST.match(text, end) else _find_break(text, (start + end) // 2, end)


def _find_break(text: str, start: int, end: int) -> int:
    """The last place between start and end at which the text is best cut; the end if there is none."""
    for pattern in _BREAKS:
        if ends := [match.end() for match in pattern.finditer(text, start, end)]:
            return ends[-1]
    return end


def _share_tokens(counts: Sequence[int], total: int) -> int:
    """The most tokens that each text may have, so that all together have no more than ``total``."""
    rest = total
    for number, count in enumerate(sorted(counts)):
        left = len(counts) - number
        if count * left > rest:
            return rest // left
        rest -= count
    return total
