"""Read a database by its SQLAlchemy URL, for the sessions of ADK's DatabaseSessionService."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from adk_graph_memory import errors

_DRIVERS = {"postgresql": "asyncpg", "mysql": "aiomysql", "mariadb": "asyncmy", "sqlite": "aiosqlite"}
"""The databases whose SQL our statements are, and an async driver for each."""


class SqlDatabase:
    """A database that SQLAlchemy opens.

    Args:
        url: as for DatabaseSessionService, with an async driver: ``postgresql+asyncpg://user:password@host/name``.

    Raises:
        errors.ConfigurationError: the URL cannot be used, or SQLAlchemy or its driver is not installed.
    """

    def __init__(self, url: str) -> None:
        self._engine, self.name = _open_engine(url)

    async def fetch_rows(self, statement: str, parameters: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
        """Run a statement and return its rows.

        Raises:
            errors.ConfigurationError: the database cannot be reached, or refuses the statement.
        """
        from sqlalchemy import text
        from sqlalchemy.exc import SQLAlchemyError

        try:
            async with self._engine.connect() as connection:
                result = await connection.execute(text(statement), dict(parameters))
                return [dict(row) for row in result.mappings()]
        except (SQLAlchemyError, OSError) as error:
            raise self._make_error(error) from error

    async def fetch_columns(self) -> dict[str, set[str]]:
        """Fetch the names of all tables with those of their columns."""
        from sqlalchemy import inspect
        from sqlalchemy.exc import SQLAlchemyError

        def read_columns(connection: Any) -> dict[str, set[str]]:
            tables = inspect(connection)
            return {name: {one["name"] for one in tables.get_columns(name)} for name in tables.get_table_names()}

        try:
            async with self._engine.connect() as connection:
                columns: dict[str, set[str]] = await connection.run_sync(read_columns)
                return columns
        except (SQLAlchemyError, OSError) as error:
            raise self._make_error(error) from error

    def _make_error(self, error: Exception) -> errors.ConfigurationError:
        # SQLAlchemy's own message goes on with the statement and its parameters, which are users' ids.
        reason = str(getattr(error, "orig", None) or error).partition("\n")[0]
        return errors.ConfigurationError(f"{self.name} cannot be read: {reason}", reason=reason)

    async def close(self) -> None:
        """Close the connections."""
        await self._engine.dispose()


def _open_engine(url: str) -> tuple[Any, str]:
    """Make an engine, and the name that messages may call it by."""
    try:
        from sqlalchemy.engine import make_url
        from sqlalchemy.exc import ArgumentError, InvalidRequestError
        from sqlalchemy.ext.asyncio import create_async_engine
    except ImportError as error:
        raise errors.ConfigurationError(
            f"Sessions in such a database are read with SQLAlchemy, which is not installed ({error}): `pip install "
            '"google-adk[db]"`, and an async driver such as asyncpg. SQLite files need neither.',
            reason=str(error),
        ) from error
    try:
        address = make_url(url)
    except ArgumentError as error:  # its message would quote the password
        reason = "it is no SQLAlchemy URL such as postgresql+asyncpg://user:password@host/name"
        raise errors.ConfigurationError(f"The URL cannot be used: {reason}.", reason=reason) from error
    name, kind = address.render_as_string(hide_password=True), address.get_backend_name()
    if kind not in _DRIVERS:
        reason = f"it is of {kind}; sessions are read from {', '.join(_DRIVERS)}"
        raise errors.ConfigurationError(f"{name} cannot be used: {reason}.", reason=reason)
    advice = f"use {kind}+{_DRIVERS[kind]}:// and `pip install {_DRIVERS[kind]}`"
    try:
        return create_async_engine(address), name
    except (ImportError, ArgumentError, InvalidRequestError) as error:
        raise errors.ConfigurationError(
            f"{name} cannot be opened by an async driver ({error}): {advice}.", reason=str(error)
        ) from error
