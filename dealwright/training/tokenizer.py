"""The tiny base model's own tokenizer: byte-level BPE with one token a digit, and a chat template of role tokens.

The marks of the prompt's ruler are tokens of their own, so that a share of the budget is chosen, and found again in
the prompt, as one token.
"""

from collections.abc import Iterable

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from dealwright.prompts.ruler import MARKS

VOCABULARY = 1024
END, PADDING, ASSISTANT = "<|end|>", "<|pad|>", "<|assistant|>"
SPECIALS = [END, PADDING, "<|system|>", "<|user|>", ASSISTANT]
TEMPLATE = (
    "{% for message in messages %}<|{{ message['role'] }}|>{{ message['content'] }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
# A label with the action behind it is one piece, and so is a word with the blank before it, the mark after it and the
# blank before a number; a digit is always alone.
_PIECES = Regex(
    r"\n?(?:Thought|Talk|Action):(?: \[[A-Z]+\])?(?: \$)?"
    r"| ?\p{L}+[.,?!]?(?: \$?(?=\p{N}))?"
    r"|\p{N}"
    r"|[^\s\p{L}\p{N}]+ ?"
    r"|\s+"
)


def train_tokenizer(texts: Iterable[str]) -> PreTrainedTokenizerFast:
    """Learn the merges from texts and return a tokenizer that transformers and vLLM load as it is."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(_PIECES, "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=SPECIALS,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.add_tokens([f"{mark}%" for mark in MARKS])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=END,
        pad_token=PADDING,
        chat_template=TEMPLATE,
        padding_side="right",
        clean_up_tokenization_spaces=False,
        model_max_length=2048,
    )
