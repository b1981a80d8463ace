"""Who speaks at the table."""
