"""Prefect flows; they derive their order from dvc.yaml."""

import dealwright  # noqa: F401  (switches reporting off before Prefect reads its settings)
