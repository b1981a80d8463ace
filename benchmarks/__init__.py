"""Measured comparisons: each takes both sides in one run on one machine and gives a ratio."""
