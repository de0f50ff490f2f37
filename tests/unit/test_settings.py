"""Configuration comes from one place, in one order, and secrets do not leave it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from pydantic import SecretStr

from adk_graph_memory import errors
from adk_graph_memory.graph.connection import Connection
from adk_graph_memory.runtime import environment
from adk_graph_memory.runtime.settings import (
    LIMIT_NAMES,
    Limits,
    Settings,
    hide_credentials,
    load_settings,
    parse_address,
    validate_address,
)

SECRET = "correct-horse"
LOCAL = {"uri": "bolt://127.0.0.1:20001", "username": "local", "password": "of-the-local-server"}


@pytest.fixture
def local_server() -> Path:
    """What ``adk-graph-memory up`` leaves behind."""
    file = environment.get_connection_file()
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(LOCAL))
    return file


def password(settings: Settings) -> str:
    return settings.password.get_secret_value()


# -- where a value comes from -----------------------------------------------------------------------------------


def test_without_anything_no_server_is_named() -> None:
    settings = load_settings()
    assert (settings.uri, settings.username, password(settings)) == (None, "neo4j", "")


def test_neo4j_variables_name_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEO4J_URI", "neo4j+s://db.example.org")
    monkeypatch.setenv("NEO4J_USERNAME", "ada")
    monkeypatch.setenv("NEO4J_PASSWORD", SECRET)
    monkeypatch.setenv("NEO4J_DATABASE", "memories")
    settings = load_settings()
    assert (settings.uri, settings.username) == ("neo4j+s://db.example.org", "ada")
    assert (password(settings), settings.database) == (SECRET, "memories")


def test_own_variables_name_all_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADK_GRAPH_MEMORY_LABEL_PREFIX", "Adk")
    monkeypatch.setenv("ADK_GRAPH_MEMORY_SCHEMA", "check")
    monkeypatch.setenv("ADK_GRAPH_MEMORY_SHARED_DATABASE", "true")
    settings = load_settings()
    assert (settings.label_prefix, settings.schema_mode, settings.shared_database) == ("Adk", "check", True)


def test_an_argument_goes_before_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEO4J_URI", "bolt://from-environment")
    monkeypatch.setenv("ADK_GRAPH_MEMORY_SCHEMA", "off")
    settings = load_settings(uri="bolt://from-argument", schema="check")
    assert (settings.uri, settings.schema_mode) == ("bolt://from-argument", "check")


def test_every_limit_is_a_variable_and_part_of_an_address(monkeypatch: pytest.MonkeyPatch) -> None:
    for number, name in enumerate(sorted(LIMIT_NAMES), 600):
        monkeypatch.setenv(f"ADK_GRAPH_MEMORY_{name.upper()}", str(number))
    named = dict(enumerate(sorted(LIMIT_NAMES), 600))
    assert load_settings().limits.model_dump() == {name: number for number, name in named.items()}
    query = "&".join(f"{name}={number + 100}" for number, name in named.items())
    settings = load_settings(**parse_address(f"neo4j://host?{query}"))
    assert settings.limits.model_dump() == {name: number + 100 for number, name in named.items()}


@pytest.mark.parametrize("given", [Limits, dict])
def test_limits_that_are_not_given_come_from_the_environment(monkeypatch: pytest.MonkeyPatch, given: type) -> None:
    monkeypatch.setenv("ADK_GRAPH_MEMORY_LEASE", "7")
    limits = Settings(limits=given(pool_size=3)).limits
    assert (limits.pool_size, limits.lease, limits.database_timeout) == (3, 7.0, 15.0)


def test_an_address_changes_one_limit_of_given_settings() -> None:
    connection = Connection("neo4j://host?lease=9", settings=Settings(limits=Limits(pool_size=3, lease=4)))
    assert (connection.settings.limits.pool_size, connection.settings.limits.lease) == (3, 9.0)


def test_a_limit_outside_of_limits_is_named() -> None:
    with pytest.raises(errors.ConfigurationError, match=r"no setting pool_size; .*limits=Limits"):
        Settings(pool_size=3)
    with pytest.raises(errors.ConfigurationError, match=r"limits\.pool_sizes"):
        load_settings(limits={"pool_sizes": 3})


def test_an_unknown_variable_is_no_error_and_named_once_with_the_nearest(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(environment, "_logged_names", set())
    for name in ("MEMORY_TLL", "OF_A_NEWER_RELEASE", "TOKEN_BUDGET", "POOL_SIZE", "SCHEMA", "HOME", "CACHE", "NEO4J"):
        monkeypatch.setenv(f"ADK_GRAPH_MEMORY_{name}", "check" if name == "SCHEMA" else "9")
    for _ in range(2):
        load_settings()
    assert [record.getMessage() for record in caplog.records] == [
        "ADK_GRAPH_MEMORY_MEMORY_TLL is no setting and changes nothing: did you mean ADK_GRAPH_MEMORY_MEMORY_TTL?",
        "ADK_GRAPH_MEMORY_OF_A_NEWER_RELEASE is no setting and changes nothing: see docs/configuration.md",
    ]


# -- the server that `up` left running --------------------------------------------------------------------------


def test_the_local_server_is_used_where_no_other_is_named(local_server: Path) -> None:
    settings = load_settings()
    assert (settings.uri, settings.username, password(settings)) == tuple(LOCAL.values())


@pytest.mark.parametrize("source", ["argument", "environment"])
def test_the_local_password_never_meets_another_server(
    local_server: Path, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    if source == "environment":
        monkeypatch.setenv("NEO4J_URI", "neo4j://elsewhere")
    settings = load_settings(**({"uri": "neo4j://elsewhere"} if source == "argument" else {}))
    assert (settings.uri, settings.username, password(settings)) == ("neo4j://elsewhere", "neo4j", "")


def test_settings_made_from_settings_keep_their_server(local_server: Path) -> None:
    first = load_settings(uri="neo4j://elsewhere", password=SECRET)
    again = load_settings(**first.model_dump())
    assert (again.uri, password(again)) == ("neo4j://elsewhere", SECRET)


@pytest.mark.parametrize("content", ["{", "[1]", "nonsense"])
def test_a_broken_connection_file_is_named(local_server: Path, content: str) -> None:
    local_server.write_text(content)
    with pytest.raises(errors.ConfigurationError, match=r"connection\.json"):
        load_settings()


def test_a_broken_connection_file_is_not_read_for_another_server(local_server: Path) -> None:
    local_server.write_text("{")
    assert load_settings(uri="neo4j://elsewhere").uri == "neo4j://elsewhere"


# -- secrets ----------------------------------------------------------------------------------------------------


def test_a_password_is_in_no_representation() -> None:
    settings = load_settings(uri="bolt://h", password=SECRET)
    assert isinstance(settings.password, SecretStr)
    for shown in (repr(settings), str(settings), settings.model_dump_json()):
        assert SECRET not in shown


def test_a_password_is_in_no_error() -> None:
    with pytest.raises(errors.ConfigurationError) as raised:
        load_settings(uri="bolt://h", password=SECRET, pool_size=0)
    assert SECRET not in f"{raised.value} {raised.value.__cause__} {raised.value.__cause__!r}"


@pytest.mark.parametrize(
    ("uri", "shown"),
    [
        ("bolt://localhost:7687", "bolt://localhost:7687"),
        (f"bolt://neo4j:{SECRET}@db.example.org:7687", "bolt://***@db.example.org:7687"),
        (f"neo4j+s://neo4j:{SECRET}@with@db.example.org", "neo4j+s://***@db.example.org"),
        (f"neo4j:{SECRET}@localhost", "***@localhost"),
        ("neo4j://localhost/db?model=rules", "neo4j://localhost/db"),
        (f"neo4j://u:pa?{SECRET}@localhost/db?model=rules", "neo4j://***@localhost/db"),
        ("nowhere", "nowhere"),
    ],
)
def test_an_address_is_shown_without_credentials(uri: str, shown: str) -> None:
    assert hide_credentials(uri) == shown


def test_credentials_in_the_address_are_refused_and_not_repeated() -> None:
    # Neo4j's driver would refuse them as well, with the password in its message.
    with pytest.raises(errors.ConfigurationError, match="NEO4J_PASSWORD") as raised:
        validate_address(f"bolt://neo4j:{SECRET}@localhost")
    assert SECRET not in str(raised.value)


# -- what an address says ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("rest", ["/other", "?token_budget=9", "/?embedder=gemini-embedding-001"])
def test_what_the_driver_would_not_see_of_an_address_is_refused(rest: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEO4J_URI", f"neo4j://localhost{rest}")
    with pytest.raises(errors.ConfigurationError, match="NEO4J_DATABASE"):
        load_settings()


def test_a_routing_context_is_the_drivers_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEO4J_URI", "neo4j://localhost?policy=eu")
    assert load_settings().uri == "neo4j://localhost?policy=eu"


def test_an_address_may_name_every_setting() -> None:
    named = parse_address(
        "neo4j+s://an%40a:p%3Aw%2F@db.example.org:7687/other?model=gemini&topics=%5B%22A%22%5D&token_budget=9"
    )
    settings = load_settings(**named)
    assert (settings.uri, settings.username, settings.database) == ("neo4j+s://db.example.org:7687", "an@a", "other")
    assert settings.password.get_secret_value() == "p:w/"
    assert (settings.model, settings.topics, settings.token_budget) == ("gemini", ("A",), 9)


def test_what_an_address_leaves_out_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEO4J_URI", "bolt://elsewhere")
    monkeypatch.setenv("NEO4J_PASSWORD", SECRET)
    settings = load_settings(**parse_address("neo4j://?model=gemini"))
    assert (settings.uri, settings.password.get_secret_value(), settings.model) == (
        "bolt://elsewhere",
        SECRET,
        "gemini",
    )


def test_an_empty_password_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    file = environment.get_connection_file()
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps({"uri": "bolt://localhost:7687", "username": "neo4j", "password": SECRET}))
    monkeypatch.setenv("NEO4J_PASSWORD", "")
    assert load_settings().password.get_secret_value() == SECRET
    monkeypatch.setenv("NEO4J_URI", "bolt://elsewhere")
    assert load_settings().password.get_secret_value() == ""


def test_an_address_outranks_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEO4J_PASSWORD", "another")
    monkeypatch.setenv("NEO4J_DATABASE", "another")
    settings = load_settings(**parse_address(f"bolt://neo4j:{SECRET}@[::1]:7687/db"))
    assert (settings.uri, settings.database) == ("bolt://[::1]:7687", "db")
    assert settings.password.get_secret_value() == SECRET


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("modle=x", "no setting 'modle'"),
        (f"password={SECRET}", "before the host"),
        ("topics=[", "topics is not a JSON list"),
    ],
)
def test_what_is_no_setting_is_named_and_no_secret_shown(query: str, said: str) -> None:
    with pytest.raises(errors.ConfigurationError, match=said) as raised:
        parse_address(f"neo4j://u:{SECRET}@localhost?{query}")
    assert SECRET not in str(raised.value)


@pytest.mark.parametrize("password", ["12#xq", "zx#xq", "zx/xq", "12/xq", "12?xq", "zx?xq", "zx:xq/"])
def test_credentials_that_are_not_encoded_are_named_and_not_repeated(password: str) -> None:
    with pytest.raises(errors.ConfigurationError, match="percent-encode") as raised:
        parse_address(f"neo4j://neo4j:{password}@host:7687")
    assert not {password[:2], "xq"} & set(re.findall(r"\w+", str(raised.value)))


def test_an_address_may_say_what_becomes_of_the_schema() -> None:
    assert load_settings(**parse_address("neo4j://localhost?schema=check")).schema_mode == "check"


def test_no_address_shows_its_password() -> None:
    assert SECRET not in repr(parse_address(f"neo4j://u:{SECRET}@localhost"))


# -- what is refused --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "uri", ["http://localhost:7474", "localhost:7687", "", f"https://u:{SECRET}@h", "postgres://h"]
)
def test_an_unknown_scheme_is_refused_with_an_example(uri: str) -> None:
    with pytest.raises(errors.UnknownScheme, match="neo4j://localhost:7687") as raised:
        validate_address(uri)
    assert SECRET not in str(raised.value)


@pytest.mark.parametrize("scheme", ["neo4j", "neo4j+s", "neo4j+ssc", "bolt", "bolt+s", "bolt+ssc"])
def test_the_drivers_schemes_are_taken(scheme: str) -> None:
    assert validate_address(f"{scheme}://h:7687") == f"{scheme}://h:7687"


@pytest.mark.parametrize("uri", ["neo4j://ana:secret@h", "neo4j://h/memories"])
def test_a_message_has_one_beginning(uri: str) -> None:
    with pytest.raises(errors.ConfigurationError) as raised:
        load_settings(uri=uri)
    assert str(raised.value).count("The configuration cannot be used") == 1


@pytest.mark.parametrize("name", ["PRICES", "FUNCTIONAL_PREDICATES"])
def test_a_list_that_is_no_json_is_a_configuration_error(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(f"ADK_GRAPH_MEMORY_{name}", "lives_in, works_at")
    with pytest.raises(errors.ConfigurationError, match=rf"ADK_GRAPH_MEMORY_{name} is not a JSON list"):
        load_settings()


def test_an_unknown_scheme_in_the_environment_is_a_configuration_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEO4J_URI", "http://localhost:7474")
    with pytest.raises(errors.ConfigurationError, match=r"(?s)NEO4J_URI.*neo4j://localhost:7687"):
        load_settings()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("pool_size", 0),
        ("database_timeout", 0),
        ("window_tokens", "many"),
        ("schema", "maybe"),
        ("memory_max_results", 0),
        ("shared_database", "perhaps"),
    ],
)
def test_a_bad_value_names_its_setting(name: str, value: object) -> None:
    with pytest.raises(errors.ConfigurationError, match=name):
        load_settings(**{name: value})


def test_every_bad_value_is_named_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADK_GRAPH_MEMORY_POOL_SIZE", "0")
    with pytest.raises(errors.ConfigurationError, match=r"(?s)pool_size.*analyzers|analyzers.*pool_size"):
        load_settings(analyzers=("English!",))


@pytest.mark.parametrize("name", ["label_prefix", "analyzers"])
@pytest.mark.parametrize(
    "value", ["a b", "a`b", "a'b", "a)-(b", "a\nb", "a\n", "a{b", "1a", "ä", "a;b", "a//b", "a\\u0060", "a@b"]
)
def test_no_cypher_gets_in_by_a_name(name: str, value: str) -> None:
    with pytest.raises(errors.ConfigurationError, match=name):
        load_settings(**{name: (value,) if name == "analyzers" else value})


def test_settings_do_not_change() -> None:
    with pytest.raises(ValueError, match="frozen"):
        load_settings().uri = "bolt://other"  # type: ignore[misc]


def test_a_bare_variable_of_the_shell_is_no_setting_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("URI", "USERNAME", "PASSWORD", "DATABASE", "SCHEMA"):
        monkeypatch.setenv(name, "bolt://evil:1" if name == "URI" else "off")
    settings = Settings()
    assert (settings.uri, settings.username, settings.database, settings.schema_mode) == (
        None,
        "neo4j",
        "neo4j",
        "auto",
    )
    assert settings.password.get_secret_value() == ""


def test_a_misspelt_setting_is_named() -> None:
    with pytest.raises(errors.ConfigurationError, match="token_budgett"):
        Settings(token_budgett=3)


@pytest.mark.parametrize(
    "name", ["Mars/Olympus", "../etc/passwd", "/etc/localtime", "Europe", "", "x" * 5_000, "a\x00b", 7]
)
def test_a_time_zone_that_there_is_not_is_refused_with_what_to_do(name: object) -> None:
    with pytest.raises(errors.ConfigurationError, match=r"timezone: .* is not a time zone: use an IANA name"):
        load_settings(timezone=name)


def test_a_time_zone_is_given_by_the_environment_or_the_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADK_GRAPH_MEMORY_TIMEZONE", "Asia/Tokyo")
    assert str(load_settings().timezone) == "Asia/Tokyo"
    assert str(load_settings(**parse_address("neo4j://host?timezone=Europe/Berlin")).timezone) == "Europe/Berlin"
