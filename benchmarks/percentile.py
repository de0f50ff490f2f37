"""Compute the value that a share of the values does not exceed."""

from __future__ import annotations

import math
from collections.abc import Sequence


def compute_percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least this share of the values does not exceed."""
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]
