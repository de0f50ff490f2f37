"""Whatever embedder is given, the memory gets checked vectors, or an error that says what was wrong."""

from __future__ import annotations

import asyncio
import re
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import huggingface_hub
import numpy
import pytest
from huggingface_hub import errors as huggingface_errors
from neo4j_graphrag.embeddings.base import Embedder

from adk_graph_memory import GraphMemory, errors
from adk_graph_memory.models.embedder import EmbedderAdapter
from adk_graph_memory.models.local import DEFAULT_MODEL, LocalEmbedder, find_packaged_model
from adk_graph_memory.models.tokens import QuestionEmbedding
from adk_graph_memory.records.turns import Embedding, Passage
from adk_graph_memory.runtime.settings import Limits, Settings
from adk_graph_memory.testing import HashEmbedder


def refused(kind: type[huggingface_errors.HfHubHTTPError]) -> huggingface_errors.HfHubHTTPError:
    """The hub's error, without the library of its requests."""
    return kind.__new__(kind)


class One(Embedder):
    """Takes one text a call; remembers how many calls ran at once."""

    def __init__(self, make: Callable[[str], Any] = lambda text: [float(len(text)), 1.0]) -> None:
        super().__init__()
        self.make, self.running, self.most = make, 0, 0
        self._lock = threading.Lock()

    def embed_query(self, text: str) -> list[float]:
        with self._lock:
            self.running += 1
            self.most = max(self.most, self.running)
        time.sleep(0.01)
        with self._lock:
            self.running -= 1
        result: list[float] = self.make(text)
        return result


class Many(One):
    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [self.make(text) for text in texts]


def vectors(choice: Any, concurrency: int = 4) -> EmbedderAdapter:
    return EmbedderAdapter(choice, Settings(limits=Limits(embed_concurrency=concurrency)))


def passages(texts: list[str]) -> list[Passage]:
    return [Passage(text) for text in texts]


async def test_vectors_come_in_the_order_of_the_texts() -> None:
    texts = [f"{'x' * n}" for n in range(20)]
    assert await vectors(One()).embed_passages(passages(texts)) == [Embedding([float(n), 1.0]) for n in range(20)]


async def test_no_text_needs_no_embedder() -> None:
    assert await vectors(One(lambda text: 1 / 0)).embed_passages([]) == []


async def test_many_texts_are_one_call_where_the_embedder_can_do_that() -> None:
    embedder = HashEmbedder()
    await vectors(embedder).embed_passages(passages(["a", "b", "c"]))
    assert embedder.calls == 1


async def test_calls_at_a_time_are_bounded() -> None:
    embedder = One()
    await vectors(embedder, concurrency=3).embed_passages(passages(list("abcdefghijkl")))
    assert 1 < embedder.most <= 3


async def test_a_function_is_an_embedder_and_its_numbers_become_floats() -> None:
    def embed(text: str) -> tuple[int, ...]:
        return len(text), 2

    [(vector, _)] = await vectors(embed).embed_passages(passages(["abc"]))
    assert vector == [3.0, 2.0]
    assert all(isinstance(number, float) for number in vector)


async def test_an_embedder_does_not_block_the_loop() -> None:
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0.005)
            ticks += 1

    def slow(text: str) -> list[float]:
        time.sleep(0.2)
        return [1.0]

    ticking = asyncio.create_task(tick())
    await vectors(slow).embed_passages(passages(["a"]))
    ticking.cancel()
    assert ticks >= 5


def test_an_embedder_that_could_be_awaited_is_not_for_it_would_belong_to_one_loop() -> None:
    class Awaited(One):
        loop: asyncio.AbstractEventLoop | None = None

        async def async_embed_query(self, text: str) -> list[float]:
            running = asyncio.get_running_loop()
            self.loop = self.loop or running
            if self.loop is not running:
                raise RuntimeError("Event loop is closed")
            return self.make(text)

    adapter = vectors(Awaited())
    assert [asyncio.run(adapter.embed_passages(passages(["a"]))) for _ in range(2)] == [[Embedding([1.0, 1.0])]] * 2


class Asymmetric(Many):
    """Embeds questions in another way than documents, as models of the E5 kind do."""

    def __init__(self) -> None:
        super().__init__(lambda text: [1.0, 0.0])

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [[0.0, 1.0] for _ in texts]


async def test_a_question_is_embedded_as_one_and_a_stored_text_as_a_document() -> None:
    adapter = vectors(Asymmetric())
    assert await adapter.embed_passages(passages(["a", "b"])) == [Embedding([0.0, 1.0])] * 2
    assert await adapter.aembed_question("a") == QuestionEmbedding([1.0, 0.0])


async def test_a_question_in_two_wordings_is_embedded_in_both_and_both_are_checked() -> None:
    adapter = vectors(lambda text: [float(len(text)), 1.0])
    assert await adapter.aembed_question("a", "abc") == QuestionEmbedding(
        [1.0, 1.0], typed=QuestionEmbedding([3.0, 1.0])
    )
    adapter = vectors(lambda text: [float("nan") if len(text) > 1 else 1.0])
    with pytest.raises(errors.EmbedderFailed, match="NaN"):
        await adapter.aembed_question("a", "abc")


