"""Decide which errors of the Neo4j driver run an operation again, and translate them into our own."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

from neo4j import exceptions as driver_errors
from tenacity import (
    RetryCallState,
    retry_if_exception,
    stop_before_delay,
    wait_random_exponential,
)

from adk_graph_memory import errors

ERROR_TRANSLATIONS: dict[type[Exception], type[errors.GraphMemoryError]] = {
    driver_errors.GqlError: errors.QueryFailed,
    driver_errors.Neo4jError: errors.QueryFailed,
    driver_errors.ClientError: errors.QueryFailed,
    driver_errors.CypherSyntaxError: errors.QueryFailed,
    driver_errors.CypherTypeError: errors.QueryFailed,
    driver_errors.ConstraintError: errors.ConstraintViolated,
    driver_errors.AuthError: errors.AuthenticationFailed,
    driver_errors.TokenExpired: errors.AuthenticationFailed,
    driver_errors.Forbidden: errors.PermissionDenied,
    driver_errors.DatabaseError: errors.DatabaseFailing,
    driver_errors.TransientError: errors.DatabaseFailing,
    driver_errors.DatabaseUnavailable: errors.DatabaseFailing,
    driver_errors.NotALeader: errors.DatabaseReadOnly,
    driver_errors.ForbiddenOnReadOnlyDatabase: errors.DatabaseReadOnly,
    driver_errors.DriverError: errors.DriverClosed,
    driver_errors.SessionError: errors.DriverClosed,
    driver_errors.TransactionError: errors.DriverClosed,
    driver_errors.TransactionNestingError: errors.DriverClosed,
    driver_errors.ResultError: errors.QueryFailed,
    driver_errors.ResultFailedError: errors.QueryFailed,
    driver_errors.ResultConsumedError: errors.QueryFailed,
    driver_errors.ResultNotSingleError: errors.QueryFailed,
    driver_errors.BrokenRecordError: errors.QueryFailed,
    driver_errors.SessionExpired: errors.DatabaseUnavailable,
    driver_errors.ServiceUnavailable: errors.DatabaseUnavailable,
    driver_errors.RoutingServiceUnavailable: errors.DatabaseUnavailable,
    driver_errors.WriteServiceUnavailable: errors.DatabaseUnavailable,
    driver_errors.ReadServiceUnavailable: errors.DatabaseUnavailable,
    driver_errors.IncompleteCommit: errors.DatabaseUnavailable,
    driver_errors.ConfigurationError: errors.ConfigurationError,
    driver_errors.AuthConfigurationError: errors.ConfigurationError,
    driver_errors.CertificateConfigurationError: errors.ConfigurationError,
    driver_errors.UnsupportedServerProduct: errors.UnsupportedServer,
    driver_errors.ConnectionPoolError: errors.DatabaseUnavailable,
    driver_errors.ConnectionAcquisitionTimeoutError: errors.DatabaseUnavailable,
}
"""All exceptions of the driver, and the error of ours that each becomes."""
_EXECUTION_FAILED = "Neo.DatabaseError.Statement.ExecutionFailed"
CREDENTIALS_EXPIRED = "Neo.ClientError.Security.CredentialsExpired"
_ERROR_CODES = {
    _EXECUTION_FAILED: errors.QueryFailed,
    "Neo.DatabaseError.Schema.IndexDropFailed": errors.QueryFailed,
    "Neo.ClientError.Database.DatabaseNotFound": errors.DatabaseMissing,
    "Neo.ClientError.General.WriteOnReadOnlyAccessDatabase": errors.DatabaseReadOnly,
    "Neo.ClientError.Security.AuthenticationRateLimit": errors.AuthenticationFailed,
    CREDENTIALS_EXPIRED: errors.AuthenticationFailed,
    "Neo.TransientError.General.MemoryPoolOutOfMemoryError": errors.QueryFailed,
    "Neo.ClientError.Transaction.TransactionTimedOut": errors.DatabaseTimeout,
    "Neo.ClientError.Transaction.TransactionTimedOutClientConfiguration": errors.DatabaseTimeout,
}
"""Codes that no driver class of their own tells apart: a statement failed for whatever reason, an index
belongs to a constraint, there is no such database, the server's configuration forbids writes, there were too many wrong
passwords, the password must be changed first, a transaction needs more memory than it may have (the server itself is
available), or more time."""
_FAILURES = (
    (re.compile(r"too large to index", re.IGNORECASE), errors.KeyTooLong),
    (re.compile(r"no space left|read-only file system|critical error", re.IGNORECASE), errors.DatabaseFailing),
)
"""What the server's words tell of a statement that failed: no code does."""


def choose_error_type(error: BaseException) -> type[errors.GraphMemoryError]:
    """The class of ours for an error of the driver."""
    code = getattr(error, "code", None) or ""
    if code == _EXECUTION_FAILED:
        for words, error_type in _FAILURES:
            if words.search(str(error)):
                return error_type
    default_type = next(ERROR_TRANSLATIONS[kind] for kind in type(error).__mro__ if kind in ERROR_TRANSLATIONS)
    return _ERROR_CODES.get(code, default_type)


