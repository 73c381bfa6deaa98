"""Tidings: content-based publish/subscribe that remembers, moves and knows its borders.

async with tidings.connect("tidings://localhost:7311") as client:
    await client.publish(type="quote", symbol="SAP", price=182.4)
    async for quote in client.subscribe("type = 'quote' AND price > 100", past=10):
        print(quote["symbol"], quote["price"])
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidings.cli._config import ConfigurationError
    from tidings.cli._errors import UsageError
    from tidings.client import (
        Acks,
        Client,
        ClientNotOpen,
        ConnectionFailed,
        Job,
        Misfit,
        Move,
        NotAdmitted,
        Receipt,
        ReceiverCount,
        RefusedByService,
        Replies,
        Request,
        State,
        Subscription,
        TakenOver,
        Traced,
        connect,
    )
    from tidings.model import (
        AccessDenied,
        AckRefused,
        AggregateError,
        AlreadyDefined,
        AlreadyPublished,
        AmbiguousName,
        ArgumentRefused,
        AuthorityUnreachable,
        Bound,
        BoundError,
        BudgetExceeded,
        DeploymentRefused,
        Duplicates,
        ExpressionError,
        FeatureError,
        Filter,
        FilterError,
        FilterSyntaxError,
        FilterTooLarge,
        FrozenGraph,
        IncompleteMapping,
        LawBroken,
        Location,
        MappingError,
        NoAuthority,
        NoReply,
        NoResponder,
        NotAdvertised,
        NotAllowed,
        NotARequest,
        Notification,
        NotTrusted,
        PartialRefused,
        RequestEnded,
        ScopeError,
        SignatureEnded,
        StaleGraph,
        StoreClosed,
        StoreCorrupt,
        StoreError,
        StoreFailed,
        StoreForeign,
        StoreFull,
        StoreLocked,
        TidingsError,
        TopologyError,
        UnknownName,
        UnknownSigner,
        UnresolvedDependency,
        UnsupportedFilter,
        ValueRefused,
        WireError,
        attr,
        last,
        since,
    )
    from tidings.net import StartError
    from tidings.scopes import MappingFailed
    from tidings.scopes.language import ScriptError
    from tidings.sim import BrokenPromises, NeverEnds, NeverQuiet, OutsideWorld, PromiseError
    from tidings.spark import ArchiveChanged, AuditError, GapInStream, NoJava, SourceError, SparkError
    from tidings.wire import Consistency, Gap, HistoryReport, Quality

    from . import sync

__version__ = "0.1.0.dev0"

_ELSEWHERE = {
    "ArchiveChanged": "tidings.spark",
    "AuditError": "tidings.spark",
    "BrokenPromises": "tidings.sim",
    "ConfigurationError": "tidings.cli._config",
    "GapInStream": "tidings.spark",
    "NeverEnds": "tidings.sim",
    "NeverQuiet": "tidings.sim",
    "NoJava": "tidings.spark",
    "OutsideWorld": "tidings.sim",
    "PromiseError": "tidings.sim",
    "ScriptError": "tidings.scopes.language",
    "SourceError": "tidings.spark",
    "SparkError": "tidings.spark",
    "StartError": "tidings.net",
    "UsageError": "tidings.cli._errors",
}
"""Errors of packages that a client does not need: each is loaded when somebody asks for it."""

__all__ = [
    "AccessDenied",
    "AckRefused",
    "Acks",
    "AggregateError",
    "AlreadyDefined",
    "AlreadyPublished",
    "AmbiguousName",
    "ArchiveChanged",
    "ArgumentRefused",
    "AuditError",
    "AuthorityUnreachable",
    "Bound",
    "BoundError",
    "BrokenPromises",
    "BudgetExceeded",
    "Client",
    "ClientNotOpen",
    "ConfigurationError",
    "ConnectionFailed",
    "Consistency",
    "DeploymentRefused",
    "Duplicates",
    "ExpressionError",
    "FeatureError",
    "Filter",
    "FilterError",
    "FilterSyntaxError",
    "FilterTooLarge",
    "FrozenGraph",
    "Gap",
    "GapInStream",
    "HistoryReport",
    "IncompleteMapping",
    "Job",
    "LawBroken",
    "Location",
    "MappingError",
    "MappingFailed",
    "Misfit",
    "Move",
    "NeverEnds",
    "NeverQuiet",
    "NoAuthority",
    "NoJava",
    "NoReply",
    "NoResponder",
    "NotARequest",
    "NotAdmitted",
    "NotAdvertised",
    "NotAllowed",
    "NotTrusted",
    "Notification",
    "OutsideWorld",
    "PartialRefused",
    "PromiseError",
    "Quality",
    "Receipt",
    "ReceiverCount",
    "RefusedByService",
    "Replies",
    "Request",
    "RequestEnded",
    "ScopeError",
    "ScriptError",
    "SignatureEnded",
    "SourceError",
    "SparkError",
    "StaleGraph",
    "StartError",
    "State",
    "StoreClosed",
    "StoreCorrupt",
    "StoreError",
    "StoreFailed",
    "StoreForeign",
    "StoreFull",
    "StoreLocked",
    "Subscription",
    "TakenOver",
    "TidingsError",
    "TopologyError",
    "Traced",
    "UnknownName",
    "UnknownSigner",
    "UnresolvedDependency",
    "UnsupportedFilter",
    "UsageError",
    "ValueRefused",
    "WireError",
    "attr",
    "connect",
    "last",
    "since",
    "sync",
]

# A name is loaded when it is first used: `tidings --version`, a shell that completes a command line, and a program that
# needs one name of many do not wait for the rest.
_PACKAGES = ("model", "wire", "client", "scopes", "sync")
"""Where the other names above come from, those that load fastest first; each is a name itself."""

if not TYPE_CHECKING:

    def __getattr__(name):
        if name in _PACKAGES:
            return importlib.import_module(f"tidings.{name}")
        places = (_ELSEWHERE[name],) if name in _ELSEWHERE else tuple(f"tidings.{one}" for one in _PACKAGES)
        for place in places if name in __all__ else ():
            if (found := getattr(importlib.import_module(place), name, None)) is not None:
                globals()[name] = found
                return found
        raise AttributeError(f"module 'tidings' has no attribute '{name}'")

    def __dir__():
        return sorted({*globals(), *__all__, *_PACKAGES})
