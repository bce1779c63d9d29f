"""Stage 6: engines that keep views fresh."""
