"""A version holds its weights, or says where they are."""

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dealwright.engines.transformers import TransformersEngine
from dealwright.tracking import weights
from dealwright.tracking.connection import TrackingError, connect
from dealwright.tracking.downloads import downloaded
from dealwright.tracking.registry import register
from dealwright.tracking.revisions import hash_folder
from dealwright.tracking.weights import loadable, write_reference
from tests.registry import MODEL, enter_project, write_selection
from tests.tiny import tiny_params

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast


@pytest.fixture
def project(tmp_path: Path, empty_store: Path, base_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Enter a project with a warm start and one checkpoint, still empty."""
    folder = enter_project(tmp_path / "project", empty_store, monkeypatch)
    shutil.rmtree(folder / "data/models")
    shutil.copytree(base_folder, folder / "data/models/warmstart")
    write_selection(folder, selected=5, reward=0.4, steps=(0, 5))
    return folder


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.rglob("*")}


def test_a_small_checkpoint_is_copied_and_loads_from_its_own_files(base_folder: Path, tmp_path: Path) -> None:
    copied = write_reference(tmp_path, base_folder, hash_folder(base_folder), None)
    assert {path.name for path in copied} == names(base_folder)
    with loadable(base_folder) as folder:
        assert folder == base_folder


def test_an_adapter_is_registered_as_such_and_loads_over_its_own_base(
    project: Path, model: "PreTrainedModel", tokenizer: "PreTrainedTokenizerFast"
) -> None:
    from peft import LoraConfig, get_peft_model

    checkpoint = project / "data/models/checkpoints/step-0005"
    adapted = get_peft_model(model, LoraConfig(r=2, target_modules="all-linear", init_lora_weights=False))
    adapted.save_pretrained(checkpoint)
    tokenizer.save_pretrained(checkpoint)
    expected = adapted.merge_and_unload().get_output_embeddings().weight.sum().item()
    register(tiny_params())
    # The next training writes another warm start there; the version must not load over that.
    shutil.rmtree(project / "data/models")
    with downloaded(f"models:/{MODEL}/2") as folder:
        assert "model.safetensors" not in names(folder)
        assert json.loads((folder / "reference.json").read_text()) == {
            "base": connect().get_model_version(MODEL, "1").source
        }
        with loadable(folder) as whole:
            engine = TransformersEngine.from_folder(whole)
    assert any("lora" in name for name, _ in engine.model.named_parameters())
    assert engine.model.get_output_embeddings().weight.sum().item() == pytest.approx(expected)


def test_an_adapter_without_a_registered_base_is_refused(tmp_path: Path) -> None:
    (tmp_path / "adapter_config.json").write_text("{}")
    with pytest.raises(TrackingError, match="holds an adapter, but its base, step 0, is not registered before it"):
        write_reference(tmp_path, tmp_path, "", None)


def test_a_large_checkpoint_stays_where_it_is(
    project: Path, base_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(weights, "LARGEST_COPY", 1000)
    checkpoint = project / "data/models/checkpoints/step-0005"
    shutil.copytree(base_folder, checkpoint)
    register(tiny_params())
    register(tiny_params())
    with downloaded(f"models:/{MODEL}/2") as folder:
        assert not list(folder.rglob("*.safetensors"))
        with loadable(folder) as whole:
            assert whole == checkpoint
        (checkpoint / "tokenizer_config.json").write_text("{}")
        gone = r"step-0005 no longer holds the weights .* `dvc checkout`"
        with pytest.raises(TrackingError, match=gone), loadable(folder):
            pass
