"""Builds the compiled parts in ``pkg/native``: one extension module ``_<name>`` for every ``<name>.c``.

They are optional: without a C compiler the installation goes on, and the pure Python code does the same work.
Everything else about the package is in pyproject.toml.
"""

import os
import runpy
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

FOLDER = Path("pkg/native")
SOURCES = sorted(FOLDER.glob("*.c"))
HEADERS = sorted(map(str, FOLDER.glob("*.h")))
#: For example "-fsanitize=address,undefined", see pkg/native/README.md.
EXTRA = os.environ.get("DM_NATIVE_CFLAGS", "").split()
digest = runpy.run_path(str(FOLDER / "sources.py"))["digest"]


class Build(build_ext):
    """Builds all anew: file times don't tell that flags changed or that a header went."""

    def initialize_options(self) -> None:
        super().initialize_options()
        self.force = True


setup(
    cmdclass={"build_ext": Build},
    ext_modules=[
        Extension(
            f"pkg.native._{source.stem}",
            [str(source)],
            depends=HEADERS,
            define_macros=[("DM_SOURCES", f'"{digest(FOLDER, source.stem)}"')],
            extra_compile_args=["-O3", "-std=c11", "-Wall", "-Wextra", *EXTRA],
            extra_link_args=EXTRA,
            optional=True,
        )
        for source in SOURCES
    ],
)
