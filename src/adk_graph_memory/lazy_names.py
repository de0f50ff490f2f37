"""Import what a package exports at its first use, so that to import the package costs next to nothing."""

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any


def import_at_use(package: str, names: Mapping[str, Sequence[str]]) -> Callable[[str], Any]:
    """Make the ``__getattr__`` of a package, which is asked for each name once.

    Type checkers do not see through it: for them the package imports the same modules under ``TYPE_CHECKING``.

    Args:
        package: the package's name.
        names: the names that it exports, by module; every other name is that of a submodule.
    """
    homes = {name: module for module, exported in names.items() for name in exported}

    def import_name(name: str) -> Any:
        if name in homes:
            value = getattr(import_module(homes[name]), name)
            setattr(sys.modules[package], name, value)
            return value
        try:
            return import_module(f"{package}.{name}")
        except ModuleNotFoundError as error:
            if error.name != f"{package}.{name}":
                raise
            raise AttributeError(f"module {package!r} has no attribute {name!r}") from error

    return import_name
