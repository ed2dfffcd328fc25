"""Sweeps: one job for each combination of parameters. A sweep that was interrupted continues where it stopped."""

from __future__ import annotations

import hashlib
import itertools
import json
import queue
import re
import time
from pathlib import Path
from typing import Any, Dict, Iterable, List, Mapping, NamedTuple, Optional, Sequence, TYPE_CHECKING

from ._errors import BursarError
from ._events import Notice
from ._job import Job
from ._payload import plain_value
from ._table import format_html, format_text, to_pandas
from ._types import AnyPath, Param, Row

if TYPE_CHECKING:
    from ._client import Bursar

_PLACEHOLDER = re.compile(r"\{([A-Za-z_]\w*)\}")


class SweepJob(NamedTuple):
    params: Dict[str, Param]
    job: Job


class Sweep(List[SweepJob]):
    """The jobs of a sweep with their parameters, in the order of the combinations."""

    name: str = ""

    @property
    def jobs(self) -> List[Job]:
        return [item.job for item in self]

    def wait(self, timeout: Optional[float] = None, *, check: bool = False) -> "Sweep":
        """Waits until all jobs have ended. `check` raises JobFailed if one did not succeed."""
        deadline = None if timeout is None else time.monotonic() + timeout
        for job in self.jobs:
            job.wait(None if deadline is None else max(0.0, deadline - time.monotonic()))
        if check:
            for job in self.jobs:
                job.check()
        return self

    def download(self, to: AnyPath) -> Dict[str, List[Path]]:
        """Downloads the files of each job into a folder named by its parameters. Called again, it continues."""
        return {name: item.job.download(Path(to) / name) for name, item in zip(map(_folder_name, self), self)}

    def __repr__(self) -> str:
        return format_text(self._columns(), self._rows())

    def _repr_html_(self) -> str:
        return format_html(self._columns(), self._rows())

    def to_pandas(self) -> Any:
        """A DataFrame with the parameters and the state of each job. Raises ImportError if pandas is not installed."""
        return to_pandas([dict(zip(self._columns(), row)) for row in self._rows()], self._columns())

    def _columns(self) -> List[str]:
        return [*(self[0].params if self else []), "job_id", "stage"]

    def _rows(self) -> List[List[Any]]:
        return [[*item.params.values(), item.job.job_id, item.job.stage] for item in self]


def _folder_name(item: SweepJob) -> str:
    text = ",".join(f"{name}={value}" for name, value in item.params.items())
    safe = re.sub(r"[^\w.,=+-]", "_", text, flags=re.ASCII)[:120]
    return text if safe == text else f"{safe}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def run_sweep(
    bursar: "Bursar",
    zip_file: Optional[AnyPath],
    params: Mapping[str, Iterable[Param]],
    settings: Row,
    system: str,
    project: Optional[str],
    name: Optional[str],
    max_running: Optional[int],
    retry_failed: bool,
) -> Sweep:
    """Each combination has a tag made from the name of the sweep and its values, and the same text as idempotency key.

    The tag finds the jobs of an earlier call, however long ago. Because of the key, two calls at the same time, or
    a call that was killed and started again, cannot submit a combination twice.
    """
    values_by_name = {name: _plain_values(name, values) for name, values in params.items()}
    tool_parameters = _tool_parameters(bursar, system, settings)
    _check_names(values_by_name, settings, tool_parameters)
    sweep_name = name or _default_name(zip_file, settings, system, project)
    sweep = Sweep()
    sweep.name = sweep_name
    sweep_tag = "sweep:" + _digest([sweep_name])
    is_new = not bursar.jobs(system=system, tag=sweep_tag)
    for values in itertools.product(*values_by_name.values()):
        combination = dict(zip(values_by_name, values))
        tag = "sweep-job:" + _digest([sweep_name, combination])[:20]
        earlier = [] if is_new else list(bursar.jobs(system=system, tag=tag))
        if earlier and not (retry_failed and earlier[-1].done and earlier[-1].failed):
            sweep.append(SweepJob(combination, earlier[-1]))
            continue
        if max_running is not None:
            _wait_for_room(bursar, sweep.jobs, max_running)
        payload = {**_fill(settings, combination, tool_parameters), "tags": [sweep_tag, tag]}
        job = _submit(bursar, zip_file, system, project, payload, f"{tag}:{len(earlier)}")
        sweep.append(SweepJob(combination, job))
    return sweep


