from __future__ import annotations

import io
import itertools
import math
import os
import pickle
import pty
import subprocess
import sys
import time
import types
import uuid
import zipfile
from contextlib import redirect_stderr
from typing import Any, List
from unittest import mock

from bursar import BursarError, JobFailed, Table

from .support import ServerTest

SCRIPT = '#!/bin/sh\necho "hello, $1"\necho problem >&2\nmkdir -p out\nprintf 12345 > "out/a b.txt"\n'


class JobTest(ServerTest):
    def setUp(self) -> None:
        super().setUp()
        self.tag = uuid.uuid4().hex

    def test_a_folder_becomes_a_job_with_log_files_and_timeline(self) -> None:
        folder = self.write({"run.sh": SCRIPT, "data/in.txt": "in", "secret.key": "k", ".bursarignore": "*.key\n"})
        job = self.bursar.submit(
            folder,
            system="hpc_one",
            project="proj_hpc_one_01",
            command="sbatch run.sh world",
            nodes=1,
            cores=2,
            runtime=0.1,
            title="Größe <b>&",
            tags=[self.tag],
        )
        self.assertEqual(job.title, "Größe <b>&")
        self.assertFalse(job.done)
        shown = io.StringIO()
        with redirect_stderr(shown):
            self.assertIs(job.wait(progress=True, check=True), job)
        self.assertIn(f"{job.job_id}: SUCCESSFUL\n", shown.getvalue())
        self.assertEqual((job.stage, job.done, job.failed), ("SUCCESSFUL", True, False))
        self.assertEqual(job.log(), "hello, world\n")
        self.assertEqual(job.log(stream="stderr"), "problem\n")
        self.assertEqual(list(job.log(follow=True)), ["hello, world\n"])
        self.assertEqual([file["path"] for file in job.files()], ["data/in.txt", "out/a b.txt", "run.sh"])
        self.assertEqual(job.read("out/a b.txt"), b"12345")
        timeline = job.timeline()
        self.assertEqual(timeline[0]["type"], "job.accepted")
        self.assertEqual(timeline[-1]["outcome"], "succeeded")
        self.assertEqual(timeline.tags, [self.tag])
        self.assertEqual(timeline.held_seconds, 720)
        self.assertEqual([found.job_id for found in self.bursar.jobs(tag=self.tag)], [job.job_id])
        self.check_card(job)
        self.check_downloads(job)
        self.assertEqual(job.delete().stage, "DELETED")
        with self.assertRaises(BursarError) as refused:
            job.log()
        self.assertEqual(refused.exception.code, "files_deleted")
        self.assertIn("DELETED", job._repr_html_())

    def check_card(self, job) -> None:  # type: ignore[no-untyped-def]
        card = job._repr_html_()
        for text in ("Größe &lt;b&gt;&amp;", "SUCCESSFUL", job.job_id, "job.ended", "of at most 720 s", "hello, world"):
            self.assertIn(text, card)
        self.assertNotIn("<b>", card)

    def check_downloads(self, job) -> None:  # type: ignore[no-untyped-def]
        to = self.folder / "results"
        places = job.download(to)
        self.assertEqual(sorted(places), sorted([to / "data/in.txt", to / "out/a b.txt", to / "run.sh"]))
        self.assertEqual((to / "out/a b.txt").read_text(), "12345")
        before = (to / "run.sh").stat().st_ino
        job.download(to)
        self.assertEqual((to / "run.sh").stat().st_ino, before, "a complete file is not downloaded again")
        self.assertEqual(job.download(self.folder / "one", "out/"), [self.folder / "one/out/a b.txt"])
        with self.assertRaises(BursarError) as unknown:
            job.download(to, "nothing.txt")
        self.assertEqual(unknown.exception.code, "file_unknown")
        with zipfile.ZipFile(job.archive(self.folder / "all.zip")) as archive:
            self.assertEqual(archive.read("out/a b.txt"), b"12345")

    def test_a_tool_gets_its_parameters_and_a_zip_file_is_sent_as_it_is(self) -> None:
        path = self.folder / "job.zip"
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("main.py", "import sys; print(sys.argv[1:])")
        params = {"arguments": ["--steps", "two words"]}
        job = self.bursar.submit(path, system="hpc_two", tool="PYTHON3", runtime=0.1, params=params).wait(check=True)
        self.assertEqual(job.log(), "['--steps', 'two words']\n")
        self.assertEqual(self.bursar.job("@last"), job)
        self.assertEqual(self.bursar.job(job.job_id[:-4].lower()), job)
        another = self.bursar.submit(path, system="hpc_two", tool="PYTHON3", runtime=0.1)
        with self.assertRaises(BursarError) as ambiguous:
            self.bursar.job("bursar-job")
        self.assertEqual(ambiguous.exception.code, "job_ambiguous")
        self.assertIn(another.job_id, ambiguous.exception.detail)
        with self.assertRaises(BursarError) as unknown:
            self.bursar.job("none")
        self.assertEqual(unknown.exception.code, "job_unknown")

    def test_a_failed_job_raises_its_outcome_only_if_it_is_checked(self) -> None:
        job = self.run_command("echo $((6*7)); seq 20 >&2; printf 'too \\033[31mlarge\\033[0m\\n' >&2; exit 3").wait(60)
        self.assertTrue(job.failed)
        with self.assertRaises(JobFailed) as failed:
            job.check()
        self.assertEqual((failed.exception.code, failed.exception.job), ("failed", job))
        lines = "".join(f"\n  {line}" for line in [*range(12, 21), "too large"])
        self.assertEqual(
            str(failed.exception),
            f"The job {job.job_id} ended as FAILED: exit code 3.\nThe last lines of its standard error:{lines}",
        )
        self.assertEqual(str(pickle.loads(pickle.dumps(failed.exception))), str(failed.exception))
        job.delete()
        with self.assertRaises(JobFailed) as failed:
            job.check()
        self.assertEqual(str(failed.exception), f"The job {job.job_id} ended as DELETED: exit code 3.")
        self.assertIn(job, self.bursar.jobs(system="hpc_one", failed=True, done=True))

    def test_a_wait_that_times_out_leaves_the_job_which_can_be_cancelled(self) -> None:
        job = self.run_command("echo started; sleep 60")
        with self.assertRaises(BursarError) as early:
            job.delete()
        self.assertEqual(early.exception.code, "job_not_finished")
        lines = job.log(follow=True)
        self.assertEqual(next(lines), "started\n")
        with self.assertRaises(TimeoutError):
            job.wait(timeout=0.05)
        job.cancel().wait()
        self.assertEqual((job.stage, job.failed), ("CANCELED", False))
        self.assertEqual(list(lines), [])

    def test_the_tail_of_a_long_log_is_read_without_its_start(self) -> None:
        job = self.run_command("seq 1 20000").wait(check=True)
        self.assertEqual(job.log_tail(3), ["19998", "19999", "20000"])
        self.assertEqual(job.log_tail(0), [])

    def test_a_log_with_a_long_line_colours_and_a_progress_bar_is_readable(self) -> None:
        command = r"head -c 20000 /dev/zero | tr '\0' x; printf ' 1\t\033[31mred\033[0m 50%%\r 2\tgreen\n'"
        job = self.run_command(command).wait(math.inf)
        (line,) = job.log_tail()
        self.assertTrue(line.endswith("x 1\t\x1b[31mred\x1b[0m 50%\r 2\tgreen"), line[-60:])
        self.assertIn("> 2      green<", job._repr_html_())

    def test_an_event_that_is_older_than_what_was_read_of_the_job_changes_nothing(self) -> None:
        job = self.run_command("echo started; sleep 60")
        queued = job.data
        self.assertEqual(next(job.log(follow=True)), "started\n")
        while job.refresh().stage != "RUNNING":
            time.sleep(0.1)
        job._apply({"id": 1, "type": "job.queued", "at": queued["init_date"], "job": queued, "data": {}})
        self.assertEqual(job.stage, "RUNNING")
        job.cancel().wait()

    def test_a_key_of_ones_own_gives_the_same_job_again(self) -> None:
        first = self.run_command("true", key=self.tag)
        self.assertEqual(self.run_command("true", key=self.tag), first)
        with self.assertRaises(BursarError) as reused:
            self.run_command("false", key=self.tag)
        self.assertEqual((reused.exception.code, reused.exception.status), ("idempotency_key_reused", 422))

    def test_events_come_in_order_from_a_position(self) -> None:
        events = self.bursar.events(after=0)
        job = self.run_command("true")
        types = [event["type"] for event in itertools.takewhile(lambda e: not self.is_end(e, job.job_id), events)]
        self.assertIn("job.accepted", types)

    @staticmethod
    def is_end(event, job_id: str) -> bool:  # type: ignore[no-untyped-def]
        return event["type"] == "job.ended" and event["data"]["job_id"] == job_id


