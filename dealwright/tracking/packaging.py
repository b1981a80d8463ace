"""What a registered version consists of: a plain Hugging Face folder, with what MLflow needs in files beside it.

So `vllm serve`, `from_pretrained` and `mlflow models serve` all take the same folder, and the weights are copied once.
"""

import platform
import shutil
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from dealwright.files import write_text
from dealwright.players import BuyerSettings

if TYPE_CHECKING:
    from mlflow.models import ModelSignature

CODE = Path(__file__).with_name("serving_model.py")
REQUIREMENTS = ("dealwright", "mlflow", "pandas", "torch", "transformers")


def write_package(
    folder: Path, model_id: str, run_id: str, settings: BuyerSettings, max_turns: int, card: str
) -> None:
    """Write the files that go beside the weights: MLmodel, its code and environment, and the model card."""
    from mlflow import pyfunc
    from mlflow.models import Model

    model = Model(model_id=model_id, run_id=run_id, signature=signature())
    pyfunc.add_to_model(
        model,
        loader_module="mlflow.pyfunc.loaders.code_model",
        python_env="python_env.yaml",
        model_config={"settings": asdict(settings), "max_turns": max_turns},
        model_code_path=CODE.name,
        artifacts={"model": {"path": ".", "uri": "."}},
        streamable=False,
    )
    model.save(str(folder / "MLmodel"))
    shutil.copyfile(CODE, folder / CODE.name)
    write_text(folder / "README.md", card)
    write_text(folder / "requirements.txt", "".join(f"{name}=={version(name)}\n" for name in REQUIREMENTS))
    python_env = (
        f"python: {platform.python_version()}\nbuild_dependencies: [pip]\ndependencies: [-r requirements.txt]\n"
    )
    write_text(folder / "python_env.yaml", python_env)


def signature() -> "ModelSignature":
    """Return what a served buyer takes and gives: one dialogue a row, one message a row.

    Columns have names and no types: by types MLflow refuses an amount without a decimal point and a batch in which not
    every dialogue has begun, and makes a missing title the word None. ServedBuyer looks at what a column holds.
    """
    from mlflow.models import ModelSignature
    from mlflow.types import ColSpec, DataType, Schema
    from mlflow.types.schema import AnyType

    given = [ColSpec(AnyType(), name) for name in ("title", "list_price", "budget")]
    optional = [ColSpec(AnyType(), name, required=False) for name in ("category", "description", "messages")]
    dialogue = Schema([*given, *optional])
    return ModelSignature(inputs=dialogue, outputs=Schema([ColSpec(DataType.string)]))
