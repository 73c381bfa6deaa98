"""The settings of a broker, written down again: what holds after file, command line and defaults."""

from __future__ import annotations

import dataclasses
import enum
import json
from pathlib import Path
from typing import Any

import msgspec

from tidings.aggregation import AggregationOptions
from tidings.history import HistoryOptions, StrategyOptions
from tidings.mobility import MobilityOptions
from tidings.net import ArchiveOptions, Bounds, StoreOptions
from tidings.scopes import BorderKey

from ._config import Configuration
from ._history import size_of
from ._settings import CACHING


def _border_key(key: BorderKey) -> dict[str, Any]:
    return {"name": key.name, "scopes": sorted(key.scopes), "valid": key.valid / 1e6}


def described(configuration: Configuration) -> dict[str, Any]:
    """The settings as they would stand in a file; secrets are left out."""
    options = configuration.options
    identities: dict[str, dict[str, Any]] = {}
    for form, known in (("token", options.access.tokens), ("certificate", options.access.certificates)):
        for credential, identity in known.items():
            entry = identities.setdefault(identity.name, {"name": identity.name})
            entry[form] = "(hidden)" if form == "token" else credential
            entry.update(publish=str(identity.publish), subscribe=str(identity.subscribe))
            entry.update(administer=identity.administer, broker=identity.broker, deploy=identity.deploy)
            entry.update(names=list(identity.names), attributes=list(identity.attributes), count=list(identity.count))
    tls = (
        {}
        if options.tls is None
        else {key: str(value) for key, value in dataclasses.asdict(options.tls).items() if value}
    )
    return {
        "name": options.name,
        "host": options.host,
        "port": options.port,
        **({"data": str(options.data)} if options.data is not None else {}),
        "role": options.role.value,
        "topology": "strict" if options.strict_topology else "tree",
        **({"authority": options.authority} if options.authority is not None else {}),
        "frozen_scopes": options.frozen_scopes,
        "neighbours": list(options.neighbours),
        **({"neighbour_token": "(hidden)"} if options.neighbour_token is not None else {}),
        "insecure": options.insecure,
        **({"metrics_port": options.metrics_port} if options.metrics_port is not None else {}),
        "metrics_host": options.metrics_host,
        "management": options.management,
        "slow_policy": options.slow_policy.value,
        "log_level": configuration.log_level,
        "log_json": configuration.log_json,
        "routing": dataclasses.asdict(options.routing),
        **({"tls": tls} if tls else {}),
        "store": _told(options.store),
        **({"archive": _told(options.archive)} if options.archive is not None else {}),
        "history": _told(options.history),
        "caching": _caching(options.caching),
        "aggregation": _aggregation(options.aggregation),
        "mobility": _told(options.mobility),
        "limits": dataclasses.asdict(options.limits),
        **({"access": list(identities.values())} if identities else {}),
        **({"border_key": [_border_key(key) for key in options.border_key]} if options.border_key else {}),
    }


def _told(
    options: StoreOptions | ArchiveOptions | HistoryOptions | StrategyOptions | AggregationOptions | MobilityOptions,
) -> dict[str, Any]:
    """The settings of a table, without those that are not set."""
    values = {key: value for key, value in dataclasses.asdict(options).items() if value is not None and value != {}}
    return {key: _plain(value) for key, value in values.items()}


def _caching(options: StrategyOptions) -> dict[str, Any]:
    """Without what stands in `[history]`."""
    values = _told(options)
    return {**values.pop("limits"), **{key: values[key] for key in values if key in CACHING}}


def _aggregation(options: AggregationOptions) -> dict[str, Any]:
    """With the signers, which are tables of their own, if there are any."""
    values = _told(dataclasses.replace(options, signer=()))
    del values["signer"]
    if not options.network:
        del values["network"]
    signers = [msgspec.to_builtins(one) for one in options.signer]
    return {**values, **({"signer": signers} if signers else {})}


def _plain(value: Any) -> Any:
    if isinstance(value, enum.Enum):
        return value.value
    return str(value) if isinstance(value, Path) else value


def kept(bounds: Bounds) -> str:
    """How much a broker keeps on disk, and how to change it."""
    if bounds.store is None:
        return "everything, until its disk is full; [store] retain_bytes sets a bound"
    shares = f"at most {size_of(bounds.store)}"
    if bounds.archive is not None:
        shares += f" in the store and {size_of(bounds.archive)} in the archive"
    why = "by default; " if bounds.by_default else ""
    return f"{shares}, and drops the oldest first ({why}[store] retain_bytes changes it)"


def as_toml(settings: dict[str, Any]) -> str:
    """The settings as a TOML text."""
    lines = [f"{key} = {_value(value)}" for key, value in settings.items() if not _is_table(value)]
    for key, value in settings.items():
        if isinstance(value, dict):
            plain = {name: item for name, item in value.items() if isinstance(item, dict) or not _is_table(item)}
            lines += ["", f"[{key}]", *(f"{name} = {_value(item)}" for name, item in plain.items())]
            for name, entries in value.items():
                if _is_table(entries) and not isinstance(entries, dict):
                    lines += _entries(f"{key}.{name}", entries)
        elif _is_table(value):
            lines += _entries(key, value)
    return "\n".join(lines)


def _entries(key: str, entries: list[dict[str, Any]]) -> list[str]:
    lines: list[str] = []
    for entry in entries:
        lines += ["", f"[[{key}]]", *(f"{name} = {_value(item)}" for name, item in entry.items())]
    return lines


def _is_table(value: Any) -> bool:
    return isinstance(value, dict) or (isinstance(value, list) and bool(value) and isinstance(value[0], dict))


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{json.dumps(name)} = {_value(item)}' for name, item in value.items())} }}"
    return json.dumps(value, ensure_ascii=False)  # texts, numbers, booleans and lists look alike in JSON and TOML
