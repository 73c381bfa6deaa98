"""The archive: everything a broker has stored, as Parquet files that any tool can read. Needs the extra `archive`."""

from ._promoted import Promoted, PromotedKind
from ._reader import ArchiveReader
from ._roller import Rolled, roll
from ._schema import FORMAT, RESERVED, schema_of

__all__ = ["FORMAT", "RESERVED", "ArchiveReader", "Promoted", "PromotedKind", "Rolled", "roll", "schema_of"]
