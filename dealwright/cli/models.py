"""Commands around models: registration in MLflow, and the one way to a hub."""

import json
from dataclasses import asdict
from pathlib import Path

import click

from dealwright.errors import DealwrightError, first_line
from dealwright.files import read_json, write_json

EXTERNAL = Path("data/external")
# Weights as safetensors, the configuration and the tokenizer: no pickles, no second copies in other formats.
FILES = ["*.safetensors", "*.json", "*.jinja", "*.model", "merges.txt", "vocab.txt", "LICENSE*", "README.md"]


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Write JSON.")
def register(as_json: bool) -> None:
    """Register the checkpoints in MLflow, the selected one as `candidate`.

    What is registered already is left or completed, so it may run at any time and any number of times. Also writes
    reports/provenance.json, and puts the report beside the training's run.

    \b
    dealwright register
    """
    from dealwright.params import load_params
    from dealwright.tracking.connection import shown_uri
    from dealwright.tracking.pages import log_report
    from dealwright.tracking.provenance import PROVENANCE, write_provenance
    from dealwright.tracking.registry import CANDIDATE, register

    registration = register(load_params())
    write_provenance(registration)
    log_report(registration.run_id)
    if as_json:
        click.echo(json.dumps(asdict(registration), indent=2))
        return
    for version in registration.versions:
        alias = f"  {CANDIDATE}" if version.candidate else ""
        click.echo(f"  step {version.step:>5}  version {version.version}{'  new' if version.new else ''}{alias}")
    new = sum(version.new for version in registration.versions)
    click.echo(f"{registration.model}: {len(registration.versions)} checkpoints, {new} new")
    click.echo(f"written to {shown_uri()} and {PROVENANCE}")


@click.command("fetch-model")
@click.argument("name")
@click.option("--revision", help="A commit, tag or branch of the model; without it the newest, which is recorded.")
def fetch_model(name: str, revision: str | None) -> None:
    """Download a model from the Hugging Face hub into data/external/.

    The one command that reaches a hub. The commit is pinned and recorded in source.json beside the weights; a model
    that is there already is left as it is. Put the printed folder into `warmstart.base`.

    \b
    dealwright fetch-model HuggingFaceTB/SmolLM2-135M-Instruct
    """
    from dealwright.offline import allow_hub

    allow_hub()
    click.echo(fetch(name, revision))


def fetch(name: str, revision: str | None) -> Path:
    """Download a model at one commit and return its folder; a broken download is continued by the next."""
    import httpx
    import huggingface_hub
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    target = EXTERNAL / name.rsplit("/", 1)[-1]
    try:
        commit = huggingface_hub.HfApi().model_info(name, revision=revision).sha
        if target.is_dir():
            _check_same(target, name, commit)
            return target
        partial = target.with_name(f".{target.name}.partial")
        huggingface_hub.snapshot_download(name, revision=commit, local_dir=partial, allow_patterns=FILES)
    except (HFValidationError, HfHubHTTPError, httpx.HTTPError, OSError) as error:
        what = f"{name} at {revision or 'its newest revision'}"
        raise DealwrightError(f"cannot fetch {what}: {first_line(error)}") from error
    _remove_download_state(partial)
    write_json(partial / "source.json", {"model": name, "revision": commit})
    partial.rename(target)
    return target


def _check_same(target: Path, name: str, commit: str | None) -> None:
    recorded = target / "source.json"
    there = read_json(recorded, "remove its folder and fetch the model again") if recorded.is_file() else {}
    if there != {"model": name, "revision": commit}:
        raise DealwrightError(
            f"{target} holds {there.get('model', 'another model')} at {there.get('revision', 'no known revision')}, "
            f"not {name} at {commit}; remove that folder first, or name the revision that is there"
        )


def _remove_download_state(folder: Path) -> None:
    """Remove the hub's bookkeeping: it holds times, and a folder that DVC depends on must not."""
    import shutil

    shutil.rmtree(folder / ".cache", ignore_errors=True)
