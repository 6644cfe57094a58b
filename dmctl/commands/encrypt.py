"""encrypt."""

from __future__ import annotations

import click

from dmctl.command_context import CommandContext
from dmctl.failure import CommandError
from pkg.pb import dmmaster_pb2 as master


@click.command("encrypt")
@click.argument("plaintext")
@click.pass_obj
def encrypt(session: CommandContext, plaintext: str) -> None:
    """Encrypts a password with the cluster's secret key; differs at each call."""
    answer = session.call("Encrypt", master.EncryptRequest(plaintext=plaintext))
    if not answer.result:
        raise CommandError(answer.msg)
    session.print(answer.ciphertext)
