"""Hazard: after kill -9 of the worker or a restart of the upstream, relay files differ from the upstream's."""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable
from pathlib import Path

from deploy.local.cluster import Cluster
from deploy.local.mysql import MariaDBServer
from tests.harness.relayed import Relayed

#: The number of kills of the worker.
KILLS = int(os.environ.get("DM_TEST_RELAY_KILLS", "2"))
SEED = int(os.environ.get("DM_TEST_SEED", "20261121"))


def test_a_killed_worker_leaves_whole_files(
    new_mariadb: Callable[..., MariaDBServer], target: MariaDBServer, tmp_path: Path
) -> None:
    upstream = new_mariadb(gtid=True)
    rng = random.Random(SEED)
    with Cluster(1, base=tmp_path, worker_extra=f'relay-dir = "{tmp_path}/relay"') as cluster:
        relayed = Relayed(cluster, upstream, target, tmp_path / "relay" / "worker1")
        relayed.start()
        for number in range(KILLS):
            writer = threading.Thread(target=relayed.write, args=(300,))
            writer.start()
            writer.join(rng.uniform(0, 0.5))
            if rng.random() < 0.7:
                upstream.execute("FLUSH BINARY LOGS")
            writer.join(rng.uniform(0, 0.5))
            cluster.workers[0].kill()
            writer.join()
            if number % 2:
                upstream.restart()
            cluster.workers[0].start()
        relayed.write(50)
        relayed.check_rows()
        relayed.check_files()
        relayed.certify()
