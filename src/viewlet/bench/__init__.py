"""Finding and running the benchmark scripts of a source tree."""
