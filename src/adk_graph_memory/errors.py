"""Define every error class of this package: the template of its message, and the types of its data.

GraphMemoryError
├── ConfigurationError            UnknownScheme  UnknownTimezone  NoDatabaseConfigured  InvalidArgument
│                                 QueuedModelMissing
├── UnsupportedAdk
├── ScopeError
├── ExtraMissing
├── DatabaseError                 DatabaseUnavailable  AuthenticationFailed  PermissionDenied  UnsupportedServer
│                                 QueryFailed  ConstraintViolated  DriverClosed  InvalidUnicode  WriteConflict
│                                 DatabaseMissing
├── DatabaseUnavailable           DatabaseTimeout  DatabaseFailing  DatabaseReadOnly
├── QueryFailed                   KeyTooLong
├── SchemaError                   SchemaMissing  SchemaTooNew  SchemaUnknown  SchemaUnchecked  LabelConflict
│                                 IndexNameTaken  EmbedderMismatch
├── SessionClosed
├── NotFound
├── ConfirmationMissing
├── GraphNotEmpty
├── UnreadableTranscript
├── ArtifactError                 ArtifactStoreUnusable  ContentMissing
├── EmbeddingError                EmbedderMissing  EmbeddingModelMissing  EmbedderFailed  CredentialsMissing
├── RerankerFailed
├── BatchStalled
├── ModelError                    ModelFailed  ReplyUnusable  ReplyTruncated
├── ModelFailed                   ModelRefused
├── RedactionError                RedactionFailed  RedactorMissing
└── LocalServerError              UnsupportedPlatform  JavaMissing  JarsMissing  PortTaken  StoreInUse  DiskFull
                                  ServerStartFailed  ServerStartTimeout
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Self


def shorten_embedder_names(text: str) -> str:
    """Leave only the model of an embedder of this package, whose stored name is its class and its model."""
    return re.sub(r"\badk_graph_memory\.embeddings\.[\w.]+:(?=\S)", "", text)


class GraphMemoryError(Exception):
    """Base class of this package's errors: keyword arguments fill the template and become attributes.

    The template is also the class's docstring, but not only: ``python -OO`` drops docstrings.
    """

    template = "Something in adk-graph-memory failed."
    reason: str = ""
    """What the failing component said; empty where the message says it all."""

    def __init_subclass__(cls) -> None:
        cls.__doc__ = cls.template = re.sub(r"\n +", " ", cls.template.strip())

    def __init__(self, message: str | None = None, **data: Any) -> None:
        text = shorten_embedder_names(message or self.template.format(**data))
        # An id may have 8,000 bytes: the middle of a word or a line that nobody can read is left out.
        text = re.sub(r"\S{300,}", lambda word: f"{word[0][:200]} … {word[0][-80:]}", text)
        super().__init__(re.sub(r"[^\n]{1000,}", lambda line: f"{line[0][:700]} … {line[0][-250:]}", text))
        vars(self).update(data)

    def add_sentence(self, sentence: str) -> Self:
        """Return a copy of the error whose message goes on with a sentence."""
        return type(self)(f"{str(self).rstrip('.')}. {sentence}", **vars(self)).with_traceback(self.__traceback__)


class ConfigurationError(GraphMemoryError, ValueError):
    template = "The configuration cannot be used: {reason}"


class UnknownScheme(ConfigurationError):
    template = """
    {uri!r} is not a Neo4j address: it must start with neo4j://, neo4j+s://, neo4j+ssc://, bolt://, bolt+s:// or
    bolt+ssc://, for example neo4j://localhost:7687."""
    uri: str


class UnknownTimezone(ConfigurationError):
    template = "{name!r} is not a time zone: use an IANA name such as Europe/Berlin or UTC."
    name: str


class NoDatabaseConfigured(ConfigurationError):
    template = """
    No Neo4j is configured: start a local server with `adk-graph-memory up`, or set NEO4J_URI, NEO4J_USERNAME and
    NEO4J_PASSWORD (in Python, you can also pass uri= and auth=, or driver=)."""


