"""Extract entities and facts, each with its quote, from turns: with a model, or with rules if there is none."""

from adk_graph_memory.extraction.extractor import Extractor, ModelExtractor, choose_extractor
from adk_graph_memory.extraction.pieces import split_into_windows
from adk_graph_memory.extraction.prepared import Prepare, PreparedExtractor, keep_statements
from adk_graph_memory.extraction.rules import RuleExtractor
from adk_graph_memory.extraction.vocabulary import MANAGED_TOPICS, Topic, Vocabulary

__all__ = [
    "MANAGED_TOPICS",
    "Extractor",
    "ModelExtractor",
    "Prepare",
    "PreparedExtractor",
    "RuleExtractor",
    "Topic",
    "Vocabulary",
    "choose_extractor",
    "keep_statements",
    "split_into_windows",
]
