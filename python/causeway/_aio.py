# SPDX-License-Identifier: BSD-3-Clause
"""The classes for asyncio. What is done at once returns at once; what is not waits for the worker's descriptor."""

import asyncio
import collections
import enum
import os
import socket
import weakref
from typing import Any, Awaitable, Callable, Deque, Dict, List, Optional, Tuple, Union

from . import _core
from ._errors import EndError, Error, ResetError, UnreachableError

Buffer = Any
ANY_TAG = 0
_WHOLE_TAG = 0xffffffffffffffff
_AM_REPLY = 1
PATIENCE = 50e-6 if len(os.sched_getaffinity(0)) > 1 else 0.0


class Feature(enum.IntFlag):
    """What a context is made for. Waking up is always among it."""

    TAG = 1
    RMA = 2
    AMO32 = 4
    AMO64 = 8
    STREAM = 32
    AM = 64
    ALL = TAG | RMA | AMO32 | AMO64 | STREAM | AM


_SINGLE = (Feature.TAG, Feature.RMA, Feature.AMO32, Feature.AMO64, Feature.STREAM, Feature.AM)


def _sort_addresses(found: "List[Any]", port: int) -> "List[Tuple[Any, ...]]":
    """What getaddrinfo() has found, each address once, with the port."""
    return list(dict.fromkeys((place[0], port) + tuple(place[2:]) for _, _, _, _, place in found))


class Context:
    """Settings and features; makes workers and lets peers reach memory."""

    def __init__(self, features: Feature = Feature.ALL, settings: Optional[Dict[str, str]] = None,
                 name: Optional[str] = None) -> None:
        self._core = _core.Context(int(features), settings, name)
        self._features = int(features)

    def worker(self, *, patience: float = PATIENCE) -> "Worker":
        """A worker of the running event loop. After something has happened it polls for more during so many seconds,
        at most 0.01, before the loop sleeps, as long as that mostly finds something; 0: never."""
        return Worker(self, patience)

    def map(self, buffer: Buffer) -> _core.Memory:
        """Let peers that are given its key reach a writable buffer, until close() of what is returned."""
        return self._core.map(buffer)

    def __repr__(self) -> str:
        return "<causeway.Context with %s>" % "|".join(feature.name or "" for feature in _SINGLE
                                                       if feature & self._features)

    def close(self) -> None:
        """Destroy the context. Its workers and its memory are closed by then."""
        self._core.close()

    async def __aenter__(self) -> "Context":
        return self

    async def __aexit__(self, *reason: object) -> None:
        self.close()


class _Inbox:
    """Messages of one identifier that nobody has taken, or tasks that wait for one."""

    def __init__(self) -> None:
        self.messages: Deque[_core.Message] = collections.deque()
        self.waiters: "collections.OrderedDict[_core.Request, None]" = collections.OrderedDict()

    def put(self, message: _core.Message) -> None:
        if not self._complete_first(message):
            self.messages.append(message)

    def put_back(self, message: _core.Message) -> None:
        """Of a task that was given the message and does not take it."""
        if not self._complete_first(message):
            self.messages.appendleft(message)

    def fail(self, error: BaseException) -> None:
        while self._complete_first(error):
            pass

    def _complete_first(self, value: object) -> bool:
        while self.waiters:
            waiter, _ = self.waiters.popitem(last=False)
            if not waiter.done:
                waiter.set(value)
                return True
        return False


class Message:
    """An active message. Use it as a context manager, or release() it, to give its payload back early."""

    def __init__(self, worker: "Worker", core: _core.Message) -> None:
        self._worker = worker
        self._core = core

    @property
    def header(self) -> bytes:
        """The sender's header."""
        return self._core.header

    @property
    def length(self) -> int:
        """Bytes of the payload."""
        return self._core.length

    @property
    def rendezvous(self) -> bool:
        """Whether the payload is still at the sender: recv() or recv_into() fetches it."""
        return self._core.rendezvous

    @property
    def endpoint(self) -> Optional["Endpoint"]:
        """An endpoint to the sender, if that wants a reply. What is sent through it when the sender has ended the
        connection raises what that ended with."""
        core = self._core.endpoint
        return None if core is None else self._worker._endpoint_of(core)

    @property
    def data(self) -> memoryview:
        """The payload where it lies, read-only; BufferError if it has to be fetched."""
        return memoryview(self._core)  # type: ignore[arg-type]

    async def recv_into(self, buffer: Buffer) -> int:
        """Put the payload into a buffer: without a copy if it has to be fetched."""
        if self._core.rendezvous:
            answer = self._core.recv(buffer)
            if type(answer) is _core.Request:
                answer = await answer
            return int(answer)
        with memoryview(buffer) as view, view.cast("B") as target, self.data as source:
            if target.readonly:
                raise BufferError("the buffer is read-only")
            if len(target) < len(source):
                raise ValueError("the buffer is smaller than the payload of %d bytes" % len(source))
            target[:len(source)] = source
            return len(source)

    async def recv(self) -> bytearray:
        """The payload in a bytearray of its own."""
        buffer = bytearray(self.length)
        await self.recv_into(buffer)
        return buffer

    def __repr__(self) -> str:
        return "<causeway.Message of %d bytes%s>" % (self.length, ", to be fetched" if self.rendezvous else "")

    def release(self) -> None:
        """Give the payload back; one that was not fetched is dropped. BufferError while views of it exist."""
        self._core.release()

    def __enter__(self) -> "Message":
        return self

    def __exit__(self, *reason: object) -> None:
        self.release()


