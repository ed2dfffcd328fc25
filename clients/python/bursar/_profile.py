"""Credentials: the arguments, the environment, or the file that `bursar login` has written."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Callable, Dict, NamedTuple, Optional, Tuple

from ._errors import BursarError
from ._token import StoredToken


class Credentials(NamedTuple):
    url: Optional[str]
    #: Returns the token that is valid now. None: there is no token.
    token: Callable[[], Optional[str]]
    #: The user has accepted, at `bursar login`, that the token is sent without TLS.
    insecure: bool = False


def find_credentials(url: Optional[str], token: Optional[str], profile: Optional[str]) -> Credentials:
    """Arguments win; without a named profile the environment comes next; the rest is from the profile.

    A stored token is used only for the server that it was stored for.
    """
    if profile is None:
        url = url or os.environ.get("BURSAR_URL") or None
        token = token or os.environ.get("BURSAR_TOKEN") or None
    if url is not None and token is not None:
        return Credentials(url, lambda: token)
    name, stored = _find_profile(profile or os.environ.get("BURSAR_PROFILE") or None, url)
    if stored is None or token is not None:
        return Credentials(url or (stored or {}).get("url"), lambda: token)
    return Credentials(stored["url"], StoredToken(profile_file(), name, stored).current, bool(stored.get("insecure")))


def profile_file() -> Path:
    """By the XDG base directory specification, which ignores a relative path."""
    folder = os.environ.get("XDG_CONFIG_HOME", "")
    return (Path(folder) if os.path.isabs(folder) else Path.home() / ".config") / "bursar" / "profiles.json"


def _find_profile(name: Optional[str], url: Optional[str]) -> Tuple[str, Optional[Dict[str, Any]]]:
    """The named profile, or the current one, or any other one of this server."""
    data = read_profiles(profile_file())
    profiles: Dict[str, Dict[str, Any]] = data.get("profiles", {})
    if name is not None and name not in profiles:
        known = ", ".join(sorted(profiles)) or "none"
        raise BursarError("profile_unknown", f'There is no profile "{name}" in {profile_file()}. It has: {known}.')
    wanted = name or str(data.get("current", "default"))
    candidates = [wanted] if name is not None else [wanted, *profiles]
    for candidate in candidates:
        profile = profiles.get(candidate)
        if profile is not None and (url is None or profile["url"].rstrip("/") == url.rstrip("/")):
            return candidate, profile
        if url is None:
            break
    return wanted, None


def read_profiles(path: Path) -> Dict[str, Any]:
    try:
        if os.name == "posix" and path.stat().st_mode & 0o077:
            raise BursarError(
                "invalid_profile", f"Other users can read {path}, which has your tokens. Run: chmod 600 '{path}'"
            )
        data = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise BursarError(
            "invalid_profile", f"{path} is not valid JSON. Repair it, or remove it and run `bursar login`."
        ) from error
    return data if isinstance(data, dict) else {}
