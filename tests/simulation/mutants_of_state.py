"""Deliberate defects in how a table's state is kept: its pages, its checkpoints, and `minus`."""

from __future__ import annotations

from typing import Any

import msgspec

from simulation.kernel import current_task
from simulation.mutant import Mutant, Swap


def _page_shared(swap: Swap) -> None:
    """A page that begins as an old one did is taken for that one."""
    import lading.state.settle as settle

    real = settle.edited

    def edited(refs: Any, load: Any, edit: Any) -> Any:
        known = {ref.first: number for number, ref in enumerate(refs)}
        pages = real(refs, load, edit)
        return [one if isinstance(one, int) else known.get(one.ref.first, one) for one in pages]

    swap(settle, "edited", edited)


def _pages_forgotten(swap: Swap) -> None:
    import lading.upkeep.clean.survey as survey

    swap(survey, "named_pages", lambda table: [])


def _pages_not_synced(swap: Swap) -> None:
    from lading.storage.folder import FolderStorage

    def put(self: Any, files: Any) -> None:
        for name, data in files.items():
            path = self.path(name)
            path.parent.mkdir(parents=True, exist_ok=True)
            with open(path, "wb") as file:
                file.write(data)

    swap(FolderStorage, "put_same", put)


def _who() -> Any:
    """The process whose turn it is; None outside of the world."""
    task = current_task()
    return None if task is None else task.process


def _root_first(swap: Swap) -> None:
    """The checkpoint that names pages is written before they are."""
    import lading.log.checkpoint as checkpoint
    from lading.state.shelf import PageShelf

    late: list[tuple[Any, Any, Any]] = []  # by whom, and what
    real_put = swap(PageShelf, "put", lambda self, pages: late.append((_who(), self, pages)))

    def then(write: Any) -> Any:
        def done(*args: Any) -> Any:
            written = write(*args)
            mine = [one for one in late if one[0] is _who()]
            late[:] = [one for one in late if one[0] is not _who()]  # the dead write nothing any more
            for _, shelf, pages in mine:
                real_put(shelf, pages)
            return written

        return done

    swap(checkpoint, "write_atomic", then(checkpoint.write_atomic))
    swap(checkpoint, "put_checkpoint", then(checkpoint.put_checkpoint))


def _failed_for_a_checkpoint(swap: Swap) -> None:
    from lading.log.table import Table

    real = swap(Table, "checkpoint_if_due", lambda self: due(self))

    def due(self: Any) -> bool:
        import lading.log.table as table

        commits = self.state.sequence - self.checkpoint_sequence
        if commits >= table.CHECKPOINT_EVERY:
            self.checkpoint()
            return True
        return bool(real(self))


def _minus_lost_in_a_fold(swap: Swap) -> None:
    import lading.log.table as table
    import lading.upkeep.merge as merge

    swap(merge, "_as_of_now", lambda table, planned: planned)
    real = table.refuse_conflicts

    def careless(commit: Any, since: Any, recipe: str, relies_on: Any = ()) -> None:
        real(commit, [one for one in since if not one.minus], recipe, relies_on)

    swap(table, "refuse_conflicts", careless)


def _minus_uncounted(swap: Swap) -> None:
    """Readers read the rows that a `minus` takes away."""
    import lading.read.scan as scan

    real = scan.read_part

    def read(root: Any, member: Any, *args: Any, **options: Any) -> Any:
        return real(root, msgspec.structs.replace(member, minus=()), *args, **options)

    swap(scan, "read_part", read)


def _folders_are_durable(swap: Swap) -> None:
    from lading.storage.folder import FolderStorage, make_dirs

    swap(FolderStorage, "_make_durable", lambda self, folder: make_dirs(folder))


def _unsynced_frame_shown(swap: Swap) -> None:
    from lading.log.table import Table

    swap(Table, "make_durable", lambda self: None)


OF_STATE = (
    Mutant(
        "a frame shown that its writer did not sync", ("tabling",), _unsynced_frame_shown, "folder", "write"
    ),
    Mutant("a folder that is there taken for durable", ("tabling",), _folders_are_durable, "folder", "mkdir"),
    Mutant("a page shared after a change", ("collecting", "tabling"), _page_shared),
    Mutant("cleaning that forgets the pages of checkpoints", ("tabling",), _pages_forgotten, None, "strike"),
    Mutant("an fsync of a page left out", ("collecting", "tabling"), _pages_not_synced, "folder"),
    Mutant("a checkpoint before its pages", ("collecting",), _root_first),
    Mutant("a commit told as failed for want of a checkpoint", ("collecting",), _failed_for_a_checkpoint),
    Mutant("a minus lost in a fold", ("tabling",), _minus_lost_in_a_fold),
    Mutant("a minus that readers don't know", ("tabling",), _minus_uncounted),
)
