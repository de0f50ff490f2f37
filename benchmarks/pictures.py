"""Draw the pictures of the README and of the documentation, all in the look of the notebooks.

    python -m benchmarks.pictures

Two are from a real run of the demo: its output, and a part of the graph it leaves. A notebook draws the others. All are
written to ``docs/assets``.
"""

from __future__ import annotations

import asyncio
import base64
import io
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from itertools import dropwhile, takewhile
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from notebooks.pictures.look import BLUE, GREEN, GREY, INK, ORANGE, PALE, RED
from rich.console import Console
from rich.terminal_theme import DIMMED_MONOKAI
from rich.text import Text

from adk_graph_memory import GraphMemory, LocalNeo4j, Neo4jSessionService, Settings
from adk_graph_memory.cli.demo.conversation import load_conversation
from adk_graph_memory.cli.demo.playback import play_conversation
from adk_graph_memory.cli.demo.recorded_replies import choose_model

ROOT = Path(__file__).parents[1]
ASSETS = ROOT / "docs" / "assets"
NOTEBOOK_PICTURES = {"02_look_at_the_graph": ("person", "timeline", "changes")}
"""The names of the pictures that a notebook draws, in their order."""
QUESTIONS, WIDTH_IN_LETTERS = 3, 104
QUOTES = [
    "I live in Berlin, in Moabit",
    "The flat is in Russafa",
    "Vivo en Valencia desde el 8 de agosto",
    "I'm allergic to penicillin",
    "I told you I was allergic to penicillin. That was wrong. The allergist tested me and I'm not allergic to"
    " penicillin at all",
    "I'm allergic to ibuprofen",
    "Zoë is allergic to walnuts",
]
"""Words of the demo's conversation whose facts are drawn, from top to bottom."""

PART_OF_GRAPH = """
MATCH (f:Fact)-[s:SUPPORTED_BY]->(e:Event) WHERE s.quote IN $quotes
OPTIONAL MATCH (f)-[r:SUBJECT|OBJECT]->(n:Entity)
OPTIONAL MATCH (f)-[:SUPERSEDES]->(earlier:Fact)-[:SUPPORTED_BY]->(:Event)
RETURN f.id AS fact, f.text AS text, f.state AS state, toString(f.valid_to) AS ended, s.quote AS quote,
       e.timestamp AS said_at, collect(DISTINCT [type(r), n.name]) AS entities,
       collect(DISTINCT earlier.id) AS earlier
"""

WIDTH, QUOTE_X, FACT_X, ENTITY_X = 1240, 30, 450, 1010
QUOTE_WIDTH, FACT_WIDTH, ENTITY_WIDTH, GAP = 320, 400, 200, 16
STATE_COLORS = {"current": GREEN, "superseded": GREY, "retracted": RED}
STYLE = (
    f"text{{font-family:system-ui,-apple-system,'Segoe UI',Helvetica,Arial,sans-serif;fill:{INK};font-size:15px}}"
    f".small{{font-size:12px;fill:{PALE}}}.head{{font-size:13px;font-weight:600;fill:{PALE};letter-spacing:.08em}}"
    f".gone{{fill:{PALE}}}"
    ".retracted{text-decoration:line-through}.edge{font-size:11px;font-weight:600}"
)


@dataclass
class Card:
    """A box of the picture and its place."""

    lines: Sequence[str]
    note: str
    color: str
    x: float
    width: float
    y: float = 0.0
    text_class: str = ""

    @property
    def height(self) -> float:
        """Lines of text, and a smaller one for the note."""
        return 22 + 20 * len(self.lines) + (18 if self.note else 0)

    @property
    def middle(self) -> float:
        """Where lines to the card end."""
        return self.y + self.height / 2

    def draw(self) -> str:
        """The card as SVG."""
        parts = [
            f'<rect x="{self.x}" y="{self.y:.0f}" width="{self.width}" height="{self.height:.0f}" rx="10" '
            f'fill="#ffffff" stroke="{self.color}" stroke-width="1.6"/>',
            f'<rect x="{self.x}" y="{self.y:.0f}" width="6" height="{self.height:.0f}" rx="3" fill="{self.color}"/>',
        ]
        for number, line in enumerate(self.lines):
            y = self.y + 25 + 20 * number
            parts.append(f'<text x="{self.x + 18}" y="{y:.0f}" class="{self.text_class}">{escape(line)}</text>')
        if self.note:
            y = self.y + self.height - 12
            parts.append(f'<text x="{self.x + 18}" y="{y:.0f}" class="small">{escape(self.note)}</text>')
        return "".join(parts)


