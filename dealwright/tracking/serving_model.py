"""The registered buyer as MLflow runs it: models-from-code, this very file, copied beside the weights.

It needs the `dealwright` package where it runs: `mlflow models serve --env-manager local`.
"""

from typing import Any

import mlflow
import pandas as pd
from mlflow.pyfunc.model import PythonModel, PythonModelContext

from dealwright.players import BuyerSettings
from dealwright.serving import ServedBuyer


class Buyer(PythonModel):
    """Answers one dialogue a row with the buyer's next message."""

    def load_context(self, context: PythonModelContext) -> None:
        """Load the weights that lie beside this file."""
        from dealwright.engines.transformers import TransformersEngine

        engine = TransformersEngine.from_folder(context.artifacts["model"])
        config = context.model_config
        self.buyer = ServedBuyer(engine, BuyerSettings(**config["settings"]), config["max_turns"])

    def predict(
        self, context: PythonModelContext, model_input: pd.DataFrame, params: dict[str, Any] | None = None
    ) -> list[str]:
        """Return the next message in each dialogue; see `ServedBuyer.answer` for the columns."""
        return self.buyer.answer(
            [{str(key): value for key, value in row.items()} for row in model_input.to_dict("records")]
        )


mlflow.models.set_model(Buyer())
