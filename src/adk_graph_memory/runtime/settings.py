"""Read and validate the configuration; no other module reads a setting from the environment.

``NEO4J_*`` variables name the connection, ``ADK_GRAPH_MEMORY_*`` variables everything else. Without ``NEO4J_URI`` the
settings point to the server that ``adk-graph-memory up`` started, as its connection file says.
"""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Annotated, Any, Literal
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit
from zoneinfo import ZoneInfo

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    SecretStr,
    StringConstraints,
    ValidationError,
    field_validator,
)
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    InitSettingsSource,
    JsonConfigSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
)

from adk_graph_memory import errors
from adk_graph_memory.language.dates import parse_duration, parse_timezone
from adk_graph_memory.runtime import environment

AnalyzerName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_-]*$")]
"""The name of a Neo4j full-text analyzer."""
SharedName = Annotated[str, AfterValidator(lambda name: _check_shared_name(name))]
"""The name of a memory that users share."""
Period = Annotated[float | None, BeforeValidator(lambda value: None if value in (None, "") else parse_duration(value))]
"""A length of time in seconds; a text may have a unit, as ``30d`` has."""
URI_SCHEMES = ("neo4j", "neo4j+s", "neo4j+ssc", "bolt", "bolt+s", "bolt+ssc")


class _LocalServerSource(InitSettingsSource):
    """The local server's connection. Ignored if a URI is set, so that its password is never sent to another server."""

    def __call__(self) -> dict[str, Any]:
        if any(name in self.current_state for name in ("uri", "NEO4J_URI")):
            return {}
        file = environment.get_connection_file()
        try:
            return JsonConfigSettingsSource(self.settings_cls, file)()
        except (OSError, TypeError, ValueError) as error:
            raise errors.ConfigurationError(reason=f"{file} cannot be read: {error}") from error


_ENVIRONMENT = SettingsConfigDict(
    env_prefix=environment.PREFIX, populate_by_name=True, frozen=True, hide_input_in_errors=True
)


class Limits(BaseSettings):
    """How much a process does at once, and how long it waits; every field is also an environment variable.

    ``Settings(limits=Limits(pool_size=10))`` leaves the other limits to the environment.
    """

    model_config = _ENVIRONMENT | SettingsConfigDict(extra="forbid")

    pool_size: int = Field(default=50, ge=1, description="the maximum number of connections of a driver")
    database_timeout: float = Field(
        default=15.0, gt=0, description="seconds without an answer from Neo4j after which an operation gives up"
    )
    first_search_wait: float = Field(
        default=1.0,
        ge=0,
        description="seconds, counted from when a service is created, that an agent's first search waits for the "
        "embedder, and a search waits for a server that has just started; after that, full text answers",
    )
    embed_timeout: float = Field(
        default=10.0, gt=0, description="seconds a search waits for its embedding; after that, full text answers"
    )
    embed_concurrency: int = Field(
        default=8,
        ge=1,
        description="concurrent calls of the embedder; a model on this machine, or one that takes any number of texts, "
        "gets one at a time",
    )
    rerank_timeout: float = Field(
        default=1.0, gt=0, description="seconds a search waits for a reranker; after that, it keeps its own order"
    )
    model_timeout: float = Field(default=120.0, gt=0, description="seconds for one call of the model")
    model_retries: int = Field(
        default=2, ge=0, description="retries of a call after a transient error: 429, 5xx, a lost connection"
    )
    model_concurrency: int = Field(
        default=4, ge=1, description="concurrent calls of the model, over all users of a process"
    )
    window_tokens: int = Field(default=16_000, ge=500, description="tokens of a session that one model call reads")
    lease: float = Field(
        default=600.0, gt=0, description="seconds after which another worker may take over a claimed ingest"
    )
    artifact_inline_limit: int = Field(
        default=65_536, ge=0, description="the largest artifact, in bytes, that is stored in the graph"
    )


