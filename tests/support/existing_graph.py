"""A graph that others made: documents in chunks, the companies that filed them, and the risks these name."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import neo4j
from neo4j_graphrag.components.kg_writer import Neo4jWriter
from neo4j_graphrag.components.lexical_graph import LexicalGraphBuilder
from neo4j_graphrag.components.types import LexicalGraphConfig, TextChunk, TextChunks
from neo4j_graphrag.indexes import create_fulltext_index, create_vector_index

from adk_graph_memory.testing import HashEmbedder

CHUNKS = {
    "Apple": ("Apple faces strong competition in smartphones.", "Apple's 10-K form speaks of vitamin C and 🚀 growth."),
    "Intel": ("Intel depends on its own factories.", "东京 is where Intel keeps an office."),
}
COMPANIES = {"Apple": ("Apple Inc", ["Competition", "Supply Chain"]), "Intel": ("Intel Corp", [])}
TRAVERSAL = """
MATCH (node)-[:FROM_DOCUMENT]->(doc:Document)<-[:FILED]-(company:Company)
OPTIONAL MATCH (company)-[:FACES_RISK]->(risk:RiskFactor)
WITH node, score, company, collect(risk.name) AS risks
RETURN node.text AS text, score, company.name AS company, risks
ORDER BY score DESC
"""
WRITE_COMPANY = """
CREATE (company:Company {name: $name, graph: $label})-[:FILED]->(doc:Document {path: $path, graph: $label})
FOREACH (risk IN $risks | CREATE (company)-[:FACES_RISK]->(:RiskFactor {name: risk, graph: $label}))
WITH doc MATCH (chunk {path: $path}) WHERE $label IN labels(chunk)
CREATE (chunk)-[:FROM_DOCUMENT]->(doc)
"""


@contextmanager
def write_existing_graph(driver: neo4j.Driver) -> Iterator[str]:
    """Write it by neo4j-graphrag's own pipeline components; its label also names its indexes, ``…_vector`` and
    ``…_text``. The chunks' ``source`` is a property that no index knows."""
    label, embedder = f"Chunk{uuid.uuid4().hex[:8]}", HashEmbedder()
    for name, texts in CHUNKS.items():
        path = f"{label}/{name}.pdf"
        chunks = [
            TextChunk(
                text=text,
                index=index,
                metadata={"embedding": embedder.embed_query(text), "path": path, "source": name, "second": [0.5, 1.0]},
            )
            for index, text in enumerate(texts)
        ]
        asyncio.run(_write_chunks(driver, label, chunks))
        company, risks = COMPANIES[name]
        driver.execute_query(WRITE_COMPANY, {"name": company, "risks": risks, "path": path, "label": label})
    create_vector_index(driver, f"{label}_vector", label, "embedding", 64, "cosine")
    create_fulltext_index(driver, f"{label}_text", label, ["text"])
    for kind in ("vector", "text"):
        driver.execute_query("CALL db.awaitIndex($name, 60)", {"name": f"{label}_{kind}"})
    yield label
    for name in (f"{label}_vector", f"{label}_text", "__entity__tmp_internal_id"):
        driver.execute_query(f"DROP INDEX `{name}` IF EXISTS")
    driver.execute_query("MATCH (n) WHERE n.graph = $label OR $label IN labels(n) DETACH DELETE n", {"label": label})


async def _write_chunks(driver: neo4j.Driver, label: str, chunks: list[TextChunk]) -> None:
    config = LexicalGraphConfig(chunk_node_label=label)
    result: Any = await LexicalGraphBuilder(config).run(text_chunks=TextChunks(chunks=chunks))
    result.graph.relationships.clear()  # NEXT_CHUNK, which the writer writes by APOC
    await Neo4jWriter(driver).run(graph=result.graph, lexical_graph_config=config)
