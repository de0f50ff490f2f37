"""Ask the Hugging Face Hub for models."""

from __future__ import annotations

from adk_graph_memory.runtime import concurrency

HUB_TIMEOUT = 5.0
"""Seconds for the hub to answer whether it has a model."""


def list_repositories(model: str) -> list[str]:
    """The repositories that may hold a model of this name, as sentence-transformers looks for it."""
    return [model] if "/" in model else [f"sentence-transformers/{model}", model]


def find_hub_problem(model: str) -> str | None:
    """Why the hub cannot give the model, or None; without a network the library would ask for each file for minutes."""
    from huggingface_hub import constants, model_info
    from huggingface_hub.errors import (
        HfHubHTTPError,
        HFValidationError,
        OfflineModeIsEnabled,
        RepositoryNotFoundError,
    )

    try:
        for name in list_repositories(model):
            try:
                model_info(name, timeout=HUB_TIMEOUT)
            except RepositoryNotFoundError:
                continue
            return None
    except HFValidationError:
        return "there is no such folder"
    except OfflineModeIsEnabled:
        return "it is not on this machine, and HF_HUB_OFFLINE forbids downloading it"
    except HfHubHTTPError:
        return None  # a mirror need not have this address
    except Exception as error:
        if not concurrency.is_transient(error):
            raise
        return f"it is not on this machine, and {constants.ENDPOINT} cannot be reached ({type(error).__name__})"
    return f"it is not on this machine, and {constants.ENDPOINT} has no model of this name (or only with an HF_TOKEN)"