class ProgressTest(ServerTest):
    def test_on_a_terminal_one_line_changes(self) -> None:
        script = "from bursar import *; Bursar().submit(system='hpc_one', command='sleep 0.3', runtime=0.1, title='Long').wait(progress=True)"
        master, slave = pty.openpty()
        process = subprocess.Popen(
            [sys.executable, "-c", script], stderr=slave, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        )
        os.close(slave)
        shown = b""
        while True:
            try:
                shown += os.read(master, 1000)
            except OSError:  # Linux reports the end of a terminal so.
                break
        os.close(master)
        self.assertEqual(process.wait(), 0)
        lines = shown.decode().replace("\r\n", "\n").split("\n")
        self.assertEqual(len(lines), 2, "one line, which ends at the end")
        self.assertRegex(lines[0], r"^\rLong: \w+, \d+:\d\d\x1b\[K.*\rLong: SUCCESSFUL, \d+:\d\d\x1b\[K$")

    def test_in_a_notebook_one_line_changes_and_the_card_is_left_to_the_notebook(self) -> None:
        # IPython itself is too large for a test; this is all that the client uses of it.
        shown: List[Any] = []
        handle = types.SimpleNamespace(update=lambda data, raw: shown.append(data))
        shell = types.SimpleNamespace(kernel=object())
        modules = {
            "IPython": types.SimpleNamespace(get_ipython=lambda: shell),
            "IPython.display": types.SimpleNamespace(
                display=lambda data, raw, display_id: [shown.append(data), handle][1]
            ),
        }
        with mock.patch.dict(sys.modules, modules):  # type: ignore[arg-type]
            job = self.run_command("sleep 0.2").wait(progress=True)
        # A card here and that of the returned job, which is the value of the cell, would be two.
        lines = [data["text/plain"] for data in shown]
        self.assertTrue(all(data.keys() == {"text/plain"} for data in shown), shown)
        self.assertEqual((lines[0], lines[-1]), ("", f"{job.job_id}: SUCCESSFUL"))
        self.assertEqual(len(lines), len(set(lines)))


