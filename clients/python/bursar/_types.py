"""The JSON objects of the API, as the server sends them."""

from __future__ import annotations

import os
from typing import Any, Dict, List, Mapping, Optional, TypedDict, Union

#: A path on this computer.
AnyPath = Union[str, "os.PathLike[str]"]
#: The value of a tool's parameter.
Param = Union[str, int, float, List[str]]
Params = Mapping[str, Param]
Row = Dict[str, Any]


class JobData(TypedDict):
    id: int
    job_id: str
    owner: str
    project: int
    project_hpc: str
    project_name: str
    title: str
    runtime: float
    stage: str
    terminal_stage: bool
    failed: bool
    init_date: str
    end_date: Optional[str]


class QuoteData(TypedDict):
    project_hpc: str
    project_name: str
    runtime: float
    cost: int
    accepted: bool
    reason: Optional[str]
    binding_account: Optional[str]
    time_left: int
    longest_runtime: float


class EventData(TypedDict):
    id: int
    type: str
    at: str
    job: Optional[JobData]
    data: Dict[str, Any]
