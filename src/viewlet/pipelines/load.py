"""A pipeline from a Python file."""

from __future__ import annotations

import runpy
import traceback
from pathlib import Path

from viewlet.errors import ViewletError
from viewlet.pipelines.definitions import Pipeline, PipelineError, defining


def load(path: str | Path) -> Pipeline:
    """Run a file that defines a pipeline; its name is that of the file."""
    path = Path(path)
    if not path.is_file():
        raise PipelineError(f"there is no file {str(path)!r}")
    with defining(Pipeline(path.stem)) as pipeline:
        try:
            runpy.run_path(str(path), run_name="__viewlet__")
        except ViewletError:
            raise
        except Exception as reason:
            raise PipelineError(
                f"{path}{_line(reason, str(path))}: {type(reason).__name__}: {reason}"
            ) from reason
    if not pipeline.tables:
        raise PipelineError(f"{str(path)!r} defines no table: use the decorators of viewlet.pipelines")
    pipeline.check()
    return pipeline


def _line(reason: BaseException, path: str) -> str:
    """Where in the file it went wrong, as far as that is known."""
    lines = [f.lineno for f in traceback.extract_tb(reason.__traceback__) if f.filename == path]
    return f", line {lines[-1]}" if lines else ""
