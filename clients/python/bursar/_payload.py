"""How arguments become parts of a request: the Payload header, paths and times."""

from __future__ import annotations

import json
from datetime import date, datetime
from typing import Any, Optional, Sequence, Union
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
        payload["tags"] = [tags] if isinstance(tags, str) else list(tags)  # type: ignore[assignment]
    clash = set(params or {}) & {*fields, "tags"}
    if clash:
        raise ValueError(f"params= must not have {', '.join(sorted(clash))}: there are arguments for it.")
    return {**payload, **(params or {})}


def dump_payload(payload: Row) -> str:
    return json.dumps(payload, default=plain_value)


def plain_value(value: Any) -> Any:
    """Arrays and numbers of NumPy become those of Python, which JSON can represent."""
    if isinstance(value, (str, int, float, list)):
        return value
    for method in ("tolist", "item"):
        if hasattr(value, method):
            return getattr(value, method)()
    raise TypeError(f"A parameter must be a text, a number or a list of texts, not {type(value).__name__}.")


def target_path(system: str, project: Optional[str]) -> str:
    if not isinstance(system, str) or system == "":
        raise TypeError('system= must be the name of a system, such as "hpc_one". `systems()` lists them.')
    return "".join(f"{quote(part, safe='')}/" for part in (system, project) if part is not None)


def time_text(value: Time) -> str:
    if isinstance(value, datetime):
        return value.astimezone().isoformat()
    return value.isoformat() if isinstance(value, date) else value
