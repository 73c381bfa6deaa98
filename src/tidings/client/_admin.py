"""`client.admin`: how administrators, people or programs, define who sees what.

Every method asks the broker, which asks the authority of the network; when it returns, the change has been made
everywhere. A refused change raises a `ScopeError` with the reason and the remedy, and has changed nothing.
"""

from __future__ import annotations

from ._admin_changes import AdminChanges
from ._admin_scripts import AdminScripts


class Admin(AdminChanges, AdminScripts):
    """The scope graph, as far as this client may see and change it. Clients are written `"@name"`."""
