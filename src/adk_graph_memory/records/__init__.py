"""What crosses the doors between rooms: frozen data, no behaviour beyond what it says about itself."""

from adk_graph_memory.records.answers import (
    IngestReport,
    Kind,
    Receipt,
    Recollection,
    Share,
)
from adk_graph_memory.records.extraction import (
    ExtractedEntity,
    ExtractedFact,
    Extraction,
    Modality,
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
    "ExtractedEntity",
    "ExtractedFact",
    "Extraction",
    "Filters",
    "IngestReport",
    "Kind",
    "KnownEntity",
    "KnownFact",
    "Link",
    "Modality",
    "Plan",
    "PlannedEntity",
    "PlannedFact",
    "PlannedRevision",
    "Proposition",
    "Receipt",
    "Recollection",
    "Resolution",
    "Role",
    "Scope",
    "Share",
    "Source",
    "Standing",
    "Statement",
    "Turn",
    "Usage",
    "check_aware",
    "digest",
    "folded",
    "is_wide",
    "token_count",
]
