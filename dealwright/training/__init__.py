"""The tiny base model, the warm start, and GRPO."""