async def test_a_question_of_another_length_than_the_texts_is_an_error() -> None:
    embedder = Asymmetric()
    adapter = vectors(embedder)
    await adapter.embed_passages(passages(["a"]))
    embedder.make = lambda text: [1.0]
    with pytest.raises(errors.EmbedderFailed, match="a vector has 1 dimensions, earlier ones had 2"):
        await adapter.aembed_question("a")


async def test_calls_at_a_time_are_bounded_whoever_asks() -> None:
    embedder = One()
    adapter = vectors(embedder, concurrency=3)

    def another_loop() -> None:
        asyncio.run(adapter.embed_passages(passages(list("abcdef"))))

    others = [asyncio.to_thread(another_loop) for _ in range(2)]
    await asyncio.gather(
        adapter.embed_passages(passages(list("abcdef"))), adapter.embed_passages(passages(list("abcdef"))), *others
    )
    assert 1 < embedder.most <= 3


async def test_after_a_failure_no_further_call_is_made() -> None:
    calls = 0

    def failing(text: str) -> list[float]:
        nonlocal calls
        calls += 1
        raise ConnectionError("no route to the model")

    with pytest.raises(errors.EmbedderFailed, match="no route"):
        await vectors(failing, concurrency=2).embed_passages(passages([str(n) for n in range(50)]))
    await asyncio.sleep(0.05)
    assert calls <= 4


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        (lambda text: [], "dimensions"),
        (lambda text: [1.0] * len(text), "dimensions"),
        (lambda text: [float("nan")], "NaN"),
        (lambda text: [float("inf")], "NaN"),
        (lambda text: 1 / 0, "ZeroDivisionError"),
        (lambda text: None, "TypeError"),
        (lambda text: ["x"], "ValueError"),
    ],
    ids=["empty", "varying", "nan", "infinity", "raising", "none", "words"],
)
@pytest.mark.parametrize("kind", [One, Many])
async def test_what_is_no_vector_is_an_error_that_names_the_embedder(kind: Any, made: Any, reason: str) -> None:
    with pytest.raises(errors.EmbedderFailed, match=rf"(?s){kind.__name__}.*{reason}"):
        await vectors(kind(made)).embed_passages(passages(["a", "bc"]))


@pytest.mark.parametrize("count", [0, 1, 3])
async def test_a_wrong_number_of_vectors_is_an_error(count: int) -> None:
    embedder = Many()
    embedder.embed_documents = lambda texts: [[1.0]] * count
    with pytest.raises(errors.EmbedderFailed, match=f"{count} vectors for 2 texts"):
        await vectors(embedder).embed_passages(passages(["a", "b"]))


async def test_a_length_that_changes_between_calls_is_an_error() -> None:
    embedder = HashEmbedder(8)
    adapter = vectors(embedder)
    await adapter.embed_passages(passages(["a"]))
    embedder.dimensions = 9
    with pytest.raises(errors.EmbedderFailed, match="a vector has 9 dimensions, earlier ones had 8"):
        await adapter.embed_passages(passages(["a"]))


def letters(text: str) -> Sequence[float]:
    return [1.0]


@pytest.mark.parametrize(
    ("choice", "name"),
    [
        (HashEmbedder(16), "adk_graph_memory.testing.HashEmbedder:hash-16"),
        (letters, f"{__name__}.letters"),
        (None, "adk_graph_memory.embeddings.LocalEmbedder:all-MiniLM-L6-v2"),
        ("/models/mine", "adk_graph_memory.embeddings.LocalEmbedder:/models/mine"),
        ("mine=/models/mine", "adk_graph_memory.embeddings.LocalEmbedder:mine"),
    ],
)
def test_an_embedder_is_known_by_kind_and_model(choice: Any, name: str) -> None:
    assert vectors(choice).name == name


async def test_a_local_model_with_prompts_of_its_own_gets_them() -> None:
    class Model:
        def encode_query(self, texts: list[str], **options: Any) -> Any:
            return numpy.array([[1.0, 0.0]] * len(texts))

        def encode_document(self, texts: list[str], **options: Any) -> Any:
            return numpy.array([[0.0, 1.0]] * len(texts))

    embedder = LocalEmbedder("mine")
    vars(embedder)["loaded_model"] = Model()
    adapter = vectors(embedder)
    assert (await adapter.embed_passages(passages(["a", "b"])), await adapter.aembed_question("a")) == (
        [Embedding([0.0, 1.0])] * 2,
        QuestionEmbedding([1.0, 0.0]),
    )


def test_a_local_model_is_not_loaded_before_it_is_needed() -> None:
    assert "loaded_model" not in vars(LocalEmbedder("/nowhere"))


