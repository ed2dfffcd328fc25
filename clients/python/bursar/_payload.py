"""How arguments become parts of a request: the Payload header, paths and times."""

from __future__ import annotations

from datetime import date, datetime
from typing import Optional, Sequence, Union
from urllib.parse import quote

from ._types import Params, Row

Time = Union[str, date, datetime]


def make_payload(
    command: Optional[str],
    tool: Optional[str],
    nodes: Optional[int],
    cores: Optional[int],
    runtime: Optional[float],
    title: Optional[str],
    tags: Optional[Sequence[str]],
    params: Optional[Params],
) -> Row:
    """The Payload of a submission. The names of the interface differ from those of Python's arguments."""
    if (command is None) == (tool is None):
        raise ValueError("Give either command= (for a batch system) or tool= (for a tool system).")
    fields: Row = {
        "command": command,
        "tool": tool,
        "node_number": nodes,
        "core_number": cores,
        "runtime": runtime,
        "title": title,
    }
    payload = {name: str(value) for name, value in fields.items() if value is not None}
    if tags:
        payload["tags"] = list(tags)  # type: ignore[assignment]
    clash = set(params or {}) & {*fields, "tags"}
    if clash:
        raise ValueError(f"params= must not have {', '.join(sorted(clash))}: there are arguments for it.")
    return {**payload, **(params or {})}


def target_path(system: str, project: Optional[str]) -> str:
    return "".join(f"{quote(part, safe='')}/" for part in (system, project) if part is not None)


def time_text(value: Time) -> str:
    if isinstance(value, datetime):
        return value.astimezone().isoformat()
    return value.isoformat() if isinstance(value, date) else value
