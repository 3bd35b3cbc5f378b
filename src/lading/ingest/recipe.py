"""A table's recipe as the project says it today, and how it differs from the one that the log has."""

from __future__ import annotations

from lading.checks.relaxed import compares_floats, relaxes, rules_of
from lading.config.archives import UNZIP
from lading.config.project import Config, TableConfig
from lading.ingest.schema import layout_of
from lading.log.table import Table
from lading.model import Column
from lading.sources.manifest import SourceManifest
from lading.sources.recipe import facts_of, hashed, transform_source


def recipe_of(
    config: Config, cfg: TableConfig, columns: tuple[Column, ...], *, rules: str | None = ""
) -> str:
    """`rules` are those of other times, in the form that manifest/<table>.json keeps; empty: today's."""
    return hashed(recipe_facts(config, cfg, columns, rules=rules))


def recipe_facts(
    config: Config, cfg: TableConfig, columns: tuple[Column, ...], *, rules: str | None = ""
) -> bytes:
    """What the recipe is the hash of."""
    _, function, code = (
        transform_source(config.project, cfg.transform) if cfg.transform else (None, None, None)
    )
    rules = rules_of(cfg.checks) if rules == "" else rules
    return facts_of(
        columns=columns,
        fmt=cfg.format,
        read_options=cfg.read_options,
        columns_from_name=cfg.columns_from_name,
        order_by=cfg.order_by,
        bucket_size=cfg.bucket_size,
        transform_name=function,
        transform_code=code,
        per=cfg.per,
        preprocess=_preprocess_code(config, cfg),
        rules=rules,
        float_checks=compares_floats(rules, columns, transformed=cfg.transform is not None),
        layout=layout_of(config, cfg),
        policy=cfg.policy,
        on_bad=cfg.on_bad,
        names=cfg.naming.how,
        column_rules=cfg.rules,
    )


def _preprocess_code(config: Config, cfg: TableConfig) -> str | None:
    spec = cfg.preprocess
    if spec is None or spec.action == UNZIP:
        return None
    from lading.sources.preprocess import load_script  # late: few tables have one

    return load_script(config.project, spec).made_by


def only_relaxed(
    config: Config,
    cfg: TableConfig,
    table: Table | None,
    manifest: SourceManifest | None,
    columns: tuple[Column, ...] | None,
    current: str | None,
) -> bool:
    """Whether the recipe differs from the log's by checks alone, and those let every row of the table in:
    then only what was set aside is read again. The manifest's word on the old checks has to fit the log's
    recipe, or it doesn't count."""
    if table is None or manifest is None or columns is None or current in (None, table.state.meta.recipe):
        return False
    old = manifest.lading.get("rules")
    if not isinstance(old, str | None):
        return False
    from lading.read.scan import table_schema  # late: recipes seldom differ

    # The same columns under the same transform have the same types: if not, the recipe says so below.
    if not relaxes(old, rules_of(cfg.checks), table_schema(table.state)):
        return False
    return recipe_of(config, cfg, columns, rules=old) == table.state.meta.recipe
