"""Hazard: the embedded Spark writes to our output, outlives its JVM, cannot be cancelled, or loads grpc in forks.

Each test runs a script in its own process, because a process has one SparkContext.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from deploy.local.cluster import environment


def run(script: str, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    prelude = (
        "import os, signal, sys, threading, time\n"
        "from pathlib import Path\n"
        "from pkg.process import log\n"
        "log.setup(level='debug', file='log')\n"
        "from dm_worker.engine.engine import SparkEngine\n"
        f"engine = SparkEngine(slots=2, folder=Path({str(tmp_path)!r}))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", prelude + script],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done


def test_nothing_is_printed_and_nothing_left_behind(tmp_path: Path) -> None:
    done = run(
        "rdd = engine.context().parallelize(range(4), 2)\n"
        "assert rdd.map(lambda x: (x % 2, x)).groupByKey().count() == 2\n"
        "assert list(Path('.').glob('dm-worker-*/blockmgr-*'))\n"
        "engine.close()\n",
        tmp_path,
    )
    assert (done.stdout, done.stderr) == ("", "")
    assert [path.name for path in tmp_path.iterdir()] == ["log"]
    assert '["spark"]' in (tmp_path / "log").read_text(), "what the JVM says is in the log"


def test_python_workers_import_our_modules_but_never_grpc(tmp_path: Path) -> None:
    run(
        "def modules(_):\n"
        "    import dm_worker.engine.engine, dm_worker.subtask.unit, sys\n"
        "    return sorted(name for name in sys.modules if name.split('.')[0] in ('grpc', 'dm_worker'))\n"
        "names = engine.context().parallelize([0], 1).map(modules).first()\n"
        "assert 'dm_worker.subtask.unit' in names and 'grpc' not in names, names\n"
        "engine.close()\n",
        tmp_path,
    )


def test_python_workers_are_forked_with_the_task_code_loaded(tmp_path: Path) -> None:
    run(
        "def parent(_):\n"
        "    import os, sys, random\n"
        "    command = open(f'/proc/{os.getppid()}/cmdline').read()\n"
        "    import threading; time.sleep(1)\n"
        "    return [('dm_worker.engine.python_daemon' in command, threading.active_count(), random.random())]\n"
        "found = engine.context().parallelize([0, 1], 2).mapPartitions(parent).collect()\n"
        "assert [(ours, threads) for ours, threads, _ in found] == [(True, 1)] * 2, found\n"
        "assert found[0][2] != found[1][2], 'forked workers draw random numbers of their own'\n"
        "def loaded(_):\n"
        "    import sys\n"
        "    names = ('dm_worker.syncer.execution.spark_tasks', 'dm_worker.dumper.dump_task', 'grpc')\n"
        "    return [name in sys.modules for name in names]\n"
        "found = engine.context().parallelize([0], 1).mapPartitions(loaded).collect()\n"
        "assert found == [True, True, False], found\n"
        "engine.close()\n",
        tmp_path,
    )


def test_a_fresh_python_worker_has_nothing_left_to_import(tmp_path: Path) -> None:
    """A large batch forks many at once: what each imports by itself, all wait for."""
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys; from dm_worker.engine.python_daemon import preload; preload(); print(*sys.modules)",
        ],
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    (tmp_path / "preloaded").write_text(done.stdout)
    run(
        "def state(_):\n"
        "    import sys\n"
        "    files = [getattr(module, '__file__', None) or '' for module in list(sys.modules.values())]\n"
        "    archived = [file for file in (*files, *sys.path) if '.zip/' in file or file.endswith('.jar')]\n"
        "    return [(archived, set(sys.modules), len(os.listdir('/proc/self/task')))]\n"
        "archived, modules, threads = engine.context().parallelize([0], 1).mapPartitions(state).first()\n"
        "assert archived == [], archived\n"
        "late = modules - set(Path('preloaded').read_text().split())\n"
        "assert late <= {'pyspark.daemon', 'runpy'}, late\n"
        "assert threads == 1, 'what is loaded before a fork starts no thread'\n"
        "Path('preloaded').unlink()\n"
        "engine.close()\n",
        tmp_path,
    )


def test_a_dead_jvm_is_replaced_without_output_on_stderr(tmp_path: Path) -> None:
    done = run(
        "context = engine.context()\n"
        "first = engine.jvm_pid\n"
        "os.kill(first, signal.SIGKILL)\n"
        "while engine.jvm_pid: time.sleep(0.01)\n"
        "engine.cancel('any')\n"
        "try:\n"
        "    context.parallelize([0], 1).count()\n"
        "    raise SystemExit('a dead JVM answered')\n"
        "except SystemExit: raise\n"
        "except Exception: pass\n"
        "assert engine.context().parallelize([0, 1], 2).count() == 2\n"
        "assert engine.jvm_pid not in (0, first)\n"
        "engine.close()\n",
        tmp_path,
    )
    assert (done.stdout, done.stderr) == ("", "")


def test_cancel_ends_the_jobs_of_one_group_only(tmp_path: Path) -> None:
    run(
        "results, here = {}, os.getcwd()\n"
        "def job(group):\n"
        "    def work(_):\n"
        "        Path(here, group).touch()\n"
        "        while not Path(here, 'go on').exists(): time.sleep(0.05)\n"
        "    try:\n"
        "        with engine.job_group(group) as context:\n"
        "            context.parallelize([0], 1).foreach(work)\n"
        "        results[group] = 'done'\n"
        "    except Exception as exc:\n"
        "        results[group] = 'cancelled' if 'cancel' in str(exc).lower() else repr(exc)\n"
        "engine.context()\n"
        "threads = [threading.Thread(target=job, args=(name,)) for name in ('one', 'other')]\n"
        "for thread in threads: thread.start()\n"
        "while not all(Path(name).exists() for name in ('one', 'other')): time.sleep(0.05)\n"
        "engine.cancel('one')\n"
        "threads[0].join()\n"
        "Path('go on').touch()\n"
        "threads[1].join()\n"
        "found = engine.figures()\n"
        "assert (found.ended, found.failed, found.canceled) == (1, 0, 1), found\n"
        "assert results == {'one': 'cancelled', 'other': 'done'}, results\n"
        "found = engine.figures()\n"
        "assert (found.ended, found.failed, found.canceled) == (1, 0, 1), found\n"
        "engine.close()\n",
        tmp_path,
    )


def test_results_of_a_job_are_those_of_collect_and_no_class_is_looked_for_by_name(tmp_path: Path) -> None:
    """Py4j looked for five classes in all packages and jars of Spark, for each job."""
    run(
        "from py4j import clientserver\n"
        "from py4j.protocol import Py4JError\n"
        "context, sent = engine.context(), []\n"
        "send = clientserver.ClientServerConnection.send_command\n"
        "def noted(connection, command):\n"
        "    sent.append(command)\n"
        "    return send(connection, command)\n"
        "clientserver.ClientServerConnection.send_command = noted\n"
        "many = context.parallelize([(number, 'x' * 9) for number in range(3000)], 4)\n"
        "odd = many.mapPartitionsWithIndex(lambda number, rows: rows if number % 2 else [])\n"
        "assert context.runJob(odd, list) == odd.collect() and len(odd.collect()) == 1500\n"
        "placed = odd.map(lambda row: (row[0] % 3, 1)).partitionBy(3)\n"
        "assert context.runJob(placed, lambda rows: [len(list(rows))]) == [500] * 3\n"
        "assert context.runJob(odd, list, [1]) == odd.collect()[:750]\n"
        "assert context.runJob(context.parallelize([], 2), list) == []\n"
        "sent.clear()\n"
        "with engine.job_group('g') as context:\n"
        "    assert context.runJob(context.parallelize([[b'x']], 1), list) == [[b'x']]\n"
        "looked = [command for command in sent if command.startswith('r\\n')]\n"
        "assert sent and not looked, looked\n"
        "try:\n"
        "    context.runJob(many, lambda rows: [1 // 0])\n"
        "except Py4JError as exc:\n"
        "    assert 'ZeroDivisionError' in str(exc), exc\n"
        "else:\n"
        "    raise AssertionError\n"
        "engine.close()\n",
        tmp_path,
    )


def test_setting_that_spark_refuses_is_named_instead_of_a_lost_connection(tmp_path: Path) -> None:
    run(
        "engine._conf['spark.driver.memory'] = '128m'\n"
        "from pkg.errors import DMError\n"
        "try:\n"
        "    engine.context()\n"
        "except DMError as exc:\n"
        "    assert 'Insufficient driver memory' in exc.message, exc\n"
        "    assert 'driver-memory' in exc.workaround, exc\n"
        "else:\n"
        "    raise AssertionError\n"
        "engine._conf['spark.driver.memory'] = '480m'\n"
        "assert engine.context().parallelize([1], 1).count() == 1\n"
        "engine.close()\n",
        tmp_path,
    )


def test_a_written_class_archive_serves_another_start(tmp_path: Path) -> None:
    """Java would go without one that does not fit, and only the time of a start would show it."""
    archive, loaded = tmp_path / "spark-classes.jsa", tmp_path / "loaded"
    run(
        f"from dm_worker.engine.class_archive import write_archive\nwrite_archive(Path({str(archive)!r}))\n",
        tmp_path,
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log", archive.name]
    run(
        f"options = '-XX:SharedArchiveFile={archive} -Xlog:class+load:file={loaded}'\n"
        "engine._conf |= {'spark.driver.extraJavaOptions': options, 'spark.driver.memory': '600m'}\n"
        "assert engine.context().parallelize([1], 1).count() == 1\n"
        "engine.close()\n",
        tmp_path,
    )
    (found,) = re.findall(r" org\.apache\.spark\.SparkContext source: (.*)", loaded.read_text())
    assert found == "shared objects file (top)"
