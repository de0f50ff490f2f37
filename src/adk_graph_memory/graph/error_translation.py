"""An error of the driver goes in; the one of ours that says what to do about it comes out."""

from __future__ import annotations

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
    driver_errors.DatabaseError: errors.QueryFailed,
    driver_errors.TransientError: errors.DatabaseUnavailable,
    driver_errors.DatabaseUnavailable: errors.DatabaseUnavailable,
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
"""The driver's exceptions, all of them, and what each becomes for our callers."""

_ERROR_CODES = {
    "Neo.ClientError.General.WriteOnReadOnlyAccessDatabase": errors.DatabaseReadOnly,
    "Neo.ClientError.Security.AuthenticationRateLimit": errors.AuthenticationFailed,
    "Neo.TransientError.General.MemoryPoolOutOfMemoryError": errors.QueryFailed,
}
"""Codes of errors of no class of their own: what a server says whose configuration forbids writes, to too many wrong
passwords, or to a transaction that is too large for it: it is there, and nobody else has to wait for it."""


def translate_driver_error(error: Exception, **about: str) -> errors.GraphMemoryError:
    """The driver's error as one of ours.

    Args:
        error: what the driver raised.
        about: what messages need besides: where the server is, who asked, and which database.
    """
    by_kind = next(ERROR_TRANSLATIONS[kind] for kind in type(error).__mro__ if kind in ERROR_TRANSLATIONS)
    known = _ERROR_CODES.get(getattr(error, "code", None) or "", by_kind)
    # An error of the driver's own says all in str(); its message is the same whatever happened.
    said = error.message if isinstance(error, driver_errors.Neo4jError) else None
    return known(**about, reason=said or str(error), found=str(error))
