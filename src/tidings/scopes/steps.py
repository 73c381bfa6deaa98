"""The steps that mappings are made of, under one roof: `from tidings.scopes.steps import Convert, Rename`."""

from ._compute import Compute
from ._convert import Convert
from ._documents import Form
from ._mapping import AnyStep
from ._named import Named, register_mapping
from ._pack import Pack, Unpack
from ._represent import ENCODINGS, How, Represent
from ._step import MappingFailed, Step
from ._steps import Add, Annotate, Copy, Drop, Keep, Only, Rename

__all__ = [
    "ENCODINGS",
    "Add",
    "Annotate",
    "AnyStep",
    "Compute",
    "Convert",
    "Copy",
    "Drop",
    "Form",
    "How",
    "Keep",
    "MappingFailed",
    "Named",
    "Only",
    "Pack",
    "Rename",
    "Represent",
    "Step",
    "Unpack",
    "register_mapping",
]
