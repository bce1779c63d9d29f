"""Stage 4: queries to maintenance programs: which maps exist, and which statements keep them."""
