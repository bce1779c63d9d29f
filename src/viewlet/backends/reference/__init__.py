"""The reference backend: engines on dicts, the living definition of what a view is."""
