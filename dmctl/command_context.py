"""The context of a command: the global options, the connection, and standard output."""

from __future__ import annotations

import sys
from functools import cached_property
from typing import TYPE_CHECKING, Any

import click
from google.protobuf.message import Message

from dmctl.failure import CommandError, UsageError
from dmctl.options import GlobalOptions
from pkg.errors import DMError
from pkg.rpc import pbjson
from pkg.status.preview import preview

if TYPE_CHECKING:
    from dmctl.client import MasterClient


class CommandContext:
    """One run of ``dmctl``, or one interactive line."""

    def __init__(self, options: GlobalOptions) -> None:
        self.options = options

    @property
    def sources(self) -> list[str]:
        """The sources given with ``-s``, in order."""
        return list(self.options.sources)

    def one_source(self) -> str:
        """The only source given. Raises :class:`UsageError` if there is none or more than one."""
        if len(self.sources) != 1:
            raise UsageError(f"must specify one source (`-s` / `--source`), not {len(self.sources)}")
        return self.sources[0]

    def some_sources(self) -> list[str]:
        """The sources given. Raises :class:`UsageError` if there is none."""
        if not self.sources:
            raise UsageError("must specify at least one source (`-s` / `--source`)")
        return self.sources

    @cached_property
    def client(self) -> MasterClient:
        # gRPC takes a tenth of a second to load; help, usage errors and local checks do not need it.
        from dmctl.client import MasterClient

        return MasterClient(self.options)

    def connection_failure(self) -> str:
        """Why no master can be reached; empty if one can, and if none was named.

        DM connects first, and scripts expect this error before an error about a wrong argument.
        """
        from dmctl.client import reachable

        try:
            if self.options.masters:
                reachable(self.options.masters)
        except DMError as exc:
            return str(exc)
        return ""

    def call(self, method: str, request: Message) -> Any:
        """Sends one RPC to the master. Raises as :meth:`dmctl.client.MasterClient.call`.

        With ``--preview``, a request that would change something is described and not sent; the command ends.
        """
        described = preview(method, request) if self.options.preview else None
        if described is not None:
            self.print("\n".join([*described.lines(), "Nothing was changed."]))
            raise click.exceptions.Exit(0)
        return self.client.call(method, request)

    def run(self, method: str, request: Message) -> None:
        """Sends one RPC and shows its answer as the command's answer."""
        self.show(self.call(method, request))

    def run_or_fail(self, method: str, request: Message) -> None:
        """As :meth:`run`, but raises :class:`CommandError` when the master refuses, so that the program exits with
        1."""
        answer = self.call(method, request)
        self.show(answer)
        if not answer.result:
            raise CommandError(answer.msg)

    def show(self, message: Message) -> None:
        self.print(pbjson.to_json(message))

    def print(self, text: str) -> None:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()

    def close(self) -> None:
        if "client" in self.__dict__:
            self.client.close()
