"""The frozen dataclasses that the packages exchange."""

from typing import TYPE_CHECKING

from adk_graph_memory.lazy_names import import_at_use

if TYPE_CHECKING:
    from adk_graph_memory.records.dates import *
    from adk_graph_memory.records.extraction_result import *
    from adk_graph_memory.records.fact_validity import *
    from adk_graph_memory.records.profile import *
    from adk_graph_memory.records.results import *
    from adk_graph_memory.records.scopes import *
    from adk_graph_memory.records.text_keys import *
    from adk_graph_memory.records.turns import *
    from adk_graph_memory.records.write_plan import *
else:
    _NAMES = {
        "adk_graph_memory.records.dates": ("Precision",),
        "adk_graph_memory.records.extraction_result": (
            "ExtractedEntity",
            "ExtractedFact",
            "Extraction",
            "Manner",
            "Modality",
            "Remark",
            "Source",
            "Usage",
        ),
        "adk_graph_memory.records.fact_validity": ("AsOf",),
        "adk_graph_memory.records.profile": (
            "SECTION_TITLES",
            "SECTIONS",
            "FieldEvidence",
            "Profile",
            "ProfileCandidate",
            "ProfileForm",
            "ProfileItem",
            "Section",
        ),
        "adk_graph_memory.records.results": (
            "AppSummary",
            "Checkup",
            "Ending",
            "Filters",
            "IngestReport",
            "PruneKind",
            "PruneReport",
            "Receipt",
            "Recollection",
            "Share",
            "StoredEntity",
            "StoredFact",
            "UserSummary",
        ),
        "adk_graph_memory.records.scopes": ("Scope", "SharedMemory"),
        "adk_graph_memory.records.text_keys": (
            "count_tokens",
            "digest",
            "find_token_end",
            "fold_text",
            "has_wide_character",
        ),
        "adk_graph_memory.records.turns": (
            "NO_SESSION",
            "RULES",
            "Embedding",
            "MemoryKind",
            "Origin",
            "Passage",
            "Role",
            "Statement",
            "Turn",
            "check_timezone_aware",
        ),
        "adk_graph_memory.records.write_plan": (
            "Candidates",
            "EntityDoubt",
            "EntityResolution",
            "FactLink",
            "KnownEntity",
            "KnownFact",
            "PlannedEntity",
            "PlannedFact",
            "PlannedRevision",
            "Proposition",
            "Ruling",
            "Standing",
            "WritePlan",
        ),
    }
    __getattr__ = import_at_use(__name__, _NAMES)
