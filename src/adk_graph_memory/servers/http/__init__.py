"""Give a memory to applications in any language: turns in, memories out, as JSON over HTTP.

``make_http_app`` makes a web application to mount beside an application's own; ``adk-graph-memory serve`` serves it.
The extra ``http`` brings what it needs.
"""

from adk_graph_memory import errors

try:
    from adk_graph_memory.servers.http.application import make_http_app
except ImportError as error:
    raise errors.ExtraMissing(what="The HTTP service", extra="http", reason=error) from error

__all__ = ["make_http_app"]
