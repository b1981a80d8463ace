"""Sources of products, and the one canonical table that they become."""
