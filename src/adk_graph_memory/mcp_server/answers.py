"""Word what tools answer: small, text first, and every memory with its id."""

from __future__ import annotations

from collections.abc import Iterable

from adk_graph_memory.language.wording import join_lines, shorten_text
from adk_graph_memory.records import IngestReport, Recollection
from adk_graph_memory.records.dates import format_english_date
from adk_graph_memory.records.inspection import InspectedFact, RevisionEntry
from adk_graph_memory.records.proposals import Proposal

_MAX_QUOTE_CHARACTERS = 200


def list_memories(memories: Iterable[Recollection]) -> str:
    """List memories, each with who said it and when, and the words that a fact rests on."""
    lines = (_describe_memory(number, memory) for number, memory in enumerate(memories, 1))
    return "\n".join(lines)


def _describe_memory(number: int, memory: Recollection) -> str:
    day = format_english_date(memory.at, "day") if memory.at else None
    said = ", ".join(filter(None, (memory.author, day)))
    quote = f"\n   “{_cut(memory.quote)}”" if memory.quote and memory.quote != memory.text else ""
    return join_lines(f"{number}. {memory.prompt_text} ({said}) [{memory.id}]") + quote


def describe_fact(details: InspectedFact) -> str:
    """Tell what made a fact what it is, a line for each word and each change, the latest change first."""
    fact = details.fact
    lines = [f"{fact.text} ({fact.status if fact.state == 'current' else fact.state})"]
    lines += [
        f"- {format_english_date(source.at, 'day')}: {source.author} said “{_cut(source.quote)}”"
        for source in fact.sources
    ]
    lines += [_describe_revision(revision) for revision in details.revisions]
    lines += [f"- It replaced: {link.fact.text}" for link in details.replaced if not link.is_void]
    lines += [f"- It was replaced by: {link.fact.text}" for link in details.replaced_by if not link.is_void]
    return "\n".join(map(join_lines, lines if len(lines) > 1 else [*lines, "It was added directly, word for word."]))


def _describe_revision(revision: RevisionEntry) -> str:
    day = f"{format_english_date(revision.at, 'day')}: " if revision.at else ""
    reason = f" ({revision.reason})" if revision.reason else ""
    quotes = "".join(f" “{_cut(quote)}”" for quote in revision.quotes)
    return f"- {day}changed by {revision.by or 'rules'}{reason}; before, it said: {revision.text}{quotes}"


def describe_report(report: IngestReport) -> str:
    """Tell what became of a statement."""
    if report.busy:
        return (
            "It waits: another process may be reading it. If that died, `adk-graph-memory ingest --pending` reads it."
        )
    added, ended = report.facts.get("ADD", 0), report.facts.get("SUPERSEDE", 0) + report.facts.get("RETRACT", 0)
    outcomes = [f"It is remembered as {_count(added)}."] * bool(added)
    outcomes += [f"It made {_count(report.facts['REFINE'])} more exact."] * ("REFINE" in report.facts)
    outcomes += [f"It ended {_count(ended)}."] * bool(ended)
    if outcomes:
        return " ".join(outcomes)
    if report.forgotten:
        return "Nothing was kept of it: it asks to be forgotten."
    if report.dropped:
        return "Nothing was added: the rules of this memory left it out, or hold it for the owner to review."
    return "Nothing was added: memory knows it already."


def describe_proposal(proposal: Proposal) -> str:
    """Tell that the owner decides."""
    if proposal.action == "forget":
        what = f"to forget “{_cut(proposal.memory_text)}”"
    else:
        what = f"to correct “{_cut(proposal.memory_text)}” to “{_cut(proposal.text)}”"
    return f"Proposed to the owner: {what}. Nothing has changed; the owner decides."


def _count(facts: int) -> str:
    return "one fact" if facts == 1 else f"{facts} facts"


def _cut(text: str) -> str:
    return shorten_text(join_lines(text), _MAX_QUOTE_CHARACTERS)
