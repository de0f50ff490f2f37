"""Make a recorded reply worse in one way at a time, as a weaker model would: pure functions from reply to reply."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, get_args

from adk_graph_memory.consolidation.judge import OpReply

Reply = dict[str, Any]
OPERATIONS = get_args(OpReply.model_fields["op"].annotation)
ALREADY_KNOWN = "ALREADY_KNOWN"
NOBODY = 990
"""No reply has a reference, and no prompt a number, as high as this."""


@dataclass(frozen=True, slots=True)
class NumberedItems:
    """What the prompt gave numbers to, and a careless reply may point to."""

    known: Mapping[int, tuple[str, str]]
    """name and kind of each known entity"""
    facts: Mapping[int, str]
    """quotes of the known facts"""
    new: Mapping[int, str]
    """quotes of the new ones"""


Change = Callable[[Reply, NumberedItems, random.Random], Reply]


def keep_reply(reply: Reply, shown: NumberedItems, chance: random.Random) -> Reply:
    """The reply as it was recorded."""
    return reply


@dataclass(frozen=True, slots=True)
class Perturbation:
    """A way to get a reply wrong: what becomes of the entities and facts read, and of the decisions on them."""

    kind: str
    name: str
    read: Change = keep_reply
    judge: Change = keep_reply
    is_quoted: bool = False
    """whether a decision gives the words of both facts, as one that is meant so would"""


# entities: the number of somebody known


def _change_ids(choose: Callable[[int | None, NumberedItems, random.Random], int | None]) -> Change:
    def change(reply: Reply, shown: NumberedItems, chance: random.Random) -> Reply:
        entities = [
            {**entity, "known_id": choose(entity.get("known_id"), shown, chance)} for entity in reply["entities"]
        ]
        return {**reply, "entities": entities}

    return change


def swap_ids(reply: Reply, shown: NumberedItems, chance: random.Random) -> Reply:
    """Gives the number of each to another, two by two; the two differ in name or kind."""
    rest = [entity["known_id"] for entity in reply["entities"] if entity.get("known_id") is not None]
    chance.shuffle(rest)
    swapped: dict[int, int] = {}
    while rest:
        one = rest.pop()
        other = next((other for other in rest if shown.known.get(other) != shown.known.get(one)), None)
        if other is not None:
            rest.remove(other)
            swapped |= {one: other, other: one}
    return _change_ids(lambda id, *_: swapped.get(id, id) if id is not None else None)(reply, shown, chance)


def _choose_somebody(id: int | None, shown: NumberedItems, chance: random.Random) -> int | None:
    return id if id is not None or not shown.known else chance.choice(sorted(shown.known))


# decisions: what relates to what


def _aim_new_facts(op: str, *, is_aimed: bool = True, is_quoted: bool = False) -> Change:
    """Says the same of every new fact: of some known fact, by a wrong number or with its quote, or of none."""

    def change(reply: Reply, shown: NumberedItems, chance: random.Random) -> Reply:
        if is_aimed and not shown.facts:
            return reply
        quotes = {op["fact"]: op["quotes"] for op in reply["ops"] if op.get("quotes")}
        ops = []
        for fact, quote in shown.new.items():
            target = chance.choice([*shown.facts])
            given = [quote, shown.facts[target]] if is_quoted else quotes.get(fact, [quote])
            targets = [target] if is_aimed else []
            ops.append({"fact": fact, "op": op, "targets": targets, "quotes": given, "reason": "So it is."})
        return {**reply, "ops": ops}

    return change


# facts: turns and quotes


def _edit_facts(edit: Callable[[Reply, random.Random], Reply]) -> Change:
    def change(reply: Reply, shown: NumberedItems, chance: random.Random) -> Reply:
        return {**reply, "facts": [{**fact, **edit(fact, chance)} for fact in reply["facts"]]}

    return change


def _edit_turns(edit: Callable[[list[int]], list[int]]) -> Change:
    return _edit_facts(lambda fact, _: {"turns": edit(fact["turns"])})


def _edit_quotes(edit: Callable[[str, random.Random], str]) -> Change:
    return _edit_facts(lambda fact, chance: {"quote": edit(fact["quote"], chance)})


def _insert_marks(pattern: str, marks: str) -> Callable[[str, random.Random], str]:
    """Puts one of the marks into about a third of the places that the pattern finds, into one at least."""

    def edit(quote: str, chance: random.Random) -> str:
        places = [match.start() for match in re.finditer(pattern, quote)]
        for place in sorted(chance.sample(places, -(-len(places) // 3)), reverse=True):
            quote = quote[:place] + chance.choice(marks) + quote[place:]
        return quote

    return edit


def change_end(quote: str, chance: random.Random) -> str:
    """Ends it with the final mark of some script."""
    return quote.rstrip(" .,;:!?。！？、؟،।॥") + chance.choice("。؟،।！;")


def mark_words(quote: str, chance: random.Random) -> str:
    """Sets a word in bold, in italics or as code, or makes the whole a Markdown quotation."""
    words = quote.split(" ")
    at, mark = chance.randrange(len(words)), chance.choice(("**", "_", "`", "> "))
    if mark == "> ":
        return mark + quote
    words[at] = f"{mark}{words[at]}{mark}"
    return " ".join(words)


_CJK, _LATIN = "[\u3040-\u30ff\u3400-\u9fff]", "[0-9A-Za-z]"


def space_scripts(quote: str, chance: random.Random) -> str:
    """Sets a space where Chinese or Japanese meets Latin letters or digits, or takes away the one that is there."""
    border = rf"(?<={_CJK})( ?)(?={_LATIN})|(?<={_LATIN})( ?)(?={_CJK})"
    return re.sub(border, lambda match: "" if match[0] else " ", quote)


def leave_out_middle(quote: str, chance: random.Random) -> str:
    """Leaves out the middle third of a long quote: "A … B"."""
    is_spaced = quote.count(" ") >= len(quote) / 20
    parts = quote.split(" ") if is_spaced else list(quote)
    if len(parts) < (8 if is_spaced else 12):
        return quote
    third, blank = len(parts) // 3, " " if is_spaced else ""
    return blank.join(parts[:third]) + chance.choice((" … ", " ... ", "…")) + blank.join(parts[-third:])


def curl_quotes(quote: str, chance: random.Random) -> str:
    """Makes straight quotation marks curly, of one language or another."""
    opening, closing = chance.choice(("“”", "„“", "«»", "「」"))
    paired = re.sub(r'"([^"]*)"', lambda match: f"{opening}{match[1]}{closing}", quote)
    return paired.replace("'", "’").replace('"', closing)


_LETTERS = r"(?<=[^\W\d_])(?=[^\W\d_])"
_ARABIC = "(?<=[\u0620-\u064a])(?=[\u0620-\u064a])"


# the form of a reply


def write_numbers_as_strings(reply: Reply, shown: NumberedItems, chance: random.Random) -> Reply:
    """Writes every number as a string."""
    texts: Reply = _map_values(
        reply, lambda value: str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    )
    return texts


def _map_values(value: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(value, dict):
        return {name: _map_values(item, change) for name, item in value.items()}
    return [_map_values(item, change) for item in value] if isinstance(value, list) else change(value)


def _add_dangling(fact: Reply, chance: random.Random) -> Reply:
    """Refers to what is not there, beside what is."""
    others = {name: [*fact.get(name, ()), NOBODY + i] for i, name in enumerate(("replaces", "depends_on"))}
    return {**others, "turns": [*fact["turns"], NOBODY], "object": fact["object"] if chance.random() < 0.7 else NOBODY}


def _add_dangling_targets(reply: Reply, shown: NumberedItems, chance: random.Random) -> Reply:
    ops = [{**op, "targets": [*op["targets"], NOBODY]} for op in reply["ops"]]
    depends = [{**dependency, "on": [*dependency["on"], NOBODY]} for dependency in reply["depends"]]
    nobody = {"fact": NOBODY, "op": "SUPERSEDE", "targets": [*[*shown.facts][:1], NOBODY + 1], "reason": ""}
    return {**reply, "ops": [*ops, nobody], "depends": depends, "same": [*reply["same"], {"name": NOBODY, "known": 0}]}


def _say_twice(reply: Reply, shown: NumberedItems, chance: random.Random) -> Reply:
    return {name: [item for item in part for _ in range(2)] for name, part in reply.items()}


PERTURBATIONS = (
    Perturbation("ids", "known_id + 1", _change_ids(lambda id, *_: None if id is None else id + 1)),
    Perturbation("ids", "known_id left out", _change_ids(lambda *_: None)),
    Perturbation("ids", "known_id swapped, two by two", swap_ids),
    Perturbation("ids", "known_id of anybody for who has none", _change_ids(_choose_somebody)),
    Perturbation(
        "decisions", f"{ALREADY_KNOWN} for all, no target", judge=_aim_new_facts(ALREADY_KNOWN, is_aimed=False)
    ),
    *(
        Perturbation("decisions", f"{op} onto a random known fact", judge=_aim_new_facts(op))
        for op in (ALREADY_KNOWN, "REFINE", "REINFORCE", "SUPERSEDE", "RETRACT")
    ),
    *(
        Perturbation(
            "decisions",
            f"{op} onto a random known fact, both quoted",
            judge=_aim_new_facts(op, is_quoted=True),
            is_quoted=True,
        )
        for op in ("SUPERSEDE", "RETRACT")
    ),
    Perturbation("turns", "turn numbers + 1", _edit_turns(lambda turns: [turn + 1 for turn in turns])),
    Perturbation("turns", "turn numbers - 1", _edit_turns(lambda turns: [turn - 1 for turn in turns])),
    Perturbation("turns", "turns named twice", _edit_turns(lambda turns: [*turns, *turns])),
    Perturbation("quotes", "apostrophes left out", _edit_quotes(lambda quote, _: re.sub("['’]", "", quote))),
    Perturbation("quotes", "another final mark", _edit_quotes(change_end)),
    Perturbation(
        "quotes", "zero-width, direction marks", _edit_quotes(_insert_marks(r"\b|$", "\u200b\u200d\u200e\u200f\ufeff"))
    ),
    Perturbation(
        "quotes", "half a pair of quotation marks", _edit_quotes(lambda quote, chance: chance.choice('"“«「') + quote)
    ),
    Perturbation("quotes", "soft hyphens", _edit_quotes(_insert_marks(_LETTERS, "\u00ad"))),
    Perturbation("quotes", "tatweel", _edit_quotes(_insert_marks(_ARABIC, "\u0640"))),
    Perturbation("quotes", "harakat", _edit_quotes(_insert_marks(_ARABIC, "\u064e\u064f\u0650\u0651\u0652"))),
    Perturbation("quotes", "Markdown marks", _edit_quotes(mark_words)),
    Perturbation("quotes", "spaces between CJK and Latin", _edit_quotes(space_scripts)),
    Perturbation("quotes", "A … B", _edit_quotes(leave_out_middle)),
    Perturbation("quotes", "curly quotes", _edit_quotes(curl_quotes)),
    Perturbation("form", "numbers as strings", write_numbers_as_strings, write_numbers_as_strings),
    Perturbation("form", "everything said twice", _say_twice, _say_twice),
    Perturbation("form", "references to nothing", _edit_facts(_add_dangling), _add_dangling_targets),
)
