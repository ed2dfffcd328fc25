"""Turns a folder into a zip file. The same files give the same bytes."""

from __future__ import annotations

import errno
import os
import stat
import tempfile
import zipfile
from contextlib import contextmanager
from pathlib import Path
from typing import Iterator, List, Optional, Tuple

from ._errors import BursarError
from ._ignore import IgnoreRules
from ._types import AnyPath

IGNORE_FILE = ".bursarignore"
#: The earliest time that a zip can store. A time of the disk would change the bytes at every checkout.
_FIXED_TIME = (1980, 1, 1, 0, 0, 0)


@contextmanager
def open_input(source: Optional[AnyPath]) -> Iterator[Optional[Path]]:
    """The zip file to upload: the given one, or a temporary one made from a folder. None if the job has no input."""
    if source is None:
        yield None
        return
    path = Path(source)
    if path.is_dir():
        with tempfile.TemporaryDirectory(prefix="bursar-") as folder:
            target = Path(folder) / "job.zip"
            zip_folder(path, target)
            yield target
        return
    if not path.is_file():
        raise FileNotFoundError(f"{path} does not exist. Give a folder or a zip file.")
    if not zipfile.is_zipfile(path):
        raise BursarError("invalid_zip", f"{path} is not a zip file. Give a folder or a zip file.")
    yield path


def zip_folder(folder: AnyPath, target: AnyPath) -> None:
    """Packs the files of a folder, except those that .bursarignore names."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
        for name, path in list_files(Path(folder)):
            if path is None:
                archive.writestr(_entry(name + "/", 0o40755), b"")
                continue
            is_executable = path.stat().st_mode & 0o111 != 0
            entry = _entry(name, 0o100755 if is_executable else 0o100644)
            # zipfile decides before it writes whether the entry needs the format for files over 4 GiB.
            entry.file_size = path.stat().st_size
            with path.open("rb") as source, archive.open(entry, "w") as packed:
                while True:
                    block = source.read(1 << 20)
                    if not block:
                        break
                    packed.write(block)


def list_files(folder: Path) -> List[Tuple[str, Optional[Path]]]:
    """Name in the zip and path of each file, sorted. An empty folder has no path; one with ignored files alone is left out.

    Links are followed, because the server accepts none in a zip.
    """
    ignore_file = folder / IGNORE_FILE
    rules = IgnoreRules(ignore_file.read_text("utf-8", "surrogateescape") if ignore_file.is_file() else "")
    return sorted(_walk(folder, "", rules, [os.path.realpath(folder)]), key=lambda item: item[0])


def _walk(folder: Path, prefix: str, rules: IgnoreRules, parents: List[str]) -> Iterator[Tuple[str, Optional[Path]]]:
    is_empty = True
    for entry in os.scandir(folder):
        is_empty = False
        name = prefix + entry.name
        is_folder = os.path.isdir(entry.path)
        if rules.ignores(name, is_folder):
            continue
        if not _is_unicode(entry.name):
            raise _invalid(f"{ascii(name)} has a name that is not UTF-8")
        if not is_folder:
            yield name, _regular_file(entry, name)
            continue
        real = os.path.realpath(entry.path)
        if real in parents:
            raise _invalid(f"{name} is a link to a folder that it is in")
        yield from _walk(Path(entry.path), name + "/", rules, [*parents, real])
    if is_empty and prefix:
        yield prefix[:-1], None


def _is_unicode(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _regular_file(entry: "os.DirEntry[str]", name: str) -> Path:
    try:
        mode = entry.stat().st_mode
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ELOOP):
            raise
        raise _invalid(f"{name} is a link to nothing") from None
    if not stat.S_ISREG(mode):
        raise _invalid(f"{name} is neither a file nor a folder")
    return Path(entry.path)


def _invalid(problem: str) -> BursarError:
    return BursarError("invalid_input", f"{problem}. Remove it, or name it in {IGNORE_FILE}.")


def write_entry(archive: zipfile.ZipFile, name: str, content: bytes) -> None:
    """Adds a file with the same bytes at any time."""
    archive.writestr(_entry(name, 0o100644), content)


def _entry(name: str, mode: int) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name, _FIXED_TIME)
    entry.create_system = 3  # Unix: the mode is in the upper half of the attributes.
    entry.external_attr = mode << 16
    entry.compress_type = zipfile.ZIP_STORED if name.endswith("/") else zipfile.ZIP_DEFLATED
    return entry
