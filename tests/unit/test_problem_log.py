"""A lasting problem is one line in the log, however many turns meet it."""

from __future__ import annotations

import logging

import pytest

from adk_graph_memory import errors
from adk_graph_memory.runtime.telemetry import ProblemLog

logger = logging.getLogger("adk_graph_memory.tests")


@pytest.fixture
def problems() -> ProblemLog:
    return ProblemLog(logger)


def refused(reason: str = "400") -> errors.ModelFailed:
    return errors.ModelFailed(model="m", reason=reason)


def test_the_same_cause_is_logged_once_and_on_one_line(problems: ProblemLog, caplog: pytest.LogCaptureFixture) -> None:
    for number in range(3):
        problems.report_problem("Reading waits", refused(f"request\n{number}"), logging.ERROR)
    [record] = caplog.records
    assert record.getMessage().startswith("Reading waits: The model m failed: request 0")
    assert (record.levelname, record.exc_info, "\n" in record.getMessage()) == ("ERROR", None, False)


def test_another_cause_is_logged_and_causes_that_take_turns_do_not_fill_the_log(
    problems: ProblemLog, caplog: pytest.LogCaptureFixture
) -> None:
    for error in (refused(), errors.EmbedderFailed(name="e", reason="down")) * 3:
        problems.report_problem("Reading waits", error)
    assert ["down" in record.getMessage() for record in caplog.records] == [False, True]


def test_each_task_has_a_line_of_its_own(problems: ProblemLog, caplog: pytest.LogCaptureFixture) -> None:
    for task in ("Reading waits", "Searching waits"):
        problems.report_problem(task, refused())
    assert len(caplog.records) == 2


def test_what_comes_again_after_a_success_is_logged_again(
    problems: ProblemLog, caplog: pytest.LogCaptureFixture
) -> None:
    problems.clear_problem("Reading waits")
    for _ in range(2):
        problems.report_problem("Reading waits", refused())
        problems.clear_problem("Reading waits")
    assert len(caplog.records) == 2


def test_a_bug_keeps_its_traceback(problems: ProblemLog, caplog: pytest.LogCaptureFixture) -> None:
    for text in ("a bug", "a bug", "another"):
        problems.report_problem("Reading waits", RuntimeError(text))
    assert [record.exc_info and str(record.exc_info[1]) for record in caplog.records] == ["a bug", "another"]