class UnsupportedAdk(GraphMemoryError, ImportError):
    template = """
    google-adk {version} lacks something that adk-graph-memory needs ({reason}). Upgrade adk-graph-memory, or install
    the google-adk version that this release was tested with: `pip install "google-adk=={tested}"`."""
    version: str
    tested: str


class ExtraMissing(GraphMemoryError, ImportError):
    template = '{what} needs packages that are not installed ({reason}): `pip install "adk-graph-memory[{extra}]"`.'
    what: str
    extra: str


class InvalidArgument(ConfigurationError):
    template = "An argument cannot be used: {reason}"


class QueuedModelMissing(ConfigurationError):
    template = """
    The pending requests were queued for the model {model!r}, which this process does not have ({reason}). Process them
    where that model is registered with ADK, or choose another: `adk-graph-memory ingest --pending --model NAME`."""
    model: str


class DatabaseError(GraphMemoryError):
    template = "A Neo4j operation failed: {reason}"


class DatabaseUnavailable(DatabaseError):
    template = "Neo4j at {uri} cannot be reached: {reason}. Is the server running, and are host and port right?"
    uri: str


class DatabaseTimeout(DatabaseUnavailable):
    template = """
    Neo4j at {uri} took too long: {reason}. If it has just started, it is still planning its first statements: try
    again. Otherwise check the network, or raise ADK_GRAPH_MEMORY_DATABASE_TIMEOUT (now {seconds} s)."""
    seconds: str


class DatabaseFailing(DatabaseUnavailable):
    template = """
    Neo4j at {uri} answers, but cannot do this: {reason}. Try again. If that does not help, look into the server's
    debug.log: usually its disk is full, its memory is too small or its store is damaged. Fix that and restart it."""


class AuthenticationFailed(DatabaseError):
    template = "Neo4j at {uri} refused the credentials of user {username!r}: {advice}."
    uri: str
    username: str
    advice: str


class PermissionDenied(DatabaseError):
    template = """
    User {username!r} may not do this in Neo4j: {reason}. Ask your DBA for the privilege, or have them run the output of
    `adk-graph-memory migrate --print` and set ADK_GRAPH_MEMORY_SCHEMA=check."""
    username: str


class DatabaseReadOnly(DatabaseUnavailable):
    template = """
    The database {database!r} does not accept writes: {reason}. Connect to a writable database or to the cluster's
    leader (a neo4j:// address finds it)."""
    database: str


class DatabaseMissing(DatabaseError):
    template = "Neo4j at {uri} has no database {database!r} for this user: check NEO4J_DATABASE."
    uri: str
    database: str


class ScopeError(GraphMemoryError):
    template = """
    {name} {reason}, so it did not run: this is a mistake in adk-graph-memory, which would else mix up users. Please
    report it."""
    name: str


class UnsupportedServer(DatabaseError):
    template = "This Neo4j is {found}; adk-graph-memory needs 5.26 LTS, or 2026.08.1 or newer."
    found: str


class ConstraintViolated(DatabaseError):
    template = "A uniqueness constraint refused the write: {reason}"


class DriverClosed(DatabaseError):
    template = """
    The Neo4j driver is closed or belongs to another event loop: {reason}. A driver that you pass in must stay open,
    and must be used in its own event loop, for as long as the service is in use."""


class QueryFailed(DatabaseError):
    template = "Neo4j refused a statement: {reason}"


class KeyTooLong(QueryFailed):
    template = """
    An id or a name is too long for a Neo4j index, which takes about 8,000 bytes for all values that are indexed
    together: shorten it, or use a digest ({reason})."""


class InvalidUnicode(DatabaseError, ValueError):
    template = """
    A text to be stored or looked up contains half a character (a lone surrogate), which no database can store:
    {reason}. Decode it with errors="replace" where it comes from."""


class WriteConflict(DatabaseError):
    template = "In each of {attempts} attempts, somebody else wrote to this user's memory before the change was ready."
    attempts: int


class SchemaError(GraphMemoryError):
    template = "The database's schema does not fit this release: {reason}"


