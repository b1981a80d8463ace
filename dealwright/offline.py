"""Switch off all usage reporting, access to the model hub, and progress bars, in one place.

Libraries read these variables when they are imported, so `import dealwright` sets them first. A value that already
stands in the environment stays: `HF_HUB_OFFLINE=0 dealwright ...` reaches the hub. DVC's own command line does not
import this package; its settings are in `.dvc/config`.
"""

import os

NO_REPORTING = {
    "DO_NOT_TRACK": "1",  # Hugging Face, Prefect's client, vLLM
    "DVC_NO_ANALYTICS": "1",
    "GX_ANALYTICS_ENABLED": "false",  # Great Expectations
    "HF_HUB_DISABLE_TELEMETRY": "1",  # TRL's trainers report through it too
    "HF_HUB_DISABLE_UPDATE_CHECK": "1",
    "ITERATIVE_DO_NOT_TRACK": "1",  # gto, a dependency of DVC
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "PREFECT_CLOUD_ENABLE_ORCHESTRATION_TELEMETRY": "false",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "VLLM_NO_USAGE_STATS": "1",
}
NO_HUB = {
    "HF_DATASETS_OFFLINE": "1",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",  # of downloads, and of weights that transformers loads
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
}
QUIET = {
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "120",  # 20, the default, is too short on two cores
    "TRANSFORMERS_VERBOSITY": "error",  # a folder that does not load is one line, not a table before it
    "TRL_EXPERIMENTAL_SILENCE": "1",  # `rollout_func` and `environment_factory` are marked experimental
}


def switch_off() -> None:
    """Set every variable that the environment does not set already."""
    for name, value in {**NO_REPORTING, **NO_HUB, **QUIET}.items():
        os.environ.setdefault(name, value)


def allow_hub() -> None:
    """Let this process reach the model hub, with bars; call it before the first import of a Hugging Face library."""
    for name in NO_HUB:
        os.environ[name] = "0"