class Worker:
    """Progress, arrivals and connections, in the event loop in which it was made."""

    def __init__(self, context: Context, patience: float = PATIENCE) -> None:
        self._loop = asyncio.get_running_loop()
        self._core = _core.Worker(context._core, self._loop, patience)
        self._context = context
        self._inboxes: Dict[int, _Inbox] = {}
        self._endpoints: "weakref.WeakValueDictionary[int, Endpoint]" = weakref.WeakValueDictionary()
        self._fd = self._core.fileno()
        self._again: Optional[asyncio.Handle] = None
        self._loop.add_reader(self._fd, self._run)
        self._again = self._loop.call_soon(self._run)

    def _run(self) -> None:
        if self._again is not None:
            self._again.cancel()
            self._again = None
        armed = False
        try:
            armed = self._core.run(True)
        finally:
            if not armed and not self._core.closed:
                self._again = self._loop.call_soon(self._run)

    def _endpoint_of(self, core: _core.Endpoint) -> "Endpoint":
        endpoint = self._endpoints.get(id(core))
        if endpoint is None:
            endpoint = self._endpoints[id(core)] = Endpoint(self, core)
        return endpoint

    @property
    def address(self) -> bytes:
        """The address, for connect() of a peer that got it by any means."""
        return self._core.address()

    @property
    def closed(self) -> bool:
        """Whether it is closed."""
        return self._core.closed

    def __repr__(self) -> str:
        return "<causeway.Worker%s>" % (" closed" if self.closed else " with %d endpoints" % len(self._endpoints))

    async def _resolve(self, host: str, port: int) -> "List[Tuple[Any, ...]]":
        if not isinstance(host, str):
            raise TypeError("the host must be a str, not '%s'" % type(host).__name__)
        try:  # no thread for what is an address already
            found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
        except socket.gaierror:
            found = await self._loop.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        return _sort_addresses(found, port)

    async def connect(self, host: str, port: int) -> "Endpoint":
        """An endpoint to a listener that has accepted it. Names are resolved, and each address of one is tried. Raises
        what the last of them failed with: NotConnectedError if nobody listens there, RejectedError, UnreachableError;
        socket.gaierror for a name that does not resolve. It waits until the server accepts: see asyncio.wait_for()."""
        self._core.fileno()  # raises if the worker cannot be used
        failure: Exception = UnreachableError("'%s' has no address" % host)
        for address in await self._resolve(host, port):
            core = self._core.connect(address, None)
            try:
                answer = core.flush()
                if answer is not None:
                    # A flush ends with its endpoint only: a task that is cancelled closes that, and waits for neither.
                    waiter = self._core.waiter()
                    answer.add_done_callback(lambda request, waiter=waiter: waiter.done or waiter.set(None))
                    await waiter
                    answer.result()
                return self._endpoint_of(core)
            except BaseException as error:
                if not core.closed:
                    core.close(True)
                if not isinstance(error, Error):
                    raise
                failure = error
        raise failure

    def connect_worker(self, address: bytes) -> "Endpoint":
        """An endpoint to the worker of that address."""
        return self._endpoint_of(self._core.connect(address, None))

    def listen(self, handler: Callable[["Endpoint"], Union[Awaitable[None], None]], host: str = "127.0.0.1",
               port: int = 0) -> "Listener":
        """Accept clients: the handler gets an endpoint for each; if it is a coroutine it runs as a task. A host that
        is a name is resolved at once, which may take a while."""
        return Listener(self, handler, host, port)

    def _inbox(self, id: int) -> _Inbox:
        inbox = self._inboxes.get(id)
        if inbox is None:
            inbox = _Inbox()
            self._core.set_handler(id, inbox.put)
            self._inboxes[id] = inbox
        return inbox

    def am_open(self, id: int) -> None:
        """Keep active messages of that identifier from now on. Those that arrive earlier are dropped."""
        self._inbox(id)

    async def am_recv(self, id: int) -> Message:
        """The next active message of that identifier; the first call opens it as am_open() does."""
        inbox = self._inboxes.get(id)
        if inbox is None:
            inbox = self._inbox(id)
        if inbox.messages:
            return Message(self, inbox.messages.popleft())
        waiter = self._core.waiter()
        inbox.waiters[waiter] = None
        try:
            return Message(self, await waiter)
        except BaseException:  # also GeneratorExit, of a task that is dropped
            inbox.waiters.pop(waiter, None)
            if type(waiter.value) is _core.Message:
                inbox.put_back(waiter.value)
            raise

    async def tag_recv(self, buffer: Buffer, tag: int = ANY_TAG, mask: Optional[int] = None) -> Tuple[int, int]:
        """Receive into a writable buffer; gives length and tag. Without a mask the whole tag counts, except that
        ANY_TAG takes any message."""
        if mask is None:
            mask = _WHOLE_TAG if tag != ANY_TAG else 0
        answer = self._core.tag_recv(buffer, tag, mask)
        if type(answer) is _core.Request:
            answer = await answer
        return answer  # type: ignore[no-any-return]

    def tag_probe(self, tag: int = ANY_TAG, mask: int = 0) -> Optional[Tuple[int, int]]:
        """Length and tag of a message that no receive has taken, or None."""
        return self._core.tag_probe(tag, mask)

    async def flush(self) -> None:
        """Wait until everything posted on any endpoint is done at its peer."""
        answer = self._core.flush()
        if type(answer) is _core.Request:
            await answer

    def fence(self) -> None:
        """Remote memory operations from now on take effect after those from before, for each peer."""
        self._core.fence()

    async def close(self) -> None:
        """Close endpoints by force and the worker; what is under way ends with CanceledError. BufferError while views
        of payloads exist."""
        if self._core.closed:
            return
        self._core.close()
        for endpoint in list(self._endpoints.values()):
            endpoint._ended(None)
        if self._again is not None:
            self._again.cancel()
        self._loop.remove_reader(self._fd)
        for inbox in self._inboxes.values():
            inbox.messages.clear()
            try:
                self._core.fileno()
            except Exception as error:
                inbox.fail(error)

    async def __aenter__(self) -> "Worker":
        return self

    async def __aexit__(self, *reason: object) -> None:
        await self.close()


