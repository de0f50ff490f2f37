"""Word what tools answer: small, text first, and every memory with its id."""

from __future__ import annotations

from collections.abc import Iterable

from adk_graph_memory.records import IngestReport, Recollection
from adk_graph_memory.records.dates import format_english_date
from adk_graph_memory.records.history import FactHistory, HistoryEntry

_MAX_QUOTE_CHARACTERS = 200


def list_memories(memories: Iterable[Recollection]) -> str:
    """List memories, each with who said it and when, and the words that a fact rests on."""
    lines = (_describe_memory(number, memory) for number, memory in enumerate(memories, 1))
    return "\n".join(lines)


def _describe_memory(number: int, memory: Recollection) -> str:
    day = format_english_date(memory.at, "day") if memory.at else None
    said = ", ".join(filter(None, (memory.author, day)))
    quote = f"\n   “{_cut(memory.quote)}”" if memory.quote and memory.quote != memory.text else ""
    return f"{number}. {' '.join(memory.prompt_text.split())} ({said}) [{memory.id}]{quote}"


def describe_history(history: FactHistory) -> str:
    """Tell what made a fact what it is, a line for each word and change."""
    lines = [f"{history.fact.text} ({history.fact.state})", *map(_describe_entry, history.entries)]
    return "\n".join(lines) if history.entries else f"{lines[0]}\nIt was added directly, word for word."


def _describe_entry(entry: HistoryEntry) -> str:
    day = entry.said_at or entry.at
    parts = (
        f"- {format_english_date(day, 'day')}" if day else "-",
        f"{entry.kind}: {entry.text}",
        f"“{_cut(entry.quote)}”" if entry.quote else "",
        f"({entry.reason})" if entry.reason else "",
    )
    return " ".join(filter(None, parts))


def describe_report(report: IngestReport) -> str:
    """Tell what became of a statement."""
    if report.busy:
        return "Another process is reading this statement; it will be remembered."
    if added := report.facts.get("ADD", 0) + report.facts.get("SUPERSEDE", 0):
        return f"Remembered, as {added} {'fact' if added == 1 else 'facts'}."
    return "Nothing was added: " + (
        "it was held back or left out by the rules of this memory." if report.dropped else "memory knows it already."
    )


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _MAX_QUOTE_CHARACTERS else f"{line[:_MAX_QUOTE_CHARACTERS].rsplit(' ', 1)[0]} …"
