from __future__ import annotations

import math
import os
import pickle
import subprocess
import sys
import time
from concurrent.futures import CancelledError, as_completed
from pathlib import Path
from unittest import mock

from bursar import Executor, JobFailed

from .support import ServerTest

# The job has a part of this module: it imports bursar, which the system does not have, and .support, which is sent along.

#: A script, as a user writes it: it imports bursar, which the system does not have, and has no guard against a second run.
SCRIPT = """
from __future__ import annotations
import functools, math, os.path, sys, typing
from random import random
from dataclasses import dataclass
from bursar import Bursar, Executor
if typing.TYPE_CHECKING:
    from nowhere import Missing
if sys.argv[1:] == ["plain"]:
    sys.modules["cloudpickle"] = None
import helper

SCALE = 10
@dataclass
class Point:
    x: float
    def norm(self) -> Missing:
        return math.hypot(self.x, SCALE)
ORIGIN = Point(1)

@functools.lru_cache(maxsize=None)
def zero(x):
    return sum([0]) if random() < 2 else x

def shift(point: Missing, by=SCALE):
    return Point(zero(1) + point.x + by + ORIGIN.x + helper.one())

with Executor(Bursar(), system="hpc_one", runtime=0.1) as executor:
    print(executor.submit(shift, Point(2)).result(), os.path.basename(executor.submit(Point.norm, ORIGIN).result().hex()))
"""

#: The same as in a notebook: the functions have a source, but __main__ has no file.
NOTEBOOK = """
import linecache, sys
sys.modules["cloudpickle"] = None
from bursar import Bursar, Executor
cell = "import math\\nFACTOR = 3\\ndef area(r):\\n    return round(math.pi * FACTOR * r)\\n"
linecache.cache["<cell-1>"] = (len(cell), None, cell.splitlines(True), "<cell-1>")
exec(compile(cell, "<cell-1>", "exec"))
del globals()["__file__"]
with Executor(Bursar(), system="hpc_two", runtime=0.1) as executor:
    print(executor.submit(area, 2).result())
"""


def raise_key_error(name: str) -> None:
    raise KeyError(name)


class ExecutorTest(ServerTest):
    def test_twenty_calls_run_at_the_same_time(self) -> None:
        with Executor(self.bursar, system="hpc_one", runtime=0.1) as executor:
            futures = {executor.submit(pow, 2, i): i for i in range(18)}
            mapped = executor.map(math.gcd, [12, 18], [18, 27])
            for future in as_completed(futures):
                self.assertEqual(future.result(), 2 ** futures[future])
            self.assertEqual(list(mapped), [6, 9])
        with self.assertRaises(RuntimeError):
            executor.submit(pow, 1, 1)

    def test_exceptions_and_results_that_cannot_be_pickled_come_back_as_errors(self) -> None:
        with mock.patch.dict(sys.modules, {"cloudpickle": None}), Executor(
            self.bursar, system="hpc_two", delete_files=True, runtime=0.1
        ) as executor:
            failing = executor.submit(raise_key_error, "missing")
            module = executor.submit(__import__, "math")
            killed = executor.submit(os.kill, 0, 9)
            with self.assertRaises(pickle.PicklingError) as refused:
                executor.submit(lambda: 1)
            self.assertIn("cloudpickle", str(refused.exception))
            with self.assertRaises(KeyError) as raised:
                failing.result()
            self.assertEqual(raised.exception.args, ("missing",))
            self.assertIn("raise_key_error", str(raised.exception.__cause__))
            with self.assertRaisesRegex(RuntimeError, "module cannot be sent back"):
                module.result()
            with self.assertRaises(JobFailed) as died:
                killed.result()
            self.assertEqual(died.exception.code, "failed")
        assert failing.job is not None
        self.assertEqual(failing.job.refresh().stage, "DELETED")

    def test_a_cancelled_call_cancels_its_job(self) -> None:
        executor = Executor(self.bursar, system="hpc_one", max_jobs=1, runtime=0.1)
        running = executor.submit(time.sleep, 100)
        waiting = executor.submit(pow, 2, 2)
        while not running.running():
            time.sleep(0.02)
        executor.shutdown(wait=False, cancel_futures=True)
        self.assertTrue(waiting.cancelled(), "it has not started")
        self.assertFalse(running.done())
        self.assertTrue(running.cancel())
        with self.assertRaises(CancelledError):
            running.result()
        executor.shutdown()
        assert running.job is not None
        self.assertEqual(running.job.wait().stage, "CANCELED")
        self.assertIsNone(waiting.job)

    def test_ctrl_c_in_the_block_cancels_its_jobs(self) -> None:
        with self.assertRaises(KeyboardInterrupt):
            with Executor(self.bursar, system="hpc_one", runtime=0.1) as executor:
                future = executor.submit(time.sleep, 100)
                while future.job is None:
                    time.sleep(0.02)
                raise KeyboardInterrupt
        self.assertTrue(future.cancelled())
        self.assertEqual(future.job.wait().stage, "CANCELED")

    def test_functions_of_a_script_and_of_a_notebook_are_sent_along(self) -> None:
        folder = self.write(
            {"script.py": SCRIPT, "helper.py": "def one():\n    return 1\n", "notebook.py": NOTEBOOK}, "project"
        )
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent.parent), *sys.path[1:]])}
        processes = [
            subprocess.Popen(
                [sys.executable, *arguments], cwd=folder, env=environment, stdout=subprocess.PIPE, text=True
            )
            for arguments in (["script.py", "plain"], ["script.py"], ["notebook.py"])
        ]
        outputs = [process.communicate()[0] for process in processes]
        expected = f"Point(x=14) {math.hypot(1, 10).hex()}\n"
        self.assertEqual(outputs, [expected, expected, f"{round(math.pi * 6)}\n"])
