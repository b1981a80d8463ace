"""What is looked at before DVC touches anything: its files, the parameters, the source of products, the base model."""

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path

from dealwright.errors import DealwrightError
from dealwright.lock import LOCK, UNREADABLE, read_yaml
from dealwright.params import Params, load_params
from dealwright.profiles import PARAMS, Change, differences, read_params, standing_profile

CLAIMS = Path(".dvc/tmp/rwlock")


class CheckError(DealwrightError):
    """Something without which a run would stop halfway."""


@dataclass(frozen=True, slots=True)
class Check:
    """What would run: the profile, the sizes that differ from it, all that differs from the committed parameters, and
    what the source of products holds.

    `edits` is None where there is no committed params.yaml to compare with. `untrained` counts the products that
    `prompts.untrained_categories` leaves out, `rejected` the rows set aside by reason; `unused_columns` are those of
    the source that nothing is read from.
    """

    profile: str
    deviations: list[Change]
    edits: list[Change] | None
    splits: dict[str, int]
    untrained: int
    rejected: dict[str, int]
    unused_columns: list[str]

    def lines(self) -> list[str]:
        """Say it in lines of text."""
        own = f", with {', '.join(map(str, self.deviations))}" if self.deviations else ""
        lines = [f"profile: {self.profile}{own}"]
        if self.edits is None:
            lines += ["params.yaml: nothing committed to compare with"]
        elif not self.edits:
            lines += ["params.yaml: as committed"]
        else:
            lines += ["params.yaml differs from the committed one:", *(f"  {edit}" for edit in self.edits)]
        splits = ", ".join(f"{count} {split}" for split, count in self.splits.items())
        lines += [
            f"catalogue: {sum(self.splits.values())} products ({splits}), {sum(self.rejected.values())} set aside"
        ]
        if self.untrained:
            lines.append(f"  {self.untrained} left out: of prompts.untrained_categories, and not for test")
        lines += [f"  {count} set aside: {reason}" for reason, count in self.rejected.items()]
        if self.unused_columns:
            lines += [f"  not read: {', '.join(self.unused_columns)}; catalogue.columns may name a column of them"]
        return lines


def check() -> Check:
    """Validate params.yaml, read the source of products, find the base model; raises DealwrightError for the first
    problem."""
    from dealwright.catalogue.sources import unused_columns

    params = load_params(PARAMS)
    _check_lock()
    _clear_torn_claims()
    _check_sellers(params)
    _check_engines(params)
    _check_server(params)
    splits, untrained, rejected = _read_catalogue(params)
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
    return Check(profile, deviations, edits, splits, untrained, rejected, unused_columns(params.catalogue))


def _check_lock() -> None:
    """Refuse a dvc.lock that DVC cannot read: it writes the file in place, so a kill may cut it off."""
    if not LOCK.is_file():
        return
    from dvc.schema import COMPILED_LOCKFILE_SCHEMA
    from voluptuous import Invalid

    try:
        COMPILED_LOCKFILE_SCHEMA(read_yaml(LOCK) or {})
    except (*UNREADABLE, Invalid) as error:
        raise CheckError(
            f"{LOCK} cannot be read, as after a kill while DVC wrote it; `git checkout {LOCK}`, or remove it, and run "
            "this again: the stages that it does not name run again"
        ) from error


def _clear_torn_claims() -> None:
    """Remove DVC's list of the files that its processes work on, where a kill cut it off: DVC would refuse to run.

    It is written in place too, and made anew where it is missing; entries of processes that are no more go either way.
    """
    if _whole(CLAIMS):
        return
    from dvc.lock import make_lock

    with make_lock(f"{CLAIMS}.lock", tmp_dir=str(CLAIMS.parent)):  # a living DVC may be writing it
        if not _whole(CLAIMS):
            CLAIMS.unlink()


def _whole(path: Path) -> bool:
    try:
        json.loads(path.read_bytes())
    except FileNotFoundError:
        return True
    except ValueError:
        return False
    return True


def _read_catalogue(params: Params) -> tuple[dict[str, int], int, dict[str, int]]:
    """Count the products by split, those of untrained categories left out, and the rows set aside by reason."""
    from dealwright.catalogue.scenarios import make_scenarios
    from dealwright.catalogue.split import SPLITS
    from dealwright.catalogue.table import ingest

    found = ingest(params.catalogue)
    report = found.report
    products, rejected = report["kept"], report["rejected_by_reason"]
    if products < params.validate_.minimum_rows:
        because = f", most of them as {next(iter(rejected))}" if rejected else ""
        raise CheckError(
            f"catalogue.path: expected at least {params.validate_.minimum_rows} products (validate.minimum_rows), got "
            f"{products}; {report['rejected']} rows are set aside{because}"
        )
    splits = make_scenarios(found.catalogue, params.prompts)["split"].to_list()
    return {split: splits.count(split) for split in SPLITS}, products - len(splits), rejected


def _check_sellers(params: Params) -> None:
    """Refuse sellers that a stage behind the training would stumble over."""
    from dealwright.evaluation.compare import PRIMARY
    from dealwright.players import make_seller
    from dealwright.seats import split_seller

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
                split_seller(seller, params) if key == "evaluate.sellers" else make_seller(seller)
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


def _check_engines(params: Params) -> None:
    """Refuse names of engines that are taken or unknown, those to be seated that cannot be, and passwords."""
    from dealwright.addresses import without_password
    from dealwright.agents import COLUMNS, FIXED_POLICIES, FLOOR_ONLY
    from dealwright.evaluation.compare import BEST_SCRIPT, MODELS
    from dealwright.reference import FITTED
    from dealwright.seats import check_engine, split_seller

    buyers = params.evaluate.buyers
    if unknown := [name for name in buyers if name not in params.engines]:
        known = ", ".join(params.engines) or "none yet"
        raise CheckError(f"evaluate.buyers: expected names under engines ({known}), got {', '.join(unknown)}")
    if len(set(buyers)) < len(buyers):
        raise CheckError(f"evaluate.buyers: expected each buyer once, got {', '.join(buyers)}")
    taken = {*COLUMNS, FLOOR_ONLY, *MODELS, BEST_SCRIPT, *FIXED_POLICIES, *FITTED, "oracle"}
    if names := taken & set(params.engines):
        raise CheckError(f"engines: expected names that no script or model has, got {', '.join(sorted(names))}")
    sellers = {split_seller(name, params)[0] for name in params.evaluate.sellers}
    named = {f"engines.{name}": (spec, name in buyers or name in sellers) for name, spec in params.engines.items()}
    if params.train.engine is not None:
        named["train.engine"] = (params.train.engine, True)
    for key, (spec, seated) in named.items():
        # Parameters are written into MLflow and the report, those of engines that nobody seats too.
        if spec.kind == "openai" and without_password(spec.address) != spec.address:
            raise CheckError(f"{key}.address: expected no password in it; name a key by key_variable")
        if seated:
            try:
                check_engine(spec)
            except DealwrightError as error:
                raise CheckError(f"{key}: {error}") from error


def _check_server(params: Params) -> None:
    """Refuse a password in the address that the buyer of the training plays through."""
    from dealwright.addresses import without_password

    address = params.train.server
    if address is not None and without_password(address) != address:
        raise CheckError("train.server: expected no password in it; let the server listen where nobody else asks it")


def _committed_params() -> str | None:
    try:
        shown = subprocess.run(["git", "show", f"HEAD:./{PARAMS}"], capture_output=True, check=False)
    except OSError:
        return None
    return shown.stdout.decode("utf-8", "replace") if shown.returncode == 0 else None
