"""vLLM inside this process, for a machine with a GPU; `vllm` is an extra and is imported only when an engine is made.

Prompts go in as the token ids of the model's own chat template, so that what was read is known exactly, and a
conversation that outgrows the model's context costs its own answer instead of the whole batch.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dealwright.engines.base import Completion, Conversation, FinishReason, Sampling
from dealwright.engines.seeds import conversation_seed
from dealwright.errors import DealwrightError


class VllmError(DealwrightError):
    """vLLM or a model folder that cannot be used."""


class VllmEngine:
    """Continues conversations with a model that vLLM holds in this process.

    `from_folder` makes one; the constructor takes a `vllm.LLM` that was made with processed log-probabilities, and
    `vllm.SamplingParams`. Log-probabilities are those of the distribution that was sampled from, temperature included.
    """

    def __init__(self, model: Any, sampling_params: Any) -> None:
        self._model = model
        self._sampling_params = sampling_params
        self._tokenizer = model.get_tokenizer()
        self._context: int = model.model_config.max_model_len

    @classmethod
    def from_folder(cls, folder: str | Path, **options: Any) -> "VllmEngine":
        """Load a model folder; `options` are those of `vllm.LLM`, such as max_model_len or tensor_parallel_size.

        Raises VllmError where vLLM is missing, or refuses the folder or an option.
        """
        if not (Path(folder) / "config.json").is_file():
            raise VllmError(
                f"expected a model folder with a config.json, got {folder}; give the folder of a saved model"
            )
        try:
            import vllm
        except ModuleNotFoundError as error:
            raise VllmError(
                f"expected the package vllm, got {str(error).lower()}; docs/engines.md says how to install it"
            ) from error
        try:
            model = vllm.LLM(model=str(folder), logprobs_mode="processed_logprobs", **options)
        except Exception as error:  # of every kind, pydantic's and its engine's among them
            raise VllmError(
                f"vLLM cannot load {folder} with options {options}: {' '.join(str(error).split())}"
            ) from error
        return cls(model, vllm.SamplingParams)

    def generate(self, conversations: Sequence[Conversation], sampling: Sampling) -> list[Completion]:
        """Return one completion a conversation, in order."""
        prompts = [self._prompt(conversation) for conversation in conversations]
        fitting = [index for index, prompt in enumerate(prompts) if len(prompt) < self._context]
        outputs = self._model.generate(
            [{"prompt_token_ids": prompts[index]} for index in fitting],
            [
                self._sampling_params(
                    temperature=sampling.temperature,
                    max_tokens=sampling.max_tokens,
                    seed=conversation_seed(sampling.seed, index),
                    logprobs=0,  # of the sampled token alone
                )
                for index in fitting
            ],
            use_tqdm=False,
        )
        completions = [Completion("", "error", tuple(prompt)) for prompt in prompts]
        for index, output in zip(fitting, outputs, strict=True):
            completions[index] = _completion(output)
        return completions

    def _prompt(self, conversation: Conversation) -> list[int]:
        return list(
            self._tokenizer.apply_chat_template(
                list(conversation), add_generation_prompt=True, tokenize=True, return_dict=False
            )
        )


def _completion(output: Any) -> Completion:
    sampled = output.outputs[0]
    # One position of log-probabilities is a mapping from token to Logprob; the sampled token is always among them.
    positions = zip(sampled.token_ids, sampled.logprobs or (), strict=True)
    logprobs = [position[token].logprob for token, position in positions]
    finish: FinishReason = sampled.finish_reason if sampled.finish_reason in ("stop", "length") else "error"
    return Completion(
        sampled.text if finish != "error" else "",
        finish,
        tuple(output.prompt_token_ids),
        tuple(sampled.token_ids),
        tuple(logprobs),
    )
