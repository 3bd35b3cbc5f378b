"""A user's transform: a function in a file, from DataFrame to DataFrame.

The file is run afresh for each ingest, by path, under a name of its own, so an edited transform takes
effect at once and two projects never share one. Modules of the project that it imports, from beside it
or from the project's top, are run afresh too. Functions that it hands to Spark travel by value, theirs
included, since Spark's workers can't import them.
"""

from __future__ import annotations

import importlib
import inspect
import os
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import xxhash
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as st

from lading.errors import TransformError
from lading.layout.table import SOURCE
from lading.model import IngestJob
from lading.spark.determinism import nondeterministic
from lading.spark.session import quiet_pandas

_PREFIX = "lading_transform_"  # of the names that transforms have as modules
_importing = threading.RLock()  # where Python looks for modules is the whole process's
_LADING = str(Path(__file__).resolve().parents[1])


@dataclass(frozen=True, slots=True)
class Context:
    """What a transform is told besides its rows."""

    table: str
    run_id: str
    spark: SparkSession


def transformed(spark: SparkSession, job: IngestJob, frame: DataFrame) -> DataFrame:
    """The frame as the job's transform leaves it, checked; as it is if there is none."""
    if job.transform is None:
        return frame
    result = _called(spark, job, lambda function, context: function(frame, context))
    _check(result, job)
    if SOURCE not in result.columns and job.per == "file":
        path, _, name = job.transform.rpartition(":")
        raise TransformError(
            f"{path}: {name} dropped the column {SOURCE!r}, which says which file a row came from",
            hint=f"keep {SOURCE!r} in every row, or set tables.{job.table}.per: table",
            table=job.table,
            file=path,
        )
    return result


def made_of(spark: SparkSession, job: IngestJob, frames: Mapping[str, DataFrame]) -> DataFrame:
    """What the job's transform makes of several tables: it is called with them by their names, and with a
    `context` if it wants one."""

    def call(function: Callable[..., Any], context: Context) -> Any:
        wanted = inspect.signature(function).parameters
        return function(**frames, **({"context": context} if "context" in wanted else {}))

    result = _called(spark, job, call)
    _check(result, job)
    return result


def _called(
    spark: SparkSession, job: IngestJob, call: Callable[[Callable[..., Any], Context], Any]
) -> DataFrame:
    """What the function returns that `job.transform` names."""
    path, _, name = (job.transform or "").rpartition(":")
    with _importing, _own_modules(path, job.project) as imported, quiet_pandas():
        function = _load(path, name, job.table)
        for module in imported():
            cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
        try:
            result = call(function, Context(job.table, job.run_id, spark))
            if isinstance(result, DataFrame):
                _ = result.schema  # a Spark Connect client finds out about nothing before it is asked
        except Exception as error:
            raise _failed(
                f"{name} raised {type(error).__name__}: {_first_line(error)}", path, job, error
            ) from error
    return result  # type: ignore[no-any-return]


def refuse_foreign(job: IngestJob, *seen: Iterable[int]) -> None:
    """`seen` are the sources of the rows that came out. A row of a file that isn't being read would stay
    when the file that it really came from changes or vanishes: nobody would know to replace it. Source 0
    is no file's, which only a table that is always built as a whole can have."""
    if job.transform is None:
        return
    reading = job.sources | {0} if job.per == "table" else job.sources
    foreign = sorted({source for some in seen for source in some if source not in reading})
    if not foreign:
        return
    path, _, name = job.transform.rpartition(":")
    number = next((one for one in foreign if one), None)
    raise TransformError(
        f"{path}: {name} returned rows where {SOURCE!r} is null"
        if number is None
        else f"{path}: {name} returned rows with {number} in {SOURCE!r}, which is no file being read",
        hint=f"keep {SOURCE!r} unchanged in every row: it says which file the row came from; if rows are "
        f"made from several files, set tables.{job.table}.per: table; nothing was committed",
        table=job.table,
        file=path,
    )


