"""The main job on a real conversation, for somebody who watches: sessions, memory, questions."""

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
