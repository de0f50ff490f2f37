"""Search one index, or a vector and a full-text index together, whatever else the database is used for.

Vector and hybrid searches are neo4j-graphrag's own retrievers. A search is one statement, after a first one that looks
up the indexes and the plan of the ``retrieval_query``; its session only reads, which refuses what no plan shows. Users'
words go to Lucene as quoted terms, but what is embedded stays as it was typed.
"""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cached_property
from types import SimpleNamespace
from typing import Any, Literal, TypedDict, TypeVar, get_args

import neo4j
from neo4j import AsyncDriver, Driver
from neo4j import exceptions as driver_errors
from neo4j_graphrag.exceptions import Neo4jGraphRagError
from neo4j_graphrag.neo4j_queries import prefix_cypher_25
from neo4j_graphrag.retrievers import HybridCypherRetriever, HybridRetriever, VectorCypherRetriever, VectorRetriever
from neo4j_graphrag.retrievers.base import Retriever
from neo4j_graphrag.types import RawSearchResult
from neo4j_graphrag.utils.version_utils import supports_search_clause
from pydantic import Field, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from adk_graph_memory import errors
from adk_graph_memory.graph.connection import Auth, Connection
from adk_graph_memory.models.embedder import EmbedderAdapter, EmbedderChoice, check_choice
from adk_graph_memory.records.scopes import check_flags
from adk_graph_memory.retrieval.own_index.fulltext import (
    STATEMENTS,
    FulltextRetriever,
    choose_stop_words,
    format_search_text,
    translate_filters,
)
from adk_graph_memory.retrieval.own_index.results import IndexHit, read_hit
from adk_graph_memory.runtime import telemetry
from adk_graph_memory.runtime.concurrency import Closeable
from adk_graph_memory.runtime.settings import Settings

_MEMORY_INDEX = re.compile(r"adk_(memory|entity)_(text|vector)")
KIND_NAMES = {"vector": "vector", "fulltext": "full-text"}


@dataclass(frozen=True, slots=True)
class SearchIndex:
    """A vector or full-text index."""

    name: str
    type: str
    is_of_nodes: bool
    labels: Sequence[str]
    properties: Sequence[str]
    dimensions: int | None

    @property
    def is_of_memory(self) -> bool:
        """Whether this package made it, for a memory."""
        return _MEMORY_INDEX.match(self.name) is not None

    def __str__(self) -> str:
        pattern = f":{'|'.join(self.labels)}"
        place = f"{f'({pattern})' if self.is_of_nodes else f'[{pattern}]'} {', '.join(self.properties)}"
        size = f", {self.dimensions} dimensions" if self.dimensions else ""
        return f"{KIND_NAMES[self.type]} {self.name!r} on {place}{size}"


def check_index(
    indexes: Sequence[SearchIndex], name: str, kind: str, vector: Sequence[float] | None, embedder: str = ""
) -> None:
    """Check that there is an index of this name which a search can use.

    Args:
        indexes: the indexes that there are.
        name: the index's name.
        kind: its type, ``vector`` or ``fulltext``.
        vector: a vector of the embedder's, whose dimension a vector index has to have.
        embedder: the embedder's name.

    Raises:
        errors.ConfigurationError: there is none, or it is another kind of index; the message lists the indexes.
    """
    index = next((index for index in indexes if index.name == name), None)
    if index is None or index.type != kind:
        problem = f"there is no {KIND_NAMES[kind]} index {name!r}"
        there_are = "; ".join(map(str, indexes)) or "none"
        raise errors.ConfigurationError(reason=f"{problem}. The database has these indexes to search: {there_are}")
    if not index.is_of_nodes:
        raise errors.ConfigurationError(
            reason=f"the index {name!r} is one of relationships: {index}; name one of nodes"
        )
    if kind == "vector" and vector is not None and index.dimensions not in (None, len(vector)):
        reason = (
            f"the vector index {name!r} has {index.dimensions} dimensions, but the embedder {embedder} makes vectors"
        )
        raise errors.ConfigurationError(
            reason=f"{reason} of {len(vector)}: pass the embedder that the index was filled by"
        )


