"""Who speaks at the table: scripted buyers, scripted sellers, the demonstrator and language models."""

from dealwright.agents.ablations import ABLATIONS
from dealwright.agents.arguments import SENTENCES, Argument, detect_argument, detect_cues
from dealwright.agents.base import Agent
from dealwright.agents.buyers import FIXED_POLICIES, Ladder, Move, Observation, Oracle, Policy, ScriptedBuyer
from dealwright.agents.concession import COLUMNS, Decision, SellerState, SellerType, decide, draw_type, start
from dealwright.agents.demonstrator import NAIVE, WIDE, Demonstrator, Habits
from dealwright.agents.fitting import fit_ladder, mean_reward, play_text_free
from dealwright.agents.language_model import LanguageModelAgent, conversation_of
from dealwright.agents.sellers import FLOOR_ONLY, SELLERS, ConcessionSeller, FloorOnlySeller

__all__ = [
    "ABLATIONS",
    "COLUMNS",
    "FIXED_POLICIES",
    "FLOOR_ONLY",
    "NAIVE",
    "SELLERS",
    "SENTENCES",
    "WIDE",
    "Agent",
    "Argument",
    "ConcessionSeller",
    "Decision",
    "Demonstrator",
    "FloorOnlySeller",
    "Habits",
    "Ladder",
    "LanguageModelAgent",
    "Move",
    "Observation",
    "Oracle",
    "Policy",
    "ScriptedBuyer",
    "SellerState",
    "SellerType",
    "conversation_of",
    "decide",
    "detect_argument",
    "detect_cues",
    "draw_type",
    "fit_ladder",
    "mean_reward",
    "play_text_free",
    "start",
]
