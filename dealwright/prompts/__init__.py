"""Prompt texts as files beside this module, and how they are filled in."""

from dealwright.prompts.neutral import neutralise
from dealwright.prompts.render import PERSONAS, opening_buyer, opening_seller, render_buyer, render_seller

__all__ = ["PERSONAS", "neutralise", "opening_buyer", "opening_seller", "render_buyer", "render_seller"]
