"""console-user."""

from __future__ import annotations

import click

from dmctl.command_context import CommandContext
from dmctl.commands.command import DMCommand


@click.command("console-user", cls=DMCommand)
@click.argument("name")
@click.pass_obj
def console_user(context: CommandContext, name: str) -> None:
    """Prints a user's line for the file that console-users-path names. It asks for the password twice.

    It sends no request to a master. See docs/console.md.
    """
    from pkg.settings.password_hash import user_line

    password = click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
    try:
        context.print(user_line(name, password))
    except ValueError as exc:
        raise click.UsageError(str(exc)) from None
