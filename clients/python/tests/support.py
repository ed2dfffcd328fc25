"""Shared by the tests: a client of the server that BURSAR_URL and BURSAR_TOKEN name, folders, and a proxy that cuts."""

from __future__ import annotations

import os
import select
import socket
import tempfile
import threading
import unittest
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Callable, Dict, List, Mapping, Optional, Tuple
from urllib.parse import urlsplit

from bursar import Bursar, Job


def client(url: Optional[str] = None, token: Optional[str] = None) -> Bursar:
    return Bursar(url or os.environ["BURSAR_URL"], token or os.environ["BURSAR_TOKEN"])


class ServerTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="bursar-test-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.bursar = client()

    def write(self, files: Dict[str, str], name: str = "input") -> Path:
        folder = self.folder / name
        for path, content in files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(content)
        return folder

    def run_command(self, command: str, **options: object) -> Job:
        return self.bursar.submit(system="hpc_one", command=command, runtime=0.1, **options)  # type: ignore[arg-type]


class Proxy:
    """A TCP proxy that breaks connections. `cut_after` decides for each connection after how many bytes, in both directions."""

    def __init__(self, cut_after: Callable[[int], Optional[int]]) -> None:
        target = urlsplit(os.environ["BURSAR_URL"])
        self._target = (target.hostname or "", target.port or 80)
        self._cut_after = cut_after
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.connections = 0
        self.cuts = 0
        self._open: List[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client_socket, _ = self._listener.accept()
            except OSError:
                return
            limit = self._cut_after(self.connections)
            self.connections += 1
            threading.Thread(target=self._relay, args=(client_socket, limit), daemon=True).start()

    def _relay(self, client_socket: socket.socket, limit: Optional[int]) -> None:
        with client_socket, socket.create_connection(self._target) as server:
            others = {client_socket: server, server: client_socket}
            self._open.append(client_socket)
            passed = 0
            while True:
                try:
                    ready, _, _ = select.select(list(others), [], [])
                    data = ready[0].recv(65536)
                except (OSError, ValueError):
                    return
                if not data:
                    return
                if limit is not None and passed + len(data) > limit:
                    others[ready[0]].sendall(data[: limit - passed])
                    self.cuts += 1
                    return
                passed += len(data)
                try:
                    others[ready[0]].sendall(data)
                except OSError:
                    return

    def cut_all(self) -> None:
        """Breaks all connections that are open now."""
        for open_socket in self._open:
            try:
                open_socket.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        self._open.clear()

    def close(self) -> None:
        self._listener.close()
        self.cut_all()


class FakeServer:
    """Sends the responses (status, headers, body) that Bursar would never send. Other paths do not exist."""

    def __init__(self, responses: Mapping[str, Tuple[int, Mapping[str, str], bytes]]) -> None:
        self.paths: List[str] = []
        paths = self.paths

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                paths.append(self.path)
                status, headers, body = responses.get(self.path, (404, {}, b""))
                self.send_response(status)
                for name, value in {**headers, "Content-Length": str(len(body))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
