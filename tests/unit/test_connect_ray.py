"""A cluster that cannot be used is said at once, in words that help."""

from __future__ import annotations

import socket
import sys

import pytest

from adk_graph_memory import errors
from adk_graph_memory.memory.jobs.ray_engine import connect_ray


def test_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray.data", None)
    with pytest.raises(errors.ConfigurationError, match=r'pip install "adk-graph-memory\[ray\]"'), connect_ray("local"):
        pass


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["", "ray://"])
def test_an_address_where_nothing_answers_is_named(scheme: str) -> None:
    pytest.importorskip("ray.data")
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"{scheme}127.0.0.1:{server.getsockname()[1]}"
    with (
        pytest.raises(errors.ConfigurationError, match=rf"RAY_ADDRESS={address} "),
        connect_ray(address),
    ):
        pass


@pytest.mark.parametrize("address", ["auto", "nowhere"])
def test_what_is_no_cluster_is_named(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ray.data")
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    with pytest.raises(errors.ConfigurationError, match=f"RAY_ADDRESS={address} "), connect_ray(address):
        pass