class SchemaMissing(SchemaError):
    template = """
    Database {database!r} lacks the schema of adk-graph-memory (missing: {missing}). Run `adk-graph-memory migrate`, or
    hand the output of `adk-graph-memory migrate --print` to your DBA."""
    database: str
    missing: str


class SchemaTooNew(SchemaError):
    template = """
    The schema is at version {found}, but this release knows {known}: upgrade adk-graph-memory, or use another
    database."""
    found: int
    known: int


class SchemaUnknown(SchemaError):
    template = """
    Database {database!r} holds a graph from another development version of adk-graph-memory (schema {found}), which
    this version does not know. Use an empty database, or set another ADK_GRAPH_MEMORY_LABEL_PREFIX for a graph beside
    it. The version that created the graph can still read it."""
    database: str
    found: int


class SchemaUnchecked(SchemaError):
    template = """
    The schema of database {database!r} has not been checked yet, so nothing was read or written: this is a mistake in
    adk-graph-memory. Please report it."""
    database: str


class LabelConflict(SchemaError):
    template = """
    Database {database!r} already holds nodes labelled {labels} that are not ours. Set ADK_GRAPH_MEMORY_LABEL_PREFIX
    (for example AdkMemory) to keep the graphs apart, or ADK_GRAPH_MEMORY_SHARED_DATABASE=true to share these labels."""
    database: str
    labels: str


class IndexNameTaken(SchemaError):
    template = """
    Database {database!r} already has an index or constraint {name!r}, for label {label}, which is not ours. Drop it,
    or set another ADK_GRAPH_MEMORY_LABEL_PREFIX."""
    database: str
    name: str
    label: str


class EmbedderMismatch(SchemaError):
    template = """
    The memories in this database carry vectors of {stored} ({stored_dimensions} numbers each), but {configured}
    ({configured_size}) is configured. Configure the stored one, or recompute all vectors with
    `adk-graph-memory reembed --embedder NAME`."""
    stored: str
    stored_dimensions: int
    configured: str
    configured_size: str


class SessionClosed(GraphMemoryError, ValueError):
    template = "Session {session_id!r} was closed at {closed_at} and takes no more events; create a new session."
    session_id: str
    closed_at: str


class NotFound(GraphMemoryError, LookupError):
    template = "There is no {what}: see {where}."
    what: str
    where: str


class ConfirmationMissing(GraphMemoryError):
    template = "{question} With --json, no question is asked: add --yes to confirm."
    question: str


class GraphNotEmpty(GraphMemoryError):
    template = """
    A backup is restored into an empty graph, and {database} has users. Name an empty database (NEO4J_DATABASE), or
    restore beside the other graph under a label prefix of its own (ADK_GRAPH_MEMORY_LABEL_PREFIX)."""
    database: str


class UnreadableTranscript(GraphMemoryError, ValueError):
    template = """
    {place} cannot be read: {reason}. Expected a session as `adk run --save_session` writes it, a JSON list of sessions,
    or one session per line."""
    place: str


class ArtifactError(GraphMemoryError):
    template = "An artifact's content is not available: {reason}"


class ArtifactStoreUnusable(ArtifactError):
    template = "The artifact store {url} of ADK_GRAPH_MEMORY_ARTIFACT_STORE cannot be used: {reason}"
    url: str


class ContentMissing(ArtifactError):
    template = "The artifact store {url} has no content {id!r}, although a version refers to it: is the store mounted?"
    url: str
    id: str


class EmbeddingError(GraphMemoryError):
    template = "Text could not be embedded: {reason}"


class EmbedderMissing(EmbeddingError):
    template = """
    No embedder is available ({reason}). Run `pip install "adk-graph-memory[light]"` (the ONNX runtime) or
    "adk-graph-memory[local]" (sentence-transformers), or pass embedder= (any neo4j-graphrag Embedder or a function from
    text to numbers). With embedder=False, or ADK_GRAPH_MEMORY_EMBEDDER=none, searches use full text alone."""


class EmbeddingModelMissing(EmbeddingError):
    template = """
    The embedding model {model!r} cannot be loaded: {reason}. Give its folder (NAME=FOLDER), or name another
    (ADK_GRAPH_MEMORY_EMBEDDER, embedder= or --embedder: a sentence-transformers model, a folder that holds one, or
    gemini-embedding-001), or pass any neo4j-graphrag Embedder. With `none`, in Python embedder=False, searches use full
    text alone."""
    model: str


