"""The history of a job, and what it cost."""

from __future__ import annotations

from typing import List, Optional

from ._table import Table
from ._types import Row


class Timeline(Table):
    """The history of a job, one row for each event."""

    def __init__(self, data: Row) -> None:
        columns = ["at", "type", "stage", "outcome", "reason", "exit_code", "used_seconds", "charged_seconds"]
        super().__init__(data["entries"], columns)
        #: Command or tool, nodes, cores_per_node, runtime and params, as granted.
        self.request: Row = data["request"]
        self.started_at: Optional[str] = data["started_at"]
        self.tags: List[str] = list(data["tags"])
        #: Requested time, wall-clock time and charged time. The latter two are None until the job has ended.
        self.held_seconds: int = data["held_seconds"]
        self.used_seconds: Optional[int] = data["used_seconds"]
        self.charged_seconds: Optional[int] = data["charged_seconds"]
        self.refunded_seconds: int = data["refunded_seconds"]
        #: Size of the files. None until the job has ended.
        self.space_bytes: Optional[int] = data["space_bytes"]

    def cost_text(self) -> str:
        if self.charged_seconds is None:
            return f"costs at most {self.held_seconds:,} s"
        return f"cost {self.charged_seconds:,} s of at most {self.held_seconds:,} s"
