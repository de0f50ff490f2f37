"""Tell errors that somebody has to mend from those that end by themselves, after which a run goes on without memory."""

from adk_graph_memory import errors

MISCONFIGURATIONS = (
    errors.ConfigurationError,
    errors.SchemaError,
    errors.RedactorMissing,
    errors.AuthenticationFailed,
    errors.PermissionDenied,
    errors.DatabaseMissing,
    errors.UnsupportedServer,
    errors.DriverClosed,
)
"""Errors that no waiting mends, so they reach whoever runs the agent."""
