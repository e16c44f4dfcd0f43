"""Every condition a caller can meet, one class each.

Each is a subclass of a builtin, so library users may catch what they know, and each message
holds the value that was wrong and what to do next. Only the command line turns them into
``click.ClickException`` and only the views turn them into an HTTP status.
"""

from __future__ import annotations


class LimbicError(Exception):
    """Base of everything this package raises on purpose. ``status`` is the HTTP status."""

    status = 500


class BadParameter(LimbicError, ValueError):
    """An argument of a search or a setting is outside what it may be."""

    status = 400


class QueryTooLong(BadParameter):
    """The query text is longer than the limit."""


class UnknownEntity(LimbicError, LookupError):
    """No entity has that id or name."""

    status = 404


class UnknownSearch(LimbicError, LookupError):
    """No logged search has that id, or the entity was none of its candidates."""

    status = 404


class NotRecorded(LimbicError, RuntimeError):
    """What was to be recorded could not be written, this time."""

    status = 503


class Busy(LimbicError, RuntimeError):
    """Too many wait already for what takes seconds to compute."""

    status = 503


class NotAllowed(LimbicError, PermissionError):
    """The actor lacks a permission of ours."""

    status = 403


class NotWritable(LimbicError, PermissionError):
    """The database was opened so that nothing can be written to it."""

    status = 409


class BodyTooLarge(BadParameter):
    """The body of a request is longer than the limit."""

    status = 413


class UnknownImport(LimbicError, LookupError):
    """No import has that number."""

    status = 404


class UnknownPage(LimbicError, LookupError):
    """A path below ``/{database}/-/limbic`` that leads nowhere."""

    status = 404


class NotAMemory(LimbicError, LookupError):
    """The database holds none of our tables (``datasette limbic init`` has not run)."""

    status = 404


class SchemaConflict(LimbicError, ValueError):
    """A table of ours exists already with columns of another program."""

    status = 409


class DatabaseUnusable(LimbicError, OSError):
    """The file cannot be opened: missing, not SQLite, corrupt, locked or not writable."""

    status = 500


class UnknownFormat(LimbicError, ValueError):
    """The import file is none of the shapes we read."""

    status = 400


class UnknownModel(LimbicError, LookupError):
    """``llm`` knows no embedding model of that name."""

    status = 400


class ModelMismatch(LimbicError, ValueError):
    """The query's vector has another dimension than the index."""

    status = 409


class VectorsUnavailable(LimbicError, RuntimeError):
    """sqlite-vec cannot be loaded, or there is no index."""

    status = 503


class IndexedElsewhere(LimbicError, ValueError):
    """The collection was embedded with another model than the one asked for."""

    status = 409


class CannotWrite(LimbicError, OSError):
    """The file of an export cannot be written: no rights, no folder, no room."""


class UnknownRow(LimbicError, LookupError):
    """No observation or relation has that id."""

    status = 404


class UnknownChange(LimbicError, LookupError):
    """The log of changes has no row with that id."""

    status = 404


class UnknownInsight(LimbicError, LookupError):
    """The review queue has no row with that id."""

    status = 404


class Refused(LimbicError, ValueError):
    """What was asked for cannot be done to the memory as it stands; nothing was changed."""

    status = 409


class NotProposed(Refused):
    """The log of searches does not speak for other parameters, so there is nothing to apply."""


class StaleProposal(Refused):
    """What was approved is not what is there any more."""


class DependedOn(Refused):
    """A change cannot be undone because something newer is built on it."""


class NotEmbedded(LimbicError, RuntimeError):
    """The model failed, so the action was not begun."""

    status = 503


class RetrieverFailed(LimbicError, RuntimeError):
    """A retriever could not bring candidates: its server is gone, its index cannot be read.

    ``told`` where the log has said so a moment ago, and need not say it for each search.
    """

    told = False
