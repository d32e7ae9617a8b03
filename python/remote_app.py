"""Runs the apps of a remote-app server from Python and notebooks.

    from remote_app import Server

    Server().infer("t1.nii.gz", app="brain").save("Out")

Needs Python 3.9 and nothing else; see docs/python.md.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import http.client
import importlib.util
import inspect
import io
import itertools
import json
import os
import random
import re
import select
import shutil
import socket
import ssl
import stat
import struct
import sys
import tempfile
import time
import urllib.parse
import urllib.request
import uuid
import warnings
import weakref
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Callable, NamedTuple, NoReturn, Optional, TypeVar, Union

__version__ = "0.1.0"
PathText = Union[str, "os.PathLike[str]"]
#: A group: a path, or several.
Group = Union[PathText, Sequence[PathText]]
#: One group, or several.
Groups = Union[Group, Sequence[Sequence[PathText]]]
Json = dict[str, Any]
T = TypeVar("T")
Text = Optional[str]
Count = Optional[int]
Flag = Optional[bool]
Words = Union[str, Sequence[str], None]
Gpus = Union[int, str, Sequence[int], None]
#: Seconds, or a time such as `12h`, or `max`.
Span = Union[int, str, None]
#: `{"Model.threshold": 0.5}`, or `["Model.threshold=0.5"]`.
Overrides = Union[Mapping[str, object], Sequence[str], None]
Log = Optional[Callable[[str], object]]


# Errors


class RemoteAppError(Exception):
    """Its text is a sentence for a person."""

    job_id: str | None = None
    #: The HTTP status of a refusal.
    status = 0


class UsageError(RemoteAppError, ValueError):
    """An argument, a file or a setting cannot be used."""


class Unreachable(RemoteAppError):
    """The server was not reached, the connection broke, or something else answered."""

    def __init__(self, message: str, fault: str = "broken") -> None:
        super().__init__(message)
        #: `unreached`, `broken`, `timeout`, or `unusable`: trying again will not help.
        self.fault = fault


class Refused(RemoteAppError):
    """The server refused a request, with this HTTP status."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class NotAuthorised(Refused):
    """The token is missing or wrong, or does not allow this."""


class NotFound(Refused):
    """There is no such app or job."""


class Busy(Refused):
    """The server cannot take it now."""


class JobFailed(RemoteAppError):
    """The job ended without a result."""

    def __init__(self, job_id: str, state: str, reason: str, kind: Any = None) -> None:
        verb = {"refused": "was refused by its app", "killed": "was killed"}.get(state, "failed")
        log = f"; see job({job_id!r}).logs()" if state == "error" else ""
        super().__init__(f"Job {job_id} {verb}: {reason}{log}")
        self.job_id = job_id
        #: `error`, `refused` (the app refused its input) or `killed`.
        self.state = state
        self.reason = reason
        #: `out-of-memory`, or None.
        self.kind = kind


class TimedOut(RemoteAppError, TimeoutError):
    """Something took longer than it may."""


class BadArchive(RemoteAppError):
    """The result is no zip archive that may be extracted."""


_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def _plain(text: str, max_length: int = 2000) -> str:
    """Somebody else's text on one line, harmless to a terminal."""
    shown = text[:max_length] + "..." * (len(text) > max_length)
    return _UNPRINTABLE.sub(lambda found: found.group().encode("unicode_escape").decode(), shown)


def _quoted(path: PathText) -> str:
    return f"'{_plain(os.fspath(path), 4096)}'"


def _say(sentence: str) -> None:
    print(sentence, file=sys.stderr)


# Progress


class Progress(NamedTuple):
    """What a call is doing."""

    #: `packing`, `uploading`, `running` or `downloading`.
    stage: str
    #: Bytes so far, and in all; 0: not known.
    done: int = 0
    total: int = 0
    #: The last line of the log.
    text: str = ""


#: A function for each `Progress`, False for none, or None for a bar of tqdm where that is installed.
Shown = Union[Callable[[Progress], object], bool, None]


class _Reporter:
    def __init__(self, choice: Shown) -> None:
        self._tell = choice if callable(choice) else None
        self._stage = ""
        self._tqdm: Any = None
        self._bar: Any = None
        if self._tell is None and choice is not False and importlib.util.find_spec("tqdm"):
            with warnings.catch_warnings():
                # It warns where a notebook has no widgets.
                warnings.simplefilter("ignore")
                from tqdm.auto import tqdm

                self._tqdm = tqdm

    def __call__(self, stage: str, done: int = 0, total: int = 0, text: str = "") -> None:
        if self._tell:
            self._tell(Progress(stage, done, total, text))
        if self._tqdm is None:
            return
        if stage != self._stage:
            self.__exit__()
            style: Json = {"unit": "B", "unit_scale": True, "unit_divisor": 1024, "total": total or None}
            if stage == "running":
                style = {"bar_format": "{desc} [{elapsed}]"}
            # Elsewhere only a terminal has a bar.
            is_off = False if "ipykernel" in sys.modules else None
            self._stage, self._bar = stage, self._tqdm(desc=stage, leave=False, disable=is_off, **style)
        if stage == "running":
            self._bar.set_description_str(_plain(text, 80) or stage)
        else:
            self._bar.update(done - self._bar.n)

    def __enter__(self) -> _Reporter:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()


# Settings


class _Settings(NamedTuple):
    url: str
    token: str | None
    app: str | None
    ca: str | None
    #: What wants scans to be de-identified, as the subject of a sentence.
    deidentifies: str | None


def _read_profile(name: str | None) -> Mapping[str, Any]:
    base = os.environ.get("XDG_CONFIG_HOME") or (os.name == "nt" and os.environ.get("LOCALAPPDATA"))
    file, key = Path(base or Path.home() / ".config") / "remote-app" / "profiles.json", name or "default"
    try:
        profiles = json.loads(file.read_text("utf-8"))["profiles"]
        profile = profiles.get(key)
        if profile is not None and not isinstance(profile["server"], str):
            raise TypeError
    except FileNotFoundError:
        profiles, profile = {}, None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        # The parser's error would quote the file, which holds tokens.
        raise UsageError(f"{file} holds no profiles; remove it, and run 'remote-app login' again") from None
    if profile is None and name is not None:
        raise UsageError(f"No profile {_quoted(key)}; there are: {_plain(', '.join(profiles)) or 'none'}")
    return profile or {}


def _checked_url(text: str) -> str:
    try:
        url = urllib.parse.urlsplit(text.strip())
        if not url.hostname or url.port == 0 or url.scheme not in ("http", "https", "ssh"):
            raise ValueError
    except ValueError:
        raise UsageError(f"{_quoted(text)} is not the address of a server, such as http://127.0.0.1:8000") from None
    if url.scheme == "ssh":
        remedy = "run 'remote-app forward' in a terminal, and give Server() the address and the token that it prints"
        raise UsageError(f"{_quoted(text)} needs ssh, which this client does not speak: {remedy}")
    if "@" in url.netloc:
        raise UsageError("The address of a server must hold no credentials; give a token instead")
    path = urllib.parse.quote(url.path.rstrip("/"), safe="/%:@!$&'()*+,;=")
    return f"{url.scheme}://{url.netloc.lower()}{path}"


