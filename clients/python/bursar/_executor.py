"""An executor that runs each call as a job."""

from __future__ import annotations

import pickle
import queue
import tempfile
import threading
import time
import uuid
from concurrent.futures import Executor as BaseExecutor
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any, Callable, Dict, List, Optional, Set, Tuple, Type, TypeVar, TYPE_CHECKING

from ._call import pack_call
from ._errors import BursarError, JobFailed
from ._events import Notice
from ._job import Job
from ._payload import make_payload

if TYPE_CHECKING:
    from ._client import Bursar

T = TypeVar("T")


class RemoteTraceback(Exception):
    """The cause of an exception that a job has raised: the traceback of the job, as text."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return f'\n"""\n{self.text}"""'


class JobFuture(Future[T]):
    """The result of a call. `job` is its job, once it is submitted. `cancel()` also cancels a job that already runs."""

    def __init__(self) -> None:
        super().__init__()
        self.job: Optional[Job] = None
        self._first_stage: Optional[str] = None
        self._notices: "queue.SimpleQueue[Notice]" = queue.SimpleQueue()
        self._settle_lock = threading.Lock()

    def cancel(self) -> bool:
        """Cancels the call and its job. Returns False only if the result is there already."""
        with self._settle_lock:
            if self.cancelled():
                return True
            if not super().cancel():
                return False
            self.set_running_or_notify_cancel()
        # The thread of the call wakes up, and sends the cancellation to the server.
        self._notices.put(None)
        return True

    def running(self) -> bool:
        """Whether the job has started on the system: its stage is no longer that of a new job."""
        job = self.job
        return job is not None and job.stage != self._first_stage and not job.done and not self.done()

    def _set_job(self, job: Job) -> None:
        self._first_stage = job.stage
        self.job = job

    def _settle(self, result: Any, error: Optional[BaseException]) -> None:
        with self._settle_lock:
            if self.cancelled() or not self.set_running_or_notify_cancel():
                return
        if error is not None:
            self.set_exception(error)
        else:
            self.set_result(result)


class Executor(BaseExecutor):
    """Runs functions as jobs: `Executor(bursar, system="hpc_one").submit(f, 1).result()`.

    The function and its arguments are pickled; functions of a script, a notebook or a module of your own are sent along.
    The result, or the exception, comes back through the files of the job. Only unpickle results of systems that you
    trust, as with every pickle. At most `max_jobs` calls are jobs at a time; the others wait here.
    """

    def __init__(
        self,
        bursar: "Bursar",
        *,
        system: str,
        project: Optional[str] = None,
        python: str = "python3",
        tool: Optional[str] = None,
        nodes: Optional[int] = None,
        cores: Optional[int] = None,
        runtime: Optional[float] = None,
        title: Optional[str] = None,
        max_jobs: int = 32,
        delete_files: bool = False,
    ) -> None:
        """`python` is the command of a batch system, `tool` the tool of a tool system: by default the one that runs main.py.

        `delete_files` deletes the files of each job when its result has arrived.
        """
        self._bursar = bursar
        self._system = system
        self._project = project
        self._title = title
        self._delete_files = delete_files
        program = _find_program(bursar, system, python, tool)
        self._program: Dict[str, Any] = {**program, "nodes": nodes, "cores": cores, "runtime": runtime}
        self._lock = threading.Lock()
        self._is_shut_down = False
        self._futures: Set[JobFuture[Any]] = set()
        self._threads = ThreadPoolExecutor(max_jobs, thread_name_prefix="bursar-call")

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> JobFuture[T]:
        """Starts a call as a job. Raises pickle.PicklingError at once if the call cannot be pickled."""
        folder = tempfile.TemporaryDirectory(prefix="bursar-")
        zip_file = Path(folder.name) / "job.zip"
        try:
            pack_call(fn, args, kwargs, zip_file)
            future: JobFuture[T] = JobFuture()
            with self._lock:
                if self._is_shut_down:
                    raise RuntimeError("cannot schedule new futures after shutdown")
                self._futures.add(future)
                title = self._title or str(getattr(fn, "__name__", "call"))
                self._threads.submit(self._run, future, folder, zip_file, title)
        except BaseException:
            folder.cleanup()
            raise
        future.add_done_callback(self._forget)
        return future

    def __exit__(
        self,
        exc_type: Optional[Type[BaseException]],
        exc_value: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> Optional[bool]:
        """Waits for all calls. After Ctrl-C it cancels them instead: the jobs may run for hours, and nobody reads the results."""
        is_interrupted = exc_type is not None and issubclass(exc_type, KeyboardInterrupt)
        with self._lock:
            futures = list(self._futures) if is_interrupted else []
        for future in futures:
            future.cancel()
        return super().__exit__(exc_type, exc_value, traceback)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Ends the executor. `cancel_futures` cancels the calls whose job has not started; the others run to their end."""
        with self._lock:
            self._is_shut_down = True
            futures = list(self._futures)
        if cancel_futures:
            for future in futures:
                if not future.running():
                    future.cancel()
        self._threads.shutdown(wait)

    def _forget(self, future: Any) -> None:
        with self._lock:
            self._futures.discard(future)

    def _run(
        self, future: JobFuture[Any], folder: "tempfile.TemporaryDirectory[str]", zip_file: Path, title: str
    ) -> None:
        try:
            with folder:
                if future.cancelled():
                    return
                job = self._submit_job(future, zip_file, title)
            if job is None:
                return
            future._set_job(job)
            result, error = self._finish(future, job)
        except BaseException as failure:  # Whatever happens, somebody may wait for the future.
            result, error = None, failure
        future._settle(result, error)

    def _submit_job(self, future: JobFuture[Any], zip_file: Path, title: str) -> Optional[Job]:
        payload = make_payload(**self._program, title=title[:256], tags=None, params=None)
        key = str(uuid.uuid4())
        while not future.cancelled():
            try:
                return self._bursar._submit_zip(zip_file, self._system, self._project, payload, key)
            except BursarError as error:
                if error.code != "too_many_jobs":
                    raise
                time.sleep(error.retry_after or 5.0)
        return None

    def _finish(self, future: JobFuture[Any], job: Job) -> Tuple[Any, Optional[BaseException]]:
        """Waits for the end of the job and reads its result. If the call was cancelled, it cancels the job instead."""
        feed = self._bursar._feed
        feed.subscribe(job.job_id, future._notices)
        try:
            job._watch(notices=future._notices, is_cancelled=future.cancelled)
        finally:
            feed.unsubscribe(job.job_id, future._notices)
        if future.cancelled():
            job.cancel()
            return None, None
        result, error = _read_result(job)
        if self._delete_files:
            job.delete()
        return result, error


