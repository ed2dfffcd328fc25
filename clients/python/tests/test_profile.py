"""Credentials of the environment and of the command line. These tests need no server."""

from __future__ import annotations

import json
import os
import tempfile
import unittest
from pathlib import Path
from typing import Any
from unittest import mock

from bursar import Bursar, BursarError, NotSignedIn
from bursar._profile import find_credentials, profile_file

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
            return tuple(find_credentials(*arguments))

    def store(self, content: str) -> None:
        with mock.patch.dict(os.environ, self.environment, clear=True):
            profile_file().parent.mkdir(parents=True)
            profile_file().write_text(content)

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
        self.assertEqual(self.find("https://lab.example/", None, None), ("https://lab.example/", "lab-token"))

    def test_missing_and_damaged_profiles_are_errors_with_a_next_step(self) -> None:
        with mock.patch.dict(os.environ, self.environment, clear=True), self.assertRaisesRegex(NotSignedIn, "bursar login"):
            Bursar()
        self.store("{")
        with self.assertRaisesRegex(BursarError, "not valid JSON"):
            self.find(None, None, None)
        Path(self.environment["XDG_CONFIG_HOME"], "bursar").joinpath(profile_file().name).write_text(json.dumps(PROFILES))
        with self.assertRaisesRegex(BursarError, 'no profile "work".*home, lab'):
            self.find(None, None, "work")
