"""Groups: several subscribers share one stream, and each notification goes to one of them."""

from ._choosing import Choosing
from ._feature import Groups
from ._names import GroupName, check_group
from ._point import Group

__all__ = ["Choosing", "Group", "GroupName", "Groups", "check_group"]
