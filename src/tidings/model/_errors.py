"""Every error that Tidings raises on purpose, as one tree; those of other packages with the name of the package.

    TidingsError
    ├── ValueRefused                  a value that no notification and no filter may hold
    ├── FilterError                   a filter that cannot be built, or used
    │   ├── FilterSyntaxError         its text cannot be parsed; points at the column
    │   └── FilterTooLarge            it costs more than the limits allow
    ├── ArgumentRefused               an argument of the wrong type, or outside its range
    ├── BoundError                    a bound into the past that cannot be
    ├── UnsupportedFilter             a filter class that lacks what the routing algorithm needs
    ├── NotAdvertised                 a publication that no active advertisement of its publisher announces
    ├── AlreadyPublished              a publication whose identity was used before
    ├── AccessDenied                  more than one may do or see
    ├── BudgetExceeded                a broker has no memory left for what a client asks of it
    ├── TopologyError                 a link that must not exist, or a broker that cannot be reached
    ├── FeatureError                  a feature that breaks the rules of weaving
    ├── ScopeError                    a scope, an interface or a mapping that cannot be
    │   ├── MappingError              a mapping that cannot be built, read or turned round
    │   ├── UnknownName               a name that no scope has, where it is used
    │   ├── AmbiguousName             a name that several scopes have, equally near to where it is used
    │   ├── NotAllowed                a change that whoever asked for it may not make
    │   │   └── FrozenGraph           a change of a graph that is static
    │   ├── NotTrusted                traffic would pass a broker that its scope does not trust
    │   ├── NoAuthority               no broker is named that orders changes
    │   └── AuthorityUnreachable      the broker that orders changes does not answer
    ├── StoreError                    what a store refuses
    │   ├── StoreLocked               another broker uses the directory
    │   ├── StoreForeign              not a store, not this broker's, or of another format
    │   ├── StoreCorrupt              damaged beyond single batches
    │   ├── StoreFull                 too much waits for the disk: try again later
    │   ├── StoreFailed               the disk refused a write: full, gone, read-only
    │   └── StoreClosed               it has been closed
    ├── WireError                     bytes that are no frame, or a frame that cannot become bytes
    ├── MappingFailed                 scopes: a notification that cannot be mapped, and is blocked
    ├── StartError                    net: a server that cannot start
    ├── ConnectionFailed              client: the service cannot be reached
    │   ├── NotAdmitted               it is there, and client and service do not accept each other
    │   └── ClientNotOpen             a call of a client that is not open yet, or is closed
    ├── RefusedByService              client: the service did not do what it was asked for
    ├── PromiseError                  sim: the table of promises cannot be read, or lacks a cell
    ├── NeverQuiet                    sim: something goes on for ever
    ├── SparkError                    spark: something failed in Spark, or on the way to it
    │   ├── NoJava                    no Java that this Spark can run on
    │   └── SourceError               the data source was asked for what it cannot do
    │       ├── GapInStream           a stream has missed what nobody holds any more
    │       └── ArchiveChanged        files went away while they were read
    ├── AuditError                    spark: an audit that cannot be made
    ├── ConfigurationError            cli: a configuration that cannot be used
    └── UsageError                    cli: a command line that cannot be understood

An error names the value, the place where it came in and the remedy. `tidings` exports all of them. Those that a broker
may answer a client with stand in this module: they travel by the name of their class, and the client raises that class
again, see `refusal`.
"""


class TidingsError(Exception):
    """The root of the tree: catch this to catch everything that Tidings refuses."""


class ValueRefused(TidingsError, ValueError):
    """A value that no notification and no filter may hold."""


class FilterError(TidingsError, ValueError):
    """A filter that cannot be built, or used."""


class FilterSyntaxError(FilterError):
    """A filter text that cannot be parsed; `column` counts from 1."""

    def __init__(self, problem: str, text: str = "", column: int = 1, remedy: str = "") -> None:
        self.problem = problem
        self.text = text
        self.column = column
        self.remedy = remedy
        super().__init__(problem, text, column, remedy)

    def __str__(self) -> str:
        if not self.text:  # it has come from a broker, which has said all of this in the problem
            return self.problem
        shown, at = _window(self.text, self.column)
        remedy = f"\n{self.remedy}" if self.remedy else ""
        return f"column {self.column}: {self.problem}\n  {shown}\n  {' ' * at}^{remedy}"


class FilterTooLarge(FilterError):
    """A filter that costs more than the limits allow."""


class ArgumentRefused(TidingsError, TypeError, ValueError):
    """An argument of the wrong type, or outside its range. Nothing was sent, and the client goes on."""


class BoundError(TidingsError, ValueError):
    """A bound into the past that cannot be."""


class UnsupportedFilter(TidingsError, TypeError):
    """A filter class that lacks what the routing algorithm needs."""


class NotAdvertised(TidingsError):
    """A publication that no active advertisement of its publisher announces."""


class AlreadyPublished(TidingsError):
    """A publication whose identity was used before."""


class AccessDenied(TidingsError):
    """Somebody wants what it may not."""


class BudgetExceeded(TidingsError):
    """A broker has no memory left for what a client asks of it."""


class TopologyError(TidingsError):
    """A link that must not exist, or a broker that cannot be reached."""


class FeatureError(TidingsError):
    """A feature that breaks the rules of weaving."""


class ScopeError(TidingsError):
    """A scope, an interface or a mapping that cannot be."""


class MappingError(ScopeError, ValueError):
    """A mapping that cannot be built, read or turned round."""


class UnknownName(ScopeError, LookupError):
    """A name that no scope has, where it is used."""


class AmbiguousName(ScopeError, LookupError):
    """A name that several scopes have, equally near to where it is used."""


class NotAllowed(ScopeError):
    """A change of the graph that whoever asked for it may not make."""


class FrozenGraph(NotAllowed):
    """A change of a graph that is static."""


class NotTrusted(ScopeError):
    """A change that would lead the traffic of a scope over a broker that it does not trust."""


class NoAuthority(ScopeError):
    """No broker is named that orders changes of the scope graph."""


class AuthorityUnreachable(ScopeError):
    """The broker that orders changes of the scope graph does not answer; traffic goes on as it was."""


class StoreError(TidingsError):
    """The root of what a store refuses. Every error names the file or directory and the remedy."""


class StoreLocked(StoreError):
    """Another broker uses the directory."""


class StoreForeign(StoreError):
    """The file is not a store, not this broker's, or of another format."""


class StoreCorrupt(StoreError):
    """The file is damaged beyond single batches."""


class StoreFull(StoreError):
    """Too much waits for the disk."""


class StoreFailed(StoreError):
    """The disk refused a write. Nothing was promised about what was to be written; later writes may succeed."""


class StoreClosed(StoreError):
    """The store has been closed."""


class WireError(TidingsError):
    """Bytes that are not a frame or a notification, or a frame that cannot be made into bytes."""


def refusal(name: str, reason: str) -> TidingsError | None:
    """The error of this module by the name of its class, as it came over a connection; None: there is no such class.

    >>> refusal("StoreFull", "publish again later")
    StoreFull('publish again later')
    """
    kind = globals().get(name)
    if isinstance(kind, type) and issubclass(kind, TidingsError):
        return kind(reason)
    return None


def _window(text: str, column: int, width: int = 72) -> tuple[str, int]:
    """The part of a long text around a column, on one line, and where the column is in it."""
    at = column - 1
    start = max(0, min(at - width // 2, len(text) - width))
    shown = text[start : start + width].replace("\n", " ").replace("\t", " ")
    return shown, at - start
