"""How much is measured: the sizes that the bars speak of, or, to try something out, smaller ones."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Scale:
    """Sizes and repetitions of a run."""

    rounds: int = 5
    warm_up: int = 10
    calls: int = 20
    small: int = 10
    medium: int = 1_000
    large: int = 5_000
    sessions: int = 500
    writers: int = 20
    appends: int = 20
    remembered: tuple[int, int] = (20, 200)
    users: int = 200
    events_a_user: int = 100
    searches: int = 100
    scopes: tuple[tuple[int, int], ...] = ((4_000, 100_000), (50_000, 200_000))
    """memories of the user who asks, and of all users together"""
    memories_a_user: int = 500


FULL = Scale()
QUICK = Scale(
    rounds=3,
    warm_up=3,
    calls=8,
    medium=200,
    large=1_000,
    sessions=100,
    users=20,
    events_a_user=50,
    searches=40,
    scopes=((200, 1_000), (1_000, 2_000)),
    memories_a_user=100,
)
