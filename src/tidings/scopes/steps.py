"""The steps that mappings are made of, under one roof: `from tidings.scopes.steps import Convert, Rename`."""

from .mappings._compute import Compute
from .mappings._convert import Convert
from .mappings._documents import Form
from .mappings._mapping import AnyStep
from .mappings._named import Named, register_mapping
from .mappings._pack import Pack, Unpack
from .mappings._represent import ENCODINGS, How, Represent
from .mappings._step import MappingFailed, Step
from .mappings._steps import Add, Annotate, Copy, Drop, Keep, Only, Rename

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
