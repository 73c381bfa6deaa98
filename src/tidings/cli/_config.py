"""From a TOML file to `Options`, with every complaint at once: the line, the value, the remedy."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from tidings.aggregation import AggregationOptions
from tidings.broker import RoutingOptions
from tidings.history import CacheLimits, HistoryOptions, StrategyOptions
from tidings.mobility import MobilityOptions
from tidings.model import TidingsError
from tidings.net import Access, AccessEntry, ArchiveOptions, Limits, Options, StoreOptions, TlsOptions, clashes
from tidings.scopes import VALID, BorderKey

from ._conflicts import conflicts, read_token, world_readable
from ._lines import KeyPath, lines_of
from ._settings import CACHE_LIMITS, ENTRIES, TABLES, TOP, Bad, Reader
from ._toml_mistakes import mistake

_ENDLESS = re.compile(r"\d{400}")


class Problem(NamedTuple):
    """Something that is wrong, or unwise, at a place of the file."""

    line: int
    key: str
    problem: str
    remedy: str
    warning: bool = False

    def __str__(self) -> str:
        return f"line {self.line}: {self.key}: {self.problem}; {self.remedy}"

    def place(self, file: Path) -> str:
        """Where it is, as editors understand it; the file alone, if nothing of it could be read."""
        return f"{file}:{self.line}: {self.key}" if self.line else str(file)


class ConfigurationError(TidingsError):
    """A configuration that cannot be used; `problems` has one entry for each thing that is wrong."""

    def __init__(self, file: Path, problems: list[Problem]) -> None:
        super().__init__(file, problems)
        self.file = file
        self.problems = problems

    def __str__(self) -> str:
        return "\n".join(f"{one.place(self.file)}: {one.problem}; {one.remedy}" for one in self.problems)


@dataclass(frozen=True, slots=True)
class Configuration:
    """What a file says, with the defaults for what it does not say."""

    options: Options
    log_level: str = "info"
    log_json: bool = False
    warnings: tuple[Problem, ...] = ()


def load(file: Path, overrides: Mapping[str, object] | None = None) -> Configuration:
    """Read and check a file; `overrides` are options from the command line, which win."""
    return _Loader(file, overrides or {}).load()


class _Loader:
    def __init__(self, file: Path, overrides: Mapping[str, object]) -> None:
        self._file = file
        self._overrides = overrides
        self._lines: dict[KeyPath, int] = {}
        self._problems: list[Problem] = []

    def load(self) -> Configuration:
        content = self._parse()
        top = self._table((), content, {**TOP, **dict.fromkeys((*TABLES, *ENTRIES), _anything)})
        tables = {name: self._sub_table(name, top.pop(name, {})) for name in TABLES}
        access = self._access(top.pop("access", []))
        border_key = self._border_keys(top.pop("border_key", []))
        settings: dict[str, Any] = {
            "strict_topology": top.pop("topology", "tree") == "strict",
            "routing": RoutingOptions(**tables["routing"]),
            "limits": Limits(**tables["limits"]),
            "tls": self._tls(tables["tls"]) if "tls" in content else None,
            "store": StoreOptions(**tables["store"]),
            "archive": self._archive(tables["archive"]) if "archive" in content else None,
            "history": HistoryOptions(**tables["history"]),
            "caching": self._caching(tables["caching"]),
            "aggregation": AggregationOptions(**tables["aggregation"]),
            "mobility": MobilityOptions(**tables["mobility"]),
            "access": access,
            "border_key": border_key,
            "neighbour_token": self._token((), "neighbour_token", top),
        }
        logs = {key: top.pop(key) for key in ("log_level", "log_json") if key in top}
        options = Options(**{**settings, **top, **self._overrides})
        for complaint in conflicts(options):
            self._complain((complaint.key,), complaint.problem, complaint.remedy, warning=complaint.warning)
        self._warn_of_readers(content)
        problems = sorted(self._problems, key=lambda problem: problem.line)
        if any(not problem.warning for problem in problems):
            raise ConfigurationError(self._file, problems)
        return Configuration(options, warnings=tuple(problems), **logs)

    # --- the text -------------------------------------------------------------------------------------

    def _parse(self) -> dict[str, Any]:
        try:
            text = self._file.read_text(encoding="utf-8")
            content = tomllib.loads(text)
        except OSError as error:
            remedy = "name a file that exists; docs/configuration.md has an example"
            raise self._fatal(0, f"cannot be read: {error.strerror}", remedy) from None
        except UnicodeDecodeError:
            raise self._fatal(0, "is not UTF-8 text", "save it as UTF-8") from None
        except tomllib.TOMLDecodeError as error:
            found = mistake(text, error)
            raise self._fatal(found.line, f"this is not TOML: {found.problem}", found.remedy) from None
        except ValueError:  # from whatever makes a number of thousands of digits
            line = next((at for at, one in enumerate(text.splitlines(), 1) if _ENDLESS.search(one)), 0)
            raise self._fatal(line, "a number has too many digits", "no setting needs more than 20") from None
        self._lines = lines_of(text)
        return content

    def _fatal(self, line: int, problem: str, remedy: str) -> ConfigurationError:
        return ConfigurationError(self._file, [Problem(line, "file", problem, remedy)])

    def _complain(self, path: KeyPath, problem: str, remedy: str, *, warning: bool = False) -> None:
        known = (*path, 0) if (*path, 0) in self._lines else path  # of many tables, the first
        while known and known not in self._lines:
            known = known[:-1]
        self._problems.append(Problem(self._lines.get(known, 1), _spelled(path), problem, remedy, warning))

    # --- tables ---------------------------------------------------------------------------------------

    def _table(self, path: KeyPath, content: dict[str, Any], readers: Mapping[str, Reader]) -> dict[str, Any]:
        """The values that can be read; complaints about the others."""
        values = {}
        for key, value in content.items():
            reader = readers.get(key)
            if reader is None:
                self._complain((*path, key), "this key is unknown", _suggestion(key, readers))
                continue
            try:
                values[key] = reader(value, self._file.parent)
            except Bad as bad:
                self._complain((*path, key), bad.problem, bad.remedy)
        return values

    def _sub_table(self, name: str, content: Any) -> dict[str, Any]:
        if isinstance(content, dict):
            return self._table((name,), content, TABLES[name])
        self._complain((name,), "this is a table", f"write [{name}] on a line, and its keys under it")
        return {}

    def _tls(self, values: dict[str, Any]) -> TlsOptions | None:
        complained = {problem.key for problem in self._problems}
        missing = [key for key in ("certificate", "key") if key not in values]
        for key in missing:
            if f"tls.{key}" not in complained:
                self._complain(("tls",), f"the {key} is missing", f'add {key} = "/path/to/{key}.pem"')
        return None if missing else TlsOptions(**values)

    def _archive(self, values: dict[str, Any]) -> ArchiveOptions | None:
        if "directory" in values:
            return ArchiveOptions(**values)
        if "archive.directory" not in {problem.key for problem in self._problems}:
            self._complain(("archive",), "the directory is missing", 'add directory = "/path/to/archive"')
        return None

    def _caching(self, values: dict[str, Any]) -> StrategyOptions:
        limits = {key: values.pop(key) for key in CACHE_LIMITS if key in values}
        try:
            return StrategyOptions(limits=CacheLimits(**limits), **values)
        except TidingsError as error:
            problem, _, remedy = str(error).partition(": ")
            self._complain(("caching",), problem, remedy)
            return StrategyOptions()

    # --- who may connect ------------------------------------------------------------------------------

    def _access(self, content: Any) -> Access:
        tokens: dict[str, AccessEntry] = {}
        certificates: dict[str, AccessEntry] = {}
        places: dict[str, int] = {}
        if not isinstance(content, list) or not all(isinstance(entry, dict) for entry in content):
            self._complain(("access",), "this is a list of tables", "write [[access]] above each entry")
            return Access()
        for index, entry in enumerate(content):
            path: KeyPath = ("access", index)
            before = len(self._problems)
            values = self._table(path, entry, ENTRIES["access"])
            token, certificate = self._token(path, "token", values), values.pop("certificate", None)
            if len(self._problems) > before:
                continue
            name = values.get("name")
            if name is None:
                self._complain(path, "the name is missing", 'add name = "..."; the log will show it')
            elif token is None and certificate is None:
                remedy = "add token_file, token_env, token or certificate"
                self._complain(path, f"nothing identifies '{name}'", remedy)
            elif name in places:
                self._complain((*path, "name"), f"'{name}' appears twice", "give each entry a name of its own")
            elif token in tokens:
                other = tokens[token].name
                self._complain(path, f"'{name}' has the token of '{other}'", "give each a token of its own")
            elif certificate in certificates:
                self._complain((*path, "certificate"), f"'{certificate}' appears twice", "name each once")
            else:
                places[name] = index
                identity = AccessEntry(**values)
                tokens.update({token: identity} if token is not None else {})
                certificates.update({certificate: identity} if certificate is not None else {})
        for clash in clashes((*tokens.values(), *certificates.values())):
            last = max(places[name] for name in clash.identities)
            key = "names" if "names" in content[last] else "name"
            self._complain(("access", last, key), clash.problem, clash.remedy)
        if content and not tokens and not certificates:
            # Every entry is wrong: without this, the options would look open, and draw complaints that mislead.
            tokens[""] = AccessEntry("nobody")
        return Access(tokens, certificates)

    # --- keys of borders ------------------------------------------------------------------------------

    def _border_keys(self, content: Any) -> tuple[BorderKey, ...]:
        found: dict[str, BorderKey] = {}
        if not isinstance(content, list) or not all(isinstance(entry, dict) for entry in content):
            self._complain(("border_key",), "this is a list of tables", "write [[border_key]] above each entry")
            return ()
        for index, entry in enumerate(content):
            path: KeyPath = ("border_key", index)
            before = len(self._problems)
            values = self._table(path, entry, ENTRIES["border_key"])
            if len(self._problems) > before:
                continue
            name = values.get("name")
            if name is None:
                self._complain(path, "the name is missing", 'add name = "..."; scopes refer to it')
            elif name in found:
                remedy = "give each key a name of its own; two keys of one name go into check_files"
                self._complain((*path, "name"), f"'{name}' appears twice", remedy)
            elif (key := self._border_key(path, values)) is not None:
                found[name] = key
        return tuple(found.values())

    def _border_key(self, path: KeyPath, values: dict[str, Any]) -> BorderKey | None:
        sign, check = values.get("sign_file"), values.get("check_files", ())
        for one in (*(() if sign is None else (sign,)), *check):
            if world_readable(one) and not _is_public(one):
                self._complain(path, f"every user can read '{one}'", f"chmod 600 {one}", warning=True)
        try:
            return BorderKey(
                values["name"],
                values.get("scopes", ()),
                sign=None if sign is None else sign.read_text(encoding="utf-8"),
                check=[one.read_text(encoding="utf-8") for one in check],
                valid=values.get("valid", VALID),
            )
        except UnicodeDecodeError:
            self._complain(path, "a key is text, and one of these files is not", "make one with `tidings scope keygen`")
        except TidingsError as error:
            problem, _, remedy = str(error).rpartition("; ")
            self._complain(path, problem, remedy)
        return None

    def _token(self, path: KeyPath, key: str, values: dict[str, Any]) -> str | None:
        """The token in one of its three forms, which are taken out of the values."""
        forms = {form: values.pop(form) for form in (key, f"{key}_file", f"{key}_env") if form in values}
        if len(forms) > 1:
            self._complain((*path, next(iter(forms))), f"{' and '.join(forms)} all give a token", "keep one of them")
        for form, value in forms.items():
            try:
                token = read_token(form.removeprefix(key), value)
            except Bad as bad:
                self._complain((*path, form), bad.problem, bad.remedy)
                return None
            if form.endswith("_file") and world_readable(value):
                self._complain((*path, form), f"every user can read '{value}'", f"chmod 600 {value}", warning=True)
            return token
        return None

    def _warn_of_readers(self, content: dict[str, Any]) -> None:
        entries = content.get("access")
        holders = [content, *(entries if isinstance(entries, list) else [])]
        inline = any(isinstance(one, dict) and ("token" in one or "neighbour_token" in one) for one in holders)
        if inline and world_readable(self._file):
            remedy = f"chmod 600 {self._file}, or use token_file or token_env"
            self._complain((), "every user can read the tokens in this file", remedy, warning=True)


def _is_public(path: Path) -> bool:
    """Whether a file holds the public half of a pair, which everybody may read."""
    return path.read_bytes().startswith(b"tidings-public:")


def _anything(value: Any, directory: Path) -> Any:
    return value


def _spelled(path: KeyPath) -> str:
    parts = [f"[{part + 1}]" if isinstance(part, int) else f".{part}" for part in path]
    return "".join(parts).removeprefix(".") or "file"


def _suggestion(key: str, readers: Mapping[str, Reader]) -> str:
    if close := difflib.get_close_matches(key, readers, n=1, cutoff=0.6):
        return f"did you mean {close[0]}?"
    for table, keys in TABLES.items():
        if key in keys and keys is not readers:
            return f"it belongs under [{table}]"
    if key in TOP:
        return "it belongs at the top of the file, above the first [table]"
    return f"choose one of {', '.join(readers)}"
