"""The operators of the filter model: one operator, one module, one test file."""

from .contains import Contains
from .equal import Equal
from .exists import Exists, IsNull
from .like import Like
from .member import Member
from .order import Range
from .pattern import like
from .prefix import Prefix
from .suffix import Suffix
from .within import MyLoc, Within

__all__ = [
    "Contains",
    "Equal",
    "Exists",
    "IsNull",
    "Like",
    "Member",
    "MyLoc",
    "Prefix",
    "Range",
    "Suffix",
    "Within",
    "like",
]