class IndexSettings(BaseSettings):
    """The names of your own indexes; every field is also an environment variable."""

    model_config = SettingsConfigDict(
        populate_by_name=True, frozen=True, hide_input_in_errors=True, env_ignore_empty=True, extra="ignore"
    )

    index_name: str | None = Field(
        default=None,
        min_length=1,
        validation_alias="NEO4J_INDEX_NAME",
        description="the index to search, of either type; takes precedence over the two names below",
    )
    vector_index_name: str = Field(
        default="chunkEmbeddings",
        min_length=1,
        validation_alias="NEO4J_VECTOR_INDEX_NAME",
        description="the vector index of a vector or hybrid search",
    )
    fulltext_index_name: str = Field(
        default="search_chunks",
        min_length=1,
        validation_alias="NEO4J_FULLTEXT_INDEX_NAME",
        description="the full-text index of a full-text or hybrid search",
    )


T = TypeVar("T")
_LOOP: ContextVar[asyncio.AbstractEventLoop] = ContextVar("_LOOP")
"""The event loop of the search that a thread works for."""


class ReadDriver(neo4j.Driver):
    """A connection behind the one method of a driver that neo4j-graphrag's retrievers call.

    Args:
        connection: its driver, sync or async, runs the statements; its time limit applies.
    """

    _closed = True  # it has no connections of its own: nothing to close, and nothing to warn of

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        # The base class of neo4j-graphrag's retrievers writes its name there, which a caller's driver is spared.
        self._pool = SimpleNamespace(pool_config=SimpleNamespace(user_agent=""))

    def execute_query(  # type: ignore[override]  # of the options, only these are used
        self, query_: str, parameters_: Mapping[str, Any] | None = None, **_: object
    ) -> neo4j.EagerResult:
        """Read in one round trip; options such as ``database_`` are the connection's."""
        query = neo4j.Query(query_, timeout=self._seconds)
        parameters = dict(parameters_ or {})
        with telemetry.trace_statement("index_search", self._connection.telemetry_attributes):
            if self._connection.is_loop_bound:
                return self._read_on_loop(query, parameters)
            return self._connection.reads.run_read(lambda session: session.run(query, parameters).to_eager_result())

    def _read_on_loop(self, query: neo4j.Query, parameters: dict[str, Any]) -> neo4j.EagerResult:
        """Read by an async driver, in whose loop the search is awaited, while this thread waits."""
        reading = asyncio.run_coroutine_threadsafe(self._connection.read_cypher(query, parameters), _LOOP.get())
        try:
            return reading.result(self._seconds + 1.0)
        except TimeoutError as error:
            reading.cancel()
            raise self._connection.make_timeout_error() from error
        except errors.DatabaseError as error:
            if isinstance(error.__cause__, driver_errors.Neo4jError | driver_errors.DriverError):
                raise error.__cause__ from None  # the retrievers handle some errors of the driver
            raise

    async def run_in_thread(self, function: Callable[..., T], *arguments: Any) -> T:
        """Run a function that reads by this driver in a thread.

        Raises:
            errors.DatabaseTimeout: the database did not answer in time.
        """
        _LOOP.set(asyncio.get_running_loop())
        return await self._connection.reads.run_in_thread(function, *arguments)

    @property
    def _seconds(self) -> float:
        return self._connection.settings.limits.database_timeout


IndexType = Literal["vector", "fulltext", "hybrid"]


class IndexOptions(TypedDict, total=False):
    """The arguments of :class:`IndexRetrieval` but the address, for what makes one."""

    index_name: str | None
    index_type: IndexType
    fulltext_index_name: str | None
    embedder: EmbedderChoice
    retrieval_query: str | None
    query_params: Mapping[str, Any] | None
    filters: dict[str, Any] | None
    top_k: int
    filter_stop_words: bool | None
    language: str
    auth: Auth
    database: str | None
    driver: Driver | AsyncDriver | None
    settings: Settings | None
    timeout: float


OWN_PARAMETERS = frozenset(
    ("query_text", "query_vector", "top_k", "effective_search_ratio", "vector_index_name", "fulltext_index_name")
)
"""Parameters of the search itself, which a caller's own may not replace."""
_CYPHER_ERROR_PREFIX = "Neo.ClientError.Statement."


class _FilteredRetriever(VectorCypherRetriever):
    """Works around a slip of neo4j-graphrag 1.22 (retrievers/vector.py): it keeps the property under another name.

    Without it, filters on a property that is not in the index are an error. ``test_filters_reach_the_traversal`` tells
    when this can go.
    """

    def _fetch_index_infos(self, vector_index_name: str) -> None:
        super()._fetch_index_infos(vector_index_name)
        self._node_embedding_property = vars(self)["_embedding_node_property"]