class EmbedderFailed(EmbeddingError):
    template = "The embedder {name} failed: {reason}"
    name: str


class RerankerFailed(GraphMemoryError):
    template = "The reranker {name} failed: {reason}"
    name: str


class BatchStalled(GraphMemoryError):
    template = """
    The batch job stopped with {pages} pages left in this pass: {reason}. Run the same command again to continue."""
    pages: int


class CredentialsMissing(EmbeddingError):
    template = """
    The embedder {model} has no credentials ({reason}). Set GOOGLE_API_KEY, or for Vertex AI GOOGLE_CLOUD_PROJECT,
    GOOGLE_CLOUD_LOCATION and GOOGLE_GENAI_USE_VERTEXAI=1. With embedder=False, searches use full text alone."""
    model: str


class ModelError(GraphMemoryError):
    template = "The language model could not extract memories: {reason}"


class ModelFailed(ModelError):
    template = "The model {model} failed: {reason}"
    model: str


class ModelRefused(ModelFailed):
    template = "The model {model} refuses to answer: {reason}"


class ReplyUnusable(ModelError):
    template = "The model {model} did not answer with the requested JSON: {reason}"
    model: str


class ReplyTruncated(ModelError):
    template = "The answer of the model {model} was cut off: make ADK_GRAPH_MEMORY_WINDOW_TOKENS smaller."
    model: str
    answer: Any
    """The part of the reply that could still be parsed, or None."""
    usage: Any
    """The tokens that the reply cost."""


class RedactionError(GraphMemoryError):
    template = "Text could not be redacted, so nothing was stored or sent: {reason}"


class RedactionFailed(RedactionError):
    template = """
    The redaction {name} failed, so nothing was stored or sent: {reason}. Pass a function from text to text."""
    name: str


class RedactorMissing(RedactionError):
    template = """
    The built-in redaction of secrets is not available ({reason}): `pip install "adk-graph-memory[privacy]"`, or pass a
    function from text to text as redact=."""


class LocalServerError(GraphMemoryError):
    template = "The local Neo4j server failed: {reason}"


class UnsupportedPlatform(LocalServerError):
    template = """
    The local Neo4j server does not run on {platform}. Run Neo4j elsewhere, for example in Docker or WSL, and set
    NEO4J_URI, NEO4J_USERNAME and NEO4J_PASSWORD."""
    platform: str


class JavaMissing(LocalServerError):
    template = """
    No Java {versions} was found for Neo4j {neo4j}: `pip install "adk-graph-memory[server]"` installs one
    (glibc Linux on x86_64 and aarch64, macOS), or set JAVA_HOME to an installed one. Looked at: {looked_at}."""
    versions: str
    neo4j: str
    looked_at: str


class JarsMissing(LocalServerError):
    template = """
    {count} of Neo4j's jars are missing and could not be fetched ({reason}). Connect to the network once; set a
    proxy with HTTPS_PROXY, certificates with REQUESTS_CA_BUNDLE. Jars that were fetched are kept in {cache}."""
    count: int
    cache: Path


class PortTaken(LocalServerError):
    template = "Port {port} is in use by another process: stop that one, or choose another port (`--port`)."
    port: int


class StoreInUse(LocalServerError):
    template = "The store in {home} is in use by another Neo4j: stop it (`adk-graph-memory down`) or choose another."
    home: Path


class DiskFull(LocalServerError):
    template = "No space is left in {home}: free {needed} to start, or choose another place with ADK_GRAPH_MEMORY_HOME."
    home: Path
    needed: str


class ServerStartFailed(LocalServerError):
    template = "Neo4j stopped with exit code {code} before it was ready. The end of its log ({log}):\n{tail}"
    code: int
    log: Path
    tail: str


class ServerStartTimeout(LocalServerError):
    template = "Neo4j did not answer in time and was stopped. The end of its log ({log}):\n{tail}"
    log: Path
    tail: str
