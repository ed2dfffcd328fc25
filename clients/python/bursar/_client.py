"""The client: everything that starts from a server, and not from one job."""

from __future__ import annotations

import json
import re
import uuid
from datetime import datetime
from typing import Any, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, Union
from urllib.parse import quote, unquote

from ._errors import NotSignedIn
from ._events import EventFeed, resume_stream
from ._folder import open_input
from ._http import Transport, read_json
from ._job import Job, Jobs
from ._lookup import MAX_CANDIDATES, newest_job, select_job
from ._payload import Time, dump_payload, make_payload, target_path, time_text
from ._profile import find_credentials
from ._sweep import Sweep, run_sweep
from ._table import Table
from ._types import AnyPath, EventData, JobData, Param, Params, QuoteData, Row

_PAGE_SIZE = 1000


class Bursar:
    """A connection to a Bursar server. Threads may share it.

    Without `url` and `token`: BURSAR_URL and BURSAR_TOKEN, then the profile that `bursar login` has stored. `retries` is
    the number of repetitions of a request that failed for a reason that passes. `insecure` allows to send the token
    without TLS to another computer.
    """

    def __init__(
        self,
        url: Optional[str] = None,
        token: Optional[str] = None,
        profile: Optional[str] = None,
        *,
        retries: int = 6,
        insecure: bool = False,
    ) -> None:
        credentials = find_credentials(url, token, profile)
        if credentials.url is None:
            raise NotSignedIn(
                "url_missing", "No server is known. Run `bursar login <url>`, set BURSAR_URL, or pass url=."
            )
        self._transport = Transport(credentials.url, credentials.token, retries, insecure or credentials.insecure)
        self._feed = EventFeed(self._transport)

    @property
    def url(self) -> str:
        return self._transport.url

    def __repr__(self) -> str:
        return f"<Bursar {self.url}>"

    def submit(
        self,
        source: Optional[AnyPath] = None,
        *,
        system: str,
        project: Optional[str] = None,
        command: Optional[str] = None,
        tool: Optional[str] = None,
        nodes: Optional[int] = None,
        cores: Optional[int] = None,
        runtime: Optional[float] = None,
        title: Optional[str] = None,
        tags: Optional[Sequence[str]] = None,
        params: Optional[Params] = None,
        key: Optional[str] = None,
    ) -> Job:
        """Submits a job and returns it.

        `source` is a folder, which is packed without the paths of its .bursarignore, or a zip file. `runtime` is in hours,
        `cores` is for each node; the system has defaults for both and for `nodes`. `params` are the parameters of the tool.
        A lost connection cannot double the job, because every attempt has the same idempotency key. With a `key` of your
        own, a repeated call within a day returns the job of the first one.
        """
        payload = make_payload(command, tool, nodes, cores, runtime, title, tags, params)
        with open_input(source) as zip_file:
            return self._submit_zip(zip_file, system, project, payload, key or str(uuid.uuid4()))

    def _submit_zip(
        self, zip_file: Optional[AnyPath], system: str, project: Optional[str], payload: Row, key: str
    ) -> Job:
        headers = {
            "Payload": dump_payload(payload),
            "Content-Disposition": "attachment; filename=job.zip",
            **({} if zip_file is None else {"Content-Type": "application/zip"}),
        }
        data = self._transport.json(
            "POST", f"/jobs/{target_path(system, project)}", headers=headers, body=zip_file, key=key
        )
        return self._job(data)

    def quote(
        self,
        *,
        system: str,
        project: Optional[str] = None,
        command: Optional[str] = None,
        tool: Optional[str] = None,
        nodes: Optional[int] = None,
        cores: Optional[int] = None,
        runtime: Optional[float] = None,
        params: Optional[Params] = None,
    ) -> QuoteData:
        """The cost of a job, and whether it would be accepted now. Nothing is submitted."""
        payload = make_payload(command, tool, nodes, cores, runtime, None, None, params)
        headers = {"Payload": dump_payload(payload)}
        quote_data: QuoteData = self._transport.json(
            "POST", f"/quotes/{target_path(system, project)}", headers=headers, key=str(uuid.uuid4())
        )
        return quote_data

    def jobs(
        self,
        *,
        system: Optional[str] = None,
        project: Optional[str] = None,
        stage: Optional[str] = None,
        failed: Optional[bool] = None,
        done: Optional[bool] = None,
        since: Optional[Time] = None,
        title: Optional[str] = None,
        tag: Union[None, str, Sequence[str]] = None,
    ) -> Jobs:
        """Your jobs, oldest first. A project needs its system."""
        if project is not None and system is None:
            raise ValueError("A project needs its system: pass system= as well.")
        query: Dict[str, Any] = {"limit": str(_PAGE_SIZE), "stage": stage, "title": title, "tag": tag}
        query["failed"] = None if failed is None else str(failed).lower()
        query["terminal"] = None if done is None else str(done).lower()
        query["since"] = None if since is None else time_text(since)
        path = "/jobs/" if system is None else f"/jobs/{target_path(system, project)}"
        found: List[JobData] = []
        while True:
            page, cursor = self._transport.send("GET", path, _read_page, params=query)
            found.extend(page)
            if cursor is None:
                return Jobs(self._job(data) for data in found)
            query["cursor"] = cursor

    def job(self, job_id: str) -> Job:
        """The job whose id begins with this text, or `@last`: the newest one."""
        query = {"limit": "1"} if job_id == "@last" else {"limit": str(MAX_CANDIDATES), "job_id": job_id}
        page = self._transport.json("GET", "/job-summaries/", params=query)
        jobs = [self._job(summary["job"]) for summary in page["jobs"]]
        return newest_job(jobs) if job_id == "@last" else select_job(jobs, page["next"] is not None, job_id)

    def events(self, after: Union[None, int, str] = "latest") -> Iterator[EventData]:
        """The events of your jobs and quotas, for ever, each once. It resumes by itself after a lost connection.

        `after` is the id of the last event that you have processed; by default only new events come, and with None all
        that are stored. The position is fixed when the first event is asked for.
        """
        position = None if after is None else str(after)
        if position == "latest":
            position = str(self._transport.json("GET", "/events/", params={"after": "latest", "limit": "1"})["next"])
        for event in resume_stream(self._transport, "/events/", {}, position):
            if event is not None:
                yield json.loads(event.data)

    def systems(self) -> Table:
        """The HPC systems, with their limits, tools and health."""
        columns = ["hpc", "kind", "status", "default_project", "charge", "queued_jobs", "running_jobs"]
        return Table(self._transport.json("GET", "/hpc/"), columns)

    def quotas(self, system: Optional[str] = None) -> Table:
        """Your remaining quotas: `time_left` in seconds of the system's charging unit, `space_left` in KB."""
        path = "/quotas/" if system is None else f"/quotas/{quote(system, safe='')}/"
        return Table(self._transport.json("GET", path), ["project_hpc", "project_name", "time_left", "space_left"])

    def statement(
        self, system: str, project: Optional[str] = None, *, since: Optional[Time] = None, until: Optional[Time] = None
    ) -> Table:
        """Every movement of time and space of a quota. Without a project: of the default project of the system."""
        name = project or str(self._system(system)["default_project"])
        query = {
            "from": None if since is None else time_text(since),
            "to": None if until is None else time_text(until),
        }
        data = self._transport.json("GET", f"/quotas/{target_path(system, name)}statement/", params=query)
        rows = [
            {"resource": resource, "unit": data[resource]["unit"], **movement}
            for resource in ("time", "space")
            for movement in data[resource]["movements"]
        ]
        return Table(rows, ["at", "resource", "kind", "change", "balance", "unit", "job_id", "actor", "reason"])

    def usage(self) -> Table:
        """Your usage by project and month."""
        return Table(
            self._transport.json("GET", "/usage/"), ["project_hpc", "project_name", "month", "jobs", "time_seconds"]
        )

    def me(self) -> Row:
        """Your user, roles, scopes and projects."""
        data: Row = self._transport.json("GET", "/me/")
        return data

    def sweep(
        self,
        source: Optional[AnyPath],
        params: Mapping[str, Iterable[Param]],
        *,
        system: str,
        name: Optional[str] = None,
        project: Optional[str] = None,
        command: Optional[str] = None,
        tool: Optional[str] = None,
        nodes: Optional[int] = None,
        cores: Optional[int] = None,
        runtime: Optional[float] = None,
        title: Optional[str] = None,
        tool_params: Optional[Params] = None,
        max_running: Optional[int] = None,
        retry_failed: bool = False,
    ) -> Sweep:
        """Submits one job for each combination of the values, and returns them.

        `{a}` in the command, the title and the text of `tool_params` becomes the value of the parameter `a`, as it is: in a
        command, put quotes around it if a value has spaces. A parameter that the tool declares is passed to it. One that
        reaches neither the command nor the tool is a ValueError.
        Called again with the same `name`, it returns the jobs that exist and submits only those that are missing. The
        default name stands for the input and all settings. `max_running` limits the jobs that have not ended.
        """
        settings = make_payload(command, tool, nodes, cores, runtime, title, None, tool_params)
        with open_input(source) as zip_file:
            return run_sweep(self, zip_file, params, settings, system, project, name, max_running, retry_failed)

    def _system(self, name: str) -> Row:
        data: Row = self._transport.json("GET", f"/hpc/{quote(name, safe='')}/")
        return data

    def _job(self, data: JobData) -> Job:
        return Job(self._transport, self._feed, data)


def _read_page(response: Any) -> Any:
    link = re.search(r'[?&]cursor=([^&>]+)[^>]*>;\s*rel="next"', response.headers.get("Link", ""))
    return read_json(response), None if link is None else unquote(link.group(1))