class IndexRetrieval(Closeable):
    """Retrieval over an index you already have: vector, full-text, or both, with your own traversal.

    It needs no memory and no schema, and only reads. It connects and checks the indexes at the first search.

    Args:
        uri: Neo4j's address; by default NEO4J_URI, or the server that ``adk-graph-memory up`` started.
        index_name: the index to search; by default NEO4J_INDEX_NAME, or else NEO4J_VECTOR_INDEX_NAME
            (``chunkEmbeddings``) or NEO4J_FULLTEXT_INDEX_NAME (``search_chunks``), depending on the type.
        index_type: ``vector``, ``fulltext``, or ``hybrid`` for both.
        fulltext_index_name: the full-text index of a hybrid search; by default NEO4J_FULLTEXT_INDEX_NAME.
        embedder: the one that made the vectors, for ``vector`` and ``hybrid``: a neo4j-graphrag ``Embedder``, a
            function from text to numbers, or a model's name.
        retrieval_query: Cypher that continues from ``node`` and ``score``; its columns (``text``, ``score`` and any
            others) become the hit.
        query_params: parameters of the ``retrieval_query``.
        filters: conditions on the nodes' properties, as neo4j-graphrag takes them; not for ``hybrid``.
        top_k: the maximum number of hits from the index; the ``retrieval_query`` may return more or fewer rows.
        filter_stop_words: whether full text leaves out stop words; it does by default.
        language: the stop words' ISO 639-1 language.
        auth: user name and password, or any ``neo4j.Auth``; by default NEO4J_USERNAME and NEO4J_PASSWORD.
        database: the database's name; by default NEO4J_DATABASE or ``neo4j``.
        driver: your own driver, sync or async; it is used as it is and never closed here.
        settings: used instead of the environment.
        timeout: seconds without an answer after which a search gives up.

    Raises:
        errors.InvalidArgument: the arguments do not fit together.

    Example:
        async with IndexRetrieval(index_type="fulltext", index_name="search_chunks", top_k=3) as retrieval:
            for hit in await retrieval.search("What does Apple fear?"):
                print(hit.prompt_text)
    """

    def __init__(
        self,
        uri: str | None = None,
        *,
        index_name: str | None = None,
        index_type: IndexType = "vector",
        fulltext_index_name: str | None = None,
        embedder: EmbedderChoice = None,
        retrieval_query: str | None = None,
        query_params: Mapping[str, Any] | None = None,
        filters: dict[str, Any] | None = None,
        top_k: int = 5,
        filter_stop_words: bool | None = None,
        language: str = "en",
        auth: Auth = None,
        database: str | None = None,
        driver: Driver | AsyncDriver | None = None,
        settings: Settings | None = None,
        timeout: float = 5.0,
    ) -> None:
        self.index_type, self.retrieval_query, self.filters = index_type, retrieval_query, filters
        self._index_name, self._fulltext_index_name = index_name, fulltext_index_name
        self._embedder_choice, self.top_k = embedder, check_top_k(top_k)
        self._query_params = check_parameters(query_params or {})
        self._check_arguments()
        if filter_stop_words is not None:
            check_flags(filter_stop_words=filter_stop_words)
        is_filtering = index_type != "vector" and filter_stop_words is not False
        self._language, self._stop_words = language, choose_stop_words(language) if is_filtering else frozenset[str]()
        self.connection = Connection(
            uri,
            auth=auth,
            database=database,
            driver=driver if isinstance(driver, neo4j.AsyncDriver) else None,
            sync_driver=None if isinstance(driver, neo4j.AsyncDriver) else driver,
            settings=settings,
            schema="off",
            timeout=timeout,
        )
        self._driver, self._lock = ReadDriver(self.connection), threading.Lock()
        self._retriever: Retriever | None = None

    def __repr__(self) -> str:
        return f"<IndexRetrieval {self.index_type} {self._index_name or 'by the settings'}>"

    def _check_arguments(self) -> None:
        reason = None
        if self.index_type not in get_args(IndexType):
            reason = f"index_type={self.index_type!r} is none of {', '.join(get_args(IndexType))}"
        elif self.needs_embedder and self._embedder_choice in (None, False, ""):
            reason = f"a {self.index_type} search needs embedder=, the embedder that the index was filled by"
        elif self.index_type == "hybrid" and self.filters:
            reason = (
                "neo4j-graphrag's hybrid search knows no filters: put a WHERE into the retrieval_query, and its values "
                "into query_params"
            )
        elif self.index_type == "hybrid" and not self._names_fulltext_index:
            reason = "a hybrid search needs a full-text index: fulltext_index_name= or NEO4J_FULLTEXT_INDEX_NAME"
        elif self._query_params and not self.retrieval_query:
            reason = "query_params are for a retrieval_query, and there is none"
        if reason:
            raise errors.InvalidArgument(reason=reason)
        check_choice(self._embedder_choice)
        translate_filters(self.filters)

    @property
    def needs_embedder(self) -> bool:
        """Whether a search compares vectors."""
        return self.index_type in ("vector", "hybrid")

    @property
    def _names_fulltext_index(self) -> bool:
        return bool(self._fulltext_index_name) or "fulltext_index_name" in load_index_settings().model_fields_set

    @cached_property
    def embedder(self) -> EmbedderAdapter | None:
        """The embedder; None for a search by full text alone."""
        if not self.needs_embedder or self._embedder_choice is False:
            return None
        return EmbedderAdapter(self._embedder_choice, self.connection.settings)

    @cached_property
    def index_names(self) -> dict[str, str]:
        """The names of the indexes to search, by type, as they were when first needed."""
        settings, main_name = load_index_settings(), self._index_name
        main_name = main_name or settings.index_name
        if self.index_type == "fulltext":
            return {"fulltext": main_name or self._fulltext_index_name or settings.fulltext_index_name}
        names = {"vector": main_name or settings.vector_index_name}
        if self.index_type == "hybrid":
            names["fulltext"] = self._fulltext_index_name or settings.fulltext_index_name
        return names

    async def prepare(self) -> None:
        """Connect, and check the indexes, the embedder and the ``retrieval_query`` now instead of at the first search.

        Raises:
            errors.ConfigurationError: an index is missing or of another kind; the message lists the existing indexes.
            errors.InvalidArgument: the ``retrieval_query`` is not valid, or writes.
            errors.DatabaseError: the database cannot be read.
        """
        vector = await self._embed_query("ready?")
        await self._read_in_thread(self._open_retriever, vector)

    async def search(
        self, query: str, *, top_k: int | None = None, query_params: Mapping[str, Any] | None = None
    ) -> list[IndexHit]:
        """Return what the index finds, best first, as the index or the ``retrieval_query`` orders it.

        Args:
            query: a question, or any words; without a word, nothing is found.
            top_k: overrides the constructor's.
            query_params: further parameters of the ``retrieval_query``, which override the constructor's.

        Raises:
            errors.ConfigurationError, errors.DatabaseError: as :meth:`prepare`.
            errors.EmbeddingError: the query could not be embedded.
        """
        if not isinstance(query, str):
            raise errors.InvalidArgument(reason=f"the query {query!r} is no text")
        limit = self.top_k if top_k is None else check_top_k(top_k)
        parameters = self._query_params | check_parameters(query_params or {})
        if not format_search_text(query):
            return []
        vector = await self._embed_query(query)
        return await self._read_in_thread(self._search_index, query, vector, limit, parameters)

    async def _embed_query(self, query: str) -> list[float] | None:
        if self.embedder is None:
            return None
        await self.embedder.wait_until_ready()
        seconds = self.connection.settings.limits.database_timeout
        try:
            async with asyncio.timeout(seconds):
                return (await self.embedder.aembed_question(query)).vector
        except TimeoutError as error:
            raise errors.EmbedderFailed(name=self.embedder.name, reason=f"no vector within {seconds:g} s") from error

    async def _read_in_thread(self, function: Callable[..., T], *arguments: Any) -> T:
        try:
            return await self._driver.run_in_thread(function, *arguments)
        except (driver_errors.Neo4jError, driver_errors.DriverError) as error:
            raise self.connection.translate_error(error) from error
        except errors.DatabaseTimeout as error:
            raise error.add_sentence("For this search, timeout= is the limit.") from error.__cause__
        except UnicodeEncodeError as error:
            raise errors.InvalidUnicode(reason=str(error)) from error
        except Neo4jGraphRagError as error:
            raise errors.InvalidArgument(reason=str(error)) from error

    # -- in a thread ------------------------------------------------------------------------------------------

    def _search_index(
        self, query: str, vector: list[float] | None, top_k: int, parameters: dict[str, Any]
    ) -> list[IndexHit]:
        retriever = self._open_retriever(vector)
        arguments: dict[str, Any] = {"top_k": top_k}
        if self.index_type == "fulltext":
            arguments["query_text"] = query
        else:
            arguments["query_vector"] = vector
        if self.index_type == "hybrid":  # neo4j-graphrag hands it to Lucene as it is
            arguments["query_text"] = format_search_text(query, self._stop_words)
        if self.retrieval_query and parameters:
            arguments["query_params"] = parameters
        if self.filters:
            arguments["filters"] = self.filters
        result: RawSearchResult = retriever.get_search_results(**arguments)
        return [read_hit(record) for record in result.records]

    def _open_retriever(self, vector: list[float] | None) -> Retriever:
        with self._lock:
            if self._retriever is None:
                records, _, _ = self._driver.execute_query(STATEMENTS["search_indexes"])
                # The indexes of a memory hold the words of all its users.
                indexes = [index for record in records if not (index := SearchIndex(**record)).is_of_memory]
                for kind, name in self.index_names.items():
                    check_index(indexes, name, kind, vector, self.embedder.name if self.embedder else "")
                self._check_retrieval_query()
                self._retriever = self._construct_index_retriever()
            return self._retriever

    def _construct_index_retriever(self) -> Retriever:
        driver, query, names = self._driver, self.retrieval_query, self.index_names
        match self.index_type:
            case "fulltext":
                return FulltextRetriever(
                    driver,
                    names["fulltext"],
                    retrieval_query=query,
                    filter_stop_words=bool(self._stop_words),
                    language=self._language,
                )
            case "vector" if query:
                return _FilteredRetriever(driver, names["vector"], query)
            case "vector":
                return VectorRetriever(driver, names["vector"])
            case _ if query:
                return HybridCypherRetriever(driver, names["vector"], names["fulltext"], query)
        return HybridRetriever(driver, names["vector"], names["fulltext"])

    def _check_retrieval_query(self) -> None:
        """Let the server plan the ``retrieval_query``, without running it."""
        if not self.retrieval_query:
            return
        statement = "\n".join([STATEMENTS["fulltext_search"], self.retrieval_query])
        if self.needs_embedder and supports_search_clause(self._driver):
            statement = prefix_cypher_25(statement)  # as the vector retrievers do
        try:
            summary = self._driver.execute_query(f"EXPLAIN {statement}").summary
        except driver_errors.Neo4jError as error:
            if not str(error.code).startswith(_CYPHER_ERROR_PREFIX):
                raise
            raise errors.InvalidArgument(reason=f"the retrieval_query cannot be run: {error}") from error
        if summary.query_type != "r":
            raise errors.InvalidArgument(reason="the retrieval_query writes; it may only read")

    async def close(self) -> None:
        """Close the connections that this object opened, and no driver of yours; may be called again."""
        await self.connection.close()


