"""Requests with retries. Every other module sends its requests through `Transport`."""

from __future__ import annotations

import ipaddress
import os
import re
import threading
import time
from typing import Any, Callable, Dict, Mapping, Optional
from urllib.parse import SplitResult, urlsplit

import requests

from ._errors import BursarError, NotSignedIn, ServerUnavailable, error_from_problem
from ._retry import is_exhausted, is_transient, parse_retry_after, retry_delay
from ._types import AnyPath
from ._version import version

CONNECT_SECONDS = 10
#: The server sends a heartbeat every 15 s on a stream. A connection that is silent for longer has been lost.
READ_SECONDS = 60

#: The connection could not be made, or it broke.
_LOST = (requests.ConnectionError, requests.Timeout, requests.exceptions.ChunkedEncodingError)


class _BearerAuth(requests.auth.AuthBase):
    """Sets the token. With an object of its own, requests does not replace the header by an entry of ~/.netrc."""

    def __init__(self, token: Callable[[], Optional[str]]) -> None:
        self._token = token

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        token = self._token()
        if token is not None:
            token = token.strip()  # A token that was read from a file ends with a line feed.
            if not re.fullmatch("[!-~]+", token):
                raise NotSignedIn(
                    "token_invalid", "The token is empty, or has spaces or other characters that no token has."
                )
            request.headers["Authorization"] = f"Bearer {token}"
        return request


class Transport:
    """Sends requests to one server. Threads may share it: each has its own connections."""

    def __init__(self, url: str, token: Callable[[], Optional[str]], retries: int, insecure: bool) -> None:
        self.url = url.rstrip("/")
        self._token = token
        self.retries = retries
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname or not _has_valid_port(parts):
            raise ValueError(f'"{url}" is not the address of a server. Use one such as https://bursar.example.org.')
        if parts.scheme == "http" and not insecure and not _is_loopback(parts.hostname):
            raise ValueError(
                f"The token would be readable on the network: {self.url} has no TLS. Use https, or pass insecure=True."
            )
        self._local = threading.local()

    def json(self, method: str, path: str, **options: Any) -> Any:
        """Sends a request and returns the JSON of its response."""
        return self.send(method, path, read_json, **options)

    def send(
        self,
        method: str,
        path: str,
        read: Callable[[requests.Response], Any],
        *,
        params: Optional[Mapping[str, Any]] = None,
        headers: Optional[Mapping[str, str]] = None,
        body: Optional[AnyPath] = None,
        key: Optional[str] = None,
    ) -> Any:
        """Sends a request until it succeeds or must not be repeated, and returns `read(response)`.

        A POST is repeated only if it has an idempotency key. `body` is the path of a file, which must not change: every
        attempt sends the same bytes, so that the server recognizes the request.
        """
        all_headers = {**(headers or {}), **({"Idempotency-Key": key} if key is not None else {})}
        can_repeat = method != "POST" or key is not None
        started = time.monotonic()
        attempt = 0
        while True:
            try:
                with self._attempt(method, path, params, all_headers, body) as response:
                    _require_complete(response)
                    return read(response)
            except requests.RequestException as error:
                failure: BursarError = request_failure(self.url, error)
            except BursarError as error:
                failure = error
            if not can_repeat or not is_transient(failure) or is_exhausted(failure, attempt, self.retries, started):
                raise failure
            time.sleep(retry_delay(attempt, failure))
            attempt += 1

    def open(
        self, path: str, params: Optional[Mapping[str, Any]] = None, headers: Optional[Mapping[str, str]] = None
    ) -> requests.Response:
        """Sends one GET and returns the response, whose body is not yet read. The caller closes it and handles lost connections."""
        return self._attempt("GET", path, params, dict(headers or {}), None)

    def _attempt(
        self,
        method: str,
        path: str,
        params: Optional[Mapping[str, Any]],
        headers: Dict[str, str],
        body: Optional[AnyPath],
    ) -> requests.Response:
        file = None if body is None else open(body, "rb")
        try:
            response = self._session().request(
                method,
                self.url + path,
                params=params,
                headers=headers,
                data=file,
                stream=True,
                timeout=(CONNECT_SECONDS, READ_SECONDS),
                allow_redirects=False,
            )
        finally:
            if file is not None:
                file.close()
        if response.status_code < 300:
            return response
        with response:
            raise _response_error(response)

    def _session(self) -> requests.Session:
        session: Optional[requests.Session] = getattr(self._local, "session", None)
        # A forked process must not use the connections of its parent: each would read the other's responses.
        if session is None or self._local.process != os.getpid():
            session = requests.Session()
            session.auth = _BearerAuth(self._token)
            session.headers["User-Agent"] = f"bursar-python/{version}"
            # A compressed response has other byte positions, and could not be resumed.
            session.headers["Accept-Encoding"] = "identity"
            self._local.session, self._local.process = session, os.getpid()
        return session


def _require_complete(response: requests.Response) -> None:
    """Reads the body. With urllib3 1, requests takes a body that was cut off for a complete one."""
    expected = response.headers.get("Content-Length")
    received = len(response.content)
    if expected is not None and received != int(expected):
        raise requests.ConnectionError(f"only {received} of {expected} bytes arrived")


def read_json(response: requests.Response) -> Any:
    try:
        return response.json()
    except ValueError as error:
        detail = "The response is not JSON, so it is not from Bursar. Check the address, and sign in to the network if it asks."
        raise BursarError("invalid_response", f"{detail} It came from {response.url}.", response.status_code) from error


def request_failure(url: str, error: requests.RequestException) -> BursarError:
    """The error for a request without a complete response. The request may have had its effect."""
    failure: BursarError
    if not isinstance(error, _LOST):
        failure = BursarError("invalid_response", f"The response of {url} cannot be read: {_innermost(error)}.")
    # A wrong certificate does not become right by a new attempt.
    elif "CERTIFICATE_VERIFY_FAILED" in str(error):
        failure = ServerUnavailable(
            "certificate_invalid", f"The certificate of {url} is not valid: {_innermost(error)}."
        )
    else:
        failure = ServerUnavailable("server_unreachable", f"The server {url} cannot be reached: {_innermost(error)}.")
    failure.__cause__ = error
    return failure


def _response_error(response: requests.Response) -> BursarError:
    request_id = response.headers.get("X-Request-Id")
    if 300 <= response.status_code < 400:
        target = response.headers.get("Location", "another address")
        return BursarError(
            "redirected", f"The server redirects to {target}. Use that address.", response.status_code, request_id
        )
    try:
        problem = response.json()
    except (ValueError, *_LOST):
        problem = {}
    retry_after = parse_retry_after(response.headers.get("Retry-After"))
    error = error_from_problem(
        response.status_code, problem if isinstance(problem, dict) else {}, request_id, retry_after
    )
    if isinstance(error, NotSignedIn):
        error.detail += " Run `bursar login`, set BURSAR_TOKEN, or pass token=."
    return error


def _has_valid_port(parts: SplitResult) -> bool:
    try:
        return parts.port != 0
    except ValueError:
        return False


def _is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _innermost(error: BaseException) -> str:
    """The text of the first cause: the texts of requests repeat the whole chain."""
    while True:
        cause = error.__cause__ or error.__context__
        if cause is None:
            return str(error) or type(error).__name__
        error = cause