class Settings(BaseSettings):
    """Everything an operator can configure; every field is also an environment variable, and so is every limit."""

    model_config = _ENVIRONMENT | SettingsConfigDict(extra="ignore")

    uri: str | None = Field(
        default=None,
        validation_alias="NEO4J_URI",
        description="Neo4j's address; by default the server that `up` started",
    )
    username: str = Field(default="neo4j", validation_alias="NEO4J_USERNAME", description="the database user")
    password: SecretStr = Field(
        default=SecretStr(""), validation_alias="NEO4J_PASSWORD", description="the user's password"
    )
    database: str = Field(default="neo4j", validation_alias="NEO4J_DATABASE", description="the database's name")

    schema_mode: Literal["auto", "check", "off"] = Field(
        default="auto",
        validation_alias="ADK_GRAPH_MEMORY_SCHEMA",
        description="`auto` migrates at first use, `check` refuses a schema that does not fit, `off` does not check",
    )
    label_prefix: str = Field(
        default="",
        pattern=r"^([A-Za-z][A-Za-z0-9_]{0,40})?$",
        description="a prefix for every label, for a shared database; index and constraint names end with it",
    )
    shared_database: bool = Field(
        default=False, description="accept a database in which other nodes already have our labels"
    )
    analyzers: tuple[AnalyzerName, ...] = Field(
        default=("english", "cjk"),
        min_length=1,
        max_length=6,
        description="Neo4j's full-text analyzers, each with its own index; a question is searched with the analyzer of "
        "its language (`russian`, `german` …), or else with the first",
    )

    timezone: ZoneInfo = Field(
        default=ZoneInfo("UTC"), description="the time zone of users whose own is unknown; an IANA name"
    )

    model: str | None = Field(default=None, description="what extracts facts: a model's name, or `rules`, the default")
    embedder: str | None = Field(
        default=None,
        description="name or path of a sentence-transformers model (default: all-MiniLM-L6-v2) or of its ONNX export, "
        "or both, so that copies in different folders count as one model (`all-MiniLM-L6-v2=/models/minilm`); the name "
        "of a Gemini model such as `gemini-embedding-001`; `none` searches by full text alone",
    )
    redact: Literal["secrets"] | None = Field(
        default=None, description="`secrets` removes keys, tokens, passwords and card numbers from remembered text"
    )
    describe_pictures: bool = Field(
        default=True,
        description="let the model describe the pictures in events, so that they are found by what they show",
    )
    guard: Literal["rules"] | None = Field(
        default=None, description="`rules` holds suspicious facts for review; see [the guard](security.md#the-guard)"
    )
    embed_dimensions: int | None = Field(
        default=None, ge=1, description="vector dimension of a Gemini model chosen by name; 768 by default"
    )
    token_projection: str | None = Field(
        default=None,
        description="path of the projection that `pipelines/fit_projection.py` fitted to a local model and your texts; "
        "by default the package's own",
    )
    prices: tuple[tuple[str, float, float, float], ...] = Field(
        default=(),
        description="prices per million tokens as `[model, in, out, cached]`, for `adk-graph-memory stats`",
    )
    functional_predicates: tuple[str, ...] = Field(
        default=(), description="single-valued predicates: a new value for a subject ends the old one"
    )
    topics: tuple[str, ...] = Field(
        default=(), description="labels of Memory Bank's managed topics; only facts on these topics are kept"
    )
    entity_types: tuple[str, ...] = Field(default=(), description="the allowed entity types; any if empty")
    keep_unverified: bool = Field(
        default=False,
        description="keep facts whose quote is not in the turns they name, marked `verified: false`; they end nothing",
    )
    predicates: tuple[str, ...] = Field(default=(), description="the allowed predicates of facts; any if empty")

    artifact_store: str | None = Field(
        default=None,
        description="path or URL (`file://`, `s3://`, `gs://`, `az://`) for content too large for the graph; by "
        "default a folder in your data directory",
    )
    former_artifact_stores: tuple[str, ...] = Field(
        default=(),
        description="earlier values of `ADK_GRAPH_MEMORY_ARTIFACT_STORE`; imported versions may refer to them",
    )

    memory_max_results: int = Field(
        default=50, ge=1, description="the maximum number of memories that a search returns"
    )
    token_budget: int = Field(
        default=1_024, ge=1, description="the maximum number of tokens of text that a search returns"
    )
    min_score: float | None = Field(
        default=None,
        ge=0,
        le=1,
        description="a search leaves out memories with a lower score; about 0.28 leaves out most memories that answer "
        "nothing, and some that answer the question. By default an agent's search leaves out what hardly ever answers, "
        "and after ten memories what scores below 0.65 of the best (with the default model, once there are memories "
        "enough to tell); any other search leaves out nothing",
    )
    shared: tuple[SharedName, ...] = Field(
        default=(), description="shared memories that every user's searches read too: `:app:`, `:group:NAME`"
    )

    session_ttl: Period = Field(default=None, description="how long a session is kept after its last activity")
    event_ttl: Period = Field(default=None, description="how long an event is kept in its session")
    memory_ttl: Period = Field(default=None, description="how long a memory is kept after it was last said")
    revision_ttl: Period = Field(default=None, description="how long a fact's revisions are kept")
    artifact_ttl: Period = Field(default=None, description="how long an artifact version is kept")
    user_state_ttl: Period = Field(default=None, description="how long a user's state is kept after its last change")

    ray_address: str = Field(
        default="local",
        validation_alias="RAY_ADDRESS",
        description="the Ray cluster of `--engine ray`; `local` starts one on this machine",
    )

    limits: Limits = Field(default_factory=Limits)

    def __init__(self, *, schema: str | None = None, **values: Any) -> None:
        """Take fields by name (``schema`` for ``schema_mode``); the rest come from the environment.

        Raises:
            errors.ConfigurationError: there is no setting of such a name.
        """
        if unknown := sorted(name for name in values if name not in type(self).model_fields and name[0] != "_"):
            hint = "; give a limit as limits=Limits(…)" if LIMIT_NAMES & set(unknown) else ""
            raise errors.ConfigurationError(reason=f"there is no setting {', '.join(unknown)}{hint}")
        if schema is not None:
            values["schema_mode"] = schema
        super().__init__(**values)

    _validate_uri = field_validator("uri")(lambda uri: validate_address(uri))
    _validate_timezone = field_validator("timezone", mode="before")(lambda name: parse_timezone(name))

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        if isinstance(env_settings, EnvSettingsSource):  # an empty password is none: the local server has its own
            variables = env_settings.env_vars.items()
            env_settings.env_vars = {name: value for name, value in variables if value or name != "neo4j_password"}
        return init_settings, env_settings, _LocalServerSource(settings_cls, {})


