"""The archive: everything a broker has stored, as Parquet files that any tool can read. Needs the extra `archive`."""

from tidings.store._layout import origin_in_names
from tidings.store._promoted import RESERVED, Promoted, PromotedKind
from tidings.store._query import Query

from ._attributes import attributes_of, notifications_in
from ._maintenance import Maintained, compact, headers, retain, sort, trim
from ._promoted import EXACT_INTEGERS, VALUE_FIELDS, promoted_of
from ._pushdown import predicate
from ._reader import ArchiveDamage, ArchiveReader
from ._roller import Rolled, archived, roll
from ._row_group import columns_of
from ._schema import FORMAT, promoted_in, schema_of
from ._verification import Verified, verify

__all__ = [
    "EXACT_INTEGERS",
    "FORMAT",
    "RESERVED",
    "VALUE_FIELDS",
    "ArchiveDamage",
    "ArchiveReader",
    "Maintained",
    "Promoted",
    "PromotedKind",
    "Query",
    "Rolled",
    "Verified",
    "archived",
    "attributes_of",
    "columns_of",
    "compact",
    "headers",
    "notifications_in",
    "origin_in_names",
    "predicate",
    "promoted_in",
    "promoted_of",
    "retain",
    "roll",
    "schema_of",
    "sort",
    "trim",
    "verify",
]
