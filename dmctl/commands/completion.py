"""completion: lets a shell complete dmctl's commands and flags."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from dmctl.commands.command import DMCommand
from dmctl.options import COMPLETION_VARIABLE

SHELLS = ("bash", "fish", "zsh")
PROGRAM = "dmctl"


@click.command("completion", cls=DMCommand)
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Prints the script that lets a shell complete dmctl's commands.

    \b
    bash:  source <(dmctl completion bash)              in ~/.bashrc
    zsh:   source <(dmctl completion zsh)               in ~/.zshrc
    fish:  dmctl completion fish | source               in ~/.config/fish/config.fish
    """
    kind = get_completion_class(shell)
    assert kind is not None, shell
    click.echo(kind(click.Group(), {}, PROGRAM, COMPLETION_VARIABLE).source())
