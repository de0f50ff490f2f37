"""Read sessions again that another model or prompt has read: ``adk-graph-memory reextract``, for a checkout.

python pipelines/reextract.py --model gemini-2.5-flash --dry-run
"""

from __future__ import annotations

import sys

from adk_graph_memory.cli.application import app

if __name__ == "__main__":
    app(["reextract", *sys.argv[1:]], prog_name="adk-graph-memory")
