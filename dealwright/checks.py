"""What is looked at before DVC touches anything: the parameters, the source of products, the base model."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

from dealwright.errors import DealwrightError
from dealwright.params import Params, load_params
from dealwright.profiles import PARAMS, Change, differences, read_params, standing_profile


class CheckError(DealwrightError):
    """Something without which a run would stop halfway."""


@dataclass(frozen=True, slots=True)
class Check:
    """What would run: the profile, the sizes that differ from it, and all that differs from the committed parameters.

    `edits` is None where there is no committed params.yaml to compare with.
    """

    profile: str
    deviations: list[Change]
    edits: list[Change] | None

    def lines(self) -> list[str]:
        """Say it in lines of text."""
        own = f", with {', '.join(map(str, self.deviations))}" if self.deviations else ""
        lines = [f"profile: {self.profile}{own}"]
        if self.edits is None:
            return [*lines, "params.yaml: nothing committed to compare with"]
        if not self.edits:
            return [*lines, "params.yaml: as committed"]
        return [*lines, "params.yaml differs from the committed one:", *(f"  {edit}" for edit in self.edits)]


def check() -> Check:
    """Validate params.yaml, open the source of products, find the base model; raises DealwrightError for the first
    problem."""
    from dealwright.catalogue.prices import find_currency
    from dealwright.catalogue.sources import open_source

    params = load_params(PARAMS)
    _check_sellers(params)
    find_currency(params.catalogue.currency)
    open_source(params.catalogue)
    base = Path(params.warmstart.base)
    if not (base / "config.json").is_file():
        raise CheckError(
            f"warmstart.base: expected a folder with a model, found no config.json in {base}; make data/base with "
            "`make pretrain`, or fetch a model with `dealwright fetch-model`"
        )
    values = read_params(PARAMS.read_text(encoding="utf-8"), str(PARAMS))
    profile, deviations = standing_profile(values)
    committed = _committed_params()
    edits = None if committed is None else differences(read_params(committed, "the committed params.yaml"), values)
    return Check(profile, deviations, edits)


def _check_sellers(params: Params) -> None:
    """Refuse sellers that a stage behind the training would stumble over."""
    from dealwright.evaluation.compare import PRIMARY
    from dealwright.players import make_seller

    cut = [f"{params.train.seller}/{ablation}" for ablation in params.evaluate.ablations]
    named = {
        "train.seller": [params.train.seller],
        "select.seller": [params.select.seller],
        "evaluate.sellers": params.evaluate.sellers,
        "evaluate.ablations, of train.seller": cut,
    }
    for key, sellers in named.items():
        for seller in sellers:
            try:
                make_seller(seller)
            except DealwrightError as error:
                raise CheckError(f"{key}: {error}") from error
        if len(set(sellers)) < len(sellers):
            raise CheckError(f"{key}: expected each seller once, got {', '.join(sellers)}")
    primary = PRIMARY[-1]
    if primary not in params.evaluate.sellers:
        raise CheckError(
            f"evaluate.sellers: expected {primary} among them, whose figures are the headline, got "
            f"{', '.join(params.evaluate.sellers)}"
        )


def _committed_params() -> str | None:
    try:
        shown = subprocess.run(["git", "show", f"HEAD:./{PARAMS}"], capture_output=True, check=False)
    except OSError:
        return None
    return shown.stdout.decode("utf-8", "replace") if shown.returncode == 0 else None
