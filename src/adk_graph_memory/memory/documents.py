"""Remember documents: their passages, each found and cited with its page or heading, and the facts that they tell.

A document is a session of its own, and a passage is a turn of it. What a document says is hearsay: its facts are
``reported``, and end nothing that a person said.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from adk_graph_memory import errors
from adk_graph_memory.extraction.pieces import cut_text
from adk_graph_memory.graph.json_map import JsonMapDelta
from adk_graph_memory.language.text import digest, join_lines
from adk_graph_memory.memory.engine import UserContext
from adk_graph_memory.memory.ingestion import ingest_turns
from adk_graph_memory.memory.rewriting import Erasure
from adk_graph_memory.records.memory import MemorySnapshot
from adk_graph_memory.records.results import DocumentReport
from adk_graph_memory.records.scopes import check_id, check_text, is_blank
from adk_graph_memory.records.turns import DOCUMENT_SESSION, Turn, make_memory_id
from adk_graph_memory.runtime import telemetry

PASSAGE_TOKENS = 250
"""Tokens of a passage, at most; about three paragraphs."""
MARKDOWN_SUFFIXES = (".md", ".markdown")
_HEADING = re.compile(r"(?P<marks>#{1,6})[ \t]+(?P<title>.+?)[ \t]*#*[ \t]*")
_FENCE = re.compile(r"[ \t]*(?:```|~~~)")


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
    if title is None:
        title = source.stem if isinstance(source, Path) else None
    check_text("a document's title", title)
    title = join_lines(str(title)).strip()
    if is_blank(title):
        raise errors.InvalidArgument(reason="the document has no title: name it, so that it can be cited")
    check_id("a document's title", title, DOCUMENT_SESSION)
    session_id, now = f"{DOCUMENT_SESSION}{title}", at or datetime.now(await user.engine.speakers.find_zone(user.scope))
    passages = await asyncio.to_thread(lambda: list(read_passages(source)))
    turns = {turn.id: turn for turn in (_make_turn(one, title, author or title, now) for one in passages)}
    redacted = await user.engine.redactor.redact_turns(list(turns.values()))
    user.scope.check_authors(turn.author for turn in redacted)
    known = {make_memory_id(session_id, id) for id in turns}

    def select_former(snapshot: MemorySnapshot) -> Erasure:
        former = Erasure.select_session(snapshot, session_id).turn_ids - known
        return Erasure(former, is_final=False, takes_words=False)  # a later version may have them again

    report = await ingest_turns(user, session_id, redacted, JsonMapDelta.from_values({"document": title}))
    receipt = await user.rewriter.erase_memories(select_former)
    return DocumentReport(session_id, len(turns), receipt.events, report)


def _make_turn(passage: Passage, title: str, author: str, at: datetime) -> Turn:
    """Make the turn of a passage; a passage keeps its id, and is not read again, while its words stay."""
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
        for text in cut_text(section.text, size=PASSAGE_TOKENS):
            if not is_blank(text):
                is_empty = False
                yield Passage(text.strip(), section.headings, section.page)
    if is_empty:
        what = str(source) if isinstance(source, Path) else "The document"
        reason = "it holds no text. Of a scan, pass the text that a reader of pictures (OCR) finds"
        raise errors.UnreadableTranscript(f"{what} cannot be remembered: {reason}.", place=what, reason=reason)


def split_markdown(text: str) -> Iterator[Passage]:
    """Split a text in Markdown at its headings; a line in a code block is none."""
    headings, lines, is_code = list[tuple[int, str]](), list[str](), False
    for line in text.splitlines():
        is_code ^= bool(_FENCE.match(line))
        heading = None if is_code else _HEADING.fullmatch(line)
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
    except (OSError, pypdf.errors.PyPdfError, ValueError, LookupError, RecursionError) as error:
        raise _make_error(path, f"it is no PDF that can be read ({error})") from error


def _make_error(path: Path, reason: str) -> errors.UnreadableTranscript:
    return errors.UnreadableTranscript(f"{path} cannot be remembered: {reason}.", place=str(path), reason=reason)