def draw_graph(rows: Sequence[Mapping[str, Any]]) -> str:
    """Draw quotes, facts and entities in three columns, with the relationships between them."""
    rows = sorted(rows, key=lambda row: QUOTES.index(row["quote"]))
    quotes = {row["quote"]: _make_quote_card(row) for row in rows}
    facts = {row["fact"]: _make_fact_card(row) for row in rows}
    names = dict.fromkeys(name for row in rows for _, name in row["entities"] if name)
    entities = {
        name: Card(["Franzi" if name == "user" else name], "", ORANGE, ENTITY_X, ENTITY_WIDTH) for name in names
    }
    _stack_cards(quotes.values(), 80)
    height = max(card.y + card.height for card in quotes.values()) + 40
    _spread_cards(facts.values(), 80, height - 40)
    _spread_cards(entities.values(), 80, height - 40)
    edges = [_draw_edge(facts[row["fact"]], quotes[row["quote"]], BLUE) for row in rows]
    for row in {row["fact"]: row for row in rows}.values():
        for kind, name in row["entities"]:
            if name:
                edges.append(_draw_edge(facts[row["fact"]], entities[name], ORANGE, dashed=kind == "SUBJECT"))
        edges += [_draw_loop(facts[row["fact"]], facts[id]) for id in row["earlier"] if id in facts]
    heads = [
        _draw_head(QUOTE_X, "WHAT WAS SAID", "Event"),
        _draw_head(FACT_X, "WHAT IT MEANS", "Fact"),
        _draw_head(ENTITY_X, "WHOM AND WHAT", "Entity"),
    ]
    cards = [card.draw() for card in (*quotes.values(), *facts.values(), *entities.values())]
    legend = _draw_legend(height + 8)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height + 40:.0f}" role="img" '
        f'aria-label="A part of one user\'s graph"><style>{STYLE}</style>'
        f'<rect width="100%" height="100%" rx="14" fill="#f7f9fb"/>{"".join((*heads, *edges, *cards, legend))}</svg>\n'
    )


def _make_quote_card(row: Mapping[str, Any]) -> Card:
    said = datetime.fromtimestamp(row["said_at"], UTC)
    return Card(textwrap.wrap(f"“{row['quote']}”", 38), f"Franzi, {said.day} {said:%B %Y}", BLUE, QUOTE_X, QUOTE_WIDTH)


def _make_fact_card(row: Mapping[str, Any]) -> Card:
    state = row["state"]
    ended = f"ended on {row['ended'][:10]}" if state == "superseded" and row["ended"] else state
    text_class = {"current": "", "retracted": "gone retracted"}.get(state, "gone")
    return Card(textwrap.wrap(row["text"], 48), ended, STATE_COLORS[state], FACT_X, FACT_WIDTH, text_class=text_class)


def _stack_cards(cards: Iterable[Card], top: float) -> None:
    for card in cards:
        card.y, top = top, top + card.height + GAP


def _spread_cards(cards: Iterable[Card], top: float, bottom: float) -> None:
    cards = list(cards)
    gap = (bottom - top - sum(card.height for card in cards)) / max(len(cards) - 1, 1)
    for card in cards:
        card.y, top = top, top + card.height + gap


def _draw_edge(start: Card, end: Card, color: str, *, dashed: bool = False) -> str:
    x1, x2 = (start.x + start.width, end.x) if end.x > start.x else (start.x, end.x + end.width)
    bend = (x2 - x1) * 0.5
    dash = ' stroke-dasharray="5 5"' if dashed else ""
    return (
        f'<path d="M{x1:.0f} {start.middle:.0f} C{x1 + bend:.0f} {start.middle:.0f} {x2 - bend:.0f} {end.middle:.0f} '
        f'{x2:.0f} {end.middle:.0f}" fill="none" stroke="{color}" stroke-opacity=".65" stroke-width="1.6"{dash}/>'
    )


