"""Credentials of the environment and of the command line. These tests need no server."""

from __future__ import annotations

import json
import os
import tempfile
import threading
import unittest
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, List
from unittest import mock

from bursar import Bursar, BursarError, NotSignedIn
from bursar._profile import find_credentials, profile_file
from bursar._retry import is_transient

PROFILES = {
    "current": "lab",
    "profiles": {
        "lab": {"url": "https://lab.example", "token": "lab-token"},
        "home": {"url": "http://127.0.0.1:8080", "token": "home-token"},
    },
}


class ProfileTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="bursar-test-")
        self.addCleanup(folder.cleanup)
        self.environment = {"XDG_CONFIG_HOME": folder.name, "HOME": folder.name}

    def find(self, *arguments: Any, **environment: str) -> Any:
        with mock.patch.dict(os.environ, {**self.environment, **environment}, clear=True):
            credentials = find_credentials(*arguments)
            return credentials.url, credentials.token()

    def store(self, content: str) -> None:
        with mock.patch.dict(os.environ, self.environment, clear=True):
            profile_file().parent.mkdir(parents=True)
            self.path = profile_file()
            self.path.write_text(content)
            self.path.chmod(0o600)

    def test_arguments_win_over_the_environment_and_that_over_the_profile(self) -> None:
        self.store(json.dumps(PROFILES))
        variables = {"BURSAR_URL": "https://env.example", "BURSAR_TOKEN": "env-token"}
        self.assertEqual(self.find("https://a.example", "a", None, **variables), ("https://a.example", "a"))
        self.assertEqual(self.find(None, None, None, **variables), ("https://env.example", "env-token"))
        self.assertEqual(self.find(None, None, None), ("https://lab.example", "lab-token"))
        self.assertEqual(self.find(None, None, None, BURSAR_PROFILE="home"), ("http://127.0.0.1:8080", "home-token"))
        self.assertEqual(self.find(None, None, "home", **variables), ("http://127.0.0.1:8080", "home-token"))

    def test_a_stored_token_is_sent_only_to_its_own_server(self) -> None:
        self.store(json.dumps(PROFILES))
        self.assertEqual(self.find("https://other.example", None, None), ("https://other.example", None))
        self.assertEqual(self.find("https://lab.example/", None, None), ("https://lab.example", "lab-token"))
        self.assertEqual(
            self.find(None, None, None, BURSAR_URL="http://127.0.0.1:8080"), ("http://127.0.0.1:8080", "home-token")
        )
        self.assertEqual(self.find("http://127.0.0.1:8080", None, "lab"), ("http://127.0.0.1:8080", None))

    def test_missing_and_damaged_profiles_are_errors_with_a_next_step(self) -> None:
        with mock.patch.dict(os.environ, self.environment, clear=True), self.assertRaisesRegex(
            NotSignedIn, "bursar login"
        ):
            Bursar()
        self.store("{")
        with self.assertRaisesRegex(BursarError, "not valid JSON"):
            self.find(None, None, None)
        self.path.write_text(json.dumps(PROFILES))
        with self.assertRaisesRegex(BursarError, 'no profile "work".*home, lab'):
            self.find(None, None, "work")
        self.path.chmod(0o644)
        with self.assertRaisesRegex(BursarError, "chmod 600"):
            self.find(None, None, None)

    def test_the_token_of_a_provider_is_renewed_once_before_it_ends(self) -> None:
        forms: List[str] = []

        class Provider(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                forms.append(self.rfile.read(int(self.headers["Content-Length"])).decode())
                is_known = "refresh_token=first" in forms[-1]
                is_away = len(forms) == 1
                answer = (
                    {"access_token": "new", "refresh_token": "second", "expires_in": 300}
                    if is_known
                    else {"error": "invalid_grant"}
                )
                content = json.dumps(answer).encode()
                self.send_response(503 if is_away else 200 if is_known else 400)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: object) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Provider)
        self.addCleanup(server.server_close)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.shutdown)
        issuer = {
            "issuer": "https://id.example",
            "client_id": "bursar",
            "token_endpoint": f"http://127.0.0.1:{server.server_port}/",
            "refresh_token": "first",
        }
        profile = {
            "url": "https://lab.example",
            "token": "old",
            "user": "1",
            "expires_at": "2020-01-01T00:00:00.000Z",
            "issuer": issuer,
        }
        self.store(json.dumps({"current": "lab", "profiles": {"lab": profile}}))
        with self.assertRaises(BursarError) as away:
            self.find(None, None, None)
        self.assertTrue(is_transient(away.exception), "a wait survives a provider that is away for a while")
        with ThreadPoolExecutor(4) as pool, mock.patch.dict(os.environ, self.environment, clear=True):
            tokens = list(pool.map(lambda _: find_credentials(None, None, None).token(), range(4)))
        self.assertEqual((tokens, len(forms)), (["new"] * 4, 2))
        stored = json.loads(self.path.read_text())["profiles"]["lab"]
        self.assertEqual((stored["token"], stored["issuer"]["refresh_token"], stored["user"]), ("new", "second", "1"))
        self.assertEqual(self.path.stat().st_mode & 0o777, 0o600)
        stored["expires_at"] = "2020-01-01T00:00:00.000Z"
        self.path.write_text(json.dumps({"profiles": {"lab": stored}, "current": "lab"}))
        with self.assertRaisesRegex(NotSignedIn, "invalid_grant"):
            self.find(None, None, None)
