"""Stage 2: relational algebra over variables."""
