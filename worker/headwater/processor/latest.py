"""Changes of versioned tables that a newer version of their key came before (KIP-914).

A stream of the table has them, and what is made of it record by record. What joins or groups the
table wants to know only what holds now.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater.ports import NotLatest

if TYPE_CHECKING:
    from headwater.processor.code import Code, Emit, Names
    from headwater.processor.compiling import Site


def latest_only(site: Site, emit: Emit, *, is_counted: bool = True) -> Emit:
    """Drop, and count, changes that are not the latest, if the table above is versioned.

    Args:
        site: of the node.
        emit: what the others go on to.
        is_counted: whether they count as dropped. For joins they do; a grouping lets them go and
            says nothing (Kafka's ``KTableRepartitionMap``).
    """
    if not site.tables.is_versioned(site.node.parents[0]):
        return emit
    why = "out-of-order record from versioned table while performing table-table join"
    skip = site.environment.skipping(f"node {site.node.name}", why)

    def emit_latest(code: Code, names: Names) -> Names | None:
        outdated = code.bind(NotLatest, "NotLatest")
        drop = f"    {code.bind(skip, 'drop')}()\n" if is_counted else ""
        code.line(f"if {names[1]}.__class__ is {outdated}:\n{drop}    {code.skip}")
        return emit(code, names)

    return emit_latest
