"""Remember documents: their passages, each found and cited with its page or heading, and the facts that they tell.

A document is a session of its own, and a passage is a turn of it. What a document says is hearsay: its facts are
``reported``, and end nothing that a person said.
"""

from __future__ import annotations

import asyncio
import re
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from adk_graph_memory import errors
from adk_graph_memory.extraction.pieces import cut_text
from adk_graph_memory.graph import erasing
from adk_graph_memory.graph.json_map import JsonMapDelta
from adk_graph_memory.graph.snapshots import fetch_snapshot
from adk_graph_memory.language.text import count_tokens, digest, join_lines
from adk_graph_memory.memory.engine import UserContext
from adk_graph_memory.memory.ingestion import ingest_turns
from adk_graph_memory.memory.rewriting import Erasure
from adk_graph_memory.records.memory import MemorySnapshot
from adk_graph_memory.records.results import DocumentReport
from adk_graph_memory.records.scopes import check_id, check_text, is_blank
from adk_graph_memory.records.turns import DOCUMENT_SESSION, Turn
from adk_graph_memory.runtime import telemetry

PASSAGE_TOKENS, LEAST_TOKENS = 250, 80
"""Tokens of a passage, at most, and those from which on it takes up no further paragraph."""
MARKDOWN_SUFFIXES = (".md", ".markdown")
_DAMAGE = (OSError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError, zlib.error)
"""What a damaged PDF leads to, beside errors of its own."""
_HEADING = re.compile(r"(?P<marks>#{1,6})[ \t]+(?P<title>.+?)[ \t]*#*[ \t]*")
_FENCE = re.compile(r"[ \t]*(```|~~~)")
_FRONT_MATTER = re.compile(r"\A---[ \t]*\n(?:.*\n)*?---[ \t]*\n")
_PARAGRAPH_BREAK = re.compile(r"\n[ \t]*\n\s*")


@dataclass(frozen=True, slots=True)
class Passage:
    """Words of a document that stand together, with the headings above them and their page, if there is one."""

    text: str
    headings: tuple[str, ...] = ()
    page: int | None = None


@telemetry.trace_operation("upsert_memory")
async def remember_document(
    user: UserContext,
    source: str | Path,
    *,
    title: str | None = None,
    author: str | None = None,
    at: datetime | None = None,
) -> DocumentReport:
    """Remember a document; :meth:`.UserMemory.remember_document` says how."""
    if not isinstance(source, str | Path):
        raise errors.InvalidArgument(reason=f"the document {source!r} is neither a text nor a Path")
    if title is None and isinstance(source, str):
        reason = "a document's title is None, not a text: name it, or pass pathlib.Path(…) for a file"
        raise errors.InvalidArgument(reason=reason)
    title = source.stem if title is None and isinstance(source, Path) else title
    check_text("a document's title", title)
    title = join_lines(str(title)).strip()
    if is_blank(title):
        raise errors.InvalidArgument(reason="the document has no title: name it, so that it can be cited")
    check_id("a document's title", title, DOCUMENT_SESSION)
    session_id, now = f"{DOCUMENT_SESSION}{title}", at or datetime.now(await user.engine.speakers.find_zone(user.scope))
    passages = await asyncio.to_thread(lambda: list(read_passages(source)))
    turns = [_make_turn(one, title, author or title, now) for one in passages]
    redacted = [replace(turn, id=digest(turn.text)) for turn in await user.engine.redactor.redact_turns(turns)]
    user.scope.check_authors(turn.author for turn in redacted)
    metadata = JsonMapDelta.from_values(await user.engine.redactor.redact_metadata({"document": title}) or {})
    known = {turn.make_memory_id(session_id) for turn in redacted}
    former = Erasure.select_session(await fetch_snapshot(user.graph), session_id).turn_ids - known

    async def remove_former() -> int:
        def select(snapshot: MemorySnapshot) -> Erasure:  # a later version may have them again
            return Erasure(former & snapshot.turns.keys(), is_final=False, takes_words=False)

        return (await user.rewriter.erase_memories(select)).events if former else 0

    try:
        report = await ingest_turns(user, session_id, redacted, metadata)
    except (errors.ModelError, errors.EmbeddingError, errors.EmbedderMismatch, errors.WriteConflict):
        await remove_former()  # the new version is stored, and whoever resumes it knows of no other
        raise
    removed, kept = await remove_former(), await erasing.count_known_memories(user.graph, sorted(known))
    return DocumentReport(session_id, len(known), removed, len(known) - kept, report)


