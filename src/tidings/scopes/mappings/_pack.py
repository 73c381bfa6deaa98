"""Pack and Unpack: a whole notification as one attribute, and back."""

from __future__ import annotations

import msgspec

from tidings.model import EVERYTHING, Conjunction, Constraint, Filter, Kind, MappingError
from tidings.model.operators import Exists, IsNull, Prefix, Range

from ._documents import Form, dumped, loaded
from ._step import Attributes, MappingFailed, Step, checked_names
from ._translate import Answer, absent, rewritten, within_limits


class Pack(Step, frozen=True):
    """All attributes in one document, called `name`; those to `keep` stay beside it, for filters to look at.

    >>> Pack("body", Form.JSON, ("type",)).run({"type": "quote", "price": 5})
    {'type': 'quote', 'body': '{"price":5,"type":"quote"}'}
    """

    name: str
    form: Form
    keep: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if isinstance(self.keep, str):
            raise MappingError(f"Pack: keep is the text '{self.keep}'; give a list of names: ['{self.keep}']")
        msgspec.structs.force_setattr(self, "keep", tuple(self.keep))
        checked_names(self, self.name, *self.keep)
        _check_form(self, self.form)

    def run(self, attributes: Attributes) -> Attributes:
        """The document, and what is kept."""
        kept = {name: value for name, value in attributes.items() if name in self.keep and name != self.name}
        return {**kept, self.name: dumped(attributes, self.form)}

    def wanted(self, filter: Filter) -> Filter:
        """What the filter says of what is kept; a filter does not look into documents."""
        return rewritten(filter, self._is_packed, self._asked)

    def _asked(self, constraint: Constraint) -> Answer:
        if constraint.name != self.name:
            return absent(constraint)
        return constraint.kind in (None, self.form.kind) and not absent(constraint)

    def offered(self, filter: Filter) -> Filter:
        """What the filter says of what is kept, and a text or bytes."""
        document = Prefix(self.name, "") if self.form.kind is Kind.TEXT else Range(self.name, b"")
        return rewritten(filter, self._is_packed, lambda _: True, [document])

    def _is_packed(self, name: str) -> bool:
        return name == self.name or name not in self.keep

    def inverse(self) -> Step:
        """What is in the document."""
        return Unpack(self.name, self.form)


class Unpack(Step, frozen=True):
    """The attributes in the document called `name`, in place of all others; nothing changes where there is none."""

    name: str
    form: Form

    def __post_init__(self) -> None:
        checked_names(self, self.name)
        _check_form(self, self.form)

    def run(self, attributes: Attributes) -> Attributes:
        """What is in the document; blocked if it is none."""
        document = attributes.get(self.name)
        if document is None:
            return attributes
        if not isinstance(document, bytes if self.form is Form.BINARY else str):
            raise MappingFailed(f"Unpack: '{self.name}' is {document!r:.60}, not a document in {self.form.name}")
        return loaded(document, self.form)

    def wanted(self, filter: Filter) -> Filter:
        """Any document, and what passes the filter without one."""
        if not filter.conjunctions:
            return filter
        there, missing = Conjunction([Exists(self.name)]), Conjunction([IsNull(self.name)])
        parts = [there, *(part & missing for part in filter.conjunctions)]
        return within_limits(parts, lambda: EVERYTHING)

    def offered(self, filter: Filter) -> Filter:
        """Anything may be in a document; what certainly has none stays as it is."""
        without_document = [any(map(absent, part.by_name.get(self.name, ()))) for part in filter.conjunctions]
        return filter if all(without_document) else EVERYTHING

    def inverse(self) -> Step:
        """The document."""
        return Pack(self.name, self.form)


def _check_form(step: Step, form: object) -> None:
    if not isinstance(form, Form):
        raise MappingError(f"{type(step).__name__}: {form!r} is not known; use one of {', '.join(map(str, Form))}")
