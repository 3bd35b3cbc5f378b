"""Every name below a project, its cache included."""

from __future__ import annotations

import hashlib

CONFIG = "lading.yaml"
RUN_LOG = "logs/lading.jsonl"
WAREHOUSE = "warehouse"  # unless the config names another; a folder a table
GLOBAL_MANIFEST = "manifest/_global.json"
CACHE = ".lading_cache"
WATCHER = "_watcher.json"  # below the warehouse: the lease of the process that watches it

# Below the cache.
ARCHIVES = "archives"  # a folder an archive: see `made_folder`
PREPROCESSED = "preprocess"  # a folder a table, and the same in each
INDEXES = (
    "indexes"  # of what only tasks make: the same folders as in the two above, with nothing but an index
)
OBJECTS = "objects"  # a folder a table
AT_WORK = "at_work"  # a lock a run and table: see `work_folder`
VERIFY = "verify"  # a folder a run and table: see `work_folder`
CHECKPOINT_COPIES = "checkpoints"
PAGE_COPIES = "pages"
SHARD_COPIES = "shards"
SPARK = "spark"
SPARK_LOG = "spark/spark.log"
JAVA = "java"
TRAINING_LOCK = "training.lock"  # in there: who makes the archive of classes
GLOBAL_LOCK = "global.lock"

INDEX = ".lading-index.json"  # lading's own file in a folder that it made


def source_manifest(table: str) -> str:
    return f"manifest/{table}.json"


SINCE = ".since.jsonl"  # instead of .json: what was recorded since a large one was written


def schema_file(table: str) -> str:
    return f"schema/{table}.yaml"


def served_file(table: str) -> str:
    """Below the cache: what the table's store said last."""
    return f"served/{table}.json"


def work_folder(run_id: str, table: str) -> str:
    return f"{run_id}-{table}"


def made_folder(key: str, relative: str) -> str:
    """`yale_1950a_zip_1f2e3d4c`: the name with dots as underscores, and a hash of where it lies."""
    return f"{flat_name(key)}_{hashlib.sha256(relative.encode()).hexdigest()[:8]}"


def flat_name(name: str) -> str:
    """A file's name with dots as underscores."""
    flat = name.rpartition("/")[2].replace(".", "_")
    return flat.encode()[:200].decode(errors="ignore")
