"""Log a lasting problem once, not at each turn that meets it."""

from __future__ import annotations

import logging
import threading
from collections import defaultdict, deque

from adk_graph_memory import errors

KNOWN_CAUSES = 32
"""The latest causes of a problem, by kind and by words, that are not logged again."""


class ProblemLog:
    """Logs what keeps a task from being done: each cause once, until the task is done again.

    Each memory has one.

    Args:
        logger: gets one line for an error of this package, and the traceback of any other.
    """

    def __init__(self, logger: logging.Logger) -> None:
        self._logger, self._lock = logger, threading.Lock()
        self._causes = defaultdict[str, deque[tuple[object, ...]]](lambda: deque(maxlen=KNOWN_CAUSES))

    def report_problem(self, task: str, error: BaseException, level: int = logging.WARNING) -> None:
        """Log what keeps the task from being done, unless it has done so since the task was last done.

        Args:
            task: what fails, as the line begins: "Memories are searched by full text alone".
            error: why.
            level: how much it matters.
        """
        is_ours = isinstance(error, errors.GraphMemoryError | TimeoutError)
        reason = " ".join(str(error).split()) or type(error).__name__
        cause = type(error), type(error.__cause__), None if is_ours else reason
        with self._lock:
            causes = self._causes[task]
            if cause in causes or (reason,) in causes:
                return
            causes += cause, (reason,)
        self._logger.log(level, "%s: %s", task, reason, exc_info=None if is_ours else error, stacklevel=2)

    def has_problem(self, task: str) -> bool:
        """Whether something has kept the task from being done since it was last done."""
        with self._lock:
            return task in self._causes

    def clear_problem(self, task: str) -> None:
        """Note that the task was done, so that a later problem is logged again."""
        with self._lock:
            self._causes.pop(task, None)
