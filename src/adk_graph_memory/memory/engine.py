"""What a memory is made of, and one user's part of it, as the functions of this package take them."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from adk_graph_memory.consolidation.judge import Judge
from adk_graph_memory.extraction.extractor import Extractor, choose_extractor
from adk_graph_memory.extraction.pictures import MAX_WAITING_BYTES, PictureCache, PictureDescriber
from adk_graph_memory.extraction.vocabulary import Topic
from adk_graph_memory.graph.connection import Connection, UserGraph
from adk_graph_memory.graph.speakers import SpeakerCache
from adk_graph_memory.memory.guard import Guard, GuardOption, choose_guard
from adk_graph_memory.memory.redaction import RedactOption, Redactor
from adk_graph_memory.memory.rewriting import Rewriter
from adk_graph_memory.memory.vectors import GraphVectors
from adk_graph_memory.models import llm
from adk_graph_memory.models.embedder import EmbedderChoice
from adk_graph_memory.records.scopes import Scope, SharedMemory
from adk_graph_memory.records.turns import RULES
from adk_graph_memory.retrieval.reranking import Reranker
from adk_graph_memory.retrieval.weights import Weights
from adk_graph_memory.runtime.telemetry import ProblemLog

logger = logging.getLogger(__name__)

SharedMemories = Sequence[SharedMemory]
FindShared = Callable[[str, str], SharedMemories | Awaitable[SharedMemories]]
"""From an app's name and a user's id to the shared memories that this user's searches read."""
SharedOption = SharedMemories | FindShared
"""The same ones for every user, or a function that finds them."""


class Readers(NamedTuple):
    """What reads turns: the extractor; with a model, the judge of what rules leave open, and the describer."""

    extractor: Extractor
    judge: Judge | None
    describer: PictureDescriber | None = None


class Engine:
    """What a memory is made of: made once, shared by all of its users.

    The arguments are those of :class:`adk_graph_memory.GraphMemory`.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        model: str | llm.BaseLlm | None = None,
        embedder: EmbedderChoice = None,
        retrieval_query: str | None = None,
        redact: RedactOption = None,
        topics: Sequence[Topic | str] | None = None,
        weights: Weights | None = None,
        reranker: Reranker | None = None,
        guard: GuardOption = None,
        shared: SharedOption | None = None,
    ) -> None:
        self.connection, self.problems = connection, ProblemLog(logger)
        self.vectors = GraphVectors(connection, embedder, self.problems)
        self.speakers, self.picture_cache = SpeakerCache(connection), PictureCache(MAX_WAITING_BYTES)
        self.retrieval_query, self.weights, self.reranker, self.shared = retrieval_query, weights, reranker, shared
        self.is_query_checked = retrieval_query is None
        """whether the server has planned the caller's ``retrieval_query``"""
        self._model, self._redact, self._topics, self._guard = model, redact, topics, guard

    @cached_property
    def language_model(self) -> llm.BaseLlm | None:
        """The model that extracts and decides; None for rules."""
        model = self._model or self.connection.settings.model or RULES
        return None if model == RULES else llm.resolve_model(model)

    @cached_property
    def extractor(self) -> Extractor:
        """Extracts entities and facts from turns."""
        return self._build_readers(self.language_model).extractor

    @cached_property
    def judge(self) -> Judge | None:
        """Decides how new and stored facts relate where rules cannot; None without a model."""
        return self._build_readers(self.language_model).judge

    @cached_property
    def describer(self) -> PictureDescriber | None:
        """Describes pictures; None without a model."""
        return self._build_describer(self.language_model)

    def choose_readers(self, model_name: str | None = None) -> Readers:
        """Choose this memory's own extractor and judge, or those of the model with this name (``rules`` for none).

        Raises:
            errors.QueuedModelMissing: ADK has no model with this name.
        """
        if model_name in (None, self.language_model.model if self.language_model else RULES):
            return Readers(self.extractor, self.judge, self.describer)
        return self._build_readers(None if model_name == RULES else llm.resolve_queued_model(model_name or RULES))

    def _build_readers(self, model: llm.BaseLlm | None) -> Readers:
        settings = self.connection.settings
        extractor = choose_extractor(model, self._topics, settings)
        if model is None:
            return Readers(extractor, None)
        return Readers(extractor, Judge(model, settings.limits), self._build_describer(model))

    def _build_describer(self, model: llm.BaseLlm | None) -> PictureDescriber | None:
        settings = self.connection.settings
        return PictureDescriber(model, settings.limits) if model and settings.describe_pictures else None

    @cached_property
    def redactor(self) -> Redactor:
        """Redacts every text before anything else sees it."""
        return Redactor(self._redact or self.connection.settings.redact)

    @cached_property
    def guard(self) -> Guard | None:
        """Decides before a fact is written whether to keep it; None without a guard."""
        return choose_guard(self._guard or self.connection.settings.guard)


@dataclass(frozen=True, eq=False)
class UserContext:
    """One user's memory, or that of a group; equal if engine and scope are."""

    engine: Engine
    scope: Scope

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, UserContext):
            return NotImplemented
        return self.engine is other.engine and self.scope == other.scope

    def __hash__(self) -> int:
        return hash((id(self.engine), self.scope))

    @property
    def connection(self) -> Connection:
        """The connection that all memories share."""
        return self.engine.connection

    @cached_property
    def graph(self) -> UserGraph:
        """The graph as this memory sees it."""
        return self.connection.user(self.scope)

    @property
    def rewriter(self) -> Rewriter:
        """Changes what this memory rests on."""
        return Rewriter(self.graph, self.engine.vectors)
