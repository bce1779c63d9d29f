"""Programs as generated C: the runtime they include, how they are built and how they run."""
