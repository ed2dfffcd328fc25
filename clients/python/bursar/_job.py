"""One job: its state, log, files and end."""

from __future__ import annotations

import queue
import time
import uuid
from pathlib import Path
from typing import Any, Callable, Iterator, List, Literal, Optional, Union, overload, TYPE_CHECKING

from ._display import Progress, card, plain_line
from ._download import download, download_files, quote_path, select_files
from ._errors import BursarError, JobFailed
from ._events import Notice
from ._http import Transport
from ._log import follow_log, read_log, read_log_tail
from ._table import Table, format_html, format_text, printable, to_pandas
from ._timeline import Timeline
from ._types import AnyPath, EventData, JobData, Row

if TYPE_CHECKING:
    from ._events import EventFeed


class Job:
    """A job on an HPC system. `data` is the Job object of the API as it was last read."""

    def __init__(self, transport: Transport, feed: "EventFeed", data: JobData) -> None:
        self._transport = transport
        self._feed = feed
        self.data = data

    @property
    def job_id(self) -> str:
        return self.data["job_id"]

    @property
    def system(self) -> str:
        return self.data["project_hpc"].lower()

    @property
    def project(self) -> str:
        return self.data["project_name"]

    @property
    def title(self) -> str:
        return self.data["title"]

    @property
    def stage(self) -> str:
        return self.data["stage"]

    @property
    def done(self) -> bool:
        """Whether the job has ended, in whatever way."""
        return self.data["terminal_stage"]

    @property
    def failed(self) -> bool:
        return self.data["failed"]

    def __repr__(self) -> str:
        return printable(f"<Job {self.job_id} {self.title!r} on {self.system}: {self.stage}>")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Job) and self._path == other._path

    def __hash__(self) -> int:
        return hash(self._path)

    def _repr_html_(self) -> str:
        return card(self)

    @property
    def _path(self) -> str:
        return f"{self.system}/{self.project}/{self.job_id}/"

    def refresh(self) -> "Job":
        """Reads the job again."""
        self.data = self._transport.json("GET", f"/jobs/{self._path}")
        return self

    def wait(self, timeout: Optional[float] = None, *, progress: bool = False, check: bool = False) -> "Job":
        """Waits until the job has ended, by the event stream of the server, and returns the job.

        `progress` shows the stage meanwhile. `check` raises JobFailed unless the job succeeded. After `timeout` seconds
        it raises TimeoutError. The job continues if the wait is interrupted.
        """
        display = Progress(self) if progress else None
        try:
            self._watch(timeout, display)
        finally:
            if display is not None:
                display.close()
        if check:
            self.check()
        return self

    def check(self) -> "Job":
        """Raises JobFailed unless the job has succeeded."""
        end = self.end()
        if end is None:
            raise BursarError("job_not_finished", f"The job {self.job_id} has not ended. Call wait() first.")
        if end["outcome"] == "succeeded":
            return self
        outcome, reason = str(end["outcome"]), str(end.get("reason") or "no reason is known").rstrip(".")
        detail = f"The job {self.job_id} ended as {self.stage}: {reason}."
        lines = self._last_errors()
        if lines:
            detail += "\nThe last lines of its standard error:\n" + "\n".join(f"  {line}" for line in lines)
        failure = JobFailed(outcome, detail, problem=end)
        failure.job = self
        raise failure

    def _last_errors(self) -> List[str]:
        try:
            return [plain_line(line) for line in self.log_tail(10, "stderr")]
        except BursarError:
            return []  # The files may be deleted, or away for a moment: the failure of the job is more important.

    def end(self) -> Optional[Row]:
        """The last entry of the timeline with an outcome; None if the job has not ended."""
        ends = [entry for entry in self.timeline() if entry.get("outcome")]
        return ends[-1] if ends else None

    def _watch(
        self,
        timeout: Optional[float] = None,
        display: Optional[Progress] = None,
        notices: "Optional[queue.SimpleQueue[Notice]]" = None,
        is_cancelled: Callable[[], bool] = lambda: False,
    ) -> None:
        """Returns when the job has ended, or `is_cancelled()` after a notice."""
        deadline = None if timeout is None else time.monotonic() + timeout
        own_notices = self._feed.subscribe(self.job_id) if notices is None else notices
        try:
            self.refresh()
            while not self.done and not is_cancelled():
                if display is not None:
                    display.update()
                try:
                    notice = own_notices.get(timeout=_next_wait(deadline, display))
                except queue.Empty:
                    if deadline is not None and time.monotonic() >= deadline:
                        raise TimeoutError(
                            f"The job {self.job_id} has not ended after {timeout} s. It continues."
                        ) from None
                    continue
                if isinstance(notice, BursarError):
                    raise notice
                self._apply(notice)
            if display is not None:
                display.update()
        finally:
            if notices is None:
                self._feed.unsubscribe(self.job_id, own_notices)

    def _apply(self, event: Optional[EventData]) -> None:
        """The event may be older than what was read of the job, unless the job has ended in it: an end is final."""
        if self.done:
            return
        if event is not None and event["job"] is not None and event["job"]["terminal_stage"]:
            self.data = event["job"]
        else:
            self.refresh()

    @overload
    def log(self, *, follow: Literal[False] = False, stream: Literal["stdout", "stderr"] = "stdout") -> str:
        ...

    @overload
    def log(self, *, follow: Literal[True], stream: Literal["stdout", "stderr"] = "stdout") -> Iterator[str]:
        ...

    def log(self, *, follow: bool = False, stream: Literal["stdout", "stderr"] = "stdout") -> Union[str, Iterator[str]]:
        """The output of the job: the text up to now; with `follow=True` an iterator over its lines until the job has ended.

        Lines keep their line feed. A lost connection is resumed: no line is missing or repeated.
        """
        if follow:
            return follow_log(self._transport, self._log_path, stream)
        return read_log(self._transport, self._log_path, {"stream": stream})

    @property
    def _log_path(self) -> str:
        return f"/jobs/{self._path}log/"

    def log_tail(self, lines: int = 10, stream: Literal["stdout", "stderr"] = "stdout") -> List[str]:
        """The last lines of the output, without reading a long log from its start."""
        return read_log_tail(self._transport, self._log_path, stream, lines)

    def files(self, folder: str = "") -> Table:
        """The files of the job, with `path`, `size` in bytes and `modified`."""
        path = f"/files/{self._path}{quote_path(folder.strip('/') + '/' if folder.strip('/') else '')}"
        return Table(self._transport.json("GET", path), ["path", "size", "modified"])

    def download(self, to: AnyPath, path: Optional[str] = None) -> List[Path]:
        """Downloads the files of the job into the folder `to`, and returns their places.

        `path` selects one file, or a folder with a slash at its end. Called again, it continues an interrupted download
        and skips the files that are complete. If the server refuses a file, the others are downloaded before the error is
        raised.
        """
        return download_files(self._transport, f"/files/{self._path}", select_files(self.files(), path), Path(to))

    def read(self, path: str) -> bytes:
        """The content of one file."""
        content: bytes = self._transport.send(
            "GET", f"/files/{self._path}{quote_path(path)}", lambda response: response.content
        )
        return content

    def archive(self, to: AnyPath) -> Path:
        """Downloads all files of the job as one zip file. In an existing folder the file has the id of the job as its name."""
        target = Path(to) / f"{self.job_id}.zip" if Path(to).is_dir() else Path(to)
        download(self._transport, f"/files/{self._path}?archive=zip", target)
        return target

    def cancel(self) -> "Job":
        """Asks the system to end the job. Its end follows: call `wait()` for it. A job that has ended stays as it is."""
        self.data = self._transport.json("POST", f"/jobs/{self._path}cancel/", key=str(uuid.uuid4()))
        return self

    def delete(self) -> "Job":
        """Deletes the files of a job that has ended."""
        self.data = self._transport.json("DELETE", f"/jobs/{self._path}")
        return self

    def timeline(self) -> Timeline:
        """The history of the job, with the time that was requested, used and charged."""
        return Timeline(self._transport.json("GET", f"/jobs/{self._path}timeline/"))


def _next_wait(deadline: Optional[float], display: Optional[Progress]) -> Optional[float]:
    waits: List[float] = []
    if deadline is not None:
        # The timeout may be infinite, which a queue does not accept.
        waits.append(min(max(0.0, deadline - time.monotonic()), 3600.0))
    if display is not None and display.interval is not None:
        waits.append(display.interval)
    return min(waits) if waits else None


_COLUMNS = ["job_id", "title", "stage", "system", "project", "init_date", "end_date"]


class Jobs(List[Job]):
    """A list of jobs that prints as a table."""

    def _rows(self) -> List[List[Any]]:
        return [
            [j.job_id, j.title, j.stage, j.system, j.project, j.data["init_date"], j.data["end_date"]] for j in self
        ]

    def __repr__(self) -> str:
        return format_text(_COLUMNS, self._rows())

    def _repr_html_(self) -> str:
        return format_html(_COLUMNS, self._rows())

    def to_pandas(self) -> Any:
        """A pandas DataFrame with the fields of the Job objects. Raises ImportError if pandas is not installed."""
        return to_pandas([dict(job.data) for job in self], list(JobData.__annotations__))
