"""The archive: everything a broker has stored, as Parquet files that any tool can read. Needs the extra `archive`."""

from tidings.store._promoted import RESERVED, Promoted, PromotedKind

from ._maintenance import Maintained, compact, headers, retain, sort
from ._reader import ArchiveDamage, ArchiveReader
from ._roller import Rolled, archived, roll
from ._schema import FORMAT, schema_of
from ._verification import Verified, verify

__all__ = [
    "FORMAT",
    "RESERVED",
    "ArchiveDamage",
    "ArchiveReader",
    "Maintained",
    "Promoted",
    "PromotedKind",
    "Rolled",
    "Verified",
    "archived",
    "compact",
    "headers",
    "retain",
    "roll",
    "schema_of",
    "sort",
    "verify",
]