LIMIT_NAMES = Limits.model_fields.keys()
SETTING_NAMES = Settings.model_fields.keys() - {"limits"} | LIMIT_NAMES
"""What an address may name."""


def hide_credentials(uri: str) -> str:
    """Strip the credentials and settings from an address, so that it can be logged."""
    head, at_sign, tail = uri.rpartition("@")
    scheme, separator, _ = head.partition("://")
    host = tail.partition("?")[0]
    return f"{scheme if separator else ''}{separator}***@{host}" if at_sign else host


def load_settings(**overrides: Any) -> Settings:
    """Load the settings from the environment; overrides, by the name of a field or of a limit, take precedence.

    Raises:
        errors.ConfigurationError: a value is invalid; the message names each such setting.
    """
    environment.log_unknown_names(_list_variables())
    limits = {name: overrides.pop(name) for name in LIMIT_NAMES & overrides.keys()}
    overrides["limits"] = {**dict(overrides.get("limits", {})), **limits}
    try:
        return Settings(**overrides)
    except ValidationError as error:
        reasons = []
        for detail in error.errors():
            cause = detail.get("ctx", {}).get("error")
            reason = getattr(cause, "reason", "") or detail["msg"].removeprefix("Value error, ")
            reasons.append(f"{'.'.join(map(str, detail['loc']))}: {reason}")
        raise errors.ConfigurationError(reason="; ".join(reasons)) from error
    except SettingsError as error:  # a list that is not JSON, which pydantic parses before it validates any field
        name = str(error).partition('field "')[2].partition('"')[0]
        reason = f'ADK_GRAPH_MEMORY_{name.upper()} is not a JSON list, like ["one", "two"]'
        raise errors.ConfigurationError(reason=reason) from error


