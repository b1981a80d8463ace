"""The parameters of every stage: one frozen model per group of params.yaml, so that a typo fails before any work."""

from dealwright.params.engines import LocalEngine, ServedEngine
from dealwright.params.reading import ParamsError, flatten, load_params, parse_params, read_text
from dealwright.params.stages import (
    Catalogue,
    Evaluate,
    Gate,
    Params,
    Phases,
    Prompts,
    Retrain,
    Select,
    Train,
    Validate,
    Warmstart,
)

__all__ = [
    "Catalogue",
    "Evaluate",
    "Gate",
    "LocalEngine",
    "Params",
    "ParamsError",
    "Phases",
    "Prompts",
    "Retrain",
    "Select",
    "ServedEngine",
    "Train",
    "Validate",
    "Warmstart",
    "flatten",
    "load_params",
    "parse_params",
    "read_text",
]
