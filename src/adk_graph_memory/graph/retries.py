"""Decide how long the database may stay silent, and after which errors an operation runs again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

from neo4j import exceptions as driver_errors
from tenacity import (
    RetryCallState,
    retry_if_exception,
    stop_after_attempt,
    stop_all,
    stop_before_delay,
    wait_random_exponential,
)

from adk_graph_memory import errors
from adk_graph_memory.graph.error_translation import choose_error_type

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
        self.has_answered = False

    def note_answer(self, driver: object) -> None:
        """The driver has answered just now."""
        self.has_answered = True
        self._answer_times[driver] = time.monotonic()

    def is_dead(self, driver: object, error: BaseException | None) -> bool:
        """Whether all connections of a driver are probably dead.

        It got none in time, though nobody else seems to use them: the last answer is long ago.
        """
        if driver is None:
            return False
        age = time.monotonic() - self._answer_times.get(driver, 0.0)
        return isinstance(error, driver_errors.ConnectionAcquisitionTimeoutError) and age > LIVENESS_SECONDS


def make_retry_options(seconds: float, drop_driver: Callable[[RetryCallState], Any]) -> dict[str, Any]:
    """Options of tenacity's retries: at least one more attempt, and no further ones after so many seconds.

    Args:
        seconds: the time for all attempts.
        drop_driver: called before the next attempt, to drop a driver that is of no more use.
    """
    return {
        "retry": retry_if_exception(is_transient),
        "wait": wait_random_exponential(multiplier=0.1, max=2.0),
        "stop": stop_all(stop_after_attempt(2), stop_before_delay(seconds)),
        "before_sleep": drop_driver,
        "reraise": True,
    }


def get_error(state: RetryCallState) -> BaseException | None:
    """The error that the last attempt ended with."""
    return state.outcome.exception() if state.outcome else None


def is_transient(error: BaseException) -> bool:
    """Whether the same operation may succeed if it runs again, on another connection if need be."""
    if isinstance(error, driver_errors.ConnectionAcquisitionTimeoutError):
        return True
    if not isinstance(error, driver_errors.Neo4jError | driver_errors.DriverError):
        return False
    if issubclass(choose_error_type(error), _PERMANENT_ERRORS):
        return False
    return error.is_retryable() or getattr(error, "code", None) in _RACE_CODES