class AccountTest(ServerTest):
    def test_tables_print_as_text_and_html(self) -> None:
        self.run_command("true").wait()
        quotas = self.bursar.quotas()
        self.assertEqual(quotas[0].keys() & {"time_left", "space_left"}, {"time_left", "space_left"})
        self.assertRegex(repr(quotas), r"^project_hpc +project_name +time_left +space_left\nHPC_TWO ")
        self.assertIn("<td>HPC_ONE</td>", quotas._repr_html_())
        self.assertEqual(len(self.bursar.quotas("hpc_one")), 1)
        movements = self.bursar.statement("hpc_one")
        self.assertEqual(movements[0]["kind"], "grant")
        self.assertEqual({row["resource"] for row in movements}, {"time", "space"})
        self.assertEqual(self.bursar.statement("hpc_one", until="2020-01-01"), [])
        self.assertEqual([system["hpc"] for system in self.bursar.systems()], ["hpc_one", "hpc_two"])
        self.assertGreaterEqual(self.bursar.usage()[0]["jobs"], 0)
        self.assertIn("user", self.bursar.me()["roles"])
        jobs = self.bursar.jobs(system="hpc_one")
        self.assertRegex(repr(jobs), r"^job_id +title ")
        self.assertNotIn("\x1b", repr(Table([{"name": "a\x1b[31mred\u202e"}])))
        self.assertIn("<th>job_id</th>", jobs._repr_html_())

    def test_to_pandas_needs_pandas_and_says_so(self) -> None:
        try:
            import pandas  # noqa: F401
        except ImportError:
            with self.assertRaisesRegex(ImportError, "pip install pandas"):
                self.bursar.quotas().to_pandas()
        else:
            self.assertEqual(list(self.bursar.quotas().to_pandas().columns), self.bursar.quotas().columns)

    def test_a_quote_has_the_cost(self) -> None:
        quote = self.bursar.quote(system="hpc_one", command="true", nodes=2, cores=3, runtime=0.5)
        self.assertEqual((quote["cost"], quote["accepted"]), (2 * 3 * 1800, True))
