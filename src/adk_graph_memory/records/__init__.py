"""What crosses the doors between rooms: frozen data, no behaviour beyond what it says about itself."""

from adk_graph_memory.records.answers import (
    Ending,
    IngestReport,
    Kind,
    Receipt,
    Recollection,
    Share,
    StoredEntity,
    StoredFact,
)
from adk_graph_memory.records.dates import (
    Precision,
)
from adk_graph_memory.records.embeddings import (
    Embedding,
    Passage,
)
from adk_graph_memory.records.extraction import (
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
from adk_graph_memory.records.plan import (
    Candidates,
    Doubt,
    KnownEntity,
    KnownFact,
    Link,
    Plan,
    PlannedEntity,
    PlannedFact,
    PlannedRevision,
    Proposition,
    Resolution,
    Standing,
)
from adk_graph_memory.records.turns import (
    NO_SESSION,
    Role,
    Scope,
    Statement,
    Turn,
    check_aware,
)
from adk_graph_memory.records.words import (
    digest,
    folded,
    is_wide,
    token_count,
)

__all__ = [
    "NO_SESSION",
    "Candidates",
    "Doubt",
    "Embedding",
    "Ending",
    "ExtractedEntity",
    "ExtractedFact",
    "Extraction",
    "Filters",
    "IngestReport",
    "Kind",
    "KnownEntity",
    "KnownFact",
    "Link",
    "Manner",
    "Modality",
    "Passage",
    "Plan",
    "PlannedEntity",
    "PlannedFact",
    "PlannedRevision",
    "Precision",
    "Proposition",
    "Receipt",
    "Recollection",
    "Remark",
    "Resolution",
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
    "check_aware",
    "digest",
    "folded",
    "is_wide",
    "token_count",
]
