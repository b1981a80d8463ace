"""Train language-model buyers to bargain, by reinforcement learning with verifiable rewards."""

from dealwright import offline

__version__ = "0.1.0"

offline.switch_off()
