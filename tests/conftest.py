"""Fixtures that several test modules share; torch is loaded only for those that ask."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast


@pytest.fixture(scope="session", autouse=True)
def no_certificates(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Spare every client the reading of the machine's certificates, which takes longer than a test."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("SSL_CERT_FILE", raising=False)
        patch.setenv("SSL_CERT_DIR", str(tmp_path_factory.mktemp("certificates")))
        yield


@pytest.fixture(scope="session")
def tokenizer() -> "PreTrainedTokenizerFast":
    """Our own tokenizer, trained on a few demonstrator dialogues; not to be changed."""
    from tests.tiny import own_tokenizer

    return own_tokenizer()


@pytest.fixture
def model(tokenizer: "PreTrainedTokenizerFast") -> "PreTrainedModel":
    """A fresh random Llama of about ten thousand parameters that knows the tokenizer."""
    from tests.tiny import tiny_llama

    return tiny_llama(tokenizer)


@pytest.fixture(scope="session")
def base_folder(tokenizer: "PreTrainedTokenizerFast", tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny random model as a Hugging Face folder; not to be changed."""
    from tests.tiny import tiny_llama

    folder = tmp_path_factory.mktemp("model") / "base"
    tiny_llama(tokenizer).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def locales(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Compile two locales that few machines have, and return where they are found; without localedef nowhere."""
    if shutil.which("localedef") is None:
        return {}
    folder = tmp_path_factory.mktemp("locales")
    for name in ("de_DE", "tr_TR"):
        command = ["localedef", "--no-archive", "-i", name, "-f", "UTF-8", str(folder / f"{name}.UTF-8")]
        subprocess.run(command, capture_output=True, check=False)
    return {"LOCPATH": str(folder)}


@pytest.fixture(scope="session")
def made_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database of MLflow without runs, made once: making the tables takes seconds; not to be changed."""
    from dealwright.tracking.connection import connect

    folder = tmp_path_factory.mktemp("store")
    before = Path.cwd()
    os.chdir(folder)
    try:
        connect().search_experiments()
    finally:
        os.chdir(before)
    return folder / "mlflow.db"


@pytest.fixture
def empty_store(made_store: Path, tmp_path: Path) -> Path:
    """A database of MLflow without runs."""
    return Path(shutil.copy(made_store, tmp_path / "empty.db"))


@pytest.fixture(scope="session")
def server() -> Iterator[None]:
    """Run a temporary Prefect server for the session; who asks has imported `flows`, which settles its settings."""
    from prefect.testing.utilities import prefect_test_harness

    from tests.standin import PATIENCE

    with prefect_test_harness(server_startup_timeout=PATIENCE):
        yield
