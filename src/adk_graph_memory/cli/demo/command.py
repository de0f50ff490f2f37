"""The command ``demo``: run sessions, memory and questions on a real conversation."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

import adk_graph_memory
from adk_graph_memory.cli.application import EXAMPLE_PANEL, command
from adk_graph_memory.cli.database_commands import start_with_progress
from adk_graph_memory.cli.lazy_modules import asyncio, conversations, environment, playback, recorded_replies
from adk_graph_memory.cli.lazy_modules import settings as configuration
from adk_graph_memory.cli.output import Output, SafeConsole, hide_status, wants_json
from adk_graph_memory.cli.reread_commands import EmbedderOption, resolve_embedder


@command(EXAMPLE_PANEL)
def demo(
    data: Annotated[Path | None, typer.Option(help="A conversation in the demo's own JSON form.")] = None,
    questions: Annotated[int | None, typer.Option(min=0, help="The number of its questions to ask.")] = None,
    model: Annotated[str | None, typer.Option(help="What extracts facts: a model's name, or rules.")] = None,
    embedder: EmbedderOption = None,
) -> Output | None:
    """Run a whole conversation: store its sessions, remember them, and ask questions.

    Gemini extracts the facts if GOOGLE_API_KEY is set. Otherwise, the demo's own conversation uses a language model's
    recorded replies to these prompts, and any other uses rules. With --json, only the result is printed.
    """
    screen = SafeConsole(highlight=False, quiet=wants_json.get())
    conversation = conversations.load_conversation(data)
    is_local = not environment.is_variable_set("NEO4J_URI")
    if is_local:
        start_with_progress(any_port=True)
        hide_status()
    settings = configuration.load_settings()
    reader = recorded_replies.choose_model(
        model or settings.model, has_key=environment.is_variable_set("GOOGLE_API_KEY"), is_own=data is None
    )
    model_name = reader if isinstance(reader, str) else "a language model's recorded replies"
    screen.print(
        f"Neo4j at {escape(configuration.hide_credentials(settings.uri or ''))}"
        f"{' (it stays up until `adk-graph-memory down`)' if is_local else ''}, "
        f"facts extracted by [bold]{escape(model_name)}[/]\n"
    )

    async def play() -> playback.DemoResult:
        async with (
            adk_graph_memory.Neo4jSessionService() as sessions,
            adk_graph_memory.GraphMemory(model=reader, embedder=resolve_embedder(embedder)) as memory,
        ):
            return await playback.play_conversation(
                conversation, sessions=sessions, memory=memory, console=screen, questions=questions
            )

    result = asyncio.run(play())
    return Output(result, "") if wants_json.get() else None
