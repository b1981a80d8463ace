"""Answer conversations with vLLM inside this process, which the environment .venv-vllm runs.

    .venv-vllm/bin/python -m tests.vllm_answers MODEL_FOLDER CONVERSATIONS ANSWERS

CONVERSATIONS is a JSON list of conversations; ANSWERS becomes the list of greedy completions.
"""

import json
import sys
from dataclasses import asdict
from pathlib import Path

from dealwright.engines.base import Sampling
from dealwright.engines.vllm_process import VllmEngine


def main() -> None:
    """Answer them all."""
    model, asked, answered = sys.argv[1:]
    engine = VllmEngine.from_folder(model, max_model_len=1024, enforce_eager=True, dtype="float32")
    completions = engine.generate(json.loads(Path(asked).read_text()), Sampling(0.0, 96, 0))
    Path(answered).write_text(json.dumps([asdict(completion) for completion in completions]))


if __name__ == "__main__":
    main()
