"""A demo that stores a conversation, remembers it and asks questions about it."""

from adk_graph_memory.demo.conversation import Conversation, ConversationQuestion, load_conversation
from adk_graph_memory.demo.playback import DemoResult, play_conversation
from adk_graph_memory.demo.recorded_replies import choose_model

__all__ = [
    "Conversation",
    "ConversationQuestion",
    "DemoResult",
    "choose_model",
    "load_conversation",
    "play_conversation",
]
