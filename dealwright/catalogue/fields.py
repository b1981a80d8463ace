"""The names that a source's columns are mapped to, and the error of a source that cannot be used."""

from dealwright.errors import DealwrightError

PRICES = ("list_price", "lowest_price", "cost", "highest_price", "budget")
FIELDS = ("id", "title", "category", "description", "features", "currency", *PRICES)


class SourceError(DealwrightError):
    """A source that cannot be read as a catalogue; the message says what was expected and what came."""
