"""Builds the compiled parts in ``pkg/native``: one extension module ``_<name>`` for every folder ``<name>``.

They are optional: without a C compiler the installation goes on, and the pure Python code does the same work.
``DM_KERNEL=native`` makes a failed compilation an error; ``DM_KERNEL=python`` compiles nothing.
Everything else about the package is in pyproject.toml.
"""

import os
import runpy
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

FOLDER = Path("pkg/native")
#: For example "-fsanitize=address,undefined", see pkg/native/README.md.
EXTRA = os.environ.get("DM_NATIVE_CFLAGS", "").split()
#: As when the programs run: "native", "python", or empty for what is possible.
KERNEL = os.environ.get("DM_KERNEL", "")
files = runpy.run_path(str(FOLDER / "sources.py"))
PARTS = sorted({path.parent.name for path in FOLDER.glob("*/*.c")} - {files["COMMON"]})


class KernelBuild(build_ext):
    """Builds everything each time: file times do not show that flags changed or that a header is gone."""

    def initialize_options(self) -> None:
        super().initialize_options()
        self.force = True


setup(
    cmdclass={"build_ext": KernelBuild},
    ext_modules=[
        Extension(
            f"pkg.native._{part}",
            [str(path) for path in files["sources"](FOLDER, part)],
            depends=[str(path) for path in files["headers"](FOLDER, part)],
            define_macros=[("DM_SOURCES", f'"{files["digest"](FOLDER, part)}"')],
            # Functions that one part's files share are not seen outside of it.
            extra_compile_args=["-O3", "-std=c11", "-fvisibility=hidden", "-Wall", "-Wextra", *EXTRA],
            extra_link_args=EXTRA,
            optional=KERNEL != "native",
        )
        for part in (PARTS if KERNEL != "python" else ())
    ],
)
