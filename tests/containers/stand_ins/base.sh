#!/usr/bin/env bash
# base.sh FILE: writes the root file system of an image like python:3.11-slim-bookworm, made of Debian's packages.
# It takes the machine's own configuration of apt and pip, and the certificates that the machine trusts: a machine that
# reaches its registries in a way of its own builds in the same way in containers.
set -euo pipefail
archive="$1"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
apt-config dump Acquire >"$work/acquire"
pip_conf=/dev/null
[ ! -f /etc/pip.conf ] || pip_conf=/etc/pip.conf
mmdebstrap --quiet --variant=minbase --aptopt="$work/acquire" --dpkgopt='path-exclude=/usr/share/man/*' \
  --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
  --include=ca-certificates,python3,python3-venv,python3-pip,python3-dev,netbase,tzdata \
  --customize-hook='ln -s python3 "$1/usr/bin/python"' \
  --customize-hook='rm -f "$1"/usr/lib/python3*/EXTERNALLY-MANAGED' \
  --customize-hook="cp '$pip_conf' \"\$1/etc/pip.conf\"" \
  --customize-hook="cp '$work/acquire' \"\$1/etc/apt/apt.conf.d/50machine\"" \
  --customize-hook='cp /etc/ssl/certs/ca-certificates.crt "$1/etc/ssl/certs/ca-certificates.crt"' \
  --customize-hook='for n in 1 2 3 4 5 6 7 8; do mkdir -p "$1/usr/share/man/man$n"; done' \
  bookworm "$archive"
