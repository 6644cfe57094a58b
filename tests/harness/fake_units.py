"""Units for tests of the worker: they do no work, write a journal, and end when a file appears.

Run as a module, this is a dm-worker with such units: ``python -m tests.harness.fake_units --config …``. The variable
``FAKE_UNITS`` is the folder of these files. A task's unit ends successfully once ``<unit>.finish`` exists, fails once
``<unit>.fail`` does (with the file's text), ignores a graceful stop while ``<unit>.stubborn`` does, and any stop while
``<unit>.immortal`` does; it does not start its work while ``<unit>.initialising`` exists. A finished unit stays
finished: ``<unit>.finished``.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from pathlib import Path

from dm_worker.cli import serve
from dm_worker.source.unit_factory import UnitContext
from dm_worker.subtask.unit import Control, UnitOutcome
from dm_worker.syncer.figures.sync_figures import SyncFigures
from dm_worker.syncer.unit.hold import Hold
from pkg import errors
from pkg.config.model import SubTaskConfig
from pkg.errors import Code
from pkg.pb import dmworker_pb2 as pb

NAMES = {pb.Dump: "dump", pb.Load: "load", pb.Sync: "sync"}


class FakeUnit:
    """Acts as one unit."""

    received_bytes = 0

    def __init__(self, unit_type: pb.UnitType, config: SubTaskConfig, folder: Path) -> None:
        self.unit_type = unit_type
        self.name = NAMES[unit_type]
        self.config = config
        self.folder = folder
        self._control = Control()
        self._hard = False
        self.figures = SyncFigures()
        self.hold = Hold()

    def _is(self, what: str) -> bool:
        return (self.folder / f"{self.name}.{what}").exists()

    def journal(self, what: str) -> None:
        with (self.folder / "journal").open("a") as journal:
            journal.write(f"{os.getpid()} {self.name} {what}\n")

    def is_finished(self) -> bool:
        return self._is("finished")

    def run(self, control: Control | None = None) -> UnitOutcome:
        control = self._control = control or Control()
        self._hard = False
        self.journal("run")
        while self._is("initialising"):
            # As if a server did not answer: no stop has an effect.
            time.sleep(0.02)
        if not control.try_begin():
            self.journal("left alone")
            return UnitOutcome(canceled=True)
        while True:
            if self._is("fail"):
                text = (self.folder / f"{self.name}.fail").read_text()
                self.journal("failed")
                return UnitOutcome(errors=[errors.new(Code.DBExecuteFailed, text)])
            if self._is("finish"):
                (self.folder / f"{self.name}.finished").touch()
                self.journal("finished")
                return UnitOutcome(finished=True)
            time.sleep(0.02)
            if control.is_stopping() and not self._is("immortal") and (self._hard or not self._is("stubborn")):
                self.journal("canceled")
                return UnitOutcome(canceled=True)

    def stop(self, *, graceful: bool, control: Control | None = None) -> None:
        if control in (None, self._control):
            self._control.stop()
            self._hard = self._hard or not graceful

    def fill(self, status: pb.SubTaskStatus, received_before: int) -> None:
        if self.unit_type == pb.Dump:
            status.dump.progress = "50.00 %"
        elif self.unit_type == pb.Load:
            status.load.progress = "50.00 %"
        else:
            status.sync.CopyFrom(pb.SyncStatus(syncerBinlog="(mysql-bin.000003, 400)", secondsBehindMaster=7))

    def remove_meta(self) -> None:
        self.journal("remove-meta")


def make_fake(unit_type: pb.UnitType, context: UnitContext) -> FakeUnit:
    return FakeUnit(unit_type, context.config, Path(os.environ["FAKE_UNITS"]))


if __name__ == "__main__":
    code = serve(sys.argv[1:], units=make_fake)
    logging.shutdown()
    os._exit(code)
