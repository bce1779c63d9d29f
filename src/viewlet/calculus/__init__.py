"""Stage 3: ring calculus, sums of products of relations, conditions, values and nested sums."""
