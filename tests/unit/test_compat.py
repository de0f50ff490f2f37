"""ADK has the private names that this package uses of it, and a release without one of them is told by name."""

from __future__ import annotations

import importlib
import runpy
from pathlib import Path

import pytest
from google.adk import version as adk_version
from google.adk.sessions.session import Session

from adk_graph_memory import errors
from adk_graph_memory.adk import _compat

ROOT = Path(__file__).parents[2]

PRIVATE_NAMES = [
    ("google.adk.agents.context", "Context._require_memory_service"),
    ("google.adk.artifacts.artifact_util", "_MAX_ARTIFACT_REFERENCE_DEPTH"),
    ("google.adk.artifacts.artifact_util", "_is_rewind_tombstone"),
    ("google.adk.sessions._session_util", "extract_state_delta"),
    ("google.adk.sessions._session_util", "make_json_safe_state"),
    ("google.adk.tools._forwarding_artifact_service", "ForwardingArtifactService"),
    ("google.adk.sessions.base_session_service", "BaseSessionService._apply_temp_state"),
    ("google.adk.sessions.base_session_service", "BaseSessionService._commit_event_to_session"),
    ("google.adk.sessions.base_session_service", "BaseSessionService._trim_temp_delta_state"),
    ("google.adk.sessions.session", "Session._storage_update_marker"),
]

each_name = pytest.mark.parametrize(("module", "name"), PRIVATE_NAMES)


@each_name
def test_adk_still_has_the_name(module: str, name: str) -> None:
    owner, _, attribute = name.rpartition(".")
    try:
        found = importlib.import_module(module)
        found = getattr(found, owner) if owner else found
        assert hasattr(found, attribute) or attribute in found.__private_attributes__
    except (ImportError, AttributeError, AssertionError) as error:
        pytest.fail(
            f"google-adk {adk_version.__version__} has moved {module}.{name}, which {_compat.TESTED_VERSION} has:"
            f" change adk/_compat.py, or exclude this release in pyproject.toml ({error!r})"
        )


@each_name
def test_a_release_without_the_name_is_refused(module: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, _, attribute = name.rpartition(".")
    if owner == "Session":
        monkeypatch.delitem(Session.__private_attributes__, attribute)
    else:
        monkeypatch.delattr(f"{module}.{name}")
    monkeypatch.setattr(adk_version, "__version__", "2.99.0")
    message = rf"google-adk 2\.99\.0 lacks something that .*{attribute}.*google-adk=={_compat.TESTED_VERSION}"
    with pytest.raises(errors.UnsupportedAdk, match=message):
        runpy.run_path(_compat.__file__)


def test_the_version_that_is_named_is_the_one_that_was_tested() -> None:
    assert f"google-adk=={_compat.TESTED_VERSION} " in (ROOT / "requirements" / "all.txt").read_text("utf-8")
