"""How well an embedder knows a language, told by what its tokenizer makes of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adk_graph_memory.models.embedder import EmbedderAdapter, score_fluency
from adk_graph_memory.models.light import LightEmbedder
from adk_graph_memory.models.local import LocalEmbedder
from adk_graph_memory.runtime.settings import Settings


class Pieces:
    """A tokenizer that cuts after so many characters."""

    def __init__(self, length: int, size: int = 30_000) -> None:
        self.length, self.size = length, size

    def __len__(self) -> int:
        return self.size

    def tokenize(self, text: str) -> list[str]:
        return [word[i : i + self.length] for word in text.split() for i in range(0, len(word), self.length)]


@pytest.mark.parametrize(
    ("text", "tokenizer", "known"),
    [
        ("seven words", Pieces(9), 1.0),
        ("seven words", Pieces(1), 0.0),
        ("eight rivers", Pieces(3), 0.5),
        ("seven words", Pieces(1, size=250_000), 1.0),
        ("猎犬叫什么名字", Pieces(1), 0.0),
        ("猎犬叫什么名字", Pieces(2), 1.0),
        ("seven 猎犬", Pieces(1), 0.0),
        ("ok " * 700 + "seven words " * 200, Pieces(2), 1.0),
        ("", Pieces(1), 1.0),
        ("seven words", None, 1.0),
        ("seven words", object(), 1.0),
    ],
)
def test_few_pieces_are_a_language_that_is_known(text: str, tokenizer: object, known: float) -> None:
    assert score_fluency(text, tokenizer) == pytest.approx(known)


class Lacking(Pieces):
    """A tokenizer that knows no character of the text, and gives each word back as unknown."""

    unk_token = "[UNK]"

    def tokenize(self, text: str) -> list[str]:
        return [self.unk_token for _ in text.split()]


def test_a_script_that_the_tokenizer_lacks_is_foreign() -> None:
    assert score_fluency("ჩემი და სად ცხოვრობს", Lacking(9)) == 0.0


@given(st.text(), st.integers(1, 9))
def test_it_is_a_share(text: str, length: int) -> None:
    assert 0.0 <= score_fluency(text, Pieces(length)) <= 1.0


@pytest.mark.parametrize(
    ("question", "is_known"),
    [
        ("Where does my sister live now?", True),
        ("Где живёт моя сестра?", False),
        ("妹はどこに住んでいますか", False),
        ("أين تعيش أختي؟", False),
        ("언니는 어디에 살아요?", False),
    ],
)
def test_the_default_embedder_knows_english(question: str, *, is_known: bool) -> None:
    assert (EmbedderAdapter(LightEmbedder(), Settings()).measure_fluency(question) > 0.5) is is_known


def test_any_other_embedder_is_believed() -> None:
    assert EmbedderAdapter(lambda text: [1.0], Settings()).measure_fluency("Где живёт моя сестра?") == 1.0
    assert not hasattr(LocalEmbedder("x"), "tokenizer")
