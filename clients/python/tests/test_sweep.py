from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path
from unittest import mock

from bursar import SweepJob
from bursar._sweep import _folder_name

from .support import ServerTest


class SweepTest(ServerTest):
    def test_each_combination_becomes_one_job_also_if_it_is_called_again(self) -> None:
        folder = self.write({"run.sh": '#!/bin/sh\necho "$1" "$2" | tee result.txt\n'})
        params = {"a": [1, 2], "b": ["x", "y z"]}
        settings = dict(system="hpc_one", command="sbatch run.sh {a} '{b}'", title="a={a}", runtime=0.1)
        sweep = self.bursar.sweep(folder, params, **settings).wait(check=True)  # type: ignore[arg-type]
        self.assertEqual([item.params for item in sweep], [{"a": a, "b": b} for a in (1, 2) for b in ("x", "y z")])
        self.assertEqual([job.log() for job in sweep.jobs], ["1 x\n", "1 y z\n", "2 x\n", "2 y z\n"])
        self.assertEqual(sweep[2].job.title, "a=2")
        again = self.bursar.sweep(folder, {"a": [1, 2, 3], "b": ["x", "y z"]}, max_running=2, **settings)  # type: ignore[arg-type]
        self.assertEqual(again.jobs[:4], sweep.jobs, "a sweep can be extended")
        self.assertEqual(len(set(again.jobs)), 6)
        self.assertRegex(repr(again), r"^a +b +job_id +stage\n1 +x ")
        self.assertIn("<td>y z</td>", again._repr_html_())
        results = sweep.download(self.folder / "results")
        self.assertIn("a=1,b=x", results)
        self.assertEqual((self.folder / "results/a=1,b=x/result.txt").read_text(), "1 x\n")
        self.assertEqual(len(list((self.folder / "results").iterdir())), 4)

    def test_values_may_be_numpy_arrays_and_generators(self) -> None:
        class Integer:  # All that the client uses of numpy.int64, which JSON cannot represent.
            def item(self) -> int:
                return 7

        settings = dict(system="hpc_one", command="echo {a} {b}", runtime=0.1, name=f"arrays {uuid.uuid4()}")
        params = {"a": [Integer()], "b": (character for character in "xy")}
        sweep = self.bursar.sweep(None, params, **settings)  # type: ignore[arg-type]
        self.assertEqual([item.params for item in sweep], [{"a": 7, "b": "x"}, {"a": 7, "b": "y"}])
        for wrong in ({}, {"a": []}, {"a": "text"}, {"a": 5}):
            with self.assertRaisesRegex(ValueError, "params= needs"):
                self.bursar.sweep(None, wrong, **settings)  # type: ignore[arg-type]

    def test_a_folder_of_results_has_a_short_name(self) -> None:
        names = {_folder_name(SweepJob({"a": value}, mock.Mock())) for value in ("ä" * 200, "ö" * 200, "../x", 0.1)}
        self.assertEqual(len(names), 4)
        self.assertIn("a=0.1", names)
        self.assertTrue(all(len(name) < 140 and "/" not in name for name in names))

    def test_failed_combinations_are_submitted_again_only_on_request(self) -> None:
        settings = dict(system="hpc_one", command="exit {code}", runtime=0.1, name=f"exit codes {uuid.uuid4()}")
        first = self.bursar.sweep(None, {"code": [0, 1]}, **settings).wait()  # type: ignore[arg-type]
        self.assertEqual(self.bursar.sweep(None, {"code": [0, 1]}, **settings).jobs, first.jobs)  # type: ignore[arg-type]
        retried = self.bursar.sweep(None, {"code": [0, 1]}, retry_failed=True, **settings)  # type: ignore[arg-type]
        self.assertEqual(retried.jobs[0], first.jobs[0])
        self.assertNotEqual(retried.jobs[1], first.jobs[1])

    def test_a_sweep_that_is_killed_continues_without_doubles(self) -> None:
        name = f"killed {uuid.uuid4()}"
        script = self.folder / "sweep.py"
        script.write_text(
            "from bursar import Bursar\n"
            'Bursar().sweep(None, {"i": list(range(12))}, system="hpc_one", command="echo {i}", runtime=0.1, name="%s")\n'
            % name
        )
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent.parent), *sys.path[1:]])}
        for _ in range(2):
            known = len(self.bursar.jobs(title=""))
            process = subprocess.Popen([sys.executable, str(script)], env=environment)
            while len(self.bursar.jobs(title="")) < known + 3 and process.poll() is None:
                time.sleep(0.01)
            process.send_signal(signal.SIGKILL)
            process.wait()
        sweep = self.bursar.sweep(
            None, {"i": list(range(12))}, system="hpc_one", command="echo {i}", runtime=0.1, name=name
        )
        self.assertEqual(len(set(sweep.jobs)), 12)
        tag = sweep.jobs[0].timeline().tags[0]
        self.assertEqual(len(self.bursar.jobs(tag=tag)), 12)

    def test_parameters_that_nothing_uses_are_errors(self) -> None:
        with self.assertRaisesRegex(ValueError, r"write \{b\}"):
            self.bursar.sweep(None, {"a": [1], "b": [2]}, system="hpc_one", command="echo {a}")
        with self.assertRaisesRegex(ValueError, "list of values"):
            self.bursar.sweep(None, {"a": "123"}, system="hpc_one", command="echo {a}")
        for settings in (
            dict(system="hpc_one", command="echo", title="{a}"),
            dict(system="hpc_two", tool="PYTHON3"),
            dict(system="hpc_two", tool="PYTHON3", title="{a}", tool_params={"arguments": "--a 1"}),
        ):
            with self.assertRaisesRegex(ValueError, r"write \{a\}"):
                self.bursar.sweep(None, {"a": [1, 2]}, **settings)  # type: ignore[arg-type]
        with self.assertRaisesRegex(ValueError, "no tool PYTHON. It has BASH, PYTHON3"):
            self.bursar.sweep(None, {"a": [1]}, system="hpc_two", tool="PYTHON")
        with self.assertRaisesRegex(ValueError, "arguments is given twice"):
            self.bursar.sweep(
                None, {"arguments": ["1"]}, system="hpc_two", tool="BASH", tool_params={"arguments": "2"}
            )
        self.assertEqual(self.bursar.jobs(system="hpc_two", title="{a}"), [])

    def test_a_parameter_of_the_tool_reaches_it_also_if_the_title_names_it(self) -> None:
        folder = self.write({"main.sh": 'echo "$@"\n'})
        settings = dict(system="hpc_two", tool="BASH", title="with {arguments}", runtime=0.1)
        sweep = self.bursar.sweep(folder, {"arguments": ["-a 1", "-a 2"]}, **settings).wait(check=True)  # type: ignore[arg-type]
        self.assertEqual([job.log() for job in sweep.jobs], ["-a 1\n", "-a 2\n"])
        self.assertEqual([job.title for job in sweep.jobs], ["with -a 1", "with -a 2"])
        for job in sweep.jobs:
            job.delete()
