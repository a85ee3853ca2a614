# SPDX-License-Identifier: BSD-3-Clause
"""Causeway for asyncio: active messages, tag and stream messages and remote memory through UCP.

    async with causeway.Context() as context, context.worker() as worker:
        endpoint = await worker.connect("10.0.0.7", 7000)
        await endpoint.am_send(1, b"payload", header=b"header")
        message = await worker.am_recv(2)

A worker belongs to the event loop, and so to the thread, in which it was made. See python/README.md.
"""

from ._aio import ANY_TAG, Context, Endpoint, Feature, Listener, Message, Worker
from ._core import Memory, RemoteKey
from ._core import version as _version
from ._errors import (BusyError, CanceledError, ClosedError, EndError, Error, ForkedError, InvalidAddressError,
                      InvalidParamError, NoMemoryError, NotConnectedError, RejectedError, ResetError, TimedOutError,
                      TruncatedError, UnreachableError, UnsupportedError)

__version__ = _version().split()[0]

__all__ = ["ANY_TAG", "BusyError", "CanceledError", "ClosedError", "Context", "EndError", "Endpoint", "Error",
           "Feature", "ForkedError", "InvalidAddressError", "InvalidParamError", "Listener", "Memory", "Message",
           "NoMemoryError", "NotConnectedError", "RejectedError", "RemoteKey", "ResetError", "TimedOutError",
           "TruncatedError", "UnreachableError", "UnsupportedError", "Worker"]
