"""A length of time says in which unit it is."""

from __future__ import annotations

from datetime import timedelta

import pytest

from adk_graph_memory import errors
from adk_graph_memory.language.dates import parse_duration
from adk_graph_memory.runtime.settings import load_settings

DAY = 86_400.0


@pytest.mark.parametrize(
    ("given", "seconds"),
    [
        ("90d", 90 * DAY),
        (" 1.5 h ", 5_400.0),
        ("3600s", 3_600.0),
        ("2w", 14 * DAY),
        ("P90D", 90 * DAY),
        ("PT36H", 1.5 * DAY),
        (90, 90.0),
        (timedelta(days=2), 2 * DAY),
    ],
)
def test_what_names_its_unit_is_read(given: float | str | timedelta, seconds: float) -> None:
    assert parse_duration(given) == seconds


@pytest.mark.parametrize("given", ["90", "90.0", " 7 "])
def test_a_bare_number_in_a_text_is_refused_with_both_readings(given: str) -> None:
    with pytest.raises(errors.InvalidArgument, match=rf"has no unit: give {given.strip()}s .* or {given.strip()}d"):
        parse_duration(given)


@pytest.mark.parametrize(
    "given", ["", "soon", "-1d", "0s", 0, -5, True, float("nan"), "P", "P1X", "1h30", timedelta(0)]
)
def test_what_is_no_length_of_time_is_refused(given: float | str | timedelta) -> None:
    with pytest.raises(errors.InvalidArgument, match="no length of time"):
        parse_duration(given)


def test_a_setting_without_a_unit_empties_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADK_GRAPH_MEMORY_MEMORY_TTL", "90")
    with pytest.raises(errors.ConfigurationError, match="90d for days"):
        load_settings()