def _submit(
    bursar: "Bursar", zip_file: Optional[AnyPath], system: str, project: Optional[str], payload: Row, key: str
) -> Job:
    while True:
        try:
            return bursar._submit_zip(zip_file, system, project, payload, key)
        except BursarError as error:
            if error.code == "idempotency_key_reused":
                detail = "The sweep was started with other files or settings under this name. Give it another name=."
                raise BursarError(error.code, detail, error.status, error.request_id) from error
            if error.code != "too_many_jobs":
                raise
            time.sleep(error.retry_after or 5.0)


def _wait_for_room(bursar: "Bursar", jobs: Sequence[Job], max_running: int) -> None:
    """Waits until fewer than `max_running` of the jobs have not ended."""
    unfinished = {job.job_id: job for job in jobs if not job.done}
    if len(unfinished) < max(1, max_running):
        return
    notices: "queue.SimpleQueue[Notice]" = queue.SimpleQueue()
    for job_id in unfinished:
        bursar._feed.subscribe(job_id, notices)
    try:
        for job in unfinished.values():
            job.refresh()
        while sum(not job.done for job in unfinished.values()) >= max(1, max_running):
            notice = notices.get()
            if isinstance(notice, BursarError):
                raise notice
            for job in unfinished.values():
                if notice is None or notice["data"].get("job_id") == job.job_id:
                    job._apply(notice)
    finally:
        for job_id in unfinished:
            bursar._feed.unsubscribe(job_id, notices)


def _plain_values(name: str, values: Iterable[Param]) -> List[Param]:
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise ValueError(f'params= needs a list of values for "{name}", such as {{"{name}": [1, 2, 3]}}.')
    return [plain_value(value) for value in values]


def _tool_parameters(bursar: "Bursar", system: str, settings: Row) -> List[str]:
    """The names of the parameters that the tool of the sweep declares; none for a command."""
    if "tool" not in settings:
        return []
    tools = {tool["name"]: tool for tool in bursar._system(system)["tools"]}
    if settings["tool"] not in tools:
        raise ValueError(f"The system {system} has no tool {settings['tool']}. It has {', '.join(tools) or 'none'}.")
    return [parameter["name"] for parameter in tools[settings["tool"]]["parameters"]]


def _check_names(params: Dict[str, List[Param]], settings: Row, tool_parameters: List[str]) -> None:
    """Each parameter must reach the program of the job. The title does not count: it changes nothing that runs."""
    if not params or not all(params.values()):
        raise ValueError('params= needs at least one value for each name, such as {"a": [1, 2, 3]}.')
    clash = [name for name in params if name in settings and name in tool_parameters]
    if clash:
        raise ValueError(f"{', '.join(clash)} is given twice: as a setting, and as a parameter of the sweep.")
    texts = [settings.get(field) for field in ("command", *tool_parameters)]
    used = {match for text in texts if isinstance(text, str) for match in _PLACEHOLDER.findall(text)}
    unused = [name for name in params if name not in used and name not in tool_parameters]
    if not unused:
        return
    if "command" in settings:
        raise ValueError(
            f"The command does not use {', '.join(unused)}: write {{{unused[0]}}} where its value belongs."
        )
    known = f"has the parameters {', '.join(tool_parameters)}" if tool_parameters else "has no parameters"
    raise ValueError(
        f"The tool {settings['tool']} {known}, and nothing uses {', '.join(unused)}: "
        f"write {{{unused[0]}}} into tool_params=."
    )


def _fill(settings: Row, combination: Dict[str, Param], tool_parameters: List[str]) -> Row:
    def value(match: "re.Match[str]") -> str:
        name = match.group(1)
        return str(combination[name]) if name in combination else match.group(0)

    filled = {
        field: _PLACEHOLDER.sub(value, text) if isinstance(text, str) else text for field, text in settings.items()
    }
    return {**filled, **{name: combination[name] for name in combination if name in tool_parameters}}


def _default_name(zip_file: Optional[AnyPath], settings: Row, system: str, project: Optional[str]) -> str:
    content = hashlib.sha256()
    if zip_file is not None:
        with open(zip_file, "rb") as file:
            for block in iter(lambda: file.read(1 << 20), b""):
                content.update(block)
    return _digest([content.hexdigest(), settings, system, project])


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:24]
