"""What the games say: metrics, intervals, comparisons, and the best that could be done."""