def translate_driver_error(error: Exception, **about: str) -> errors.GraphMemoryError:
    """Translate an error of the driver into one of ours.

    Args:
        error: what the driver raised.
        about: further fields of the message: ``uri``, ``username``, ``database``, ``seconds`` (the timeout), and
            ``advice`` on credentials.
    """
    error_type = choose_error_type(error)
    # The message of a DriverError is generic; only its str() says what happened.
    message = error.message if isinstance(error, driver_errors.Neo4jError) else None
    return error_type(**about, reason=" ".join((message or str(error)).split()), found=str(error))


LIVENESS_SECONDS = 30.0
"""A connection that was idle for longer is checked before use: firewalls drop idle connections without a word."""
_RACE_CODES = {"Neo.ClientError.Statement.EntityNotFound", "Neo.ClientError.Schema.EquivalentSchemaRuleAlreadyExists"}
"""Codes of statements that lost a race (against a deletion, or for an index) and may run again."""
_PERMANENT_ERRORS = (errors.DatabaseReadOnly, errors.AuthenticationFailed, errors.DatabaseTimeout)


class SilenceTimer:
    """Ends an operation when the database has not answered for some seconds.

    It runs only while an answer is due, so that a transaction of many statements may take longer. Attempts that get
    no answer at all share one period.

    Args:
        timeout: the timeout around the operation.
        seconds: the longest silence; None for as long as it takes.
    """

    def __init__(self, timeout: asyncio.Timeout, seconds: float | None) -> None:
        self._timeout, self._seconds = timeout, seconds

    def start(self) -> None:
        """Expect an answer from now on."""
        if self._seconds is not None and self._timeout.when() is None:
            self._timeout.reschedule(asyncio.get_running_loop().time() + self._seconds)

    def stop(self) -> None:
        """The answer is here."""
        self._timeout.reschedule(None)


class DriverHealth:
    """Remembers when each driver last answered; threads and event loops may share it."""

    def __init__(self) -> None:
        self._answer_times: WeakKeyDictionary[object, float] = WeakKeyDictionary()
        self.has_answered, self._is_away = False, False

    def note_answer(self, driver: object) -> None:
        """The driver has answered just now."""
        self.has_answered, self._is_away = True, False
        self._answer_times[driver] = time.monotonic()

    def note_outage(self) -> bool:
        """The database is away; return whether that is news, because it has answered since the last time."""
        is_news, self._is_away = not self._is_away, True
        return is_news

    def is_dead(self, driver: object, error: BaseException | None) -> bool:
        """Whether all connections of a driver are probably dead.

        It got none in time, though nobody else seems to use them: the last answer is long ago.
        """
        if driver is None:
            return False
        age = time.monotonic() - self._answer_times.get(driver, 0.0)
        return isinstance(error, driver_errors.ConnectionAcquisitionTimeoutError) and age > LIVENESS_SECONDS


MIN_ATTEMPTS = 2
REFUSED_SECONDS = 2.0
"""How long attempts go on where nothing listens, or at an address that never answered: it is probably wrong."""


def make_retry_options(seconds: float, drop_driver: Callable[[RetryCallState], Any]) -> dict[str, Any]:
    """Options of tenacity's retries: at least one more attempt, and no further ones after so many seconds.

    Args:
        seconds: the time for all attempts; where nothing listens, they have less.
        drop_driver: called before the next attempt, to drop a driver that is of no more use.
    """

    def is_late(state: RetryCallState) -> bool:
        patience = min(seconds, REFUSED_SECONDS) if is_refused(get_error(state)) else seconds
        return state.attempt_number >= MIN_ATTEMPTS and stop_before_delay(patience)(state)

    return {
        "retry": retry_if_exception(is_transient),
        "wait": wait_random_exponential(multiplier=0.1, max=2.0),
        "stop": is_late,
        "before_sleep": drop_driver,
        "reraise": True,
    }


def get_error(state: RetryCallState) -> BaseException | None:
    """The error that the last attempt ended with."""
    return state.outcome.exception() if state.outcome else None


def is_refused(error: BaseException | None) -> bool:
    """Whether nothing listens at the server's address: the cause of the driver's error says so."""
    while isinstance(error, driver_errors.ServiceUnavailable):
        error = error.__cause__
    return isinstance(error, ConnectionRefusedError)


def is_transient(error: BaseException) -> bool:
    """Whether the same operation may succeed if it runs again, on another connection if need be."""
    if isinstance(error, driver_errors.ConnectionAcquisitionTimeoutError):
        return True
    if not isinstance(error, driver_errors.Neo4jError | driver_errors.DriverError):
        return False
    if issubclass(choose_error_type(error), _PERMANENT_ERRORS):
        return False
    return error.is_retryable() or getattr(error, "code", None) in _RACE_CODES
