"""Requests that are refused, and responses that are wrong or hostile."""

from __future__ import annotations

import json
import os
from pathlib import Path
from unittest import mock

from bursar import Bursar, BursarError, NotSignedIn, QuotaExceeded, ServerUnavailable, Table
from bursar._retry import MAX_RETRY_AFTER_SECONDS, retry_delay

from .support import FakeServer, ServerTest, client

SCRIPT = "#!/bin/sh\n"


class ErrorTest(ServerTest):
    def test_a_job_beyond_the_quota_is_refused_with_the_shortfall(self) -> None:
        # The refusal comes while the body is being sent, so it must not look like a lost connection.
        folder = self.write({"run.sh": SCRIPT})
        (folder / "large.bin").write_bytes(os.urandom(20_000_000))
        with self.assertRaises(QuotaExceeded) as refused:
            self.bursar.submit(folder, system="hpc_one", command="sbatch run.sh", nodes=64, cores=128, runtime=48)
        error = refused.exception
        self.assertEqual((error.code, error.status), ("quota_exceeded", 403))
        self.assertEqual(error.problem["resource"], "time")
        self.assertGreater(error.problem["needed"], error.problem["available"])
        self.assertTrue(error.request_id)

    def test_errors_have_codes_and_fields(self) -> None:
        with self.assertRaises(NotSignedIn) as unknown:
            client(token="bursar_wrong").quotas()
        self.assertEqual((unknown.exception.code, unknown.exception.status), ("token_invalid", 401))
        with self.assertRaises(BursarError) as invalid:
            self.bursar.submit(system="hpc_one", command="true", nodes=0)
        self.assertEqual(invalid.exception.fields[0]["field"], "node_number")
        with self.assertRaises(BursarError) as missing:
            self.bursar.submit(self.write({"other.sh": ""}), system="hpc_one", command="sbatch run.sh")
        self.assertEqual(missing.exception.code, "start_file_missing")
        with self.assertRaises(BursarError) as no_zip:
            self.bursar.submit(Path(__file__), system="hpc_one", command="true")
        self.assertEqual(no_zip.exception.code, "invalid_zip")
        with self.assertRaises(ValueError):
            self.bursar.submit(system="hpc_one")
        with self.assertRaises(ServerUnavailable) as away:
            Bursar("http://127.0.0.1:1", "token", retries=1).quotas()
        self.assertEqual(away.exception.code, "server_unreachable")

    def test_a_token_is_not_sent_without_tls_to_another_computer(self) -> None:
        with self.assertRaisesRegex(ValueError, "no TLS"):
            Bursar("http://bursar.example.org", "token")
        self.assertEqual(Bursar("http://bursar.example.org/", "token", insecure=True).url, "http://bursar.example.org")

    def test_wrong_arguments_are_refused_before_a_request(self) -> None:
        for url in ("bursar.example.org", "http://127.0.0.1:99999", "http://127.0.0.1:abc", "ftp://127.0.0.1"):
            with self.assertRaisesRegex(ValueError, "not the address of a server"):
                Bursar(url, "token")
        with self.assertRaisesRegex(TypeError, "name of a system"):
            self.bursar.submit(system=None, command="true")  # type: ignore[arg-type]

    def test_a_token_with_a_line_feed_is_accepted_and_a_wrong_one_is_not_shown(self) -> None:
        self.assertIn("user", client(token=os.environ["BURSAR_TOKEN"] + "\n").me())
        for token in ("secret\nX-Other: 1", "secret→", " "):
            with self.assertRaises(NotSignedIn) as refused:
                client(token=token).me()
            self.assertNotIn("secret", str(refused.exception))

    def test_one_tag_may_be_a_text(self) -> None:
        self.assertEqual(self.run_command("true", tags="one-tag").timeline().tags, ["one-tag"])


JOB = {
    "id": 1,
    "job_id": "\x1b]0;ID\x07<i>",
    "project_hpc": "HPC_ONE",
    "project_name": "<p>",
    "title": "<script>\x1b[31m\ud800",
    "stage": "<b>\x1b[2J",
    "terminal_stage": True,
    "failed": False,
    "init_date": "",
    "end_date": None,
}


class HostileServerTest(ServerTest):
    def serve(self, path: str, body: bytes, status: int = 200, **headers: str) -> FakeServer:
        server = FakeServer({path: (status, headers, body)})
        self.addCleanup(server.close)
        return server

    def test_a_redirect_does_not_get_the_token(self) -> None:
        other = self.serve("/quotas/", b"[]")
        server = self.serve("/quotas/", b"", 302, Location=f"{other.url}/quotas/")
        with self.assertRaises(BursarError) as redirected:
            Bursar(server.url, "token").quotas()
        self.assertEqual((redirected.exception.code, other.paths), ("redirected", []))

    def test_a_response_that_is_not_from_bursar_is_an_error_with_a_code(self) -> None:
        for headers in ({}, {"Content-Encoding": "gzip"}):
            server = self.serve("/quotas/", b"<html>Sign in</html>", **headers)
            with self.assertRaises(BursarError) as invalid:
                Bursar(server.url, "token").quotas()
            self.assertEqual((invalid.exception.code, len(server.paths)), ("invalid_response", 1))

    def test_texts_of_the_server_cannot_steer_a_terminal_or_a_notebook(self) -> None:
        server = self.serve("/jobs/?limit=1000", json.dumps([JOB]).encode())
        jobs = Bursar(server.url, "token", retries=0).jobs()
        for text in (repr(jobs), repr(jobs[0]), jobs._repr_html_(), jobs[0]._repr_html_()):
            text.encode()
            self.assertNotRegex(text, r"[\x00-\x09\x0b-\x1f]")
        for text in (jobs._repr_html_(), jobs[0]._repr_html_()):
            self.assertNotRegex(text, "<(i|p|b|script)>")
        error = BursarError("code", "first\x1b[2J\nsecond\ttab")
        self.assertEqual(str(error), "first�[2J\nsecond  tab (code)")

    def test_a_server_cannot_write_outside_of_the_folder_or_stop_other_downloads(self) -> None:
        job = self.run_command("printf 1 > result").wait(check=True)
        names = ["../x", "/etc/x", "a/../../x", ".", "\0", "gone", "result"]
        files = Table([{"path": name, "size": 1, "modified": "2026-01-01T00:00:00Z"} for name in names])
        for count, code in ((0, "unsafe_path"), (5, "file_unknown")):
            to = self.folder / str(count) / "to"
            with mock.patch.object(job, "files", lambda: files[count:]), self.assertRaises(BursarError) as refused:
                job.download(to)
            self.assertEqual(refused.exception.code, code)
            self.assertIn(names[count], refused.exception.detail)
            self.assertEqual(list(to.parent.rglob("*")), [to, to / "result"])

    def test_a_server_cannot_ask_for_an_endless_wait(self) -> None:
        for seconds in (1e9, float("inf")):
            self.assertEqual(retry_delay(0, BursarError("c", "d", retry_after=seconds)), MAX_RETRY_AFTER_SECONDS)
        self.assertLessEqual(retry_delay(1_000_000), 30.0)
