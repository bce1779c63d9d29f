"""A pipeline from a Python file."""

from __future__ import annotations

import runpy
from pathlib import Path

from viewlet.pipelines.definitions import Pipeline, PipelineError, defining


def load(path: str | Path) -> Pipeline:
    """Run a file that defines a pipeline; its name is that of the file."""
    path = Path(path)
    if not path.is_file():
        raise PipelineError(f"there is no file {str(path)!r}")
    with defining(Pipeline(path.stem)) as pipeline:
        runpy.run_path(str(path), run_name="__viewlet__")
    if not pipeline.tables:
        raise PipelineError(f"{str(path)!r} defines no table: use the decorators of viewlet.pipelines")
    pipeline.check()
    return pipeline
