"""Builds the compiled parts in ``pkg/native``: one extension module ``_<name>`` for every ``<name>.c``.

They are optional: without a C compiler the installation goes on, and the pure Python code does the same work.
Everything else about the package is in pyproject.toml.
"""

import os
from pathlib import Path

from setuptools import Extension, setup

SOURCES = sorted(Path("pkg/native").glob("*.c"))
HEADERS = sorted(map(str, Path("pkg/native").glob("*.h")))
#: For example "-fsanitize=address,undefined", see pkg/native/README.md.
EXTRA = os.environ.get("DM_NATIVE_CFLAGS", "").split()

setup(
    ext_modules=[
        Extension(
            f"pkg.native._{source.stem}",
            [str(source)],
            depends=HEADERS,
            extra_compile_args=["-O3", "-std=c11", "-Wall", "-Wextra", *EXTRA],
            extra_link_args=EXTRA,
            optional=True,
        )
        for source in SOURCES
    ]
)
