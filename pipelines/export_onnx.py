"""Export a sentence-transformers model to a folder that the light embedder reads without PyTorch.

    python pipelines/export_onnx.py --model all-MiniLM-L6-v2 --out minilm
    python -c "from adk_graph_memory import LightEmbedder; print(LightEmbedder(folder='minilm').embed_query('Rex')[:3])"

Many models have such an export at the hub, which the light embedder downloads by itself; this makes one of a model
that has none, or where the hub is out of reach. Its vectors are compared with those of the model before it counts as
made. It needs the extra `local` and `pip install onnxscript`.

    python pipelines/export_onnx.py --out minilm --graph src/adk_graph_memory/models/graphs/all-MiniLM-L6-v2.onnx

also writes the graph without its weights, which it takes by their names from the model's own file.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import typer

from adk_graph_memory import errors
from adk_graph_memory.models.light import ONNX_FILE, WEIGHTS_FILE, LightEmbedder, OnnxModel, read_weights
from adk_graph_memory.models.local import LocalEmbedder
from adk_graph_memory.models.tokens import TorchModel

SAMPLES = ("Where do I keep the bees?", "My aunt Clara keeps hers behind the house, next to the old shed. " * 8)
MIN_COSINE = 0.999
"""The least cosine between the vector of the export and that of the model, for the same text."""


def export_model(model: str, folder: Path, graph: Path | None = None) -> None:
    """Export a model; the folder must be new or empty.

    Args:
        model: its name or path.
        folder: where the export goes.
        graph: where the graph without its weights goes, if that is wanted.

    Raises:
        errors.ConfigurationError: the folder is not empty, the model's vectors are not the mean of token vectors, or
            the export does not make them.
        errors.EmbeddingError: the model cannot be loaded.
    """
    if folder.exists() and any(folder.iterdir()):
        raise errors.ConfigurationError(reason=f"{folder} is not empty")
    embedder = LocalEmbedder(model)
    transformer = embedder.loaded_model.cpu()
    token_model = TorchModel.from_sentence_transformer(transformer)
    if not (token_model and token_model.has_mean_pooling):
        raise errors.ConfigurationError(reason=f"the vectors of {model} are not the mean of token vectors")
    try:
        transformer.save_pretrained(str(folder), create_model_card=False)
        (folder / ONNX_FILE).parent.mkdir()
        _write_onnx(transformer, folder / ONNX_FILE)
        _compare_vectors(embedder, folder)
        if graph:
            _write_graph(folder, graph)
        for weights in [*folder.glob("*.safetensors"), *folder.glob("*.bin")]:
            weights.unlink()
    except BaseException:
        shutil.rmtree(folder)
        raise


def _write_onnx(transformer: Any, path: Path) -> None:
    """Write the first module, which makes the token vectors, for any number of texts of any length."""
    import torch

    class TokenVectors(torch.nn.Module):
        """The first module, with tensors for arguments and result."""

        def __init__(self) -> None:
            super().__init__()
            self.module = transformer[0]

        def forward(self, **features: torch.Tensor) -> torch.Tensor:
            vectors: torch.Tensor = self.module(features)["token_embeddings"]
            return vectors

    features = dict(transformer.tokenizer(list(SAMPLES), padding=True, truncation=True, return_tensors="pt"))
    shape = {0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC}
    torch.onnx.export(
        TokenVectors().eval(),
        (),
        path,
        kwargs=features,
        input_names=list(features),
        output_names=["last_hidden_state"],
        dynamic_shapes={"features": dict.fromkeys(features, shape)},
        external_data=False,
        dynamo=True,
        verbose=False,
    )


def _compare_vectors(embedder: LocalEmbedder, folder: Path) -> None:
    texts = list(SAMPLES)
    vectors = np.array(LightEmbedder(embedder.model, folder).embed_documents(texts))
    expected_vectors = np.array(embedder.embed_documents(texts))
    lengths = np.linalg.norm(vectors, axis=1) * np.linalg.norm(expected_vectors, axis=1)
    cosine = float(((vectors * expected_vectors).sum(axis=1) / lengths).min())
    if not cosine >= MIN_COSINE:
        raise errors.ConfigurationError(reason=f"the export makes other vectors than the model (cosine {cosine:.4f})")


def _write_graph(folder: Path, graph: Path) -> None:
    """Write the export with references by name in place of the tensors that the model's own file holds."""
    import onnx
    from onnx import StringStringEntryProto, TensorProto, helper, numpy_helper

    model, weights = onnx.load(folder / ONNX_FILE), read_weights(folder / WEIGHTS_FILE)
    known = {_key(weight.T): ("Transpose", name) for name, weight in weights.items()}
    known |= {_key(weight): ("Identity", name) for name, weight in weights.items()}
    location = StringStringEntryProto(key="location", value=WEIGHTS_FILE)
    references = [
        TensorProto(
            name=name,
            data_type=TensorProto.FLOAT,
            dims=weight.shape,
            data_location=TensorProto.EXTERNAL,
            external_data=[location],
        )
        for name, weight in weights.items()
    ]
    constants, nodes = [], []
    for tensor in model.graph.initializer:
        if source := known.get(_key(numpy_helper.to_array(tensor))):
            operator, name = source
            nodes.append(helper.make_node(operator, [name], [tensor.name]))
        else:
            constants.append(tensor)
    for node in model.graph.node:
        del node.metadata_props[:]  # where in which file of PyTorch each comes from
        nodes.append(node)
    stripped = helper.make_graph(
        nodes, model.graph.name, model.graph.input, model.graph.output, [*references, *constants]
    )
    graph.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(helper.make_model(stripped, opset_imports=model.opset_import, ir_version=model.ir_version), graph)
    ours, theirs = (OnnxModel(folder, path).encode_tokens(SAMPLES)[0].vectors for path in (graph, None))
    if not np.allclose(ours, theirs, atol=1e-5):
        raise errors.ConfigurationError(reason=f"{graph} makes other vectors than the export")


def _key(tensor: npt.NDArray[Any]) -> tuple[object, ...]:
    return tensor.shape, tensor.dtype.str, tensor.tobytes()


def main(
    out: Annotated[Path, typer.Option(help="The folder to write.")],
    model: Annotated[str, typer.Option(help="A model's name or path.")] = "all-MiniLM-L6-v2",
    graph: Annotated[Path | None, typer.Option(help="A file to write: the graph without its weights.")] = None,
) -> None:
    """Export a sentence-transformers model to a folder that the light embedder reads."""
    try:
        export_model(model, out, graph)
    except (OSError, errors.GraphMemoryError) as error:
        typer.echo(error, err=True)
        raise typer.Exit(2) from None
    size = sum(file.stat().st_size for file in out.rglob("*") if file.is_file())
    typer.echo(f"{out}: {size / 1e6:.0f} MB")


if __name__ == "__main__":
    typer.run(main)