@cache
def _list_variables() -> frozenset[str]:
    """List the names of all variables that are read as settings."""
    fields = {**Settings.model_fields, **Limits.model_fields}
    return frozenset(
        str(field.validation_alias or f"{environment.PREFIX}{name}").upper() for name, field in fields.items()
    )


def parse_address(uri: str | None) -> dict[str, Any]:
    """Parse the settings in an address such as ``neo4j+s://user:password@host:7687/database?model=…&token_budget=…``.

    The query string may name any setting or limit, with lists as JSON. Credentials are percent-encoded. Whatever the
    address omits, even the host (``neo4j://``), comes from the environment.

    Raises:
        errors.UnknownScheme: it is not a Neo4j address.
        errors.ConfigurationError: it names an unknown setting, or cannot be parsed.
    """
    if uri is None:
        return {}
    address = urlsplit(uri)
    if address.scheme not in URI_SCHEMES:
        raise errors.UnknownScheme(uri=hide_credentials(uri))
    if "@" in address.path + address.query or address.fragment or not _has_valid_port(address):
        reason = f"{address.scheme}://… cannot be read; percent-encode user and password, above all / ? # @ and :"
        raise errors.ConfigurationError(reason=reason)
    host = address.netloc.rpartition("@")[2]
    settings: dict[str, Any] = {
        "uri": host and f"{address.scheme}://{host}",
        "username": unquote(address.username or ""),
        "password": SecretStr(unquote(address.password)) if address.password else None,
        "database": unquote(address.path.strip("/")),
    }
    for name, value in parse_qsl(address.query, keep_blank_values=True):
        name = "schema_mode" if name == "schema" else name
        if name in settings or name not in SETTING_NAMES:
            hint = "; user and password stand before the host" if name in settings else ""
            raise errors.ConfigurationError(reason=f"{hide_credentials(uri)}: there is no setting {name!r}{hint}")
        settings[name] = _parse_json_list(uri, name, value) if value.startswith("[") else value
    return {name: value for name, value in settings.items() if value}


def _has_valid_port(address: SplitResult) -> bool:
    try:
        return address.port is None or address.port > 0
    except ValueError:
        return False


def _parse_json_list(uri: str, name: str, value: str) -> Any:
    try:
        return json.loads(value)
    except ValueError as error:
        reason = f"{hide_credentials(uri)}: {name} is not a JSON list: {error}"
        raise errors.ConfigurationError(reason=reason) from error


def validate_address(uri: str | None) -> str | None:
    """Return the address unchanged if it is fit for Neo4j's driver.

    Raises:
        errors.UnknownScheme: the driver does not know its scheme.
        errors.ConfigurationError: it holds a user or password, which the driver would refuse and print, or a database
            or settings, which the driver would ignore.
    """
    if uri is not None and urlsplit(uri).scheme not in URI_SCHEMES:
        raise errors.UnknownScheme(uri=hide_credentials(uri))
    if uri is not None and "@" in urlsplit(uri).netloc:
        reason = f"{hide_credentials(uri)} holds credentials; give them as NEO4J_USERNAME and NEO4J_PASSWORD"
        raise errors.ConfigurationError(reason=reason)
    address = urlsplit(uri or "")
    if address.path.strip("/") or any(name in SETTING_NAMES for name, _ in parse_qsl(address.query)):
        shown = hide_credentials(uri or "")
        reason = f"{shown} holds more than a host; give the rest as NEO4J_DATABASE and ADK_GRAPH_MEMORY_…"
        raise errors.ConfigurationError(reason=reason)
    return uri


def _check_shared_name(name: str) -> str:
    if not re.fullmatch(r":app:|:group:.*\S.*", name):
        raise ValueError(f"{name!r} names no shared memory: give `:app:` or `:group:NAME`")
    return name
