"""Every key that a configuration file may have, and how its value is read.

A reader takes the value as it stands in the file and the directory of the file, and gives what `Options` wants, or
raises `Bad`: what is wrong, and what would be right.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from tidings.aggregation import Exported, Isolation, Policy, Riding
from tidings.aggregation.deploying import Signer
from tidings.broker import ALGORITHMS, Role, check_place
from tidings.history import STRATEGIES, Align, CacheLimits, IndexScope, MergeOrder, ReplayVariant, TimerScheme
from tidings.mobility import GraphMode, Scheme
from tidings.model import Filter, FilterError, FilterSyntaxError, Location, TidingsError, ValueRefused
from tidings.net import Bound, Limits, SlowPolicy
from tidings.store import Promoted, StoreError
from tidings.wire import MAX_BODY, MAX_SILENCE, MIN_SILENCE

from . import _times
from ._signers import signers_in

Reader: TypeAlias = Callable[[Any, Path], Any]

MIN_RETAINED = 1_000_000
"""The least that a store can be told to keep: with less, it would forget what it has just taken."""
MAX_PATTERNS = 100
"""The most patterns of names of one identity."""
LOG_LEVELS = ("debug", "info", "warning", "error")


class Bad(Exception):
    """A value that cannot be used."""

    def __init__(self, problem: str, remedy: str) -> None:
        super().__init__(problem, remedy)
        self.problem = problem
        self.remedy = remedy


def _kind(value: object) -> str:
    names = {bool: "true or false", int: "a whole number", float: "a number", str: "a text", list: "a list"}
    return names.get(type(value), "a table" if isinstance(value, dict) else f"a {type(value).__name__}")


def _expect(value: object, kinds: tuple[type, ...], remedy: str) -> None:
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        raise Bad(f"{_shown(value)} is {_kind(value)}", remedy)


def _shown(value: object) -> str:
    try:
        text = repr(value) if not isinstance(value, bool) else str(value).lower()
    except ValueError:  # Python does not write numbers of thousands of digits
        return "a number of thousands of digits"
    return text if len(text) <= 60 else text[:57] + "..."


def text(value: Any, directory: Path) -> str:
    """A text that is not empty."""
    _expect(value, (str,), 'write a text in double quotes, like "berlin"')
    if not value or len(value) > 256:
        raise Bad(f"a text of {len(value)} characters", "write 1 to 256 characters")
    return str(value)


def boolean(value: Any, directory: Path) -> bool:
    """True or false."""
    _expect(value, (bool,), "write true or false, without quotes")
    return bool(value)


def integer(lowest: int, highest: int) -> Reader:
    """A whole number within bounds."""

    def read(value: Any, directory: Path) -> int:
        _expect(value, (int,), f"write a whole number from {lowest} to {highest}, without quotes")
        if not lowest <= value <= highest:
            raise Bad(f"{_shown(value)} is out of range", f"write a whole number from {lowest} to {highest}")
        return int(value)

    return read


def number(lowest: float, highest: float) -> Reader:
    """A number within bounds."""

    def read(value: Any, directory: Path) -> float:
        _expect(value, (int, float), f"write a number from {lowest:g} to {highest:g}, without quotes")
        if not lowest <= value <= highest:
            raise Bad(f"{_shown(value)} is out of range", f"write a number from {lowest:g} to {highest:g}")
        return float(value)

    return read


def one_of(words: Iterable[str], make: Callable[[str], Any] = str) -> Reader:
    """One of some words."""
    known = list(words)

    def read(value: Any, directory: Path) -> Any:
        if value not in known:
            raise Bad(f"{_shown(value)} is unknown", f"choose one of {', '.join(map(repr, known))}".replace("'", '"'))
        return make(value)

    return read


def choice(kind: type[enum.Enum]) -> Reader:
    """A member of an enumeration, by its value."""
    return one_of([member.value for member in kind], kind)


def path(value: Any, directory: Path) -> Path:
    """A path; a relative one starts where the configuration file is."""
    _expect(value, (str,), 'write a path in double quotes, like "/var/lib/tidings"')
    return directory / Path(value).expanduser()


def file(value: Any, directory: Path) -> Path:
    """The path of a file that can be read."""
    found = path(value, directory)
    try:
        with found.open("rb"):
            return found
    except OSError as error:
        raise Bad(
            f"'{found}' cannot be read: {error.strerror}", "name a file that exists and that you may read"
        ) from None


def files(value: Any, directory: Path) -> tuple[Path, ...]:
    """A list of the paths of files that can be read."""
    _expect(value, (list,), 'write a list of paths, like ["/etc/tidings/vault.key"]')
    return tuple(file(item, directory) for item in value)


def names_of(what: str, example: str) -> Reader:
    """A list of texts that are not empty."""

    def read(value: Any, directory: Path) -> tuple[str, ...]:
        remedy = f"write a list of {what}, like {example}"
        _expect(value, (list,), remedy)
        if not value or not all(isinstance(item, str) and item for item in value):
            raise Bad(f"{_shown(value)} does not name {what}", remedy)
        return tuple(value)

    return read


def url(value: Any, directory: Path = Path()) -> str:
    """The address of a broker."""
    remedy = 'write "tidings://host:port", or "tidings+tls://host:port" with TLS'
    _expect(value, (str,), remedy)
    value = value if "://" in value else f"tidings://{value}"
    try:
        parts = urlsplit(value)
        port = parts.port
    except ValueError as error:
        raise Bad(f"{_shown(value)} is not an address: {str(error).lower()}", remedy) from None
    if parts.scheme not in ("tidings", "tidings+tls") or not parts.hostname or port == 0:
        raise Bad(f"{_shown(value)} is not the address of a broker", remedy)
    if parts.username or parts.password or parts.path.strip("/") or parts.query:
        raise Bad(f"the address of {parts.hostname} has more than host and port", remedy)
    return str(value)


def urls(value: Any, directory: Path) -> tuple[str, ...]:
    """A list of addresses."""
    _expect(value, (list,), 'write a list of addresses, like ["tidings://paris:7311"]')
    found = tuple(url(item) for item in value)
    for item in found:
        if found.count(item) > 1:
            raise Bad(f"'{item}' appears twice", "name each neighbour once")
    return found


def filter_text(value: Any, directory: Path) -> Filter:
    """A filter."""
    remedy = "write a filter in double quotes, like \"type = 'quote'\"; TRUE is everything, FALSE is nothing"
    _expect(value, (str,), remedy)
    try:
        found = Filter.parse(value)
        check_place(found)
        return found
    except FilterSyntaxError as error:
        lines = str(error).splitlines()
        problem = "\n".join(lines[:3])
        raise Bad(problem, error.remedy or "see docs/filters.md") from None
    except FilterError as error:
        raise Bad(str(error), "see docs/filters.md") from None


def duration(lowest: float, highest: float) -> Reader:
    """A duration in seconds, written as a text like "5m", or as a number."""

    def read(value: Any, directory: Path) -> float:
        remedy = 'write a duration in double quotes, like "90s", "5m", "2h" or "7d"'
        _expect(value, (str, int, float), remedy)
        try:
            seconds = _times.duration(value) if isinstance(value, str) else float(value)
        except (ValueError, OverflowError):
            raise Bad(f"{_shown(value)} is not a duration", remedy) from None
        if not lowest <= seconds <= highest:
            raise Bad(f"{_shown(value)} is out of range", f"write {lowest:g} to {highest:g} seconds")
        return seconds

    return read


def size(value: Any, directory: Path) -> int:
    """Bytes, written as a text like "10GB", or as a number."""
    remedy = 'write a size in double quotes, like "500MB", "10GB" or "4GiB"'
    _expect(value, (str, int), remedy)
    try:
        found = _times.size(value) if isinstance(value, str) else int(value)
    except ValueError:
        raise Bad(f"{_shown(value)} is not a size", remedy) from None
    if found > _times.MAX_SIZE:
        raise Bad(f"{_shown(value)} is out of range", f"write at most {_times.MAX_SIZE:,} bytes")
    if found < MIN_RETAINED:
        raise Bad(f"{_shown(value)} is too little", f"write at least {MIN_RETAINED:,} bytes")
    return found


def bound(value: Any, directory: Path) -> int | Bound:
    """A size, or a word for one."""
    words = [one.value for one in Bound]
    if value in words:
        return Bound(value)
    try:
        return size(value, directory)
    except Bad as bad:
        raise Bad(bad.problem, f'{bad.remedy}, or "unlimited"') from None


def texts(value: Any, directory: Path) -> tuple[str, ...]:
    """A list of texts, each once."""
    _expect(value, (list,), 'write a list of names, like ["type", "symbol"]')
    found = tuple(text(item, directory) for item in value)
    for item in found:
        if found.count(item) > 1:
            raise Bad(f"'{item}' appears twice", "name each attribute once")
    return found


def exported(value: Any, directory: Path) -> tuple[str, ...]:
    """A list of aggregates, each with a filter or as a question."""
    _expect(value, (list,), """write a list, like ["subscriber_count type = 'alarm'", "rate() WINDOW 10s"]""")
    found = tuple(text(item, directory) for item in value)
    for item in found:
        try:
            Exported.parse(item)
        except TidingsError as error:
            problem, _, remedy = str(error).partition("; ")
            raise Bad(f"'{item}': {problem}", remedy or "see docs/aggregation.md") from None
        if found.count(item) > 1:
            raise Bad(f"'{item}' appears twice", "export each aggregate once")
    return found


def patterns(value: Any, directory: Path) -> tuple[str, ...]:
    """A list of patterns of names."""
    remedy = 'write a list of names, like ["billing", "feed-*"]; * stands for any text'
    _expect(value, (list,), remedy)
    if len(value) > MAX_PATTERNS:
        raise Bad(f"a list of {len(value)} names", f"write at most {MAX_PATTERNS}; * stands for any text")
    found = tuple(text(item, directory) for item in value)
    for item in found:
        if found.count(item) > 1:
            raise Bad(f"'{item}' appears twice", "write each once")
    return found


def place(value: Any, directory: Path) -> str:
    """A location, from the widest to the narrowest."""
    try:
        return str(Location(text(value, directory)))
    except ValueRefused as error:
        problem, _, remedy = str(error).partition("; ")
        raise Bad(problem, remedy) from None


def silences(value: Any, directory: Path) -> dict[str, float]:
    """Patterns of names, and seconds for each."""
    remedy = 'write patterns of names with seconds, like silence = { "phone-*" = 3 }; * stands for any text'
    _expect(value, (dict,), remedy)
    if len(value) > MAX_PATTERNS:
        raise Bad(f"{len(value)} patterns of names", f"write at most {MAX_PATTERNS}; * stands for any text")
    read = number(MIN_SILENCE, MAX_SILENCE)
    return {text(pattern, directory): read(seconds, directory) for pattern, seconds in value.items()}


def promoted(value: Any, directory: Path) -> tuple[str, ...]:
    """A list of attributes, each as `name` or `name:kind`."""
    found = texts(value, directory)
    try:
        names = [Promoted.parse(item).name for item in found]
    except StoreError as error:
        problem, _, remedy = str(error).partition("; ")
        raise Bad(problem, remedy) from None
    if len(set(names)) < len(names):
        raise Bad(f"{_shown(value)} names an attribute twice", "an attribute has one column, of one kind")
    return found


def secret(value: Any, directory: Path) -> str:
    """A token. What is wrong with it is said without showing it."""
    if not isinstance(value, str) or not value:
        raise Bad("a token is a text that is not empty", "make one with `openssl rand -hex 32`")
    return value


def variable(value: Any, directory: Path) -> str:
    """The name of an environment variable."""
    _expect(value, (str,), 'write the name of an environment variable, like "TIDINGS_TOKEN"')
    return str(value)


def signers(value: Any, directory: Path) -> tuple[Signer, ...]:
    """Whom a broker trusts with code."""
    remedy = "write [[aggregation.signer]] above each entry"
    _expect(value, (list,), remedy)
    if not all(isinstance(one, dict) for one in value):
        raise Bad("this is a list of tables", remedy)
    try:
        return signers_in(value)
    except TidingsError as error:
        problem, _, remedy = str(error).partition("; ")
        raise Bad(problem, remedy) from None


def _limit(field: dataclasses.Field[Any]) -> Reader:
    if field.type == "int":
        return integer(1, 2**40)
    return number(0.01, 86_400)


TOP: dict[str, Reader] = {
    "name": text,
    "host": text,
    "port": integer(0, 65_535),
    "data": path,
    "role": choice(Role),
    "topology": one_of(("tree", "strict")),
    "authority": text,
    "frozen_scopes": boolean,
    "neighbours": urls,
    "neighbour_token": secret,
    "neighbour_token_file": file,
    "neighbour_token_env": variable,
    "insecure": boolean,
    "metrics_port": integer(0, 65_535),
    "metrics_host": text,
    "management": boolean,
    "slow_policy": choice(SlowPolicy),
    "log_level": one_of(LOG_LEVELS),
    "log_json": boolean,
}
ROUTING: dict[str, Reader] = {
    "algorithm": one_of(sorted(ALGORITHMS)),
    "advertisements": boolean,
    "precision": number(0, 1),
    "slack": number(0, 1),
    "merge_width": integer(2, 10_000),
}
TLS: dict[str, Reader] = {"certificate": file, "key": file, "ca": file}
LIMITS: dict[str, Reader] = {
    **{field.name: _limit(field) for field in dataclasses.fields(Limits)},
    "max_part": integer(MAX_BODY + 65_536, 67_108_864),  # a notification and its headers must fit
}
ACCESS: dict[str, Reader] = {
    "name": text,
    "token": secret,
    "token_file": file,
    "token_env": variable,
    "certificate": text,
    "publish": filter_text,
    "subscribe": filter_text,
    "administer": boolean,
    "broker": boolean,
    "deploy": boolean,
    "names": patterns,
    "attributes": patterns,
    "count": patterns,
}
BORDER_KEY: dict[str, Reader] = {
    "name": text,
    "scopes": names_of("scopes", '["vault"]'),
    "sign_file": file,
    "check_files": files,
    "valid": duration(1, 86_400),
}
STORE: dict[str, Reader] = {
    "retain_for": duration(1, 1e10),
    "retain_bytes": bound,
    "index": texts,
    "deliveries": boolean,
    "journal_for": duration(60, 1e10),
}
ARCHIVE: dict[str, Reader] = {
    "directory": path,
    "roll_after": duration(1, 86_400),
    "promote": promoted,
    "retain_bytes": bound,
}
HISTORY: dict[str, Reader] = {
    "strategy": one_of(STRATEGIES),
    "timer": duration(0.01, 3_600),
    "max_answer": integer(1, 1_000_000),
    "max_answer_bytes": integer(1_048_576, 2**30),
}
CACHE_LIMITS = tuple(field.name for field in dataclasses.fields(CacheLimits))
CACHING: dict[str, Reader] = {
    **dict.fromkeys(CACHE_LIMITS, integer(1, 2**40)),
    "timer_scheme": choice(TimerScheme),
    "max_depth": integer(1, 1_000),
    "force_forwards": boolean,
    "merge_order": choice(MergeOrder),
    "align": choice(Align),
    "replay_variant": choice(ReplayVariant),
    "producer_history": integer(0, 2**20),
    "index_scope": choice(IndexScope),
}
AGGREGATION: dict[str, Reader] = {
    "enabled": boolean,
    "ride_within": duration(0, 1),
    "ride_on": choice(Riding),
    "share": one_of([one.value for one in Policy if one is not Policy.WHOLE], Policy),
    "max_keys": integer(1, 10_000_000),
    "max_watches": integer(1, 1_000_000),
    "export": exported,
    "export_keys": integer(1, 1_000_000),
    "threshold": integer(1, 1_000_000),
    "requests_per_minute": integer(1, 1_000_000),
    "identity": boolean,
    "network": text,
    "signer": signers,
    "max_deployed": integer(1, 10_000),
    "deployments_per_second": number(0.01, 10_000),
    "isolation": choice(Isolation),
    "max_workers": integer(1, 1_000),
    "batch_seconds": number(0.05, 60),
}
MOBILITY: dict[str, Reader] = {
    "scheme": one_of([Scheme.ORIGINS.value, Scheme.PROACTIVE.value, Scheme.REACTIVE.value], Scheme),
    "roamers": patterns,
    "t_timeout": duration(1, 1e7),
    "dummy_self_expiry": duration(1, 1e7),
    "buffer_bytes": size,
    "max_virtual_clients": integer(0, 10_000),
    "virtual_bytes": size,
    "virtual_buffer_bytes": size,
    "warm_copies": integer(0, 10_000),
    "warm_clients": patterns,
    "warm_from": number(0, 1),
    "warm_window": duration(1, 1e5),
    "max_warm_copies": integer(0, 50_000),
    "warm_buffer_bytes": size,
    "merge_dedup": boolean,
    "graph_mode": choice(GraphMode),
    "directed": boolean,
    "graph_file": file,
    "edge_timeout": duration(1, 1e10),
    "max_degree": integer(0, 10_000),
    "new_edge_interval": duration(0, 1e7),
    "place": place,
    "silence": silences,
}
TABLES: dict[str, dict[str, Reader]] = {
    "routing": ROUTING,
    "tls": TLS,
    "store": STORE,
    "archive": ARCHIVE,
    "history": HISTORY,
    "caching": CACHING,
    "aggregation": AGGREGATION,
    "mobility": MOBILITY,
    "limits": LIMITS,
}
ENTRIES: dict[str, dict[str, Reader]] = {"access": ACCESS, "border_key": BORDER_KEY}
"""Tables that may stand there many times, as `[[access]]`."""
