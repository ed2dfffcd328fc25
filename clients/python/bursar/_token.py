"""The token of a profile. That of an OpenID provider ends within minutes, and is renewed before."""

from __future__ import annotations

import json
import os
import threading
import time
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Dict, Iterator

import requests

from ._errors import BursarError, NotSignedIn

#: A token is renewed this long before it ends, so that a request under way does not fail.
REFRESH_BEFORE_SECONDS = 60
LOCK_SECONDS = 20
#: An older lock was left behind by a program that was killed. The command line has the same rule.
STALE_LOCK_SECONDS = 15
REQUEST_SECONDS = 10


class StoredToken:
    """Reads and renews the token of one profile, together with the command line and other programs."""

    def __init__(self, path: Path, name: str, profile: Dict[str, Any]) -> None:
        self._path = path
        self._name = name
        self._profile = profile
        self._lock = threading.Lock()

    def current(self) -> str:
        with self._lock:
            if _needs_refresh(self._profile):
                self._profile = self._refresh()
            return str(self._profile["token"])

    def _refresh(self) -> Dict[str, Any]:
        """Renews the token once: many providers accept a refresh token once, and end the sign-in if it is used again."""
        with _file_lock(self._path.with_name(self._path.name + ".lock")):
            data = json.loads(self._path.read_text("utf-8"))
            profile: Dict[str, Any] = data["profiles"].get(self._name)
            if profile is None:
                raise NotSignedIn("profile_unknown", f'The profile "{self._name}" is gone. Run `bursar login`.')
            # Another program may have renewed it while this one waited for the lock.
            if _needs_refresh(profile):
                profile = _request_token(profile)
                data["profiles"][self._name] = profile
                _replace_file(self._path, json.dumps(data, indent=2) + "\n")
            return profile


def _needs_refresh(profile: Dict[str, Any]) -> bool:
    expires_at = profile.get("expires_at")
    if expires_at is None or not (profile.get("issuer") or {}).get("refresh_token"):
        return False
    return datetime.fromisoformat(expires_at.replace("Z", "+00:00")).timestamp() - time.time() < REFRESH_BEFORE_SECONDS


def _request_token(profile: Dict[str, Any]) -> Dict[str, Any]:
    issuer = profile["issuer"]
    form = {"grant_type": "refresh_token", "refresh_token": issuer["refresh_token"], "client_id": issuer["client_id"]}
    try:
        response = requests.post(issuer["token_endpoint"], data=form, timeout=REQUEST_SECONDS, allow_redirects=False)
        answer = response.json()
    except (requests.RequestException, ValueError) as error:
        raise BursarError("sign_in_failed", f"{issuer['issuer']} did not renew your token: {error}.") from error
    if response.status_code == 429 or response.status_code >= 500:
        raise BursarError(
            "sign_in_failed", f"{issuer['issuer']} did not renew your token: status {response.status_code}."
        )
    if response.status_code != 200 or "access_token" not in answer:
        reason = answer.get("error_description") or answer.get("error") or f"status {response.status_code}"
        raise NotSignedIn(
            "sign_in_ended",
            f"Your sign-in at {issuer['issuer']} has ended ({reason}). Run `bursar login {profile['url']}`.",
        )
    renewed = {
        **profile,
        "token": answer["access_token"],
        "issuer": {**issuer, "refresh_token": answer.get("refresh_token") or issuer["refresh_token"]},
    }
    renewed.pop("expires_at")
    if "expires_in" in answer:
        end = datetime.fromtimestamp(time.time() + float(answer["expires_in"]), timezone.utc)
        renewed["expires_at"] = end.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return renewed


@contextmanager
def _file_lock(path: Path) -> Iterator[None]:
    """The lock of the command line: a file that only one program can create."""
    deadline = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            break
        except FileExistsError:
            if time.monotonic() > deadline:
                raise BursarError(
                    "profile_locked", f"Another program holds {path}. If none is running, remove the file."
                ) from None
            _remove_stale(path)
            time.sleep(0.05)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def _remove_stale(path: Path) -> None:
    """A program that was killed leaves its lock behind. Only one of several waiting programs can rename the file."""
    try:
        if time.time() - path.stat().st_mtime >= STALE_LOCK_SECONDS:
            taken = path.with_name(f"{path.name}.{os.getpid()}")
            os.rename(path, taken)
            taken.unlink()
    except FileNotFoundError:
        pass


def _replace_file(path: Path, content: str) -> None:
    """Writes a file with mode 0600. After a crash the old or the new content is there, never a part."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}")
    with os.fdopen(os.open(temporary, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600), "w") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
