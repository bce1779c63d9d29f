"""Stage 1: SQL text to a resolved query."""
