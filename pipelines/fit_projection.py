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
from adk_graph_memory.embeddings import LocalEmbedder, Projection, TokenEncoder
from adk_graph_memory.embeddings.projection import TOKEN_DIMENSIONS
from adk_graph_memory.records import Passage

MIN_TEXTS = 1_000
"""The fewest texts that a projection can be fitted to."""


def fit_token_projection(embedder: str, texts: list[str], dimensions: int = TOKEN_DIMENSIONS) -> Projection:
    """Fit the projection that best keeps the tokens of these texts apart.

    Duplicate and blank texts are ignored. ``dimensions`` is the even count of numbers kept of a token vector.

    Raises:
        errors.ConfigurationError: the texts are too few, or the model provides no token vectors.
        errors.EmbedderMissing: the model cannot be loaded.
    """
    texts = list(dict.fromkeys(text for text in texts if text.strip()))
    if len(texts) < MIN_TEXTS:
        raise errors.ConfigurationError(reason=f"{len(texts)} different texts are too few; give at least {MIN_TEXTS:,}")
    if dimensions % 2:
        raise errors.ConfigurationError(reason=f"--dimensions {dimensions} is odd; two numbers share a byte")
    encoder = TokenEncoder.from_model(LocalEmbedder(embedder).loaded_model, "")
    if encoder is None:
        raise errors.ConfigurationError(reason=f"{embedder} shows no token vectors, or not where its tokens stand")
    return Projection.fit(encoder.encode_tokens([Passage(text) for text in texts]), dimensions)


def main(
    out: Annotated[Path, typer.Option(help="The file to write.")],
    texts: Annotated[list[Path], typer.Option(help="A file with a text a line; may be given again.")],
    embedder: Annotated[str, typer.Option(help="A model's name or path.")] = "all-MiniLM-L6-v2",
    dimensions: Annotated[
        int, typer.Option(min=2, help="Numbers kept of a token vector, an even count.")
    ] = TOKEN_DIMENSIONS,
) -> None:
    """Fit what packs a model's token vectors to texts of your own."""
    try:
        lines = [line for path in texts for line in path.read_text("utf-8").splitlines()]
        projection = fit_token_projection(embedder, lines, dimensions)
        projection.save(out)
    except (OSError, UnicodeDecodeError, errors.GraphMemoryError) as error:
        typer.echo(error, err=True)
        raise typer.Exit(2) from None
    typer.echo(f"{out}: {projection.matrix.shape[0]} numbers a token to {dimensions}, spread {projection.spread:.3f}")


if __name__ == "__main__":
    typer.run(main)
