#!/usr/bin/env bash
# Installs what a new Debian or Ubuntu machine lacks, then the project into .venv. It is safe to run again: it does
# nothing if everything is installed. `make demo` and `make test` call it.
# It prints one line per step with its duration; the output of the commands goes to a log file, which is shown when a
# step fails.
set -euo pipefail
cd "$(dirname "$0")/.."

log=""
ticker=""
stop_ticker() {
  [ -z "$ticker" ] || { kill "$ticker" 2>/dev/null; wait "$ticker" 2>/dev/null || true; }
  ticker=""
}
trap 'stop_ticker; [ -z "$log" ] || rm -f "$log"' EXIT
trap 'stop_ticker; echo >&2; echo "setup: interrupted" >&2; exit 130' INT TERM

# step TEXT COMMAND…: runs the command quietly.
step() {
  local text="$1" began=$SECONDS status=0
  shift
  [ -n "$log" ] || log="$(mktemp "${TMPDIR:-/tmp}/dm-setup-XXXXXX.log")"
  printf 'setup: %s … ' "$text" >&2
  if [ -t 2 ]; then
    (
      while sleep 1; do printf '\rsetup: %s … %d s ' "$text" $((SECONDS - began)) >&2; done
    ) &
    ticker=$!
  fi
  "$@" >>"$log" 2>&1 || status=$?
  stop_ticker
  if [ "$status" = 0 ]; then
    if [ -t 2 ]; then printf '\rsetup: %s … ' "$text" >&2; fi
    echo "done in $((SECONDS - began)) s" >&2
    return
  fi
  echo "failed after $((SECONDS - began)) s" >&2
  tail -n 25 "$log" | sed 's/^/  /' >&2
  echo "setup: the whole output is in $log" >&2
  log=""
  exit "$status"
}

need=()
have() { command -v "$1" >/dev/null 2>&1 || [ -x "/usr/sbin/$1" ]; }
have mariadbd || need+=(mariadb-server)
have mariadb-dump || need+=(mariadb-client)
have etcd || need+=(etcd-server)
have java || need+=(openjdk-17-jre-headless)
have make || need+=(make)
# The compiled kernel: a C compiler, and Python's headers (below).
have cc || need+=(gcc libc6-dev)
have setpriv || need+=(util-linux)
[ -e /usr/lib/x86_64-linux-gnu/libaio.so.1 ] || [ -e /usr/lib/x86_64-linux-gnu/libaio.so.1t64 ] || need+=(libaio1)
# The tests' MySQL servers come from npm and from Maven Central.
have npm || need+=(npm)
[ -e /etc/ssl/certs/ca-certificates.crt ] || need+=(ca-certificates)
if [ "${1:-}" = test ] || [ "${1:-}" = bench ]; then
  have mydumper || need+=(mydumper)
fi
if [ "${1:-}" = test ]; then
  # With the sanitizers' libraries, which come with it; `cc` may be another compiler.
  have gcc || need+=(gcc)
  # pt-online-schema-change.
  have pt-online-schema-change || need+=(percona-toolkit)
  # MariaDB 11.8 comes from Debian's packages of a later release, which are unpacked beside this system.
  have mmdebstrap || need+=(mmdebstrap)
  [ -e /usr/share/keyrings/debian-archive-keyring.gpg ] || need+=(debian-archive-keyring)
  # The statements of MariaDB's own tests.
  [ -d /usr/share/mysql/mysql-test/main ] || need+=(mariadb-test-data)
fi
if [ "${1:-}" = kubernetes ]; then
  have containerd || need+=(containerd)
  have runc || need+=(runc)
  have iptables || need+=(iptables)
  have curl || need+=(curl)
  # The programs with which containerd creates the network of pods.
  [ -x /usr/lib/cni/bridge ] || need+=(containernetworking-plugins)
fi
if [ "${1:-}" = containers ] || [ "${1:-}" = kubernetes ]; then
  have docker || need+=(docker.io)
  if ! docker version >/dev/null 2>&1; then
    # No engine runs: the tests start one.
    have dockerd || need+=(docker.io)
    have iptables || need+=(iptables)
  fi
  # For base images where no image registry answers, and for Compose 2 where it is missing.
  have mmdebstrap || need+=(mmdebstrap)
  [ -e /usr/share/keyrings/debian-archive-keyring.gpg ] || need+=(debian-archive-keyring)
fi
if [ "${1:-}" = pictures ] || [ "${1:-}" = test ]; then
  have chromium || need+=(chromium)
  have chromedriver || need+=(chromium-driver)
fi

python=""
for candidate in python3.13 python3.12 python3.11 python3; do
  if have "$candidate" && "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    python="$candidate"
    break
  fi
done
[ -n "$python" ] || { need+=(python3); python=python3; }
"$python" -c 'import ensurepip, venv' 2>/dev/null || need+=(python3-venv)
"$python" -c 'import os, sys, sysconfig; sys.exit(not os.path.exists(sysconfig.get_path("include") + "/Python.h"))' \
  2>/dev/null || need+=(python3-dev)

if [ "${#need[@]}" -gt 0 ]; then
  sudo=""
  [ "$(id -u)" = 0 ] || sudo="sudo"
  have apt-get || { echo "setup: please install: ${need[*]}" >&2; exit 1; }
  # A command that asks for a password must not run silently.
  [ -z "$sudo" ] || $sudo true
  step "reading the lists of packages" $sudo apt-get update -qq
  # Debian starts services after their installation; the tests run their own servers and do not need them.
  step "installing ${need[*]}" \
    $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${need[@]}"
fi

stamp=.venv/.installed
wanted="$(cat pyproject.toml setup.py pkg/native/*/*.[ch] | sha256sum | cut -d' ' -f1)"
if [ ! -e "$stamp" ] || [ "$(cat "$stamp")" != "$wanted" ]; then
  [ -x .venv/bin/python ] || step "creating .venv with $("$python" --version)" "$python" -m venv .venv
  step "installing Python packages and compiling the kernel (PySpark alone is 460 MB)" \
    .venv/bin/python -m pip install -q --disable-pip-version-check -e '.[dev]'
  echo "$wanted" >"$stamp"
fi
# An archive that halves the start time of Spark's JVM. Java uses it only for the same jars and the same Java.
archive=.venv/share/dm-spark/spark-classes.jsa
wanted="$wanted $(java -version 2>&1)"
if [ ! -e "$archive" ] || [ "$(cat "$archive.for" 2>/dev/null)" != "$wanted" ]; then
  step "writing Spark's class archive, for fast starts" .venv/bin/python -m dm_worker.engine.class_archive
  echo "$wanted" >"$archive.for"
fi
