"""Named: a function of one's own as a step. Its name travels, the function never does.

The operator of a broker registers the function there, in Python. A mapping that names a function which is not
registered is refused where it is defined (`edge_mapping`) and where it is used, with `MappingError`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeAlias

from tidings.model import EVERYTHING, Filter, MappingError, Notification

from ._step import Attributes, MappingFailed, Step

MappingFunction: TypeAlias = Callable[[Notification], Notification | Mapping[str, object] | None]
"""Takes a notification, gives another one, or its attributes, or None to block it."""
FilterFunction: TypeAlias = Callable[[Filter], Filter]


class _Registered(NamedTuple):
    function: MappingFunction
    wanted: FilterFunction | None
    offered: FilterFunction | None
    inverse: str | None


_registered: dict[str, _Registered] = {}


def register_mapping(
    name: str,
    function: MappingFunction,
    *,
    wanted: FilterFunction | None = None,
    offered: FilterFunction | None = None,
    inverse: str | None = None,
) -> None:
    """Let mappings use this function by name, in this process.

    `wanted` and `offered` translate filters, under the promises of `tidings.scopes.mappings._step`; without them every
    filter becomes EVERYTHING, which is always right, but makes routing forward too much. `inverse` names the
    function that takes this one back.
    """
    if not name:
        raise MappingError(f"{name!r} cannot name a mapping; use a text that is not empty")
    if name in _registered and _registered[name].function is not function:
        raise MappingError(f"a mapping '{name}' is registered already; choose another name")
    _registered[name] = _Registered(function, wanted, offered, inverse)


class Named(Step, frozen=True):
    """The function that is registered under this name."""

    function: str

    @property
    def is_known(self) -> bool:
        """Whether the function is registered in this process."""
        return self.function in _registered

    def run(self, attributes: Attributes) -> Attributes | None:
        """What the function makes of them; blocked where it fails."""
        function = self._known().function
        try:
            result = function(Notification.trusted(dict(attributes)))
            return None if result is None else Notification(result).attributes
        except Exception as error:  # whatever a function does wrong must not stop the broker
            raise MappingFailed(f"the mapping '{self.function}' failed: {type(error).__name__}: {error}") from error

    def wanted(self, filter: Filter) -> Filter:
        return _translated(self._known().wanted, filter)

    def offered(self, filter: Filter) -> Filter:
        return _translated(self._known().offered, filter)

    def inverse(self) -> Step | None:
        """The function that was registered as the inverse."""
        inverse = self._known().inverse
        return None if inverse is None else Named(inverse)

    def _known(self) -> _Registered:
        found = _registered.get(self.function)
        if found is None:
            raise MappingError(
                f"no mapping '{self.function}' is registered here; call register_mapping in this process"
            )
        return found


def _translated(function: FilterFunction | None, filter: Filter) -> Filter:
    if not filter.conjunctions:
        return filter
    if function is None:
        return EVERYTHING
    try:
        result: object = function(filter)
    except Exception:  # to forward too much is safe, to stop the broker is not
        return EVERYTHING
    return result if isinstance(result, Filter) else EVERYTHING