@contextmanager
def _own_modules(path: str, project: str | None) -> Iterator[Callable[[], list[ModuleType]]]:
    """The transform's own modules can be imported meanwhile, behind everything that is installed, and are
    forgotten afterwards. No bytecode is left in the project: an edit within a second must count. Gives a
    function that lists those imported so far."""
    roots = list(dict.fromkeys([os.path.dirname(path), project or os.path.dirname(path)]))
    before, quiet = set(sys.modules), sys.dont_write_bytecode
    sys.path.extend(roots)
    sys.dont_write_bytecode = True
    importlib.invalidate_caches()

    def imported() -> list[ModuleType]:
        return [
            sys.modules[name] for name in set(sys.modules) - before if _is_theirs(sys.modules[name], roots)
        ]

    try:
        yield imported
    finally:
        sys.dont_write_bytecode = quiet
        for root in roots:
            sys.path.remove(root)
            sys.path_importer_cache.pop(root, None)
        for module in imported():
            del sys.modules[module.__name__]  # what isn't there is pickled by value


def _is_theirs(module: ModuleType, roots: list[str]) -> bool:
    file = getattr(module, "__file__", None) or next(iter(getattr(module, "__path__", ())), "")
    return lies_below(str(file), roots) and not module.__name__.startswith(_PREFIX)


def lies_below(file: str, roots: Iterable[str]) -> bool:
    """Whether a file of Python's is the project's own: below one of its folders, and not installed there."""
    inside = any(file.startswith(f"{root}{os.sep}") for root in roots)
    return inside and "site-packages" not in file and not file.startswith(f"{_LADING}{os.sep}")


def _load(path: str, name: str, table: str) -> Callable[..., Any]:
    module = _run_file(path, table)
    function = getattr(module, name, None)
    if inspect.isfunction(function):
        return function
    there = [key for key, value in vars(module).items() if _is_own(value, module)]
    listed = ", ".join(there) or "none"
    raise TransformError(
        f"{path} has no function {name!r}; it has: {listed}",
        hint=f"set tables.{table}.transform to one of them, or add the function",
        table=table,
        file=path,
    )


def _is_own(value: object, module: ModuleType) -> bool:
    return inspect.isfunction(value) and value.__module__ == module.__name__ and value.__name__[0] != "_"


def _run_file(path: str, table: str) -> ModuleType:
    module = ModuleType(f"{_PREFIX}{xxhash.xxh3_64_hexdigest(path.encode())}")
    module.__file__ = path
    sys.modules[module.__name__] = module  # dataclasses and pickling look their module up
    cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    try:
        exec(compile(Path(path).read_bytes(), path, "exec"), module.__dict__)
    except OSError as error:
        raise TransformError(
            f"the transform {path} can't be read: {error.strerror}",
            hint=f"check tables.{table}.transform",
            table=table,
            file=path,
        ) from error
    except Exception as error:
        line = error.lineno if isinstance(error, SyntaxError) else _line_in(path, error)
        raise TransformError(
            f"{path}, line {line}: {type(error).__name__}: {_first_line(error)}",
            hint="fix the file; all of it is run before its function is called",
            table=table,
            file=path,
        ) from error
    return module


def _check(result: object, job: IngestJob) -> None:
    path, _, name = (job.transform or "").rpartition(":")
    if not isinstance(result, DataFrame):
        raise _failed(f"{name} returned {type(result).__name__}, not a DataFrame", path, job)
    doubles = {column for column in result.columns if result.columns.count(column) > 1}
    if doubles:
        raise _failed(f"{name} returned two columns named {sorted(doubles)[0]!r}", path, job)
    if SOURCE in result.columns and not isinstance(result.schema[SOURCE].dataType, st.LongType):
        found = result.schema[SOURCE].dataType.simpleString()
        raise _failed(f"{name} returned {SOURCE!r} as {found}, not as bigint", path, job)
    chance = nondeterministic(result)
    if chance is not None:
        raise TransformError(
            f"{path}: {name} uses {chance}, so each build of the table would differ",
            hint="compute it from columns of the row; if it is only text, write it differently",
            table=job.table,
            file=path,
        )


def _failed(message: str, path: str, job: IngestJob, error: Exception | None = None) -> TransformError:
    line = _line_in(path, error) if error else None
    place = f"{path}, line {line}" if line else path
    return TransformError(f"{place}: {message}", hint="fix the transform", table=job.table, file=path)


def _line_in(path: str, error: BaseException) -> int | None:
    """The deepest line of `path` that the error went through."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
    return lines[-1] if lines else None


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or "no message").splitlines()[0]
