"""Read and write the graph: only this package contains Cypher or opens a driver."""
