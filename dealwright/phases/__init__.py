"""Phases of training: kinds of episodes, their shares over the checkpoints, and where the behaviour changes.

The order is features → clusters → series → changes → labels; `analysis` puts them together. No step is told which
phases to expect before the labels, and every label may end as "not observed".
"""
