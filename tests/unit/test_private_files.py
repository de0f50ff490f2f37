"""A file that cannot be written is the argument's fault, and the error says which file and what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from adk_graph_memory import errors
from adk_graph_memory.memory.pages.document import MemoryView


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("missing/ana.html", "there is no folder {folder}/missing; make it, or name another file"),
        ("", "it is a folder; name a file in it"),
    ],
)
def test_the_error_names_the_path_and_blames_no_setting(tmp_path: Path, name: str, advice: str) -> None:
    with pytest.raises(errors.InvalidArgument) as raised:
        MemoryView("<p>").save(tmp_path / name)
    assert str(tmp_path / name) in str(raised.value) and advice.format(folder=tmp_path) in str(raised.value)
    assert "setting" not in str(raised.value) and list(tmp_path.iterdir()) == []
