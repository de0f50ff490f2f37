"""``python -m benchmarks.quality.tenants``: pairs of users who are hard to tell apart; how often one saw the other.

Ids differ in a blank, a case or where one ends; questions are the other's words, and the query syntax that finds them.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import unicodedata
import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from adk_graph_memory import Filters, GraphMemory, Recollection, Turn
from adk_graph_memory.records.scopes import Scope
from adk_graph_memory.runtime.settings import Settings
from adk_graph_memory.testing import HashEmbedder
from benchmarks import machine, server

PAIRS, AT_ONCE, SEARCHES = 1_000, 8, 4
START = datetime(2026, 3, 1, 12, tzinfo=UTC)
SESSIONS = ("s1", "s2", "", "s1 ", "S1")

_NAMES = ("Ana", "José Núñez", "王芳", "O'Brien", "Żaneta", "user", "assistant")
_TEMPLATES = (
    "My dog is called {mark}.",
    "{name} told me that {mark} is the word for the gate.",
    "I live in {mark} near {name}.",
    "I moved to {mark}.",
    "Do you remember {name}? We painted the {mark} together.",
    "我和{name}在{mark}見面。",
)
_IDS = ("ada", "Ada Lovelace", "ада", "*", "a/b", "user:1", "' OR 1=1 //", "$scope", "{}", "0" * 32, "José")
_ALIKE: tuple[Callable[[str, str], tuple[str, str]], ...] = (
    lambda app, user: (app, user + " "),
    lambda app, user: (app, " " + user),
    lambda app, user: (app, user.swapcase()),
    lambda app, user: (app, unicodedata.normalize("NFD", user)),
    lambda app, user: (app, user[:-1]),
    lambda app, user: (app, f"{user}*"),
    lambda app, user: (app, f"{user}\\"),
    lambda app, user: (app, f'{user}" OR scope:*'),
    lambda app, user: (f"{app}:", user),
    lambda app, user: (f"{app} ", user),
    lambda app, user: (f"{app}:{user[:1]}", user[1:]),
    lambda app, user: (f"{app}/{user}", ""),
    lambda app, user: (user, app),
)
_SYNTAX = (
    "{mark}",
    "{text}",
    "{user}",
    "{name}",
    "*",
    "*:*",
    "{mark}*",
    "{mark}~",
    "/.*/",
    "+{mark}",
    "what is {mark}? OR {mark}",
    'scope:"{key}"',
    "scope:{key} AND {mark}",
    '") OR scope:"{key}',
    "text:{mark}",
    "{mark} -scope:x",
    "[* TO *]",
    "{mark}^100",
    "\\",
    "'}}) MATCH (n) RETURN n //",
)


@dataclass(frozen=True, slots=True)
class Tenant:
    """A user of an app, what they said, and the word that is in all of it and in nobody else's."""

    app_name: str
    user_id: str
    mark: str
    texts: tuple[str, ...]
    session_id: str

    @property
    def turns(self) -> list[Turn]:
        """What they said, a day each; the ids are the same for everybody."""
        return [Turn(f"t{day}", "user", text, START + timedelta(days=day)) for day, text in enumerate(self.texts)]


def make_pair(numbers: random.Random) -> tuple[Tenant, Tenant]:
    """Two tenants that differ by as little as a blank."""
    app, user = f"app-{numbers.getrandbits(64):x}", numbers.choice(_IDS)
    other = numbers.choice(_ALIKE)(app, user)
    if other == (app, user):
        other = app, f"{user}2"
    return _make_tenant(numbers, app, user), _make_tenant(numbers, *other)


def _make_tenant(numbers: random.Random, app_name: str, user_id: str) -> Tenant:
    mark = "q" + "".join(numbers.choices("bcdfghjklmnpqrstvwxz", k=9))
    texts = numbers.choices(_TEMPLATES, k=numbers.randint(1, 4))
    words = tuple(text.format(mark=mark, name=numbers.choice(_NAMES)) for text in texts)
    return Tenant(app_name, user_id, mark, words, numbers.choice(SESSIONS))


def make_query(numbers: random.Random, other: Tenant) -> str:
    """What somebody would ask who wants to read the other's words."""
    values = {"mark": other.mark, "text": numbers.choice(other.texts), "user": other.user_id}
    key = Scope(other.app_name, other.user_id).key
    return numbers.choice(_SYNTAX).format(**values, key=key, name=numbers.choice(_NAMES))


def make_filters(numbers: random.Random, other: Tenant) -> Filters | None:
    """None, or a filter that fits what the other said."""
    fitting = (
        Filters(session_id=other.session_id),
        Filters(entity=other.mark),
        Filters(since=START),
        Filters(kind="fact"),
    )
    return numbers.choice((None, None, *fitting))


async def count_leaks(memory: GraphMemory, numbers: random.Random) -> Counter[str]:
    """Of one pair: memories that held the other's words (``leaked``), own ones found (``found``), searches."""
    counts: Counter[str] = Counter()
    tenants = make_pair(numbers)
    for tenant in tenants:
        owner = {"app_name": tenant.app_name, "user_id": tenant.user_id}
        await memory.remember(tenant.turns, session_id=tenant.session_id or ":none:", **owner)
    for one, other in (tenants, tenants[::-1]):
        owner = {"app_name": one.app_name, "user_id": one.user_id}
        for _ in range(SEARCHES):
            memories = await memory.recall(
                make_query(numbers, other), filters=make_filters(numbers, other), explain=True, **owner
            )
            counts["leaked"] += _select_naming(other.mark, memories)
            counts["searches"] += 1
        counts["found"] += _select_naming(one.mark, await memory.recall(one.texts[0], **owner)) > 0
    return counts


def _select_naming(mark: str, memories: Sequence[Recollection]) -> int:
    return sum(mark in repr(memory) for memory in memories)


async def count_all_leaks(settings: Settings, pairs: int, seed: int) -> Counter[str]:
    """The sum over that many pairs, some of them at once."""
    free, total = asyncio.Semaphore(AT_ONCE), Counter[str]()

    async with GraphMemory(settings=settings, model="rules", embedder=HashEmbedder()) as memory:
        await memory.prepare()

        async def one(number: int) -> Counter[str]:
            async with free:
                return await count_leaks(memory, random.Random(f"{seed} {number}"))

        for counts in await asyncio.gather(*map(one, range(pairs))):
            total += counts
    return total


async def main(arguments: argparse.Namespace) -> None:
    async with server.serve("Tenants") as (settings, which):
        counts = await count_all_leaks(settings, arguments.pairs, uuid.uuid4().int)
    console = machine.make_console()
    console.print(f"{arguments.pairs:,} pairs of users, {counts['searches']:,} searches for the other's words")
    console.print(f"memories that held them: {counts['leaked']}")
    console.print(f"users who found their own: {counts['found']:,} of {2 * arguments.pairs:,}")
    console.print(f"server: {which}; load {machine.read_load()}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.quality.tenants")
    parser.add_argument("--pairs", type=int, default=PAIRS, metavar="N")
    asyncio.run(main(parser.parse_args()))
