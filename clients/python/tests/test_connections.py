"""Connections that break: uploads, downloads and streams go on, and nothing happens twice."""

from __future__ import annotations

import hashlib
import os
import threading
import time
import uuid
import zipfile
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Callable, Optional
from unittest import mock

import bursar
from bursar import Bursar

from .support import Proxy, ServerTest, client


class ConnectionTest(ServerTest):
    def proxy(self, cut_after: Callable[[int], Optional[int]]) -> Proxy:
        proxy = Proxy(cut_after)
        self.addCleanup(proxy.close)
        return proxy

    def test_an_upload_that_is_cut_arrives_once(self) -> None:
        tag = uuid.uuid4().hex
        folder = self.write({"run.sh": "#!/bin/sh\nsha256sum large.bin\n"})
        content = os.urandom(3_000_000)
        (folder / "large.bin").write_bytes(content)
        proxy = self.proxy(lambda connection: [100_000, 2_000_000][connection] if connection < 2 else None)
        job = client(proxy.url).submit(folder, system="hpc_one", command="sbatch run.sh", runtime=0.1, tags=[tag])
        self.assertEqual(proxy.cuts, 2)
        job.wait(check=True)
        self.assertEqual(job.log().split()[0], hashlib.sha256(content).hexdigest())
        self.assertEqual(len(self.bursar.jobs(tag=tag)), 1)

    def test_a_lost_response_gives_no_second_job(self) -> None:
        tag = uuid.uuid4().hex
        # Everything of the request arrives; the connection breaks in the response, which has more than 300 bytes.
        sizes = iter([900, None])
        proxy = self.proxy(lambda _: next(sizes, None))
        job = client(proxy.url).submit(system="hpc_one", command="true", runtime=0.1, tags=[tag])
        self.assertEqual(proxy.cuts, 1)
        self.assertEqual(self.bursar.jobs(tag=tag), [job])

    def test_downloads_resume_where_they_were_cut(self) -> None:
        job = self.run_command("head -c 3000000 /dev/urandom > large.bin; sha256sum large.bin; sleep 0.1").wait(
            check=True
        )
        proxy = self.proxy(lambda connection: 900_000 if connection % 2 == 0 and connection < 8 else None)
        through_proxy = client(proxy.url).job(job.job_id)
        (place,) = through_proxy.download(self.folder / "out", "large.bin")
        self.assertEqual(hashlib.sha256(place.read_bytes()).hexdigest(), job.log().split()[0])
        self.assertGreaterEqual(proxy.cuts, 1)
        self.assertEqual(list((self.folder / "out").iterdir()), [place], "no part remains")

    def test_a_download_continues_in_a_later_call(self) -> None:
        job = self.run_command("head -c 3000000 /dev/urandom > large.bin; sha256sum large.bin; sleep 0.1").wait(
            check=True
        )
        out = self.folder / "out"
        proxy = self.proxy(lambda _: 1_000_000)
        impatient = Bursar(proxy.url, os.environ["BURSAR_TOKEN"], retries=0)
        with self.assertRaises(bursar.ServerUnavailable):
            while True:
                impatient.job(job.job_id).download(out, "large.bin")
        (part,) = out.iterdir()
        kept = part.stat().st_size
        self.assertGreater(kept, 500_000)
        counting = self.proxy(lambda _: 3_000_000 - kept + 100_000)
        (place,) = client(counting.url).job(job.job_id).download(out, "large.bin")
        self.assertEqual(hashlib.sha256(place.read_bytes()).hexdigest(), job.log().split()[0])

    def test_empty_files_long_names_and_damaged_parts_are_downloaded(self) -> None:
        name = "x" * 255
        job = self.run_command(f"touch empty; printf 12345 > {name}").wait(check=True)
        out = self.folder / "out"
        places = job.download(out)
        self.assertEqual([place.read_text() for place in places], ["", "12345"])
        with mock.patch("os.replace", side_effect=InterruptedError), self.assertRaises(InterruptedError):
            job.download(self.folder / "interrupted", name)
        (part,) = (self.folder / "interrupted").iterdir()
        part.write_text("longer than the file")
        (place,) = job.download(self.folder / "interrupted", name)
        self.assertEqual(place.read_text(), "12345")
        self.assertTrue(zipfile.is_zipfile(job.archive(out)))

    def test_streams_resume_without_a_missing_or_repeated_line(self) -> None:
        proxy = self.proxy(lambda _: None)
        job = client(proxy.url).submit(
            system="hpc_one", command="for i in 1 2 3 4 5 6; do echo line $i; sleep 0.2; done", runtime=0.1
        )
        lines = []
        waiting = threading.Thread(target=job.wait)
        waiting.start()
        for line in job.log(follow=True):
            lines.append(line)
            if len(lines) in (2, 4):
                proxy.cut_all()
        waiting.join(30)
        self.assertEqual(lines, [f"line {i}\n" for i in range(1, 7)])
        self.assertFalse(waiting.is_alive())
        self.assertTrue(job.done)

    def test_many_waits_share_one_stream(self) -> None:
        proxy = self.proxy(lambda _: None)
        through_proxy = client(proxy.url)
        jobs = [through_proxy.submit(system="hpc_one", command="sleep 1", runtime=0.1) for _ in range(4)]
        streams = []
        opened = through_proxy._transport.open
        through_proxy._transport.open = lambda *args, **options: streams.append(args) or opened(*args, **options)  # type: ignore
        threads = [threading.Thread(target=job.wait) for job in jobs]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        self.assertTrue(all(job.done for job in jobs))
        self.assertEqual(len(streams), 1)

    def test_a_forked_process_has_connections_and_a_stream_of_its_own(self) -> None:
        job = self.run_command("sleep 1")
        waiting = threading.Thread(target=job.wait)
        waiting.start()
        while not self.bursar._feed._is_running:
            time.sleep(0.01)
        child = os.fork()
        if child == 0:
            os._exit(7 if job.wait(60).done else 1)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 7)
        waiting.join(60)
        self.assertTrue(job.done)

    def test_events_resume_after_a_cut(self) -> None:
        jobs = [self.run_command("true") for _ in range(3)]
        proxy = self.proxy(lambda _: None)
        ids = []
        for event in client(proxy.url).events(after=0):
            ids.append(event["id"])
            if len(ids) in (2, 4):
                proxy.cut_all()
            if event["data"].get("job_id") == jobs[-1].job_id and event["type"] == "job.ended":
                break
        self.assertEqual(ids, list(range(ids[0], ids[0] + len(ids))))

    def test_retries_honour_retry_after(self) -> None:
        times = []

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                times.append(time.monotonic())
                if len(times) < 3:
                    self.send_response(503)
                    self.send_header("Retry-After", "1")
                    self.send_header("Content-Length", "0")
                else:
                    self.send_response(200)
                    self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"[]" if len(times) >= 3 else b"")

            def log_message(self, *_: object) -> None:
                pass

        server = HTTPServer(("127.0.0.1", 0), Handler)
        self.addCleanup(server.server_close)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.shutdown)
        self.assertEqual(Bursar(f"http://127.0.0.1:{server.server_port}", "t").quotas(), [])
        self.assertEqual(len(times), 3)
        self.assertGreaterEqual(times[1] - times[0], 1.0)
        self.assertGreaterEqual(times[2] - times[1], 1.0)
