"""The registered buyer as MLflow runs it: models-from-code, this very file, copied beside the weights.

It needs the `dealwright` package where it runs: `mlflow models serve --env-manager local`.
"""

import logging
import threading
from pathlib import Path
from typing import Any

import mlflow
import pandas as pd
from mlflow.exceptions import MlflowException
from mlflow.pyfunc.model import PythonModel, PythonModelContext

from dealwright.players import BuyerSettings
from dealwright.serving import DialogueError, ServedBuyer

_log = logging.getLogger("dealwright")


class Buyer(PythonModel):
    """Answers one dialogue a row with the buyer's next message, and logs how often the guard has stepped in."""

    def load_context(self, context: PythonModelContext) -> None:
        """Load the weights that lie beside this file, or those that the version refers to."""
        from dealwright.engines.transformers import TransformersEngine
        from dealwright.tracking.weights import loadable

        with loadable(Path(context.artifacts["model"])) as folder:
            engine = TransformersEngine.from_folder(folder)
        config = context.model_config
        self.buyer = ServedBuyer(engine, BuyerSettings(**config["settings"]), config["max_turns"])
        self.engine = engine
        self.turn = threading.Lock()

    def predict(
        self, context: PythonModelContext, model_input: pd.DataFrame, params: dict[str, Any] | None = None
    ) -> list[str]:
        """Return the next message in each dialogue; see `ServedBuyer.answer` for the columns."""
        dialogues = [{str(key): value for key, value in row.items()} for row in model_input.to_dict("records")]
        with self.turn:  # the server takes every request in a thread of its own
            guarded = self.buyer.guarded
            try:
                answers = self.buyer.answer(dialogues)
            except DialogueError as error:
                raise MlflowException.invalid_parameter_value(str(error)) from error
            finally:
                self.engine.forget()  # a request brings its whole dialogue, so nothing is to be remembered
            if self.buyer.guarded > guarded:
                _log.warning("the guard replaced %d of %d answers", self.buyer.guarded, self.buyer.answered)
        return answers


mlflow.models.set_model(Buyer())
