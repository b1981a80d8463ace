"""MLflow: live training curves, and the registry of trained buyers.

MLflow is a view and never an input: no stage reads from it. It is imported inside the functions that need it.
"""

from dealwright.tracking.runs import TrainingRun, training_run

__all__ = ["TrainingRun", "training_run"]
