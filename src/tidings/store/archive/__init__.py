"""The archive: everything a broker has stored, as Parquet files that any tool can read. Needs the extra `archive`."""

from tidings.store._promoted import Promoted, PromotedKind

from ._reader import ArchiveReader
from ._roller import Rolled, archived, roll
from ._schema import FORMAT, schema_of

__all__ = ["FORMAT", "ArchiveReader", "Promoted", "PromotedKind", "Rolled", "archived", "roll", "schema_of"]
