"""Fill the prompt texts in.

Texts are `string.Template` files, filled in one pass: a brace, a dollar sign or a `$name` inside a title stays what it
is. Whatever comes from the catalogue is neutralised first.
"""

from functools import cache, lru_cache
from importlib.resources import files
from string import Template
from typing import Literal

from dealwright.game import Product, Scenario, format_price, round_down, round_up
from dealwright.prompts.neutral import neutralise
from dealwright.prompts.ruler import ruler

Style = Literal["brief", "full"]

PERSONAS = ("neutral", "begging", "insulting", "unyielding")
BRIEF_TITLE_CHARACTERS = 60


def render_buyer(scenario: Scenario, style: Style, max_turns: int) -> str:
    """Write the buyer's instructions, with the budget rounded down to the cent, so that paying it never overshoots.

    `brief` is for a tiny model trained on this very shape: title (cut), category, list price, budget and a ruler of
    its shares, nothing else.
    """
    product = dict(_product_fields(scenario.product))
    if style == "brief":
        product["title"] = product["title"][:BRIEF_TITLE_CHARACTERS].rstrip()
    return Template(_text(f"buyer_{style}.txt")).substitute(
        product,
        list_price=format_price(scenario.list_price),
        budget=format_price(round_down(scenario.budget)),
        ruler=ruler(scenario.budget),
        max_turns=max_turns,
    )


def render_seller(scenario: Scenario, persona: str, max_turns: int) -> str:
    """Write the seller's instructions; the cost is shown rounded up to the cent, so that taking it is no loss."""
    if persona not in PERSONAS:
        raise ValueError(f"a persona is one of {', '.join(PERSONAS)}, got {persona!r}")
    return Template(_text("seller.txt")).substitute(
        _product_fields(scenario.product),
        list_price=format_price(scenario.list_price),
        cost=format_price(round_up(scenario.cost)),
        persona=_text(f"personas/{persona}.txt"),
        max_turns=max_turns,
    )


def opening_buyer(style: Style) -> list[dict[str, str]]:
    """Return the turns between the buyer's instructions and its first message.

    With `full` instructions the first of them are an example of the form: a small instruct model follows a message
    that stands where its own will, and hardly one that is described.
    """
    ready = {"role": "user", "content": _text(f"opening_{style}.txt")}
    return [ready] if style == "brief" else [*_example("example_request.txt", "example_buyer.txt"), ready]


def opening_seller() -> list[dict[str, str]]:
    """Return the turns between the seller's instructions and the buyer's first message: an example of the form."""
    return _example("example_offer.txt", "example_seller.txt")


def _example(asked: str, answered: str) -> list[dict[str, str]]:
    return [
        {"role": "user", "content": _text(asked)},
        {"role": "assistant", "content": _text(answered)},
    ]


@lru_cache(maxsize=1)  # the prompts of one product are rendered one after the other
def _product_fields(product: Product) -> dict[str, str]:
    return {
        "title": _one_line(product.title),
        "category": _one_line(product.category),
        "description": neutralise(product.description).strip(),
    }


def _one_line(text: str) -> str:
    return neutralise(" ".join(text.split())).strip()


@cache
def _text(name: str) -> str:
    return files("dealwright.prompts").joinpath(name).read_text(encoding="utf-8").strip()
