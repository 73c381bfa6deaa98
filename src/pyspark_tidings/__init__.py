"""Found by Spark itself, by its name: `format("tidings")` works wherever Tidings is installed."""

from tidings.spark import TidingsSource


class DefaultSource(TidingsSource):
    """The data source of this module."""