def _make_turn(passage: Passage, title: str, author: str, at: datetime) -> Turn:
    """Make the turn of a passage; its id follows from its words, so what stays is not read again."""
    place = " › ".join((title, *passage.headings))
    page = f", page {passage.page}" if passage.page is not None else ""
    text = f"{place}{page}:\n\n{passage.text}"
    return Turn(digest(text), author, text, at, origin="document")


def read_passages(source: str | Path) -> Iterator[Passage]:
    """Read a document's passages: of a text in Markdown, or of a file in PDF, Markdown or plain text.

    Raises:
        errors.NotFound: there is no such file.
        errors.UnreadableTranscript: the file cannot be read, or holds no text.
    """
    if isinstance(source, str):
        sections: Iterable[Passage] = split_markdown(source)
    elif not source.is_file():
        raise errors.NotFound(f"There is no file {source}.", what=f"file {source}", where="the path")
    elif source.suffix.lower() == ".pdf":
        sections = _read_pages(source)
    else:
        text = _read_text(source)
        sections = split_markdown(text) if source.suffix.lower() in MARKDOWN_SUFFIXES else [Passage(text)]
    is_empty = True
    for section in sections:
        for text in _group_paragraphs(section.text):
            is_empty = False
            yield Passage(text, section.headings, section.page)
    if is_empty:
        what = str(source) if isinstance(source, Path) else "The document"
        reason = "it holds no text. Of a scan, pass the text that a reader of pictures (OCR) finds"
        raise errors.UnreadableTranscript(f"{what} cannot be remembered: {reason}.", place=what, reason=reason)


def _group_paragraphs(text: str) -> Iterator[str]:
    """Group short paragraphs and cut long ones; what is inserted somewhere changes the passages around it alone."""
    group, tokens = list[str](), 0
    for paragraph in (*_PARAGRAPH_BREAK.split(text), ""):
        size = count_tokens(paragraph)
        is_full = tokens >= LEAST_TOKENS or tokens + size > PASSAGE_TOKENS
        if group and (is_full or not paragraph):
            yield from (part.strip() for part in cut_text("\n\n".join(group), size=PASSAGE_TOKENS) if part.strip())
            group, tokens = [], 0
        if not is_blank(paragraph):
            group.append(paragraph)
            tokens += size


def split_markdown(text: str) -> Iterator[Passage]:
    """Split a text in Markdown at its headings; a line in a code block is none."""
    headings, lines, fence = list[tuple[int, str]](), list[str](), ""
    for line in _FRONT_MATTER.sub("", text, count=1).splitlines():
        if mark := _FENCE.match(line):
            fence = "" if fence == mark[1] else fence or mark[1]
        heading = None if fence else _HEADING.fullmatch(line)
        if heading is None:
            lines.append(line)
            continue
        yield Passage("\n".join(lines), tuple(title for _, title in headings))
        level = len(heading["marks"])
        headings = [*(one for one in headings if one[0] < level), (level, heading["title"])]
        lines.clear()
    yield Passage("\n".join(lines), tuple(title for _, title in headings))


def _read_text(path: Path) -> str:
    try:
        return path.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise _make_error(path, f"it is no text in UTF-8 ({error})") from error


def _read_pages(path: Path) -> Iterator[Passage]:
    import pypdf  # it takes a while

    try:
        with path.open("rb") as file:
            reader = pypdf.PdfReader(file)
            if reader.is_encrypted and not reader.decrypt(""):
                raise _make_error(path, "it is locked with a password: save it without one")
            for number, page in enumerate(reader.pages, start=1):
                yield Passage(page.extract_text(), page=number)
    except errors.UnreadableTranscript:
        raise
    except (*_DAMAGE, pypdf.errors.PyPdfError, pypdf.errors.DependencyError) as error:
        raise _make_error(path, f"it is no PDF that can be read ({type(error).__name__}: {error})") from error


def _make_error(path: Path, reason: str) -> errors.UnreadableTranscript:
    return errors.UnreadableTranscript(f"{path} cannot be remembered: {reason}.", place=str(path), reason=reason)
