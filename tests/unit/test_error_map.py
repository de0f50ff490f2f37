"""Whatever Neo4j's driver raises becomes an error of ours, with the driver's as its cause."""

from __future__ import annotations

import inspect
import re
from typing import Any

import pytest
from neo4j import exceptions

from adk_graph_memory import errors
from adk_graph_memory.graph.connection import Connection
from adk_graph_memory.runtime.settings import Limits, Settings

SECRET = "correct-horse"
DRIVER_ERRORS = [
    kind
    for _, kind in inspect.getmembers(exceptions, inspect.isclass)
    if issubclass(kind, Exception) and kind.__module__.startswith("neo4j")
]

EXPECTED = {
    errors.AuthenticationFailed: {"AuthError", "TokenExpired"},
    errors.ConfigurationError: {"ConfigurationError", "AuthConfigurationError", "CertificateConfigurationError"},
    errors.ConstraintViolated: {"ConstraintError"},
    errors.DatabaseFailing: {"DatabaseError", "DatabaseUnavailable", "TransientError"},
    errors.DatabaseReadOnly: {"NotALeader", "ForbiddenOnReadOnlyDatabase"},
    errors.DatabaseUnavailable: {
        "ConnectionAcquisitionTimeoutError",
        "ConnectionPoolError",
        "IncompleteCommit",
        "ReadServiceUnavailable",
        "RoutingServiceUnavailable",
        "ServiceUnavailable",
        "SessionExpired",
        "WriteServiceUnavailable",
    },
    errors.DriverClosed: {"DriverError", "SessionError", "TransactionError", "TransactionNestingError"},
    errors.PermissionDenied: {"Forbidden"},
    errors.QueryFailed: {
        "BrokenRecordError",
        "ClientError",
        "CypherSyntaxError",
        "CypherTypeError",
        "GqlError",
        "Neo4jError",
        "ResultConsumedError",
        "ResultError",
        "ResultFailedError",
        "ResultNotSingleError",
    },
    errors.UnsupportedServer: {"UnsupportedServerProduct"},
}
"""What a caller gets for each of the driver's errors, told apart by what the caller can do about it."""
OURS = {name: ours for ours, names in EXPECTED.items() for name in names}

each_error = pytest.mark.parametrize("kind", DRIVER_ERRORS, ids=lambda kind: kind.__name__)


class Failing:
    """As much of a driver as it takes to fail."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    async def get_server_info(self) -> Any:
        raise self.error


def connection(error: Exception) -> Connection:
    settings = Settings(
        uri="bolt://db.example.org", username="ada", password=SECRET, limits=Limits(database_timeout=0.01)
    )
    return Connection(driver=Failing(error), settings=settings)  # type: ignore[arg-type]


def test_the_driver_has_the_errors_we_think() -> None:
    assert exceptions.ServiceUnavailable in DRIVER_ERRORS
    assert len(DRIVER_ERRORS) > 30


def test_every_error_of_the_driver_is_expected_to_become_one_of_ours() -> None:
    assert set(OURS) == {kind.__name__ for kind in DRIVER_ERRORS}
    assert sum(map(len, EXPECTED.values())) == len(OURS)


@each_error
def test_each_is_translated_with_a_whole_message(kind: type[Exception]) -> None:
    translated = connection(kind("boom")).translate_error(kind("boom"))
    assert type(translated) is OURS[kind.__name__]
    assert not re.search(r"\{\w+(![rs])?\}", str(translated))
    assert SECRET not in str(translated)


@pytest.mark.parametrize("kind", [kind for kind in DRIVER_ERRORS if kind is not exceptions.GqlError])
async def test_the_drivers_error_stays_as_the_cause(kind: type[Exception]) -> None:
    error = kind("boom")
    with pytest.raises(OURS[kind.__name__]) as raised:
        await connection(error).fetch_server_agent()
    assert raised.value.__cause__ is error


def test_a_newer_drivers_error_is_taken_for_its_parent() -> None:
    class FromTheFuture(exceptions.ServiceUnavailable):
        pass

    assert type(connection(FromTheFuture()).translate_error(FromTheFuture())) is errors.DatabaseUnavailable


def test_the_reason_is_what_the_driver_said() -> None:
    # An error of the driver's own has a `message` that says nothing ("50N42: Unexpected error"): its text is in str().
    error = exceptions.ConnectionAcquisitionTimeoutError("no connection within 60 s")
    assert "no connection within 60 s" in str(connection(error).translate_error(error))


async def test_an_error_of_the_callers_is_left_alone() -> None:
    with pytest.raises(ZeroDivisionError):
        await connection(ZeroDivisionError()).fetch_server_agent()


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("Neo.ClientError.General.WriteOnReadOnlyAccessDatabase", errors.DatabaseReadOnly),
        ("Neo.ClientError.Security.AuthenticationRateLimit", errors.AuthenticationFailed),
        ("Neo.ClientError.Security.CredentialsExpired", errors.AuthenticationFailed),
        ("Neo.TransientError.General.MemoryPoolOutOfMemoryError", errors.QueryFailed),
        ("Neo.DatabaseError.Statement.ExecutionFailed", errors.QueryFailed),
        ("Neo.DatabaseError.Schema.IndexDropFailed", errors.QueryFailed),
    ],
)
def test_what_a_server_says_by_a_code_alone_is_known_too(code: str, kind: type[Exception]) -> None:
    error = exceptions.Neo4jError._hydrate_neo4j(code=code, message="boom")
    assert type(connection(error).translate_error(error)) is kind


@pytest.mark.parametrize(
    "code",
    [
        "Neo.TransientError.General.DatabaseUnavailable",
        "Neo.TransientError.General.OutOfMemoryError",
        "Neo.TransientError.Transaction.MaximumTransactionLimitReached",
        "Neo.DatabaseError.Transaction.TransactionStartFailed",
        "Neo.DatabaseError.Transaction.TransactionCommitFailed",
        "Neo.DatabaseError.Transaction.TransactionLogError",
        "Neo.DatabaseError.General.StorageDamageDetected",
        "Neo.DatabaseError.General.IndexCorruptionDetected",
        "Neo.DatabaseError.General.UnknownError",
    ],
)
def test_a_server_in_trouble_is_unavailable_and_says_what_to_do(code: str) -> None:
    error = exceptions.Neo4jError._hydrate_neo4j(code=code, message="boom")
    translated = connection(error).translate_error(error)
    assert type(translated) is errors.DatabaseFailing and isinstance(translated, errors.DatabaseUnavailable)
    assert re.search("boom.*disk is full.*restart", str(translated))


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ("java.io.IOException: No space left on device", errors.DatabaseFailing),
        ("The database has encountered a critical error, and needs to be restarted", errors.DatabaseFailing),
        ("Property value is too large to index, please see index documentation for limitations", errors.KeyTooLong),
        ("/ by zero", errors.QueryFailed),
    ],
)
def test_of_a_statement_that_failed_the_words_tell_why(words: str, kind: type[Exception]) -> None:
    error = exceptions.Neo4jError._hydrate_neo4j(code="Neo.DatabaseError.Statement.ExecutionFailed", message=words)
    assert type(connection(error).translate_error(error)) is kind
