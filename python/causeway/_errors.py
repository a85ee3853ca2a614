# SPDX-License-Identifier: BSD-3-Clause
"""Exceptions, one class for each status that a program may want to catch."""

from typing import Dict, Type


class Error(Exception):
    """An operation failed. The text is a sentence with the library's reason: the line that the library logged for the
    call, or how the connection ended; `status` is the number of it."""

    status: int = 0


class ClosedError(Error, ValueError):
    """The object, or the one that it belongs to, is closed."""


class ForkedError(Error, RuntimeError):
    """The object was made before fork(); a child makes a context of its own."""


class CanceledError(Error):
    """The operation was cancelled, or its endpoint or worker was closed."""


class NoMemoryError(Error, MemoryError):
    """There was no memory for the operation."""


class InvalidParamError(Error, ValueError):
    """The call contradicts itself, or its feature was not asked for."""


class UnreachableError(Error, ConnectionError):
    """No transport leads to the peer, or to that memory."""


class InvalidAddressError(Error, ValueError):
    """The address lies outside of the memory."""


class TruncatedError(Error):
    """The message was longer than the buffer of the receive."""


class UnsupportedError(Error, NotImplementedError):
    """This build, transport or kind of memory cannot serve the request."""


class BusyError(Error):
    """The address is in use."""


class TimedOutError(Error, TimeoutError):
    """The time allowed is over."""


class RejectedError(Error, ConnectionRefusedError):
    """The server declined the connection."""


class NotConnectedError(Error, ConnectionRefusedError):
    """Nobody listens there."""


class ResetError(Error, ConnectionResetError):
    """The peer died, or broke the connection."""


class EndError(Error, EOFError):
    """The peer closed its endpoint in good order: there is nothing more to receive, and nobody to send to."""


_CLASSES: Dict[int, Type[Error]] = {
    -4: NoMemoryError, -5: InvalidParamError, -6: UnreachableError, -7: InvalidAddressError, -8: UnsupportedError,
    -9: TruncatedError, -15: BusyError, -16: CanceledError, -20: TimedOutError, -22: UnsupportedError,
    -23: RejectedError, -24: NotConnectedError, -25: ResetError, -80: TimedOutError,
}
for _status in range(-79, -59):  # the range "the connection failed"
    _CLASSES[_status] = ResetError


_CLOSED_BY_PEER = "the peer closed the endpoint"  # as ucp_ep_print_info has it


def make(status: int, what: str, raw: bytes) -> Error:
    """The exception of a status."""
    reason = raw.decode("utf-8", "replace")
    is_end = status == -25 and reason.endswith(_CLOSED_BY_PEER)
    kind = _CLASSES.get(status, Error)
    if is_end:
        kind = EndError
    error = kind("%s: %s" % (what, reason))
    error.status = status
    return error
