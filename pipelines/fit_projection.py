"""Fit the projection that packs a model's token vectors to sample texts, and write it to a file.

    python pipelines/fit_projection.py --embedder all-MiniLM-L12-v2 --texts sample.txt --out L12.npz
    export ADK_GRAPH_MEMORY_TOKEN_PROJECTION=L12.npz
    adk-graph-memory reembed --embedder all-MiniLM-L12-v2 --force

Without such a file a random projection packs the token vectors, and searches find a little less. A few thousand texts
like those that users will write are enough; the file does not contain them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from adk_graph_memory import errors
from adk_graph_memory.models.local import LocalEmbedder
from adk_graph_memory.models.projection import Projection
from adk_graph_memory.models.tokens import TokenEncoder
from adk_graph_memory.records.turns import Passage

MIN_TEXTS = 1_000
"""The fewest texts that a projection can be fitted to."""


def fit_token_projection(embedder: str, texts: list[str]) -> Projection:
    """Fit the projection that best keeps the tokens of these texts apart; duplicate and blank texts are ignored.

    Raises:
        errors.ConfigurationError: the texts are too few, or the model provides no token vectors.
        errors.EmbedderMissing: the model cannot be loaded.
    """
    texts = list(dict.fromkeys(text for text in texts if text.strip()))
    if len(texts) < MIN_TEXTS:
        raise errors.ConfigurationError(reason=f"{len(texts)} different texts are too few; give at least {MIN_TEXTS:,}")
    encoder = TokenEncoder.from_model(LocalEmbedder(embedder).loaded_model, "")
    if encoder is None:
        raise errors.ConfigurationError(reason=f"{embedder} shows no token vectors, or not where its tokens stand")
    return Projection.fit(encoder.encode_tokens([Passage(text) for text in texts]))


def main(
    out: Annotated[Path, typer.Option(help="The file to write.")],
    texts: Annotated[list[Path], typer.Option(help="A file with a text a line; may be given again.")],
    embedder: Annotated[str, typer.Option(help="A model's name or path.")] = "all-MiniLM-L6-v2",
) -> None:
    """Fit what packs a model's token vectors to texts of your own."""
    try:
        lines = [line for path in texts for line in path.read_text("utf-8").splitlines()]
        projection = fit_token_projection(embedder, lines)
        projection.save(out)
    except (OSError, UnicodeDecodeError, errors.GraphMemoryError) as error:
        typer.echo(error, err=True)
        raise typer.Exit(2) from None
    size, dimensions = projection.matrix.shape
    typer.echo(f"{out}: {size} numbers a token to {dimensions}, spread {projection.spread:.3f}")


if __name__ == "__main__":
    typer.run(main)