def choose_retrieval(uri: str | None, retrieval: IndexRetrieval | None, options: IndexOptions) -> IndexRetrieval:
    """Return the retrieval that was given, or one made from an address and options.

    Raises:
        errors.InvalidArgument: both were given, or the options do not fit together.
    """
    if retrieval is None:
        return IndexRetrieval(uri, **options)
    if given := sorted(options) + ([] if uri is None else ["uri"]):
        raise errors.InvalidArgument(reason=f"beside retrieval=, {', '.join(given)} would have no effect")
    return retrieval


def check_top_k(top_k: int) -> int:
    """Return the number if it is one of at least 1."""
    if isinstance(top_k, bool) or not isinstance(top_k, int) or top_k < 1:
        raise errors.InvalidArgument(reason=f"top_k={top_k!r} is not a whole number of at least 1")
    return top_k


def check_parameters(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of a ``retrieval_query`` if their names are free."""
    if not isinstance(parameters, Mapping):
        raise errors.InvalidArgument(reason=f"query_params={parameters!r} are no names with values")
    if taken := sorted(OWN_PARAMETERS & parameters.keys()):
        raise errors.InvalidArgument(
            reason=f"query_params may not name {', '.join(taken)}, which the search itself uses"
        )
    return dict(parameters)


def load_index_settings() -> IndexSettings:
    """Load the names of indexes from the environment.

    Raises:
        errors.ConfigurationError: a value is invalid.
    """
    try:
        return IndexSettings()
    except ValidationError as error:
        raise errors.ConfigurationError(reason=str(error)) from error
