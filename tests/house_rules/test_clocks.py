"""No clock decides a test: what takes longer on a busy machine is not wrong."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef
CLOCKS = {"time", "monotonic", "perf_counter", "process_time", "thread_time"}
CLOCKS |= {f"{name}_ns" for name in CLOCKS}

DECIDED_BY_A_CLOCK = {
    "integration/test_bad_input.py:test_a_reply_of_two_thousand_facts_and_a_long_turn_leave_the_loop_to_others": "what "
    "holds up the loop shows in time alone: no more than half of what the work takes",
    "support/growth.py:assert_linear": "work that grows with the square shows in time alone: this process's own, and "
    "thrice what eight times the input needs, three times in a row",
}
"""Tests that may compare times, and why."""


def find_decisions(tree: ast.Module) -> list[str]:
    """The functions with an assertion that compares a time: a clock's, or what was worked out from one."""
    functions = [node for node in ast.walk(tree) if isinstance(node, FUNCTIONS)]
    timing, known = set[str](), -1
    while known != len(timing):
        known = len(timing)
        timing |= {
            one.name
            for one in functions
            if any(
                is_time(node.value, timing | find_times(one, timing))
                for node in ast.walk(one)
                if isinstance(node, ast.Return) and node.value
            )
        }
    return [
        function.name
        for function in functions
        for times in [timing | find_times(function, timing)]
        for node in ast.walk(function)
        if isinstance(node, ast.Assert)
        if any(isinstance(part, ast.Compare) and is_time(part, times) for part in ast.walk(node.test))
    ]


def find_times(function: ast.AST, timing: set[str]) -> set[str]:
    """The names in a function that hold a time or a list of times."""
    times, known = set[str](), -1
    while known != len(times):
        known = len(times)
        for node in ast.walk(function):
            if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign) and node.value:
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                if is_time(node.value, times | timing):
                    times |= {name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)}
            elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(".append"):
                times |= {
                    ast.unparse(node.func)[: -len(".append")] for value in node.args if is_time(value, times | timing)
                }
    return times


def is_time(expression: ast.AST, times: set[str]) -> bool:
    return any(
        (isinstance(node, ast.Name) and node.id in times)
        or (isinstance(node, ast.Call) and ast.unparse(node.func).removeprefix("time.") in CLOCKS)
        for node in ast.walk(expression)
    )


def test_no_assertion_compares_times() -> None:
    found = {
        f"{path.relative_to(TESTS).as_posix()}:{name}"
        for path in TESTS.rglob("*.py")
        for text in [path.read_text("utf-8")]
        if re.search(rf"\b({'|'.join(CLOCKS)})\(", text)
        for name in find_decisions(ast.parse(text))
    }
    assert found == set(DECIDED_BY_A_CLOCK)


@pytest.mark.parametrize(
    "code",
    [
        "def test(): began = time.monotonic(); work(); assert time.monotonic() - began < 5",
        "def test(): began = time.time(); end = began + 5; assert end > now()",
        "def cost():\n    began = time.perf_counter()\n    return time() - began\ndef test(): assert cost() < 2",
        "def test():\n    beats = []\n    beats.append(perf_counter())\n    assert max(beats) < 3",
    ],
)
def test_the_rule_would_find(code: str) -> None:
    assert find_decisions(ast.parse(code)) == ["test"]


@pytest.mark.parametrize(
    "code",
    [
        "def test(): request(until=time.time() + 3); assert answer() == 4",
        "def test(): send(time.time()); assert sent == 1",
        "def test(): now = datetime.now(); assert later(now) > now",
    ],
)
def test_the_rule_leaves_alone(code: str) -> None:
    assert find_decisions(ast.parse(code)) == []
