"""Credentials: the arguments, the environment, or the file that `bursar login` has written."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, NamedTuple, Optional

from ._errors import BursarError


class Credentials(NamedTuple):
    url: Optional[str]
    token: Optional[str]


def find_credentials(url: Optional[str], token: Optional[str], profile: Optional[str]) -> Credentials:
    """Arguments win over a profile that is named, then the environment, then the current profile.

    A stored token is used only for the server that it was stored for.
    """
    environment = os.environ
    if profile is None:
        url = url or environment.get("BURSAR_URL") or None
        token = token or environment.get("BURSAR_TOKEN") or None
    if url is not None and token is not None:
        return Credentials(url, token)
    stored = _read_profile(profile or environment.get("BURSAR_PROFILE") or None, profile is not None)
    if stored.url is None or (url is not None and url.rstrip("/") != stored.url.rstrip("/")):
        return Credentials(url, token)
    return Credentials(url or stored.url, token or stored.token)


def profile_file() -> Path:
    folder = os.environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    return Path(folder) / "bursar" / "profiles.json"


def _read_profile(name: Optional[str], is_required: bool) -> Credentials:
    path = profile_file()
    try:
        data: Any = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        data = {}
    except ValueError as error:
        raise BursarError("invalid_profile", f"{path} is not valid JSON: {error}. Run `bursar login` again.") from error
    profiles = data.get("profiles", {})
    entry = profiles.get(name or data.get("current") or "default")
    if entry is None:
        if is_required:
            known = ", ".join(sorted(profiles)) or "none"
            raise BursarError("profile_unknown", f'There is no profile "{name}" in {path}. It has: {known}.')
        return Credentials(None, None)
    return Credentials(entry.get("url"), entry.get("token"))
