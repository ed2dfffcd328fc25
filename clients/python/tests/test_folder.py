"""Folders become zip files. These tests need no server."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import tempfile
import unittest
import zipfile
from pathlib import Path
from typing import List, Set

from bursar import BursarError
from bursar._folder import list_files, zip_folder


class FolderTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="bursar-test-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def write(self, *names: str) -> Path:
        source = self.folder / "source"
        for name in names:
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_text(name)
        return source

    def names(self, source: Path) -> List[str]:
        return [name for name, _ in list_files(source)]

    def test_the_same_files_give_the_same_bytes(self) -> None:
        source = self.write("b.txt", "a/x.sh", "a/y")
        os.chmod(source / "a/x.sh", 0o700)
        (source / "empty").mkdir()
        zip_folder(source, self.folder / "1.zip")
        for path in source.rglob("*"):
            os.utime(path, (1_600_000_000, 1_600_000_000))
        zip_folder(source, self.folder / "2.zip")
        self.assertEqual((self.folder / "1.zip").read_bytes(), (self.folder / "2.zip").read_bytes())
        with zipfile.ZipFile(self.folder / "1.zip") as archive:
            modes = {entry.filename: oct(entry.external_attr >> 16) for entry in archive.infolist()}
        self.assertEqual(modes, {"a/x.sh": "0o100755", "a/y": "0o100644", "b.txt": "0o100644", "empty/": "0o40755"})

    def test_some_names_are_left_out_unless_a_line_brings_them_back(self) -> None:
        source = self.write(
            "run.sh", ".git/config", ".bursar/state", "bursar.yaml", "sub/.DS_Store", ".bursarignore", "sub/bursar.yaml"
        )
        (source / ".bursarignore").write_text("# nothing\n")
        self.assertEqual(self.names(source), ["run.sh", "sub/bursar.yaml"])
        (source / ".bursarignore").write_text("!bursar.yaml\n")
        self.assertEqual(self.names(source), ["bursar.yaml", "run.sh", "sub/bursar.yaml"])

    def test_links_are_followed_and_those_that_lead_nowhere_are_errors(self) -> None:
        source = self.write("data.txt", "sub/x")
        (source / "link.txt").symlink_to("data.txt")
        (source / "link").symlink_to("sub")
        self.assertEqual(self.names(source), ["data.txt", "link.txt", "link/x", "sub/x"])
        for name, target in (("gone", "nothing"), ("loop", "loop"), ("up", "..")):
            (source / "sub" / name).symlink_to(target)
            with self.assertRaisesRegex(BursarError, f"(sub|link)/{name} is a link to"):
                self.names(source)
            (source / "sub" / name).unlink()
        os.mkfifo(source / "pipe")
        with self.assertRaisesRegex(BursarError, "pipe is neither a file nor a folder"):
            self.names(source)
        (source / ".bursarignore").write_text("pipe\n")
        self.assertEqual(self.names(source), ["data.txt", "link.txt", "link/x", "sub/x"])

    @unittest.skipUnless(shutil.which("git"), "git is the reference for the syntax")
    def test_a_name_that_is_not_utf_8_is_an_error_unless_it_is_ignored(self) -> None:
        folder = self.write("a.txt")
        with open(os.fsencode(folder) + b"/bad\xff.dat", "w"):
            pass
        with self.assertRaisesRegex(BursarError, "not UTF-8"):
            list_files(folder)
        (folder / ".bursarignore").write_text("*.dat\n")
        self.assertEqual(self.names(folder), ["a.txt"])

    def test_ignore_patterns_match_as_in_git(self) -> None:
        names = [
            "a",
            "b.txt",
            "a.txt",
            "foo/a",
            "foo/bar/a.txt",
            "foo/bar/b",
            "bar/foo/a",
            "bar/a b",
            "x/y/z/a.log",
            "[a]",
            "!b",
            "#c",
            "foo/.a",
            "A",
            "a-b",
            "d]",
            "x/foo",
        ]
        source = self.write(*names)
        subprocess.run(["git", "init", "-q", "--bare", str(self.folder / "git")], check=True)
        fixed = [
            "*.txt\n!a.txt",
            "foo/",
            "/foo/*\n!/foo/bar",
            "**/a",
            "foo/**",
            "a/**/b",
            "x/**/a.log",
            "**/foo/**",
            "[ab]*",
            "[!a]",
            "[^a-c]*",
            "\\[a\\]",
            "\\!b",
            "\\#c",
            "bar/a\\ b",
            "bar/a b  ",
            "foo/*/a.txt",
            "x/*",
            "*",
            "*/",
            "!*/\n*",
            "/*\n!/x",
            "**",
            "[[:upper:]]",
            "[]a]",
            "d[]]",
            "?",
            "foo//a",
            "/",
            "[a",
            "a\\",
            "***/a",
            "foo/bar/",
            "b?r",
            "x/**",
            "[a-",
            "[\\]a]*",
            "[b-a]*",
            "**foo/a",
        ]
        generator = random.Random(17)
        atoms = [
            "a",
            "b",
            "foo",
            "bar",
            "*",
            "**",
            "?",
            "/",
            "/",
            ".txt",
            "[ab]",
            "[!x]",
            "x",
            "y",
            "z",
            ".log",
            "\\a",
            "***",
        ]
        generated = [
            "\n".join(
                generator.choice(["", "", "!"]) + "".join(generator.choices(atoms, k=generator.randint(1, 5)))
                for _ in range(generator.randint(1, 3))
            )
            for _ in range(60)
        ]
        for text in [*fixed, *generated]:
            with self.subTest(text=text):
                (source / ".bursarignore").write_text(text + "\n")
                self.assertEqual(set(self.names(source)), self.git_names(source, text))

    def git_names(self, source: Path, text: str) -> Set[str]:
        """The files that git would add, with the patterns that Bursar adds in front."""
        exclude = self.folder / "exclude"
        exclude.write_text("\n".join([".git", "/.bursar", "/.bursarignore", "/bursar.yaml", ".DS_Store", text]) + "\n")
        repository = ["--git-dir", str(self.folder / "git"), "--work-tree", str(source)]
        command = ["git", "-C", str(source), *repository, "ls-files", "-z", "--others", "--exclude-from", str(exclude)]
        listed = subprocess.run(command, check=True, capture_output=True).stdout.decode().split("\0")
        return {name for name in listed if name}
