"""The quickstart over HTTP: what it shows for a shell and for JavaScript runs against a server of its own."""

from __future__ import annotations

import asyncio
import os
import shutil
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tests.support.documents import blocks
from tests.support.served_memory import serve

pytestmark = pytest.mark.slow

PAGE = blocks("docs/quickstarts/http.md")
[SHELL] = [block.text for block in PAGE if block.language == "sh"]
[(SCRIPT, OUTPUT)] = [(block.text, after.text) for block, after in pairwise(PAGE) if block.language == "js"]


async def run_program(program: str, code: str, address: str, app_name: str, folder: Path) -> str:
    """Run code of the page on the server that is there; return what it prints."""
    code = code.replace("http://127.0.0.1:7690", address).replace("/apps/home/", f"/apps/{app_name}/")
    token = (folder / "memory.token").read_text("utf-8").strip()
    process = await asyncio.create_subprocess_exec(
        *(program, "-e", "-c", code) if program == "bash" else (program, "--input-type=module", "-e", code),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd=folder,
        env=os.environ | {"MEMORY_TOKEN": token},
    )
    output, complaint = await process.communicate()
    assert process.returncode == 0, complaint.decode()
    return output.decode()


async def test_the_shell_remembers_asks_and_forgets(neo4j_server: Any, app_name: str, tmp_path: Path) -> None:
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    async with serve(neo4j_server, app_name, tmp_path / "memory.token") as (_, client):
        output = await run_program("bash", SHELL, str(client.base_url), app_name, tmp_path)
    stored, recalled, facts, profile, forgotten = output.splitlines()
    assert '"turns":1' in stored
    assert all("My dog Rex is afraid of thunder." in answer for answer in (recalled, facts, profile))
    assert '"events":1' in forgotten


async def test_javascript_remembers_and_asks(neo4j_server: Any, app_name: str, tmp_path: Path) -> None:
    if shutil.which("node") is None:
        pytest.skip("Node.js is not installed")
    async with serve(neo4j_server, app_name, tmp_path / "memory.token") as (_, client):
        output = await run_program("node", SCRIPT, str(client.base_url), app_name, tmp_path)
    assert set(output.splitlines()) == set(OUTPUT.splitlines())
