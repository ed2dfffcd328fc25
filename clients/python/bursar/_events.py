"""Server-sent events: a parser, streams that resume by themselves, and one stream that all waiting jobs share."""

from __future__ import annotations

import json
import os
import queue
import threading
import time
from typing import Dict, Iterator, List, Mapping, NamedTuple, Optional, Union

import requests

from ._errors import BursarError
from ._http import Transport, request_failure
from ._retry import is_transient, retry_delay
from ._types import EventData

#: A stream survives a restart of the server, or a network that is away for this long.
RECONNECT_SECONDS = 600.0
#: Nobody notices that a job has ended until the stream is back, so it looks for the server more often than a request.
MAX_RECONNECT_DELAY_SECONDS = 5.0


class ServerSentEvent(NamedTuple):
    id: Optional[str]
    type: str
    data: str


def parse_events(response: requests.Response) -> Iterator[Optional[ServerSentEvent]]:
    """Yields the events of a response as they arrive, and None for each heartbeat."""
    last_id: Optional[str] = None
    event_type = "message"
    data: List[str] = []
    for line in _lines(response):
        if line == "":
            if data:
                yield ServerSentEvent(last_id, event_type, "\n".join(data))
            event_type, data = "message", []
            continue
        name, _, value = line.partition(":")
        value = value[1:] if value.startswith(" ") else value
        if name == "":
            yield None
        elif name == "id":
            last_id = value
        elif name == "event":
            event_type = value
        elif name == "data":
            data.append(value)


def _lines(response: requests.Response) -> Iterator[str]:
    # A chunked body is passed on chunk by chunk. Any other body would be waited for to its end, so it is read by bytes.
    size = None if getattr(response.raw, "chunked", False) else 1
    pending = b""
    for chunk in response.iter_content(size):
        pending += chunk
        *lines, pending = pending.split(b"\n")
        for line in lines:
            yield line.rstrip(b"\r").decode("utf-8", "replace")


def resume_stream(
    transport: Transport, path: str, params: Mapping[str, str], position: Optional[str]
) -> Iterator[Optional[ServerSentEvent]]:
    """Yields the events of a path for ever, each once: after a lost connection it continues behind the last one.

    It ends only on a response without content. It raises an error that a new attempt would not change, and gives up
    after RECONNECT_SECONDS without a connection.
    """
    attempt, lost_since = 0, None
    while True:
        headers = {"Accept": "text/event-stream", **({} if position is None else {"Last-Event-ID": position})}
        failure: Optional[BursarError] = None
        try:
            with transport.open(path, params, headers) as response:
                if response.status_code == 204:
                    return
                lost_since = None
                for event in parse_events(response):
                    attempt = 0
                    if event is not None and event.id is not None:
                        position = event.id
                    yield event
        except requests.RequestException as error:
            failure = request_failure(transport.url, error)
        except BursarError as error:
            failure = error
        lost_since = lost_since or time.monotonic()
        if failure is not None and (not is_transient(failure) or time.monotonic() - lost_since > RECONNECT_SECONDS):
            raise failure
        time.sleep(retry_delay(attempt, failure, MAX_RECONNECT_DELAY_SECONDS))
        attempt += 1


#: An event of the job; an error that ended the stream; or None: the state of the job is unknown, read it again.
Notice = Union[EventData, BursarError, None]


class EventFeed:
    """One event stream for all jobs that a program waits for. It is open only while somebody waits."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._reset()

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._queues: Dict[str, List["queue.SimpleQueue[Notice]"]] = {}
        self._is_running = False
        self._process = os.getpid()

    def subscribe(
        self, job_id: str, shared: "Optional[queue.SimpleQueue[Notice]]" = None
    ) -> "queue.SimpleQueue[Notice]":
        """The events of a job from now on. Read the job after this call: a change is then in the job or in the queue.

        Several jobs may share a queue.
        """
        notices: "queue.SimpleQueue[Notice]" = queue.SimpleQueue() if shared is None else shared
        if self._process != os.getpid():  # A forked process has the memory of its parent, but not its threads.
            self._reset()
        with self._lock:
            position = None if self._is_running else self._latest()
            self._queues.setdefault(job_id, []).append(notices)
            if position is not None:
                self._is_running = True
                threading.Thread(target=self._run, args=(position,), name="bursar-events", daemon=True).start()
        return notices

    def unsubscribe(self, job_id: str, notices: "queue.SimpleQueue[Notice]") -> None:
        with self._lock:
            remaining = [other for other in self._queues.get(job_id, []) if other is not notices]
            if remaining:
                self._queues[job_id] = remaining
            else:
                self._queues.pop(job_id, None)

    def _latest(self) -> str:
        page = self._transport.json("GET", "/events/", params={"after": "latest", "limit": "1"})
        return str(page["next"])

    def _run(self, position: str) -> None:
        try:
            self._follow(position)
        except BaseException as error:  # Every waiting thread must learn that no event will come.
            failure = (
                error
                if isinstance(error, BursarError)
                else BursarError("stream_failed", f"The event stream failed: {error}.")
            )
            with self._lock:
                self._is_running = False
                self._publish_all(failure)

    def _follow(self, position: str) -> None:
        while True:
            try:
                for event in resume_stream(self._transport, "/events/", {}, position):
                    if event is not None:
                        self._publish(json.loads(event.data))
                    with self._lock:
                        if not self._queues:
                            self._is_running = False
                            return
            except BursarError as error:
                if error.code != "events_expired":
                    raise
            position = self._latest()
            with self._lock:
                self._publish_all(None)

    def _publish(self, event: EventData) -> None:
        job_id = event["data"].get("job_id")
        with self._lock:
            for notices in self._queues.get(str(job_id), []):
                notices.put(event)

    def _publish_all(self, notice: Notice) -> None:
        for notices in [notices for group in self._queues.values() for notices in group]:
            notices.put(notice)
