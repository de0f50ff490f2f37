"""The manifest for Kubernetes asks for a command that there is, and gives each of its pods what it needs."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from adk_graph_memory.cli.application import app

MANIFEST: dict[str, Any] = yaml.safe_load(
    (Path(__file__).parents[2] / "docs" / "assets" / "reembed-rayjob.yaml").read_text("utf-8")
)
CLUSTER = MANIFEST["spec"]["rayClusterSpec"]
PODS = [group["template"]["spec"] for group in (CLUSTER["headGroupSpec"], *CLUSTER["workerGroupSpecs"])]


def parse_entrypoint() -> dict[str, Any]:
    program, name, *arguments = shlex.split(MANIFEST["spec"]["entrypoint"])
    assert program == "adk-graph-memory"
    commands: Any = typer.main.get_command(app)
    parameters: dict[str, Any] = commands.commands[name].make_context(name, arguments).params
    return parameters


def test_its_command_can_be_run() -> None:
    parameters = parse_entrypoint()
    assert parameters["engine"] == "ray"


def test_a_lost_machine_leaves_room_for_its_worker() -> None:
    parameters, [workers] = parse_entrypoint(), CLUSTER["workerGroupSpecs"]
    cpus = float(workers["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"])
    assert parameters["workers"] * parameters["worker_cpus"] <= (workers["replicas"] - 1) * cpus


@pytest.mark.parametrize("pod", PODS, ids=["head", "worker"])
def test_each_pod_has_the_same_image_and_the_database(pod: dict[str, Any]) -> None:
    [container] = pod["containers"]
    assert container["image"] == PODS[0]["containers"][0]["image"]
    assert container["envFrom"] == [{"secretRef": {"name": "adk-graph-memory"}}]
