"""Downloads that continue after a lost connection, and after the program was started again."""

from __future__ import annotations

import hashlib
import os
import re
import time
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import Dict, List, Optional, Sequence
from urllib.parse import quote

import requests

from ._errors import BursarError
from ._http import Transport, request_failure
from ._retry import is_transient, retry_delay
from ._types import Row

_BLOCK = 1 << 18


def select_files(files: Sequence[Row], path: Optional[str]) -> List[Row]:
    """The file at the path, or the files in the folder, if the path ends with a slash. All files if it is None."""
    if path is None:
        return list(files)
    selected = [
        file for file in files if file["path"] == path or (path.endswith("/") and file["path"].startswith(path))
    ]
    if not selected:
        raise BursarError("file_unknown", f'The job has no file "{path}". `job.files()` lists its files.', 404)
    return selected


def download_files(transport: Transport, url_path: str, files: Sequence[Row], folder: Path) -> List[Path]:
    """Downloads files into a folder. A file that is refused does not stop the others; its error is raised at the end.

    A job that runs may delete a file after it was listed.
    """
    targets: List[Path] = []
    refusal: Optional[BursarError] = None
    for file in files:
        try:
            target = safe_target(folder, file["path"])
            if not is_current(target, file):
                download(transport, url_path + quote_path(file["path"]), target)
                set_time(target, file)
            targets.append(target)
        except BursarError as error:
            if error.code not in ("file_unknown", "unsafe_path"):
                raise
            if refusal is None:
                refusal = error
                refusal.detail = f"{file['path']} was not downloaded. {error.detail}"
    if refusal is not None:
        raise refusal
    return targets


def safe_target(folder: Path, name: str) -> Path:
    """The place of a file of a job. Raises an error if the name leads out of the folder."""
    parts = PurePosixPath(name).parts
    is_unsafe = not parts or name.startswith("/") or ".." in parts or "\0" in name
    if is_unsafe or (os.name == "nt" and re.search(r"[\\:]", name)):
        raise BursarError(
            "unsafe_path", f'The file "{name}" of the job would not be below {folder}, so it must not be written.'
        )
    return folder.joinpath(*parts)


def is_current(target: Path, file: Row) -> bool:
    """Whether an earlier download has this version of the file: size and time are the same."""
    try:
        status = target.stat()
    except OSError:
        return False
    return status.st_size == file["size"] and abs(status.st_mtime - _timestamp(file["modified"])) < 0.002


def set_time(target: Path, file: Row) -> None:
    modified = _timestamp(file["modified"])
    os.utime(target, (modified, modified))


def _timestamp(text: str) -> float:
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def download(transport: Transport, path: str, target: Path) -> None:
    """Downloads a path to a file.

    Bytes go to a `.part` file beside the target, named by the version (ETag) of the file: a later call continues it.
    The target appears when it is complete, and a part never looks like the whole. A file that changes meanwhile is
    downloaded from its start.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    attempt = 0
    while True:
        before = _received(target)
        try:
            return _download_once(transport, path, target)
        except requests.RequestException as error:
            failure: BursarError = request_failure(transport.url, error)
        except BursarError as error:
            failure = error
        # An attempt that brought bytes was no failure: a large file may take many connections.
        attempt = 0 if _received(target) > before else attempt
        if not is_transient(failure) or attempt >= transport.retries:
            raise failure
        time.sleep(retry_delay(attempt, failure))
        attempt += 1


def _part_prefix(target: Path) -> str:
    """The name of the target may already be as long as the disk allows, so a part has a hash of it."""
    return f".bursar-{_digest(os.fsencode(target.name))}-"


def _parts(target: Path) -> Dict[Path, int]:
    pattern = re.compile(_part_prefix(target) + r"[0-9a-f]{16}\.part")
    return {part: part.stat().st_size for part in target.parent.iterdir() if pattern.fullmatch(part.name)}


def _received(target: Path) -> int:
    return sum(_parts(target).values())


def _download_once(transport: Transport, path: str, target: Path) -> None:
    response = transport.open(path)
    try:
        etag = response.headers.get("ETag", "")
        part = target.with_name(f"{_part_prefix(target)}{_digest(etag.encode())}.part")
        for other in _parts(target):
            if other != part:
                other.unlink()
        total = _content_length(response)
        offset = part.stat().st_size if part.exists() else 0
        if total is not None and offset > total:
            offset = 0  # Two programs have written it at the same time.
        if 0 < offset and offset != total:
            response.close()
            if etag.startswith('"'):
                response = transport.open(path, headers={"Range": f"bytes={offset}-", "If-Range": etag})
            else:  # Without a strong ETag nobody can say whether the part still fits.
                response = transport.open(path)
            if response.status_code != 206:
                offset, total = 0, _content_length(response)
        if offset == 0 or offset != total:
            with part.open("ab" if offset > 0 else "wb") as file:
                for block in response.iter_content(_BLOCK):
                    file.write(block)
        size = part.stat().st_size
        if total is not None and size != total:
            raise requests.ConnectionError(f"only {size} of {total} bytes arrived")
        os.replace(part, target)
    finally:
        response.close()


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def _content_length(response: requests.Response) -> Optional[int]:
    length = response.headers.get("Content-Length")
    return None if length is None else int(length)


def quote_path(name: str) -> str:
    return quote(name, safe="/")
