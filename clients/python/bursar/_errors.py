"""Errors. Every error of the service has a stable `code`; subclasses exist only where programs handle them differently."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, TYPE_CHECKING

from ._table import printable

if TYPE_CHECKING:
    from ._job import Job


class BursarError(Exception):
    """A request was refused or failed. `code` is stable, `detail` says what is wrong and what to do next."""

    def __init__(
        self,
        code: str,
        detail: str,
        status: Optional[int] = None,
        request_id: Optional[str] = None,
        problem: Optional[Dict[str, Any]] = None,
        retry_after: Optional[float] = None,
    ) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail
        self.status = status
        self.request_id = request_id
        #: All members of the problem document, such as `needed` and `available` of `quota_exceeded`.
        self.problem: Dict[str, Any] = problem or {}
        #: Seconds, if the server asked to wait.
        self.retry_after = retry_after

    @property
    def fields(self) -> List[Dict[str, str]]:
        """The invalid fields of the request, each with `field` and `message`."""
        errors = self.problem.get("errors", [])
        return list(errors) if isinstance(errors, list) else []

    def __str__(self) -> str:
        return f"{self._printable_detail()} ({printable(self.code)})"

    def _printable_detail(self) -> str:
        # Python prints it on the terminal, and parts of it are from the server or the output of a job.
        return "\n".join(printable(line.expandtabs()) for line in self.detail.split("\n"))

    def __reduce__(self) -> Any:
        arguments = (self.code, self.detail, self.status, self.request_id, self.problem, self.retry_after)
        return type(self), arguments


class QuotaExceeded(BursarError):
    """The job needs more than the remaining quota. `problem` has `resource`, `account`, `unit`, `needed`, `available`."""


class NotSignedIn(BursarError):
    """There is no token, or the server does not accept it."""


class ServerUnavailable(BursarError):
    """The server could not be reached, or was overloaded, in every attempt."""


class JobFailed(BursarError):
    """A job ended without success. `code` is its outcome, such as `failed`, `timed_out` or `cancelled`."""

    job: Optional["Job"] = None

    def __str__(self) -> str:
        return self._printable_detail()


def error_from_problem(
    status: int, problem: Dict[str, Any], request_id: Optional[str], retry_after: Optional[float]
) -> BursarError:
    code = str(problem.get("code") or f"http_{status}")
    detail = str(problem.get("detail") or problem.get("title") or f"The server responded with status {status}.")
    return _error_class(code, status)(
        code, detail, status, request_id or problem.get("request_id"), problem, retry_after
    )


def _error_class(code: str, status: int) -> type[BursarError]:
    if code == "quota_exceeded":
        return QuotaExceeded
    if status == 401:
        return NotSignedIn
    return ServerUnavailable if status in (502, 503, 504) else BursarError
