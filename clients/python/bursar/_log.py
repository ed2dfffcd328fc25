"""The output of a job: all of it, its last lines, or its lines as they are written."""

from __future__ import annotations

import json
import re
from typing import Dict, Iterator, List

import requests

from ._errors import BursarError
from ._events import resume_stream
from ._http import Transport

_TAIL_BYTES = 8192


def read_log(transport: Transport, path: str, params: Dict[str, str]) -> str:
    return str(transport.send("GET", path, _text, params=params))


def follow_log(transport: Transport, path: str, stream: str) -> Iterator[str]:
    for event in resume_stream(transport, path, {"stream": stream, "follow": "1"}, None):
        if event is None:
            continue
        if event.type == "end":
            return
        # The server sends whole lines, and only a line feed ends a line.
        yield from re.findall(r"[^\n]*\n|[^\n]+", json.loads(event.data)["text"])


def read_log_tail(transport: Transport, path: str, stream: str, lines: int) -> List[str]:
    offset = max(0, _log_size(transport, path, stream) - _TAIL_BYTES)
    tail = read_log(transport, path, {"stream": stream, "offset": str(offset)}).split("\n")
    if tail[-1] == "":  # Behind the last line feed is nothing.
        tail.pop()
    # The first line is cut. Of a line that is longer than the part that was read, the end is better than nothing.
    if offset > 0 and len(tail) > 1:
        tail.pop(0)
    return tail[-lines:] if lines > 0 else []


def _log_size(transport: Transport, path: str, stream: str) -> int:
    """The number of bytes of the log. The server names it when it refuses an offset beyond the end."""
    try:
        read_log(transport, path, {"stream": stream, "offset": str(2**53 - 1)})
    except BursarError as error:
        size = re.search(r"has (\d+) bytes", error.detail)
        if error.code != "range_not_satisfiable" or size is None:
            raise
        return int(size.group(1))
    return 0


def _text(response: requests.Response) -> str:
    return response.content.decode("utf-8", "replace")
