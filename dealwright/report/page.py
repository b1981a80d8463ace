"""The templates of the report's pages, with the filters that they write names and numbers by."""

from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from dealwright.report import words
from dealwright.report.drawing import variable

TEMPLATES = Path(__file__).parent / "templates"


def render(template: str, **values: Any) -> str:
    """Return a template filled with values; whatever it is given is escaped."""
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "number": words.number,
        "interval": words.interval,
        "percent": words.percent,
        "money": words.money,
        "plain": words.plain,
        "colour": variable,
    }
    return environment.get_template(template).render(values) + "\n"
