"""Re-embed a database with another embedder: the same as ``adk-graph-memory reembed``, for a checkout.

python pipelines/reembed.py --embedder all-MiniLM-L12-v2
"""

from __future__ import annotations

import sys

from adk_graph_memory.cli.application import app

if __name__ == "__main__":
    app(["reembed", *sys.argv[1:]], prog_name="adk-graph-memory")
