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
    ├── NoResponder                   a request that nobody gets
    ├── NoReply                       a request to which no reply has come in time
    ├── RequestEnded                  a reply to a request that waits no longer, or never was
    ├── NotARequest                   a reply to what is no request
    ├── AckRefused                    an acknowledgement that does not count: twice, late, or of a job of others
    ├── BudgetExceeded                a broker has no memory left for what a client asks of it
    ├── TopologyError                 a link that must not exist, or a broker that cannot be reached
    ├── FeatureError                  a feature that breaks the rules of weaving
    ├── ScopeError                    a scope, an interface or a mapping that cannot be
    │   ├── MappingError              a mapping that cannot be built, read or turned round
    │   │   └── IncompleteMapping     one direction of a mapping is missing and cannot be derived
    │   ├── UnknownName               a name that no scope has, where it is used
    │   ├── AmbiguousName             a name that several scopes have, equally near to where it is used
    │   ├── AlreadyDefined            a definition whose name is taken
    │   ├── UnresolvedDependency      a selection that finds too few components
    │   ├── NotAllowed                a change that whoever asked for it may not make
    │   │   └── FrozenGraph           a change of a graph that is static
    │   ├── NotTrusted                traffic would pass a broker that its scope does not trust
    │   ├── StaleGraph                a change that was worked out on a version that is no longer the newest
    │   ├── NoAuthority               no broker is named that orders changes
    │   ├── AuthorityUnreachable      the broker that orders changes does not answer
    │   └── ScriptError               scopes: mistakes in a text of the scope language, all of them
    ├── AggregateError                an aggregate that cannot be, or cannot be asked for
    │   ├── ExpressionError           its text cannot be parsed; points at the column
    │   ├── PartialRefused            bytes that are not a partial of it, or more than may travel
    │   ├── LawBroken                 a definition that breaks a law, with the smallest counter-example
    │   └── DeploymentRefused         code that nobody vouches for, or that cannot be deployed as it is
    │       ├── UnknownSigner         a broker cannot judge a statement; others may
    │       └── SignatureEnded        a statement that was good once
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
    │   │   └── TakenOver             another process uses the name of this client now
    │   └── ClientNotOpen             a call of a client that is not open yet, or is closed
    ├── RefusedByService              client: the service did not do what it was asked for
    ├── PromiseError                  sim: the table of promises cannot be read, or lacks a cell
    ├── NeverQuiet                    sim: something goes on for ever
    ├── NeverEnds                     sim: an application waits for what never happens, or goes round in circles
    ├── OutsideWorld                  sim: something would leave the simulated world
    ├── BrokenPromises                sim: a promise was not kept
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
        return _pointed(self.problem, self.text, self.column, self.remedy)


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


class NoResponder(TidingsError):
    """A request that nobody gets."""


class NoReply(TidingsError, TimeoutError):
    """A request to which no reply has come in time."""


class RequestEnded(TidingsError):
    """A reply to a request that waits no longer, or never was; or a request that its broker has ended."""


class NotARequest(TidingsError):
    """A reply to what is no request."""


class AckRefused(TidingsError):
    """An acknowledgement of a job does not count: it comes twice, too late, or is about a job of another member."""


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


class IncompleteMapping(MappingError):
    """One direction of a mapping is missing, and can neither be derived nor is blocked."""


class UnknownName(ScopeError, LookupError):
    """A name that no scope has, where it is used."""


class AmbiguousName(ScopeError, LookupError):
    """A name that several scopes have, equally near to where it is used."""


class AlreadyDefined(ScopeError):
    """A definition whose name is taken."""


class UnresolvedDependency(ScopeError):
    """A selection that finds fewer components than it must."""


class NotAllowed(ScopeError):
    """A change of the graph that whoever asked for it may not make."""


class FrozenGraph(NotAllowed):
    """A change of a graph that is static."""


class NotTrusted(ScopeError):
    """A change that would lead the traffic of a scope over a broker that it does not trust."""


class StaleGraph(ScopeError):
    """A change that was worked out on a version of the graph that is no longer the newest. Nothing was changed."""


class NoAuthority(ScopeError):
    """No broker is named that orders changes of the scope graph."""


class AuthorityUnreachable(ScopeError):
    """The broker that orders changes of the scope graph does not answer; traffic goes on as it was."""


class AggregateError(TidingsError, ValueError):
    """An aggregate that cannot be, or cannot be asked for."""


class ExpressionError(AggregateError):
    """The text of an aggregate that cannot be parsed; `column` counts from 1."""

    def __init__(self, problem: str, text: str = "", column: int = 1, remedy: str = "") -> None:
        self.problem = problem
        self.text = text
        self.column = column
        self.remedy = remedy
        super().__init__(problem, text, column, remedy)

    def __str__(self) -> str:
        return _pointed(self.problem, self.text, self.column, self.remedy)


class PartialRefused(AggregateError):
    """Bytes that are not a partial of an aggregate, or a partial that is larger than one that may travel."""


class LawBroken(AggregateError):
    """A definition that breaks a law on which the engine relies; the smallest counter-example that was found is
    shown.
    """


class DeploymentRefused(AggregateError):
    """Code that nobody vouches for whom the broker trusts, or that cannot be deployed as it is. Nothing was
    installed.
    """


class UnknownSigner(DeploymentRefused):
    """A broker cannot judge a statement; others may."""


class SignatureEnded(DeploymentRefused):
    """A statement that was good once."""


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


def _pointed(problem: str, text: str, column: int, remedy: str) -> str:
    """The problem with the column, the text around it, and the remedy."""
    remedy = f"\n{remedy}" if remedy else ""
    if not text:  # it is empty, or has come from a broker, which has said all of this in the problem
        return problem + remedy
    shown, at = _window(text, column)
    return f"column {column}: {problem}\n  {shown}\n  {' ' * at}^{remedy}"


def _window(text: str, column: int, width: int = 72) -> tuple[str, int]:
    """The part of a long text around a column, on one line, and where the column is in it."""
    at = column - 1
    start = max(0, min(at - width // 2, len(text) - width))
    shown = text[start : start + width].replace("\n", " ").replace("\t", " ")
    return shown, at - start
