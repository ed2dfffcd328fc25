"""How a job looks: as a card in a notebook, and as a line that changes while a program waits for it."""

from __future__ import annotations

import html
import os
import re
import sys
import time
from typing import Any, List, Optional, TYPE_CHECKING

from ._errors import BursarError
from ._table import printable, truncate

if TYPE_CHECKING:
    from ._job import Job
    from ._timeline import Timeline

CARD_LOG_LINES = 8
_ESCAPE_SEQUENCE = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
_COLOURS = {"done": "#1a7f37", "failed": "#cf222e", "active": "#0969da"}


def format_duration(seconds: float) -> str:
    whole = int(seconds)
    hours, minutes, rest = whole // 3600, whole // 60 % 60, whole % 60
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def card(job: "Job") -> str:
    """The HTML card of a job. All texts of the server are escaped: a title or a log may contain HTML."""
    timeline: Optional["Timeline"] = None
    lines: List[str] = []
    try:
        job.refresh()
        timeline = job.timeline()
        lines = job.log_tail(CARD_LOG_LINES)
    except BursarError:
        pass  # The card of a job whose server or files are away shows what is known.
    return _card_html(job, timeline, lines)


def _card_html(job: "Job", timeline: Optional["Timeline"], lines: List[str]) -> str:
    colour = _COLOURS["failed" if job.failed else "done" if job.done else "active"]
    title = html.escape(printable(job.title) or "(no title)")
    where = html.escape(printable(f"{job.system} · {job.project} · {job.job_id}"))
    stage = html.escape(printable(job.stage))
    parts = [
        f'<div style="font-weight:600">{title} '
        f'<span style="color:#fff;background:{colour};border-radius:4px;padding:1px 6px">{stage}</span></div>',
        f'<div style="color:#666;font-size:90%">{where}</div>',
    ]
    if timeline is not None:
        rows = "".join(_timeline_row(entry) for entry in timeline)
        parts.append(f'<table style="font-size:90%"><tbody>{rows}</tbody></table>')
        parts.append(f'<div style="font-size:90%">{html.escape(timeline.cost_text())}</div>')
    if lines:
        log = html.escape("\n".join(plain_line(line) for line in lines))
        parts.append(f'<pre style="font-size:85%;margin:4px 0 0;white-space:pre-wrap">{log}</pre>')
    return f'<div style="border:1px solid #d0d7de;border-radius:6px;padding:8px 12px;max-width:48em">{"".join(parts)}</div>'


def plain_line(line: str) -> str:
    """A line as a terminal would show it at last: without colours, and only the last state of a progress bar."""
    last_state = line.rstrip("\r").rpartition("\r")[2]
    return printable(_ESCAPE_SEQUENCE.sub("", last_state).expandtabs())


def _timeline_row(entry: Any) -> str:
    notes = [str(entry[name]) for name in ("outcome", "reason") if entry.get(name)]
    cells = [entry["at"][:19].replace("T", " "), entry["type"], entry.get("stage") or "", ", ".join(notes)]
    return (
        "<tr>" + "".join(f'<td style="text-align:left">{html.escape(printable(cell))}</td>' for cell in cells) + "</tr>"
    )


class Progress:
    """Shows how a job advances: one line that changes on a terminal and in a notebook, otherwise a line a change.

    The line in a notebook is not the card of the job: the notebook shows that itself, if the job is the value of the cell.
    """

    def __init__(self, job: "Job") -> None:
        self._job = job
        self._started = time.monotonic()
        self._shown: Optional[str] = None
        self._notebook = _notebook_display()
        self._is_terminal = self._notebook is None and sys.stderr.isatty()

    @property
    def interval(self) -> Optional[float]:
        """Seconds after which the display wants to be updated, even if nothing changed."""
        return 1.0 if self._is_terminal else None

    def update(self) -> None:
        job = self._job
        if self._is_terminal:
            state = f"{job.stage}, {format_duration(time.monotonic() - self._started)}"
            text = printable(f"{job.title or job.job_id}: {state}")
            sys.stderr.write("\r" + truncate(text, _terminal_width() - 1) + "\x1b[K")
            sys.stderr.flush()
        elif job.stage != self._shown:
            if self._notebook is not None:
                self._notebook.update({"text/plain": printable(f"{job.title or job.job_id}: {job.stage}")}, raw=True)
            else:
                print(printable(f"{job.job_id}: {job.stage}"), file=sys.stderr, flush=True)
        self._shown = job.stage

    def close(self) -> None:
        if self._is_terminal and self._shown is not None:
            sys.stderr.write("\n")
            sys.stderr.flush()


def _terminal_width() -> int:
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or 80
    except (OSError, ValueError):
        return 80


def _notebook_display() -> Any:
    """A display that can be updated, in a notebook; otherwise None. IPython in a terminal counts as a terminal."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if shell is None or not hasattr(shell, "kernel"):
        return None
    from IPython.display import display

    return display({"text/plain": ""}, raw=True, display_id=True)