@pytest.mark.slow
async def test_a_model_of_a_name_is_taken_from_its_folder() -> None:
    folder = find_packaged_model(DEFAULT_MODEL)
    named = await vectors(f"mine={folder}").aembed_question("Who keeps bees?")
    assert named.vector == (await vectors(None).aembed_question("Who keeps bees?")).vector


@pytest.mark.slow
async def test_a_folder_without_the_model_is_named_and_no_hub_is_asked(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pytest.importorskip("sentence_transformers")
    monkeypatch.setattr(huggingface_hub, "model_info", None)
    with pytest.raises(errors.EmbeddingModelMissing, match=f"'mine'.*{re.escape(str(tmp_path))}"):
        await vectors(f"mine={tmp_path}").embed_passages(passages(["a"]))


def test_a_path_may_have_an_equals_sign(tmp_path: Path) -> None:
    (tmp_path / "a=b").mkdir()
    assert vectors(f"{tmp_path}/a=b").name.endswith("a=b")


def test_with_none_there_is_no_embedder() -> None:
    assert GraphMemory(settings=Settings(embedder="none")).engine.vectors.embedder is None
    assert GraphMemory(settings=Settings(embedder="none"), embedder=HashEmbedder()).engine.vectors.embedder is not None
    with pytest.raises(errors.InvalidArgument, match="name a model"):
        vectors("none")


MISSING_MODELS = {
    "no_folder": ("./no-such-model", None, "there is no such folder"),
    "offline": ("no-such-model", huggingface_errors.OfflineModeIsEnabled("offline"), "HF_HUB_OFFLINE forbids"),
    "no_network": ("no-such-model", ConnectionError("no route"), "cannot be reached (ConnectionError)"),
    "unknown": ("no/such-model", refused(huggingface_errors.RepositoryNotFoundError), "has no model of this name"),
}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "error", "reason"), MISSING_MODELS.values(), ids=MISSING_MODELS)
async def test_a_model_that_is_nowhere_is_missing_for_a_reason(
    name: str, error: Exception | None, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("sentence_transformers")

    def refuse_model(name: str, timeout: float) -> None:
        assert error
        raise error

    if error:
        monkeypatch.setattr(huggingface_hub, "model_info", refuse_model)
    embedder = vectors(name)
    with pytest.raises(errors.EmbeddingModelMissing) as raised:
        await embedder.embed_passages(passages(["a"]))
    assert repr(name) in str(raised.value)
    assert reason in str(raised.value)
    assert "pip install" not in str(raised.value)  # it would not help


@pytest.mark.slow
async def test_without_the_library_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for library in ("sentence_transformers", "onnxruntime"):
        monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(errors.EmbedderMissing, match=r"(?s)not installed.*\[light\].*\[local\]"):
        await vectors(None).wait_until_ready()


async def test_a_loading_that_failed_is_left_alone_for_a_while_where_somebody_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tries = []

    class Broken(LocalEmbedder):
        @property
        def loaded_model(self) -> Any:
            tries.append(1)
            raise RuntimeError("the weights are broken")

    embedder = vectors(Broken())
    for _ in range(3):
        with pytest.raises(errors.EmbedderFailed, match="the weights are broken"):
            await embedder.wait_until_ready(retry_pause=60)
    assert len(tries) == 1
    with pytest.raises(errors.EmbedderFailed):
        await embedder.wait_until_ready()
    assert len(tries) == 2


@pytest.mark.parametrize(
    ("error", "is_running", "reported"),
    [
        (RuntimeError("can't register atexit after shutdown"), False, 0),
        (RuntimeError("cannot schedule new futures after interpreter shutdown"), True, 0),
        (RuntimeError("the weights are broken"), True, 1),
        (errors.EmbedderMissing(reason="torch is not installed"), False, 1),
    ],
)
def test_a_loading_that_the_end_of_the_process_interrupts_is_no_failure(
    monkeypatch: pytest.MonkeyPatch, error: Exception, is_running: bool, reported: int
) -> None:
    class Broken(LocalEmbedder):
        @property
        def loaded_model(self) -> Any:
            raise error

    adapter, reports = vectors(Broken()), list[errors.GraphMemoryError]()
    threads = SimpleNamespace(main_thread=lambda: SimpleNamespace(is_alive=lambda: is_running))
    monkeypatch.setattr("adk_graph_memory.models.embedder.threading", threads)
    adapter.start_loading()
    assert adapter._loading_future is not None and adapter._loading_future.exception() is error
    adapter.report_loading_failure(reports.append)
    assert len(reports) == reported


def test_the_test_embedder_puts_like_by_like() -> None:
    exact, same, near, far = HashEmbedder().embed_documents(["bees in a hive", "Bees in a hive", "bees", "yellow car"])

    def cosine(a: list[float], b: list[float]) -> float:
        return sum(x * y for x, y in zip(a, b, strict=True))

    assert exact == same
    assert cosine(exact, near) > cosine(exact, far)
