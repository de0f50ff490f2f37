"""The main job on a real conversation, for somebody who watches: sessions, memory, questions."""

from adk_graph_memory.demo.conversation import Conversation, Question, load
from adk_graph_memory.demo.replies import model
from adk_graph_memory.demo.show import Played, play

__all__ = ["Conversation", "Played", "Question", "load", "model", "play"]
