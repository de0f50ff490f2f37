"""What crosses the doors between rooms: frozen data, no behaviour beyond what it says about itself."""

from adk_graph_memory.records.dates import (
    Precision,
)
from adk_graph_memory.records.extraction_result import (
    ExtractedEntity,
    ExtractedFact,
    Extraction,
    Manner,
    Modality,
    Remark,
    Source,
    Usage,
)
from adk_graph_memory.records.filters import Filters
from adk_graph_memory.records.passages import (
    Embedding,
    Passage,
)
from adk_graph_memory.records.results import (
    Ending,
    IngestReport,
    MemoryKind,
    Receipt,
    Recollection,
    Share,
    StoredEntity,
    StoredFact,
)
from adk_graph_memory.records.text_keys import (
    count_tokens,
    digest,
    fold_text,
    has_wide_character,
)
from adk_graph_memory.records.turns import (
    NO_SESSION,
    Role,
    Scope,
    Statement,
    Turn,
    check_timezone_aware,
)
from adk_graph_memory.records.write_plan import (
    Candidates,
    EntityDoubt,
    EntityResolution,
    FactLink,
    KnownEntity,
    KnownFact,
    PlannedEntity,
    PlannedFact,
    PlannedRevision,
    Proposition,
    Standing,
    WritePlan,
)

__all__ = [
    "NO_SESSION",
    "Candidates",
    "Embedding",
    "Ending",
    "EntityDoubt",
    "EntityResolution",
    "ExtractedEntity",
    "ExtractedFact",
    "Extraction",
    "FactLink",
    "Filters",
    "IngestReport",
    "KnownEntity",
    "KnownFact",
    "Manner",
    "MemoryKind",
    "Modality",
    "Passage",
    "PlannedEntity",
    "PlannedFact",
    "PlannedRevision",
    "Precision",
    "Proposition",
    "Receipt",
    "Recollection",
    "Remark",
    "Role",
    "Scope",
    "Share",
    "Source",
    "Standing",
    "Statement",
    "StoredEntity",
    "StoredFact",
    "Turn",
    "Usage",
    "WritePlan",
    "check_timezone_aware",
    "count_tokens",
    "digest",
    "fold_text",
    "has_wide_character",
]