class Listener:
    """Accepts clients until it is closed."""

    def __init__(self, worker: Worker, handler: Callable[["Endpoint"], Union[Awaitable[None], None]], host: str,
                 port: int) -> None:
        self._worker = worker
        self._handler = handler
        self._tasks: "set[asyncio.Task[None]]" = set()
        this = weakref.ref(self)

        def on_client(client: _core.Client) -> None:
            listener = this()
            if listener is None:
                client.reject()
            else:
                listener._accept(client)

        worker._core.fileno()  # raises if the worker cannot be used
        first, *others = _sort_addresses(socket.getaddrinfo(host, None, type=socket.SOCK_STREAM), port)
        try:
            self._core = worker._core.listen(on_client, first)
        except Error:
            if not others:
                raise
            self._core = worker._core.listen(on_client, others[0])

    def _accept(self, client: _core.Client) -> None:
        answer = self._handler(self._worker._endpoint_of(client.accept(None)))
        if answer is not None:
            task: "asyncio.Task[None]" = self._worker._loop.create_task(answer)  # type: ignore[arg-type]
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def __repr__(self) -> str:
        try:
            return "<causeway.Listener at %s:%d>" % self.address
        except Error:
            return "<causeway.Listener closed>"

    @property
    def address(self) -> Tuple[str, int]:
        """Host and port."""
        return self._core.address()

    def close(self) -> None:
        """Stop listening; endpoints and the tasks of handlers stay."""
        self._core.close()


