"""Translate errors of the Neo4j driver into errors of ours that say what to do about them."""

from __future__ import annotations

import re

from neo4j import exceptions as driver_errors

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
_ERROR_CODES = {
    _EXECUTION_FAILED: errors.QueryFailed,
    "Neo.DatabaseError.Schema.IndexDropFailed": errors.QueryFailed,
    "Neo.ClientError.Database.DatabaseNotFound": errors.DatabaseMissing,
    "Neo.ClientError.General.WriteOnReadOnlyAccessDatabase": errors.DatabaseReadOnly,
    "Neo.ClientError.Security.AuthenticationRateLimit": errors.AuthenticationFailed,
    "Neo.TransientError.General.MemoryPoolOutOfMemoryError": errors.QueryFailed,
    "Neo.ClientError.Transaction.TransactionTimedOut": errors.DatabaseTimeout,
    "Neo.ClientError.Transaction.TransactionTimedOutClientConfiguration": errors.DatabaseTimeout,
}
"""Codes that no driver class of their own tells apart: a statement failed for whatever reason, an index
belongs to a constraint, there is no such database, the server's configuration forbids writes, there were too many wrong
passwords, a transaction needs more memory than it may have (the server itself is available), or more time."""
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