def _find_program(bursar: "Bursar", system: str, python: str, tool: Optional[str]) -> Dict[str, Optional[str]]:
    description = bursar._system(system)
    if description["kind"] == "batch":
        return {"command": f"{python} main.py", "tool": None}
    names: List[str] = [item["name"] for item in description["tools"] if item["entry"] == "main.py"]
    if tool is None and not names:
        raise ValueError(f"The system {system} has no tool that runs main.py. Name one with tool=.")
    return {"command": None, "tool": tool or names[0]}


def _read_result(job: Job) -> Tuple[Any, Optional[BaseException]]:
    try:
        content = job.read("result.pickle")
    except BursarError as missing:
        if missing.code not in ("file_unknown", "files_deleted"):
            raise
        return None, _failure(job)
    try:
        kind, value, trace = pickle.loads(content)
    except Exception as error:
        return None, BursarError(
            "result_unreadable", f"The result of the job {job.job_id} cannot be unpickled here: {error}."
        )
    if kind == "value":
        return value, None
    failure = value if kind == "error" else RuntimeError(value)
    failure.__cause__ = RemoteTraceback(trace)
    return None, failure


def _failure(job: Job) -> BursarError:
    """The error of a job that left no result: it was killed, timed out, or could not start Python."""
    try:
        job.check()
    except JobFailed as error:
        return error
    return BursarError("result_missing", f"The job {job.job_id} succeeded, but left no result.")
