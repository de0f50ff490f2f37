"""Read what waits to be remembered: ``adk-graph-memory ingest --pending``, for a checkout.

python pipelines/ingest_pending.py --workers 8 --max-calls 1000
"""

from __future__ import annotations

import sys

from adk_graph_memory.cli.application import app

if __name__ == "__main__":
    app(["ingest", "--pending", *sys.argv[1:]], prog_name="adk-graph-memory")