def _settings(url: Text, token: Text, profile: Text, app: Text, ca: PathText | None) -> _Settings:
    """Arguments count before the environment, that before a profile, and that before the defaults.

    A profile that is an argument replaces those of the environment. The token of a profile is for its server alone.
    """
    env: Mapping[str, str] = {} if profile else os.environ
    name = profile or os.environ.get("REMOTE_APP_PROFILE") or None
    found = _read_profile(name)
    server = _checked_url(url or env.get("REMOTE_APP_SERVER") or found.get("server") or "http://127.0.0.1:8000")
    home = found.get("server", "ssh:")
    own = {} if home.startswith("ssh:") or _checked_url(home) != server else found
    given = (token or env.get("SERVICE_API_TOKEN") or own.get("token") or "").strip()
    if not re.fullmatch(r"[\x21-\x7e]*", given):
        raise UsageError("The token contains characters that are not allowed in a token")
    return _Settings(
        server,
        given or None,
        app or env.get("REMOTE_APP_APP") or own.get("app") or os.environ.get("REMOTE_APP_APP"),
        os.fspath(ca or env.get("REMOTE_APP_CA") or own.get("ca") or os.environ.get("REMOTE_APP_CA") or "") or None,
        _deidentifies(name, found),
    )


def _deidentifies(profile: str | None, found: Mapping[str, Any]) -> str | None:
    """What requires de-identified scans: the environment variable if it is set, otherwise the profile. Applies to every server."""
    said = os.environ.get("REMOTE_APP_DEIDENTIFY", "")
    if said:
        return None if said.lower() in ("no", "0", "false") else "REMOTE_APP_DEIDENTIFY"
    return f"The profile {_quoted(profile or 'default')}" if found.get("deidentify") else None


# HTTP


class _Answer:
    """An answer whose body has not been read yet; `with` closes its connection."""

    def __init__(self, wire: _Wire, connection: http.client.HTTPConnection) -> None:
        self._wire = wire
        self._connection = connection
        self._response = connection.getresponse()
        self.status = self._response.status

    def __enter__(self) -> _Answer:
        return self

    def __exit__(self, *_: object) -> None:
        self._response.close()
        self._connection.close()

    def header(self, name: str) -> str:
        return self._response.getheader(name) or ""

    def chunks(self, size: int = 1 << 20) -> Iterator[bytes]:
        try:
            yield from iter(lambda: self._response.read1(size), b"")
        except (OSError, http.client.HTTPException) as cause:
            raise self._wire.broken(cause) from cause

    def text(self, max_bytes: int = 1 << 16) -> str:
        """The body as text; empty where it is longer than `max_bytes` bytes."""
        body = b""
        for chunk in self.chunks():
            body += chunk
            if len(body) > max_bytes:
                return ""
        return body.decode("utf-8", "replace")

    def accepted(self) -> _Answer:
        """Itself. Raises the error of a refusal."""
        if self.status >= 300:
            raise self.refusal(_object(self.text()))
        return self

    def json(self) -> Json:
        return _object(self.accepted().text(32 << 20)) or self._wire.surprise("JSON")

    def refusal(self, body: Json) -> RemoteAppError:
        server, status = self._wire.url, self.status
        kind = _KINDS.get(status, Refused)
        detail = body.get("detail") or body.get("error")
        # KonfAI's server may list the fields that cannot be used.
        detail = json.dumps(detail) if isinstance(detail, list) else detail
        if isinstance(detail, str) and detail:
            own = {
                "Missing bearer token": f"{server} needs a token: run 'remote-app login'",
                "Invalid token": f"{server} does not accept this token: run 'remote-app login'",
                "Unknown job_id": f"{server} has no such job; jobs() lists them",
            }
            return kind(own.get(detail, _plain(detail)), status)
        # The rest is usually of a proxy on the way.
        if status in (502, 503, 504):
            return Unreachable(f"A proxy answers for {server}, which does not itself (HTTP {status})", "unreached")
        if status in (401, 403, 407, 413):
            return kind(f"A proxy on the way to {server} refuses this (HTTP {status})", status)
        where = f", and sends requests on to {_quoted(self.header('location'))}" if 300 <= status < 400 else ""
        what = f"{server} answered with HTTP {status}, and not as the service does{where}: is that its address?"
        return Unreachable(what, "unusable")


_KINDS: dict[int, type[Refused]] = {404: NotFound, 410: NotFound, 429: Busy, 503: Busy, 507: Busy}
_KINDS.update(dict.fromkeys((401, 403, 407), NotAuthorised))


