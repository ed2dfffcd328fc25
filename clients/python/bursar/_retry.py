"""When a request is repeated, and after how long."""

from __future__ import annotations

import random
import time
from email.utils import parsedate_to_datetime
from typing import Optional

from ._errors import BursarError

MAX_DELAY_SECONDS = 30.0
#: A request whose server asks for a longer wait fails instead. Streams and downloads wait this long.
MAX_RETRY_AFTER_SECONDS = 120.0

#: Errors that end when somebody does something, not after a short wait.
_NOT_TRANSIENT = {"too_many_jobs", "system_paused", "files_missing"}


def is_transient(error: BursarError) -> bool:
    """Whether the same request may succeed in a while."""
    if error.code in _NOT_TRANSIENT:
        return False
    transient_codes = ("server_unreachable", "idempotency_key_in_use", "timeout", "sign_in_failed")
    return error.code in transient_codes or error.status in (429, 502, 503, 504)


def retry_delay(attempt: int, error: Optional[BursarError] = None, max_backoff: float = MAX_DELAY_SECONDS) -> float:
    """Seconds before the next attempt: exponential with jitter, and as long as the server asked for, up to a limit."""
    # A stream may be cut and resumed for days: the power must not overflow.
    backoff = min(max_backoff, 0.25 * 2.0 ** min(attempt, 16)) * random.uniform(0.5, 1.0)
    requested = (error.retry_after or 0.0) if error is not None else 0.0
    return max(backoff, min(requested, MAX_RETRY_AFTER_SECONDS))


def is_exhausted(error: BursarError, attempt: int, max_retries: int, started: float) -> bool:
    # After a cut upload the server holds the key for up to a minute, until it notices that the connection is gone.
    if error.code == "idempotency_key_in_use":
        return time.monotonic() - started > 120
    return attempt >= max_retries or (error.retry_after or 0.0) > MAX_RETRY_AFTER_SECONDS


def parse_retry_after(text: Optional[str]) -> Optional[float]:
    if text is None:
        return None
    try:
        return max(0.0, float(text))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - time.time())
    except (TypeError, ValueError):
        return None