def _draw_loop(later: Card, earlier: Card) -> str:
    """An arrow at the cards' left from the later fact to the one that it ended."""
    x, start, end = later.x, later.y + 8, earlier.y + earlier.height - 8
    return (
        f'<path d="M{x + 40} {later.y:.0f} L{x + 40} {earlier.y + earlier.height + 7:.0f}" stroke="{RED}" fill="none" '
        f'stroke-width="1.8"/><path d="M{x + 35} {end + 16:.0f} l5 -8 l5 8 z" fill="{RED}"/>'
        f'<text x="{x + 52}" y="{(start + end) / 2 + 4:.0f}" class="edge" style="fill:{RED}">SUPERSEDES</text>'
    )


def _draw_head(x: float, title: str, label: str) -> str:
    return f'<text x="{x}" y="40" class="head">{title}</text><text x="{x}" y="58" class="small">(:{label})</text>'


def _draw_legend(y: float) -> str:
    items = [(BLUE, "", "SUPPORTED_BY"), (ORANGE, "5 5", "SUBJECT"), (ORANGE, "", "OBJECT"), (RED, "", "SUPERSEDES")]
    parts = []
    for number, (color, dash, name) in enumerate(items):
        x = QUOTE_X + 170 * number
        parts.append(
            f'<path d="M{x} {y:.0f} h34" stroke="{color}" stroke-width="2" stroke-dasharray="{dash or "none"}"/>'
            f'<text x="{x + 42}" y="{y + 4:.0f}" class="small">{name}</text>'
        )
    return "".join(parts)


async def draw_pictures() -> None:
    """Run the demo on a server of its own and write both pictures."""
    ASSETS.mkdir(exist_ok=True)
    model = choose_model(None, has_key=False, is_own=True)
    async with LocalNeo4j() as server:
        settings = Settings(uri=server.uri, username=server.auth[0], password=server.auth[1])
        async with (
            Neo4jSessionService(settings=settings) as sessions,
            GraphMemory(settings=settings, model=model) as memory,
        ):
            consoles = [
                Console(record=True, width=WIDTH_IN_LETTERS, file=io.StringIO(), highlight=False) for _ in range(3)
            ]
            for console, questions in zip(consoles, (0, QUESTIONS, QUESTIONS), strict=True):  # the second one warms up
                await play_conversation(
                    load_conversation(None),
                    sessions=sessions,
                    memory=memory,
                    console=console,
                    questions=questions,
                )
            rows = await memory.connection.run_cypher(PART_OF_GRAPH, {"quotes": QUOTES})
    (ASSETS / "graph.svg").write_text(draw_graph([dict(row) for row in rows]), "utf-8")
    first, _, warm = (console.export_text(styles=True).splitlines() for console in consoles)
    totals = takewhile(lambda line: "How facts changed" not in line, first)
    answers = takewhile(lambda line: "Ask it yourself" not in line, dropwhile(lambda line: "? " not in line, warm))
    _draw_console([*totals, *answers])


def _draw_console(lines: Iterable[str]) -> None:
    """Draw lines of the demo's output: the totals of its first run and the answers of a later one."""
    console = Console(record=True, width=WIDTH_IN_LETTERS, file=io.StringIO(), highlight=False)
    for line in lines:
        console.print(Text.from_ansi(line))
    drawing = console.export_svg(title="make demo", theme=DIMMED_MONOKAI)
    drawing = re.sub(r"@font-face \{.*?\}\n", "", drawing, flags=re.DOTALL)  # no fonts from elsewhere
    (ASSETS / "demo.svg").write_text(drawing, "utf-8")


def draw_notebook_pictures() -> None:
    """Execute the notebooks and write what they draw."""
    for notebook_name, picture_names in NOTEBOOK_PICTURES.items():
        path = ROOT / "notebooks" / f"{notebook_name}.ipynb"
        notebook = nbformat.read(path, as_version=4)
        NotebookClient(notebook, kernel_name="python3", resources={"metadata": {"path": str(path.parent)}}).execute()
        outputs = [output.get("data", {}) for cell in notebook.cells for output in cell.get("outputs", ())]
        pictures = [output["image/png"] for output in outputs if "image/png" in output]
        for picture_name, picture in zip(picture_names, pictures, strict=True):
            (ASSETS / f"{picture_name}.png").write_bytes(base64.b64decode(picture))


if __name__ == "__main__":
    asyncio.run(draw_pictures())
    draw_notebook_pictures()