def _object(text: str) -> Json:
    """A JSON object; empty where the text is none."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        document = None
    return document if isinstance(document, dict) else {}


class _Patience:
    """How long a server that is away is tried again."""

    def __init__(self, seconds: float) -> None:
        self._seconds, self._until, self._failures, self._farthest = seconds, 0.0, 0, -1

    def after(self, error: RemoteAppError) -> None:
        """Waits, longer each time. Raises the error when the time is up."""
        self._until = self._until or time.monotonic() + self._seconds
        left = self._until - time.monotonic()
        if left <= 0:
            raise error
        time.sleep(min(_backoff(self._failures), left))
        self._failures += 1

    def renew(self) -> None:
        self._until, self._failures = 0.0, 0

    def reached(self, offset: int) -> None:
        """Renews it where more has come than ever before."""
        if offset > self._farthest:
            self._farthest = offset
            self.renew()


def _backoff(attempt: int, first: float = 0.25, longest: float = 10.0) -> float:
    return float(min(first * 2 ** min(attempt, 20), longest) * random.uniform(0.75, 1.25))


def _is_outage(error: RemoteAppError) -> bool:
    if isinstance(error, Unreachable):
        return error.fault != "unusable"
    return error.status in (408, 429) or error.status >= 500


def _may_send_again(error: RemoteAppError) -> bool:
    return _is_outage(error) and (error.status < 500 or "shutting down" in str(error))


class _Wire:
    """Sends requests to one server, each on its own connection."""

    def __init__(self, settings: _Settings, timeout: float, patience: float) -> None:
        self.url = settings.url
        self.patience = patience
        #: Whether the server has answered.
        self.is_met = False
        self._token = settings.token
        self._timeout = timeout
        parts = urllib.parse.urlsplit(self.url)
        self._host = parts.hostname or ""
        self._context = _tls(settings.ca) if parts.scheme == "https" else None
        self._port = parts.port or (443 if self._context else 80)
        self._path = parts.path
        self._proxy = self._find_proxy(parts.scheme, parts.netloc)

    def _find_proxy(self, scheme: str, netloc: str) -> tuple[str, int, dict[str, str]] | None:
        """The proxy of the environment; none for this machine."""
        if self._host == "::1" or re.fullmatch(r"(.+\.)?localhost|127(\.\d+){3}", self._host):
            return None
        address = urllib.request.getproxies().get(scheme)
        if not address or urllib.request.proxy_bypass(netloc):
            return None
        found = re.fullmatch(r"(?:http://)?(?:(.*)@)?(\[.+\]|[^/:@]+)(?::(\d{1,5}))?/?", address)
        if not found:
            # The variable may hold a password.
            raise UsageError(f"The variable {scheme}_proxy must be like http://proxy.example.org:3128")
        user, host, port = found.groups()
        login = base64.b64encode(urllib.parse.unquote(user or "").encode()).decode()
        return host.strip("[]"), int(port or 80), {"Proxy-Authorization": f"Basic {login}"} if user else {}

    def _connect(self) -> http.client.HTTPConnection:
        host, port, login = self._proxy or (self._host, self._port, {})
        connection = http.client.HTTPConnection(host, port, timeout=min(60, self._timeout))
        if self._context:
            connection = http.client.HTTPSConnection(host, port, timeout=connection.timeout, context=self._context)
            if self._proxy:
                connection.set_tunnel(self._host, self._port, login)
        try:
            connection.connect()
        except (OSError, http.client.HTTPException) as cause:
            connection.close()
            raise self._unreached(cause) from cause
        return connection

    def _unreached(self, cause: Exception) -> Unreachable:
        if isinstance(cause, ssl.SSLCertVerificationError):
            why = f"shows a certificate that is not trusted: {_plain(cause.verify_message.rstrip('.'))}"
            remedy = "get that of its authority from its admin, and give it with ca="
            return Unreachable(f"{self.url} {why}; {remedy}", "unusable")
        is_final = isinstance(cause, ssl.SSLError) or "Tunnel connection failed" in str(cause)
        why = _plain(getattr(cause, "strerror", None) or str(cause))
        if isinstance(cause, ConnectionRefusedError):
            why = "nothing listens there"
        way = f" through the proxy {self._proxy[0]}:{self._proxy[1]}" if self._proxy else ""
        return Unreachable(f"{self.url} cannot be reached{way}: {why}", "unusable" if is_final else "unreached")

    def broken(self, cause: Exception) -> Unreachable:
        if isinstance(cause, socket.timeout):
            return Unreachable(f"{self.url} did not answer in time", "timeout")
        if not isinstance(cause, (OSError, http.client.IncompleteRead)):
            self.surprise("HTTP")
        return Unreachable(f"The connection to {self.url} broke: {_plain(str(cause)) or 'it was closed'}")

    def surprise(self, what: str) -> NoReturn:
        raise Unreachable(f"{self.url} did not answer with {what}; is it a remote-app server?", "unusable")

    def send(
        self, method: str, path: str, headers: Mapping[str, str] = {}, body: _Body | None = None, timeout: float = 0
    ) -> _Answer:
        """Redirections are not followed: they would take the token elsewhere."""
        sent = {**headers, "Connection": "close", **({"Content-Length": str(body.length)} if body else {})}
        if self._token:
            sent["Authorization"] = f"Bearer {self._token}"
        target = self._path + path
        connection = self._connect()
        try:
            connection.sock.settimeout(timeout or self._timeout)
            if self._proxy and not self._context:
                sent.update(self._proxy[2])
                target = self.url + path
            try:
                connection.request(method, target, body.stream(connection.sock) if body else None, sent)
            except (ConnectionError, ssl.SSLError):
                # A refused upload is not taken whole, and has an answer.
                if body is None:
                    raise
            answer = _Answer(self, connection)
        except BaseException as cause:
            connection.close()
            if isinstance(cause, KeyboardInterrupt) and path[:6] == "/apps/" and body and body.sent == body.length:
                _say("Interrupted: the server may have the job; jobs() lists it then")
            if isinstance(cause, (OSError, http.client.HTTPException)):
                raise self.broken(cause) from cause
            raise
        if answer.status not in (502, 503, 504) or "json" in answer.header("content-type"):
            self.is_met = True
        return answer

    def json(self, method: str, path: str, timeout: float = 0) -> Json:
        with self.send(method, path, timeout=timeout) as answer:
            return answer.json()

    def patiently(
        self,
        ask: Callable[[], T],
        is_passing: Callable[[RemoteAppError], bool] = _is_outage,
        patience: _Patience | None = None,
    ) -> T:
        patience = patience or _Patience(self.patience)
        while True:
            try:
                return ask()
            except RemoteAppError as error:
                if not (self.is_met and is_passing(error)):
                    raise
                patience.after(error)


def _tls(ca: str | None) -> ssl.SSLContext:
    context = ssl.create_default_context()
    # Authorities of labs often lack extensions that newer Pythons insist on.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if ca:
        try:
            context.load_verify_locations(ca)
        except OSError as cause:
            raise UsageError(f"The certificates in {_quoted(ca)} cannot be used: {_plain(str(cause))}") from None
    return context


# Files that are sent

_ZARR = (".zgroup", ".zarray", ".zattrs", ".zmetadata", "zarr.json")


class _Source(NamedTuple):
    """A file, or an archive of `files` by their names in it."""

    path: Path
    name: str
    files: list[tuple[str, Path]] | None = None


def _walk(directory: Path, takes_links: bool = False) -> Iterator[tuple[str, Path]]:
    """The files below a directory by their names in it, without hidden ones but those of Zarr.

    A link may lead anywhere: one is taken only where the content is looked at.
    """

    def fail(cause: OSError) -> None:
        raise UsageError(f"{_quoted(cause.filename)} cannot be read: {cause.strerror}")

    for parent, directories, names in os.walk(directory, onerror=fail):
        directories[:] = (each for each in directories if not each.startswith("."))
        for name in directories + names:
            path = Path(parent, name)
            if path.is_symlink() and (name in directories or not takes_links):
                raise UsageError(f"{_quoted(path)} is a link")
            if name not in directories and (not name.startswith(".") or name in _ZARR):
                yield path.relative_to(directory).as_posix(), path


def _element(file: BinaryIO, is_explicit: bool) -> tuple[int, int, bool]:
    """The tag and the length of the next DICOM element, and whether what is in it is explicit."""
    head = file.read(8)
    group, number, length = struct.unpack("<HHI", head)
    # The head of a file is always explicit, delimiters never.
    if (is_explicit or group == 2) and group != 0xFFFE:
        kind = head[4:6]
        is_long = kind in b"OB OD OF OL OV OW SQ SV UC UN UR UT UV".split()
        length = struct.unpack("<I", file.read(4))[0] if is_long else struct.unpack("<H", head[6:])[0]
        is_explicit = kind != b"UN"
    return group << 16 | number, length, is_explicit


def _skip(file: BinaryIO, length: int, is_explicit: bool) -> None:
    if length != 0xFFFFFFFF:
        file.seek(length, os.SEEK_CUR)
        return
    while True:
        tag, inner, inside = _element(file, is_explicit)
        if tag in (0xFFFEE00D, 0xFFFEE0DD):
            return
        _skip(file, inner, inside)


def _series_of(path: Path) -> str | None:
    """The SeriesInstanceUID of a DICOM file with its patient, since some tools give several the same; None for another file."""
    with open(path, "rb") as file:
        if file.read(132)[128:] != b"DICM":
            return None
        syntax = "1.2.840.10008.1.2.1"
        patient = ""
        while True:
            tag, length, inside = _element(file, syntax != "1.2.840.10008.1.2")
            if tag >= 0x00080000 and syntax in ("1.2.840.10008.1.2.2", "1.2.840.10008.1.2.1.99"):
                raise ValueError
            if tag in (0x00020010, 0x00100010, 0x00100020, 0x0020000E):
                text = file.read(min(length, 1024)).decode("latin-1").strip(" \0")
                file.seek(max(0, length - 1024), os.SEEK_CUR)
                if tag == 0x0020000E:
                    return f"{text} {patient}"
                if tag == 0x00020010:
                    syntax = text
                else:
                    patient = text or patient
            elif tag > 0x0020000E:
                return patient
            else:
                _skip(file, length, inside)


def _volume_of(directory: Path) -> list[tuple[str, Path]]:
    """The files of one volume: a DICOM series, or a Zarr store."""
    if any((directory / each).is_file() for each in _ZARR):
        return list(_walk(directory))
    found: list[tuple[str, Path]] = []
    series: set[str] = set()
    for name, file in _walk(directory, takes_links=True):
        if file.name == "DICOMDIR" or not file.is_file():
            continue
        try:
            uid = _series_of(file)
        except (OSError, ValueError, struct.error, RecursionError):
            raise UsageError(f"{_quoted(file)} cannot be read as DICOM") from None
        if uid is not None:
            series.add(uid)
            found.append((name, file))
    if not found:
        raise UsageError(f"{_quoted(directory)} holds no DICOM images; name the files in it, as with glob()")
    if len(series) > 1:
        remedy = "put each into its own directory, or use 'remote-app infer', which tells them apart"
        raise UsageError(f"{_quoted(directory)} holds {len(series)} DICOM series; {remedy}")
    is_flat = len({file.name.lower() for _, file in found}) == len(found)
    return [(file.name if is_flat else name.replace("/", "_"), file) for name, file in found]


def _source(given: PathText, is_data_set: bool = False) -> _Source:
    """A file as it is, all of a data set, or one volume of a directory."""
    path = Path(given).expanduser()
    if path.is_dir():
        files = list(_walk(path)) if is_data_set else _volume_of(path)
        if not files:
            raise UsageError(f"{_quoted(path)} contains no file to send")
        return _Source(path, path.resolve().name + (".zip" if is_data_set else ".konfaidir.zip"), files)
    if not path.is_file():
        raise UsageError(f"There is no file {_quoted(path)}")
    if path.stat().st_size == 0:
        raise UsageError(f"{_quoted(path)} is empty (0 bytes)")
    return _Source(path, path.name)


def _is_path(value: object) -> bool:
    return isinstance(value, (str, os.PathLike))


def _groups(field: str, given: Any) -> list[list[_Source]]:
    """Of several arguments each is a group; a single one may also be a list, or a list of lists."""
    groups = given if isinstance(given, tuple) else (given,)
    if len(groups) == 1 and not _is_path(groups[0]) and not all(map(_is_path, groups[0])):
        groups = groups[0]
    lists = [[each] if _is_path(each) else list(each) for each in groups]
    if not lists or not all(lists):
        raise UsageError(f"{field} names no file")
    for group in lists:
        if all(os.fspath(each).lower().endswith((".mhd", ".nhdr", ".hdr")) for each in group):
            raise UsageError(f"{_quoted(group[0])} is a header: name the file with its voxels as well, in one list")
    return [[_source(each) for each in group] for group in lists]


#: Bytes of files that are sent without asking for them. Where none is larger, a form is sent.
_SMALL = 1 << 20


class _Part(NamedTuple):
    field: str
    filename: str
    path: Path
    size: int
    #: The bytes before it are not read.
    start: int = 0


#: What files were when they were first read.
_States = dict[Path, tuple[int, ...]]
_Told = Callable[[int], object]


class _Body:
    """A body of known length, read while sent. It can be sent again."""

    def __init__(self, segments: Sequence[bytes | _Part], states: _States, told: _Told = lambda _: None) -> None:
        self._segments, self._states, self._told = segments, states, told
        self.length = sum(len(each) if isinstance(each, bytes) else each.size - each.start for each in segments)
        #: Bytes of the last attempt.
        self.sent = 0

    def stream(self, sock: socket.socket) -> Iterator[bytes | memoryview]:
        """All of it, or as much as is taken before the server answers."""
        self.sent = 0
        # What TLS has to read may be its own.
        watched = [] if isinstance(sock, ssl.SSLSocket) else [sock]
        for chunk in self.chunks():
            if watched and select.select(watched, watched, [], sock.gettimeout())[0]:
                return
            yield chunk
            self.sent += len(chunk)
            self._told(self.sent)

    def chunks(self) -> Iterator[bytes | memoryview]:
        buffer = memoryview(bytearray(1 << 16))
        for segment in self._segments:
            if isinstance(segment, bytes):
                yield segment
            else:
                yield from self._read(segment, buffer)

    def _read(self, part: _Part, buffer: memoryview) -> Iterator[memoryview]:
        try:
            with open(part.path, "rb", buffering=0) as file:
                file.seek(part.start)
                left = part.size - part.start
                while True:
                    found = os.fstat(file.fileno())
                    state = found.st_size, found.st_mtime_ns, found.st_ino
                    # A repeated body must be the same; the server may have one.
                    is_same = found.st_size == part.size and self._states.setdefault(part.path, state) == state
                    count = file.readinto(buffer[: min(left, len(buffer))])
                    if not is_same or (left and not count):
                        raise UsageError(f"{_quoted(part.path)} changed while it was sent; send it again")
                    if not left:
                        return
                    left -= count
                    yield buffer[:count]
        except OSError as cause:
            raise UsageError(f"{_quoted(part.path)} cannot be read: {cause.strerror}") from cause


def _form(fields: Mapping[str, str], parts: Sequence[_Part], boundary: str) -> Iterator[bytes | _Part]:
    def head(disposition: str, *more: str) -> bytes:
        lines = [f"--{boundary}", f"Content-Disposition: form-data; {disposition}", *more, "", ""]
        return "\r\n".join(lines).encode()

    for name, value in fields.items():
        yield head(f'name="{name}"') + f"{value}\r\n".encode()
    for part in parts:
        filename = part.filename.replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A")
        disposition = f'name="{part.field}"; filename="{filename}"'
        yield head(disposition, "Content-Type: application/octet-stream", f"remote-app-size: {part.size}")
        yield part
        yield b"\r\n"
    yield f"--{boundary}--\r\n".encode()


def _part(field: str, source: _Source, directory: str, deflates: bool, report: _Reporter) -> _Part:
    """Equal directories make equal archives, stored and without dates, unless it deflates."""
    path = source.path
    if source.files:
        path = Path(directory, uuid.uuid4().hex)
        total, done = sum(file.stat().st_size for _, file in source.files), 0
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            for name, each in sorted(source.files):
                member = name if deflates else zipfile.ZipInfo(name)
                with open(each, "rb") as file, archive.open(member, "w", force_zip64=True) as entry:
                    shutil.copyfileobj(file, entry)
                done += each.stat().st_size
                report("packing", done, total)
    return _Part(field, source.name, path, path.stat().st_size)


# Operations

#: Keywords that go into the field `options`.
_OPTIONS = ("patch_size", "max_voxels", "batch_size", "config_overrides")
#: Keywords that are not of the form.
_OWN = {"self", "app", "progress", "log"}


def _text(value: object) -> str:
    return str(value) if isinstance(value, str) or not isinstance(value, Iterable) else ",".join(map(str, value))


def _app_path(name: str) -> str:
    """Slashes stay where they can: some proxies reject `%2F`."""
    if not name or name in (".", ".."):
        raise UsageError(f"{_quoted(name)} is not the name of an app; apps() lists them")
    return urllib.parse.quote(name, safe="" if {"", ".", ".."} & set(name.split("/")) else "/")


class Server:
    """A server that runs apps.

    Without arguments it is that of `REMOTE_APP_SERVER` or of `remote-app login`. `timeout` is for silence, `patience`
    for a server that is away after it has answered: it is tried again. Both are in seconds.
    """

    # fmt: off
    def __init__(
        self, url: Text = None, *, token: Text = None, profile: Text = None, app: Text = None,
        ca: PathText | None = None, progress: Shown = None,
        timeout: float = 600, patience: float = 600,
    ) -> None:
        self._settings = _settings(url, token, profile, app, ca)
        self._wire = _Wire(self._settings, timeout, patience)
        self._progress = progress
        self.url = self._wire.url
    # fmt: on

    def __repr__(self) -> str:
        return f"Server({self.url!r})"

    def health(self) -> bool:
        """Whether the server is well."""
        return bool(self._wire.json("GET", "/health").get("status") == "ok")

    def apps(self) -> list[str]:
        """The names of its apps."""
        return list(map(str, self._list(self._wire.json("GET", "/repo_apps_list"), "apps")))

    def app(self, name: str) -> Json:
        """What an app is: its inputs, outputs, labels, checkpoints."""
        return self._wire.json("GET", f"/repo_apps/{_app_path(name)}")

    def gpus(self) -> list[Json]:
        """The GPUs: `id`, `name`, and where the server says it `free`, `job` (None: free) and `loaded`."""
        answer = self._wire.json("GET", "/available_devices")
        found: list[Json] = [{} for _ in self._list(answer, "devices_index")]
        for name, key in {"id": "index", "name": "name", "free": "free", "job": "jobs", "loaded": "loaded"}.items():
            for gpu, value in zip(found, self._list(answer, f"devices_{key}")):
                gpu[name] = value
        return found

    def jobs(self, tag: Text = None) -> list[Json]:
        """Your jobs, newest first, at most 1,000."""
        query = f"?tag={urllib.parse.quote(tag)}" if tag else ""
        return self._list(self._wire.json("GET", f"/jobs{query}"), "jobs")

    def job(self, job_id: str) -> Job:
        """A job by its id."""
        if not re.fullmatch(r"(?a)\w[\w-]{0,63}", job_id):
            raise UsageError(f"{_quoted(job_id)} is not the id of a job; jobs() lists them")
        return Job(self, job_id)

    # fmt: off
    def infer(
        self, *inputs: Groups, app: Text = None, gpu: Gpus = None, cpu: Count = None, tta: Count = None,
        mc: Count = None, ensemble: Count = None, ensemble_models: Words = None, uncertainty: Flag = None,
        prediction_file: Text = None, patch_size: Sequence[int] | None = None, max_voxels: Count = None,
        batch_size: Count = None, config_overrides: Overrides = None, quiet: Flag = None, keep: Span = None,
        time_limit: Span = None, retry_alone: Flag = None, tag: Text = None, deidentified: Flag = None,
        progress: Shown = None, log: Log = None,
    ) -> Result:
        """Runs inference, waits for it and fetches the result.

        Each argument is a group of files, such as a channel: a path, or a list of paths. A directory is one DICOM
        series. `log` is called with each line of the job's log. Ctrl-C kills the job.
        """
        return self._run("infer", locals())

    def evaluate(
        self, *inputs: Groups, gt: Groups, mask: Groups | None = None, app: Text = None, gpu: Gpus = None,
        cpu: Count = None, evaluation_file: Text = None, quiet: Flag = None, keep: Span = None,
        time_limit: Span = None, retry_alone: Flag = None, tag: Text = None, deidentified: Flag = None,
        progress: Shown = None, log: Log = None,
    ) -> Result:
        """Evaluates predictions against ground truth, in the same order."""
        return self._run("evaluate", locals())

    def uncertainty(
        self, *inputs: Groups, app: Text = None, gpu: Gpus = None, cpu: Count = None, uncertainty_file: Text = None,
        quiet: Flag = None, keep: Span = None, time_limit: Span = None, retry_alone: Flag = None, tag: Text = None,
        deidentified: Flag = None, progress: Shown = None, log: Log = None,
    ) -> Result:
        """Estimates uncertainty from stacks of predictions that an inference wrote."""
        return self._run("uncertainty", locals())

    def pipeline(
        self, *inputs: Groups, gt: Groups, mask: Groups | None = None, app: Text = None, gpu: Gpus = None,
        cpu: Count = None, tta: Count = None, mc: Count = None, ensemble: Count = None, ensemble_models: Words = None,
        uncertainty: Flag = None, prediction_file: Text = None, evaluation_file: Text = None,
        uncertainty_file: Text = None, patch_size: Sequence[int] | None = None, max_voxels: Count = None,
        batch_size: Count = None, config_overrides: Overrides = None, quiet: Flag = None, keep: Span = None,
        time_limit: Span = None, retry_alone: Flag = None, tag: Text = None, deidentified: Flag = None,
        progress: Shown = None, log: Log = None,
    ) -> Result:
        """Runs inference, evaluation and uncertainty estimation."""
        return self._run("pipeline", locals())

    def fine_tune(
        self, dataset: PathText, *, name: Text = None, app: Text = None, gpu: Gpus = None, cpu: Count = None,
        config_file: Text = None, epochs: Count = None, it_validation: Count = None, models: Words = None,
        lr: float | None = None, batch_size: Count = None, config_overrides: Overrides = None, quiet: Flag = None,
        keep: Span = None, time_limit: Span = None, retry_alone: Flag = None, tag: Text = None,
        deidentified: Flag = None, progress: Shown = None, log: Log = None,
    ) -> Result:
        """Fine-tunes checkpoints on a data set: a directory, or a zip archive of one."""
        return self._run("fine_tune", locals())
    # fmt: on

    def submit(
        self, operation: str, *inputs: Any, app: str | None = None, progress: Shown = None, **fields: Any
    ) -> Job:
        """Sends a job and does not wait for it: `submit("infer", "t1.nii.gz", app="brain", gpu=0)`.

        It takes what the method of that name takes, and is kept for as long as the server allows.
        """
        if operation not in ("infer", "evaluate", "uncertainty", "pipeline", "fine_tune"):
            raise UsageError(f"There is no operation {_quoted(operation)}")
        bound = inspect.signature(getattr(self, operation)).bind(*inputs, app=app, **fields)
        bound.apply_defaults()
        if bound.arguments["keep"] is None:
            bound.arguments["keep"] = "max"
        with self._reporter(progress) as report:
            return self._submit(operation, bound.arguments, report)

    def _reporter(self, progress: Shown) -> _Reporter:
        return _Reporter(self._progress if progress is None else progress)

    @staticmethod
    def _list(answer: Json, key: str) -> list[Any]:
        value = answer.get(key)
        return value if isinstance(value, list) else []

    def _run(self, operation: str, given: Json) -> Result:
        log = given["log"]
        with self._reporter(given["progress"]) as report:
            job = self._submit(operation, given, report)
            try:
                report("running")
                for line, number in job._events():
                    report("running", text=line)
                    if log and number is not None:
                        log(line)
            except KeyboardInterrupt:
                try:
                    _say(f"Interrupted: job {job.id} is {job.kill()}")
                except RemoteAppError as error:
                    _say(f"Interrupted: {job!r} may still run: {error}")
                raise
            return job._fetch(report)

    def _submit(self, operation: str, given: Json, report: _Reporter) -> Job:
        values = {key: value for key, value in given.items() if key not in _OWN and value is not None}
        if self._settings.deidentifies and not values.get("deidentified"):
            what = f"{self._settings.deidentifies} wants scans to be de-identified"
            remedy = "use 'remote-app infer', or deidentified=True if they are"
            raise UsageError(f"{what}, which this client cannot do: {remedy}")
        sources = {each: _groups(each, values.pop(each)) for each in [*values] if each in ("inputs", "gt", "mask")}
        if operation == "fine_tune":
            sources["dataset"] = [[_source(values.pop("dataset"), is_data_set=True)]]
        options = {key: values.pop(key) for key in _OPTIONS if key in values}
        changes = options.get("config_overrides")
        if isinstance(changes, Mapping):
            options["config_overrides"] = [f"{key}={value}" for key, value in changes.items()]
        fields = {key: _text(value) for key, value in values.items()}
        chosen = given["app"] or self._settings.app
        apps = [chosen] if chosen else self.apps()
        if len(apps) != 1:
            raise UsageError(f"Name the app, with app=: {_plain(', '.join(apps)) or 'there is none'}")
        # Tells of a wrong token or app before anything is packed.
        self.app(apps[0])
        asked = {"app": apps[0], "operation": operation, **{key: fields[key] for key in ("gpu", "cpu") if key in fields}}
        try:
            # Refuses what the app needs and the server does not have.
            limits = self._wire.json("GET", f"/limits?{urllib.parse.urlencode(asked)}")
        except NotFound:
            # KonfAI's server has none, and knows neither `keep` nor keys.
            limits = {}
        max_keep = limits.get("max_keep")
        if max_keep is None:
            fields.pop("keep", None)
        else:
            fields.setdefault("keep", str(int(min(86_400, max_keep))))
        deflates = not limits.get("uploads")
        to, key = f"/apps/{_app_path(apps[0])}/{operation}", uuid.uuid4().hex
        with tempfile.TemporaryDirectory(prefix="remote-app-") as directory:
            files = {
                field: [[_part(field, each, directory, deflates, report) for each in group] for group in groups]
                for field, groups in sources.items()
            }
            parts = [*itertools.chain(*itertools.chain(*files.values()))]
            if not deflates and max(each.size for each in parts) > _SMALL:
                total = sum(each.size for each in parts)
                answer = self._submit_uploads(to, {**fields, "options": options}, files, total, key, report)
            else:
                for field in files.keys() - {"dataset"}:
                    fields[f"{field}_groups"] = _text(map(len, files[field]))
                if options:
                    fields["options"] = json.dumps(options, default=int)
                try:
                    form = [*_form(fields, parts, key)]
                except UnicodeEncodeError as cause:
                    raise UsageError(f"'{_plain(cause.object)}' has a name that is not UTF-8; rename it") from None
                body = _Body(form, {}, lambda sent: report("uploading", sent, body.length))
                answer = self._post(to, f"multipart/form-data; boundary={key}", body, key, bool(limits))
        job = self.job(str(answer["job_id"]))
        missing = sorted(set(options) - set(map(str, self._list(answer, "accepted_options"))))
        if missing:
            job.kill()
            raise RemoteAppError(f"{self.url} does not know {', '.join(missing)}; the job was killed")
        return job

    def _submit_uploads(
        self, to: str, fields: Json, files: dict[str, list[list[_Part]]], total: int, key: str, report: _Reporter
    ) -> Json:
        """Sends what the server lacks, then a submission that names files by their contents."""
        states: _States = {}
        done = 0

        def reference(part: _Part) -> Json:
            nonlocal done
            name = self._upload(part, states, lambda sent: report("uploading", done + sent, total))
            done += part.size
            return {"upload": name, "name": part.filename}

        for attempt in itertools.count(1):
            done, document = 0, dict(fields)
            for field, groups in files.items():
                document[field] = [[reference(each) for each in group] for group in groups]
            if "dataset" in document:
                document["dataset"] = document["dataset"][0][0]
            body = _Body([json.dumps(document, default=int).encode()], states)
            try:
                return self._post(to, "application/json", body, key, True)
            except Refused as error:
                # One that has gone since is sent again.
                if error.status != 409 or attempt == 3:
                    raise
        raise AssertionError

    def _upload(self, part: _Part, states: _States, told: _Told) -> str:
        """Sends what the server lacks of a file. Returns its name there, its SHA-256."""
        digest, patience = hashlib.sha256(), _Patience(self._wire.patience)
        for chunk in _Body([part], states).chunks():
            digest.update(chunk)
        name = digest.hexdigest()

        def send(method: str, path: str, start: int, **tus: str) -> int:
            body = _Body([part._replace(start=start)], states, lambda sent: told(start + sent))
            headers = {"Tus-Resumable": "1.0.0", "Content-Type": "application/offset+octet-stream"}
            headers.update({f"Upload-{key}": value for key, value in tus.items()})
            with self._wire.send(method, path, headers, body) as answer:
                offset = answer.accepted().header("upload-offset")
                return int(offset) if offset.isdigit() else self._wire.surprise("the offset of an upload")

        def attempt() -> str:
            # The first request has a small file whole; of others it asks where to go on.
            start = 0 if part.size <= _SMALL else part.size
            metadata = f"sha256 {base64.b64encode(name.encode()).decode()}"
            offset = send("POST", "/uploads", start, Length=str(part.size), Metadata=metadata)
            patience.reached(offset)
            if offset < part.size:
                send("PATCH", f"/uploads/{name}", offset, Offset=str(offset))
            return name

        # Another program may write the same upload.
        taken = (404, 409, 423)
        return self._wire.patiently(attempt, lambda error: _may_send_again(error) or error.status in taken, patience)

    def _post(self, to: str, content_type: str, body: _Body, key: str, has_keys: bool) -> Json:
        """Sends a submission until the server has it. By its key it is one job."""
        headers = {"Content-Type": content_type, "Idempotency-Key": key}
        is_sent = False

        def ask() -> Json:
            nonlocal is_sent
            try:
                with self._wire.send("POST", to, headers, body) as answer:
                    envelope = answer.json()
                    self.job(str(envelope.get("job_id")))
                    return envelope
            except Unreachable:
                is_sent = is_sent or body.sent == body.length
                raise

        try:
            return self._wire.patiently(ask, lambda error: _may_send_again(error) and (has_keys or not is_sent))
        except RemoteAppError as error:
            if self._wire.is_met and _may_send_again(error):
                outcome = "the server may have the job: jobs() lists it then" if is_sent else "no job was made"
                error.args = (f"{error}; the upload is given up, and {outcome}",)
            raise


# Jobs and results

_FINAL = ("done", "error", "killed")


def _events_of(chunks: Iterable[bytes]) -> Iterator[tuple[str, int | None]]:
    max_line = 1 << 20
    rest = b""
    data: str | None = None
    number: int | None = None
    for chunk in chunks:
        lines = (rest + chunk).split(b"\n")
        rest = lines.pop()[: max_line + 1]
        for raw in lines:
            line = raw.removesuffix(b"\r")
            if not line:
                if data is not None:
                    yield data, number
                data = number = None
            elif line.startswith(b"data:"):
                data = line[5:].decode("utf-8", "replace").removeprefix(" ")
                if len(line) > max_line:
                    data = f"{data[:max_line]} [remote-app: the rest of this line is left out]"
            elif re.fullmatch(rb"id: ?\d{1,15}", line):
                number = int(line[3:])


class Job:
    """A job of a server."""

    def __init__(self, server: Server, job_id: str) -> None:
        self._server = server
        self._wire = server._wire
        self._path = f"/jobs/{job_id}"
        self.id = job_id

    def __repr__(self) -> str:
        return f"{self._server!r}.job({self.id!r})"

    def status(self) -> Json:
        """All that the server says of it: `status`, `error`, times, GPUs, the place in the queue."""
        view = self._wire.json("GET", self._path)
        return view if isinstance(view.get("status"), str) else self._wire.surprise("the state of a job")

    def logs(self, since: int = 0) -> Iterator[str]:
        """The lines of its log to its end, behind the first `since`.

        A connection that breaks is opened again: no line is lost and none comes twice. How the job ended says `wait`.
        """
        return (line for line, number in self._events(since) if number is not None)

    def wait(self, timeout: float | None = None) -> Json:
        """Waits for its end. Raises `JobFailed` if it has no result, and `TimedOut` after so many seconds."""
        end = float("inf") if timeout is None else time.monotonic() + timeout
        for attempt in itertools.count():
            view = self._wire.patiently(self.status)
            if view["status"] == "done":
                return view
            if view["status"] in _FINAL:
                self._open_result().__exit__()
                return view
            pause = _backoff(attempt, 0.1, 2)
            if time.monotonic() + pause > end:
                raise TimedOut(f"Job {self.id} is {_plain(view['status'], 40)} after {timeout} seconds")
            time.sleep(pause)
        raise AssertionError

    def kill(self) -> str:
        """Ends it. Returns its state, which may be `done`."""
        return str(self._wire.json("POST", f"{self._path}/kill", timeout=60).get("status"))

    def result(self, *, partial: bool = False, progress: Shown = None) -> Result:
        """Waits for its end and fetches the result; `partial` fetches what a failed or killed job left."""
        with self._server._reporter(progress) as report:
            return self._fetch(report, "?partial=1" if partial else "")

    def _events(self, since: int = 0) -> Iterator[tuple[str, int | None]]:
        """The lines of the log with their numbers. Places in the queue have none."""
        is_numbered = is_known = False
        patience = _Patience(self._wire.patience)
        while True:
            try:
                with self._wire.send("GET", f"{self._path}/logs?since={since}", timeout=60) as answer:
                    if "event-stream" not in answer.accepted().header("content-type"):
                        self._wire.surprise("a log")
                    is_known = True
                    for line, number in _events_of(answer.chunks(1 << 16)):
                        if line == "__DONE__" or line.startswith("__ERROR__"):
                            return
                        if number is not None:
                            is_numbered = True
                            if number <= since:
                                continue
                            since = number
                        elif not is_numbered:
                            # KonfAI's server numbers no lines, and sends none twice.
                            number = 0
                        if number is not None:
                            patience.renew()
                        yield line, number
                if not is_numbered and self.status()["status"] in _FINAL:
                    return
                raise Unreachable(f"The log of job {self.id} ended early")
            except RemoteAppError as error:
                if isinstance(error, NotFound) and is_known:
                    raise NotFound(f"{self._wire.url} has forgotten job {self.id}: submit it again", 404) from error
                if error.status == 429:
                    # Another program reads it: it can be read after that.
                    time.sleep(1)
                elif self._wire.is_met and _is_outage(error):
                    patience.after(error)
                else:
                    raise

    def _open_result(self, query: str = "", headers: Mapping[str, str] = {}) -> _Answer:
        for attempt in itertools.count():
            answer = self._wire.send("GET", f"{self._path}/result{query}", headers)
            if answer.status in (200, 206, 416):
                return answer
            with answer:
                body = _object(answer.text())
            state = body.get("status")
            # KonfAI's server answers for a killed job as for one that runs.
            if answer.status == 202 and state not in ("error", "killed"):
                time.sleep(_backoff(attempt, 0.1, 2))
            elif state in _FINAL:
                reason = _plain(str(body.get("error") or "no reason given"))
                state = "refused" if answer.status == 422 else state
                raise JobFailed(self.id, state, reason, body.get("kind"))
            else:
                raise answer.refusal(body)
        raise AssertionError

    def _fetch(self, report: _Reporter, query: str = "") -> Result:
        try:
            return Result(self, query, report)
        except RemoteAppError as error:
            error.job_id = self.id
            raise

    def _download(self, file: BinaryIO, query: str, report: _Reporter) -> None:
        """Goes on where it stopped, if the file is the same."""
        patience = _Patience(self._wire.patience)
        offset, tag = 0, ""

        def attempt() -> None:
            nonlocal offset, tag
            headers = {"Range": f"bytes={offset}-", "If-Range": tag} if offset and tag else {}
            with self._open_result(query, headers) as answer:
                part = re.fullmatch(r"bytes (\d+)-\d+/(\d+)", answer.header("content-range"))
                if answer.status == 200:
                    offset, total = 0, int(answer.header("content-length") or 0)
                elif headers and part and int(part[1]) == offset and answer.header("etag") == tag:
                    total = int(part[2])
                else:
                    tag = ""
                    raise Unreachable(f"{self._wire.url} cannot continue the download")
                tag = answer.header("etag") if answer.header("etag").startswith('"') else ""
                file.seek(offset)
                file.truncate()
                for chunk in answer.chunks():
                    file.write(chunk)
                    offset += len(chunk)
                    patience.reached(offset)
                    report("downloading", offset, total)
            if total and offset != total:
                raise Unreachable(f"The download ended after {offset} of {total} bytes")

        self._wire.patiently(attempt, patience=patience)


class _Archive(io.BufferedReader):
    """A zip archive on disk whose list of entries is counted before zipfile makes an object of each."""

    def __init__(self, path: Path) -> None:
        super().__init__(io.FileIO(path))

    def read(self, size: int | None = -1, /) -> bytes:
        # zipfile reads the whole list at once, and everything else in small pieces.
        if size is None or size > 256 * 2**20:
            raise BadArchive(f"The result is not extracted: its list of files has {size} bytes")
        data = super().read(size)
        count = data.count(b"PK\x01\x02") if data.startswith(b"PK\x01\x02") else 0
        if count > 200_000:
            raise BadArchive(f"The result is not extracted: it has {count} files")
        return data


def _entries(archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    """The entries by name. Raises for what must not be extracted."""
    found: dict[str, zipfile.ZipInfo] = {}
    for member in archive.infolist():
        name = member.filename
        parts = name.rstrip("/").split("/")
        is_bad = {"", ".", ".."} & set(parts) or "\0" in member.orig_filename or name in found
        usual = stat.S_IFDIR if member.is_dir() else stat.S_IFREG
        is_odd = member.flag_bits & 1 or stat.S_IFMT(member.external_attr >> 16) not in (0, usual)
        if is_bad or is_odd or (os.name == "nt" and re.search(r'[<>:"|?*\\\x00-\x1f]', name)):
            what = "has a name that cannot be used here, is there twice, is a link or is encrypted"
            raise BadArchive(f"The result is not extracted: its entry {_quoted(name)} {what}")
        found[name] = member
    return found


class ResultFile:
    """A file of a result."""

    def __init__(self, result: Result, name: str, size: int) -> None:
        self._result = result
        self.name = name
        #: Bytes.
        self.size = size

    def __repr__(self) -> str:
        return f"<{_plain(self.name)}: {self.size} bytes>"

    @property
    def path(self) -> Path:
        """Where it is extracted, for as long as there is the result."""
        return self._result._extracted / self.name

    def read(self) -> bytes:
        return self.path.read_bytes()

    def nibabel(self) -> Any:
        """As an image of nibabel, in memory."""
        import nibabel
        import numpy

        image: Any = nibabel.load(self.path)
        return type(image)(numpy.asanyarray(image.dataobj), image.affine, image.header)

    def simpleitk(self) -> Any:
        """As an image of SimpleITK."""
        import SimpleITK

        return SimpleITK.ReadImage(os.fspath(self.path))


class Result(dict[str, ResultFile]):
    """The files of a result, by name, in a temporary directory that is removed with this object."""

    def __init__(self, job: Job, query: str, report: _Reporter) -> None:
        super().__init__()
        directory = Path(tempfile.mkdtemp(prefix="remote-app-"))
        weakref.finalize(self, shutil.rmtree, directory, True)
        self.job = job
        #: The zip archive as it came.
        self.archive = directory / "result.zip"
        with open(self.archive, "wb") as file:
            job._download(file, query, report)
        try:
            with _Archive(self.archive) as file, zipfile.ZipFile(file) as archive:
                for name, each in _entries(archive).items():
                    if not each.is_dir():
                        self[name] = ResultFile(self, name, each.file_size)
        except (zipfile.BadZipFile, NotImplementedError) as cause:
            raise BadArchive(f"The result of job {job.id} is not a zip archive: {_plain(str(cause))}") from None

    def __repr__(self) -> str:
        return f"<Result of {self.job!r}: {', '.join(map(_plain, self)) or 'no files'}>"

    def images(self) -> dict[str, Any]:
        """The images: of nibabel if it is installed and knows them, otherwise of SimpleITK."""
        found = {}
        for name, file in self.items():
            if name.lower().endswith((".nii", ".nii.gz", ".mgh", ".mgz")) and importlib.util.find_spec("nibabel"):
                found[name] = file.nibabel()
            elif name.lower().endswith((".nii", ".nii.gz", ".mha", ".mhd", ".nrrd", ".nhdr")):
                found[name] = file.simpleitk()
        return found

    def save(self, directory: PathText, *, overwrite: bool = False) -> Path:
        """Extracts all files into a directory: new or empty, unless `overwrite` replaces files of the same names."""
        place = Path(directory).expanduser()
        if not overwrite and place.exists() and (not place.is_dir() or any(place.iterdir())):
            remedy = f"name another directory, or give overwrite=True; {self.job!r}.result() fetches the result again"
            raise UsageError(f"{_quoted(place)} has files already: {remedy}")
        parent = place if place.is_dir() else place.parent
        parent.mkdir(parents=True, exist_ok=True)
        # Complete before it is moved to its place, on the same disk.
        with tempfile.TemporaryDirectory(prefix=".remote-app-", dir=parent) as own:
            files = Path(own) / "files"
            self._extract(files)
            place.mkdir(exist_ok=True)
            for name in self:
                target = place / name
                if target.parent.resolve() != place.resolve() / Path(name).parent:
                    raise UsageError(f"{_quoted(target.parent)} leads through a link, and nothing is written there")
                target.parent.mkdir(parents=True, exist_ok=True)
                os.replace(files / name, target)
        return place

    @functools.cached_property
    def _extracted(self) -> Path:
        directory = self.archive.parent / "files"
        self._extract(directory)
        return directory

    def _extract(self, directory: Path) -> None:
        directory.mkdir()
        total, free = sum(each.size for each in self.values()), shutil.disk_usage(directory).free
        if total > free:
            raise RemoteAppError(f"The result needs {total} bytes, and the disk of {directory} has {free}")
        try:
            with _Archive(self.archive) as file, zipfile.ZipFile(file) as archive:
                # It reads no more than what was added up, and compares checksums.
                archive.extractall(directory)
        except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as cause:
            raise BadArchive(f"The result of job {self.job.id} is damaged: {_plain(str(cause))}") from None
