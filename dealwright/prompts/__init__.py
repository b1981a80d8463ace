"""Prompt texts as files beside this module, and how they are filled in."""

from dealwright.prompts.neutral import neutralise
from dealwright.prompts.render import PERSONAS, opening, render_buyer, render_seller

__all__ = ["PERSONAS", "neutralise", "opening", "render_buyer", "render_seller"]
