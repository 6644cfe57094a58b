"""Which binlog file a position is in: a name alone is used again after RESET MASTER, and by other servers. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FileIdentity:
    """A binlog file as its FORMAT_DESCRIPTION names it, which stays the same however often the file is sent.

    ``server_id``: of the server that wrote it. ``created``: when it began (unix seconds).
    """

    name: str
    server_id: int
    created: int

    def __str__(self) -> str:
        return f"{self.name}, created at {self.created} (unix time) by server_id {self.server_id}"

    def stored(self) -> str:
        """The text of which :func:`stored_identity` makes it again."""
        return f"{self.server_id} {self.created} {self.name}"


def stored_identity(text: str, name: str) -> FileIdentity | None:
    """The identity of the file ``name``; None where none is stored, or that of another file.

    A version that knows no identities moves a position and leaves the text behind.
    """
    server_id, _, rest = text.partition(" ")
    created, _, file = rest.partition(" ")
    if file != name or not (server_id.isdigit() and created.isdigit()):
        return None
    return FileIdentity(file, int(server_id), int(created))