class Endpoint:
    """A connection to a peer. Operations raise what it failed with: EndError if the peer closed it."""

    def __init__(self, worker: Worker, core: _core.Endpoint) -> None:
        self._worker = worker
        self._core = core
        self._on_close: "List[Callable[[Endpoint, Optional[Exception]], object]]" = []

    def __repr__(self) -> str:
        peer, error = self._core.peer, self._core.error
        state = ""
        if self.closed:
            state = " closed"
        elif error is not None:
            state = " failed: %s" % error
        return "<causeway.Endpoint%s%s>" % (" to %s:%d" % peer if peer is not None else "", state)

    @property
    def closed(self) -> bool:
        """Whether it is closed."""
        return self._core.closed

    @property
    def peer(self) -> Optional[Tuple[str, int]]:
        """Host and port of the peer; None if it was reached by the address of its worker, or is closed."""
        return self._core.peer

    def on_close(self, callback: "Callable[[Endpoint, Optional[Exception]], object]") -> None:
        """Call callback(endpoint, error) once, when the connection has ended: with None if either side closed it in
        good order, else with the error. A callback for one that has ended already runs soon. An endpoint that is
        forgotten calls nothing."""
        error = self._core.error
        if error is not None or self.closed:
            self._worker._loop.call_soon(callback, self, None if isinstance(error, EndError) else error)
            return
        self._on_close.append(callback)
        this = weakref.ref(self)

        def on_error(error: Exception) -> None:
            endpoint = this()
            if endpoint is not None:
                endpoint._ended(error)

        self._core.on_error = on_error

    def _ended(self, error: Optional[Exception]) -> None:
        callbacks, self._on_close = self._on_close, []
        for callback in callbacks:
            self._worker._loop.call_soon(callback, self, None if isinstance(error, EndError) else error)

    async def am_send(self, id: int, payload: Buffer = b"", header: Buffer = b"", *, reply: bool = False) -> None:
        """Send an active message; done when the payload may be changed. reply: the receiver gets an endpoint."""
        answer = self._core.am_send(id, header, payload, _AM_REPLY if reply else 0)
        if answer is not None:
            await answer

    async def tag_send(self, buffer: Buffer, tag: int, *, sync: bool = False) -> None:
        """Send a tag message; done when the buffer may be changed, with sync when a receive has matched it."""
        answer = self._core.tag_send(buffer, tag, sync)
        if answer is not None:
            await answer

    async def stream_send(self, buffer: Buffer) -> None:
        """Append to the stream; done when the buffer may be changed."""
        answer = self._core.stream_send(buffer)
        if answer is not None:
            await answer

    async def stream_recv(self, buffer: Buffer, *, whole: bool = False) -> int:
        """Take from the stream what is there, at least a byte; whole: fill the buffer. Gives the length: 0 when the
        peer has closed its endpoint. With whole that raises EndError."""
        try:
            answer = self._core.stream_recv(buffer, whole)
            if type(answer) is _core.Request:
                answer = await answer
            return int(answer)
        except EndError:
            if whole:
                raise
            return 0

    def unpack_key(self, key: bytes) -> _core.RemoteKey:
        """The right to reach memory of this peer, from what its Memory.key() gave."""
        return self._core.unpack(key)

    async def put(self, buffer: Buffer, address: int, key: _core.RemoteKey) -> None:
        """Write remote memory; done when the buffer may be changed, at the peer after flush()."""
        answer = self._core.put(buffer, address, key)
        if answer is not None:
            await answer

    async def get(self, buffer: Buffer, address: int, key: _core.RemoteKey) -> None:
        """Read remote memory into a writable buffer."""
        answer = self._core.get(buffer, address, key)
        if answer is not None:
            await answer

    async def _atomic(self, operation: int, operand: int, other: int, address: int, key: _core.RemoteKey,
                      width: int, fetch: bool = True) -> int:
        answer = self._core.atomic(operation, operand, other, address, key, width, fetch)
        if type(answer) is _core.Request:
            answer = await answer
        return int(answer)

    async def fetch_add(self, operand: int, address: int, key: _core.RemoteKey, *, width: int = 8) -> int:
        """Add to a remote word; gives its old value. Operands may have a sign or not, old values have none."""
        return await self._atomic(0, operand, 0, address, key, width)

    async def swap(self, operand: int, address: int, key: _core.RemoteKey, *, width: int = 8) -> int:
        """Set a remote word; gives its old value."""
        return await self._atomic(1, operand, 0, address, key, width)

    async def compare_swap(self, expected: int, value: int, address: int, key: _core.RemoteKey, *,
                           width: int = 8) -> int:
        """Set a remote word if it is as expected; gives its old value."""
        return await self._atomic(2, expected, value, address, key, width)

    async def fetch_and(self, operand: int, address: int, key: _core.RemoteKey, *, width: int = 8) -> int:
        """Combine a remote word by and; gives its old value."""
        return await self._atomic(3, operand, 0, address, key, width)

    async def fetch_or(self, operand: int, address: int, key: _core.RemoteKey, *, width: int = 8) -> int:
        """Combine a remote word by or; gives its old value."""
        return await self._atomic(4, operand, 0, address, key, width)

    async def fetch_xor(self, operand: int, address: int, key: _core.RemoteKey, *, width: int = 8) -> int:
        """Combine a remote word by exclusive or; gives its old value."""
        return await self._atomic(5, operand, 0, address, key, width)

    async def flush(self) -> None:
        """Wait until everything posted before is done at the peer."""
        answer = self._core.flush()
        if answer is not None:
            await answer

    async def close(self, *, force: bool = False) -> None:
        """Deliver what was sent and close; force: without delivering. That the peer closed first is no error: flush()
        returns whether everything was delivered."""
        try:
            answer = self._core.close(force)
            if answer is not None:
                await answer
        except (EndError, ResetError):
            pass
        self._ended(None)

    async def __aenter__(self) -> "Endpoint":
        return self

    async def __aexit__(self, *reason: object) -> None:
        await self.close()
