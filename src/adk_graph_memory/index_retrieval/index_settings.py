"""Name the indexes that are searched; the connection is that of :class:`adk_graph_memory.Settings`."""

from __future__ import annotations

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict


class IndexSettings(BaseSettings):
    """The names of your own indexes; every field is also an environment variable."""

    model_config = SettingsConfigDict(
        populate_by_name=True, frozen=True, hide_input_in_errors=True, env_ignore_empty=True, extra="ignore"
    )

    index_name: str | None = Field(
        default=None,
        min_length=1,
        validation_alias="NEO4J_INDEX_NAME",
        description="the index to search, of whichever type; goes before the two names below",
    )
    vector_index_name: str = Field(
        default="chunkEmbeddings",
        min_length=1,
        validation_alias="NEO4J_VECTOR_INDEX_NAME",
        description="the vector index of a vector or hybrid search",
    )
    fulltext_index_name: str = Field(
        default="search_chunks",
        min_length=1,
        validation_alias="NEO4J_FULLTEXT_INDEX_NAME",
        description="the full-text index of a full-text or hybrid search",
    )
