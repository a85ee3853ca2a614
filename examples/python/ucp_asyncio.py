# SPDX-License-Identifier: BSD-3-Clause
"""A UCP worker in an asyncio loop: tag messages and active messages as awaitables. Written for echo.py; to copy.

The loop watches the worker's descriptor by epoll. Three things have to be right; Worker._drain() is the place.

  - The descriptor means something only while the worker is armed. So: progress until nothing is left, then arm; if that
    says BUSY, something came meanwhile, and it starts again. Armed and idle, the descriptor is quiet.
  - Whoever leaves without having armed (not to starve the loop during a long transfer) is not woken by the descriptor,
    and must come back by itself.
  - An operation that was started after arming may need progress before anything happens outside: each of them makes the
    loop come by once.
"""
import asyncio
import collections

from _ucp import ffi, lib  # made by build_ucp.py

Message = collections.namedtuple("Message", "header data length reply_ep")  # an active message that arrived
TURNS = 100  # of progress before other tasks of the loop get their turn
areas = 0    # requests prepared by area_init() and not cleaned up yet


class UcpError(Exception):
    def __init__(self, status, what):
        super().__init__(f"{what}: {ffi.string(lib.ucs_status_string(status)).decode()}")
        self.status = status


def must(status, what):
    if status != lib.UCS_OK:
        raise UcpError(status, what)


# A request pointer points at an area of the program's own (request_size bytes). It is prepared once, when the memory of
# the request is made, and not at each use: so whoever gives a request back leaves it clean.

waiting = {}  # request -> (future, what must not be freed)


@ffi.def_extern()
def area_init(request):
    global areas
    areas += 1
    ffi.cast("struct area *", request).done = 0


@ffi.def_extern()
def area_cleanup(request):
    global areas
    areas -= 1


def give_back(request):
    ffi.cast("struct area *", request).done = 0
    lib.ucp_request_free(request)


def complete(request, status):
    """All callbacks end here. One that runs inside the call which makes the request leaves a note for the caller."""
    area = ffi.cast("struct area *", request)
    future, _ = waiting.pop(request, (None, None))
    if future is None:
        area.status, area.done = status, 1
        return
    if not future.done():  # else its task was cancelled
        future.set_result(status)
    give_back(request)


@ffi.def_extern()
def sent(request, status, user_data):
    complete(request, status)


@ffi.def_extern()
def received(request, status, info, user_data):
    complete(request, status)


@ffi.def_extern()
def fetched(request, status, length, user_data):
    complete(request, status)


@ffi.def_extern()
def arrived(arg, header, header_length, data, length, param):
    """The header is lent for this call; data may be kept, which the handler was installed for."""
    worker = ffi.from_handle(arg)
    keep = param.recv_attr & (lib.UCP_AM_RECV_ATTR_FLAG_DATA | lib.UCP_AM_RECV_ATTR_FLAG_RNDV)
    header = bytes(ffi.buffer(header, header_length)) if header_length else b""
    worker.messages.put_nowait(Message(header, data if keep else None, length, param.reply_ep))
    return lib.UCS_INPROGRESS if keep else lib.UCS_OK


class Worker:
    """To be made inside a running loop. `am_id` is the id of the active messages that `messages` collects."""

    def __init__(self, am_id):
        self.loop = asyncio.get_running_loop()
        self.messages = asyncio.Queue()
        self.wakeups = 0  # how often the descriptor was readable
        self.coming = None
        self.me = ffi.new_handle(self)
        context, worker, fd = ffi.new("ucp_context_h *"), ffi.new("ucp_worker_h *"), ffi.new("int *")

        must(lib.ucp_init(ffi.new("ucp_params_t *", {
            "field_mask": lib.UCP_PARAM_FIELD_FEATURES | lib.UCP_PARAM_FIELD_REQUEST_SIZE |
                          lib.UCP_PARAM_FIELD_REQUEST_INIT | lib.UCP_PARAM_FIELD_REQUEST_CLEANUP,
            "features": lib.UCP_FEATURE_TAG | lib.UCP_FEATURE_AM | lib.UCP_FEATURE_WAKEUP,
            "request_size": ffi.sizeof("struct area"),
            "request_init": lib.area_init,
            "request_cleanup": lib.area_cleanup}), ffi.NULL, context), "ucp_init")
        must(lib.ucp_worker_create(context[0], ffi.new("ucp_worker_params_t *"), worker), "ucp_worker_create")
        self.context, self.worker = context[0], worker[0]
        must(lib.ucp_worker_set_am_recv_handler(self.worker, ffi.new("ucp_am_handler_param_t *", {
            "field_mask": lib.UCP_AM_HANDLER_PARAM_FIELD_ID | lib.UCP_AM_HANDLER_PARAM_FIELD_FLAGS |
                          lib.UCP_AM_HANDLER_PARAM_FIELD_CB | lib.UCP_AM_HANDLER_PARAM_FIELD_ARG,
            "id": am_id, "flags": lib.UCP_AM_FLAG_PERSISTENT_DATA,
            "cb": lib.arrived, "arg": self.me})), "ucp_worker_set_am_recv_handler")
        must(lib.ucp_worker_get_efd(self.worker, fd), "ucp_worker_get_efd")
        self.fd = fd[0]
        self.loop.add_reader(self.fd, self._readable)
        self._come_by()

    def _readable(self):
        self.wakeups += 1
        self._drain()

    def _come_by(self):
        if self.coming is None:
            self.coming = self.loop.call_soon(self._drain)

    def _drain(self):
        if self.coming is not None:
            self.coming.cancel()
            self.coming = None
        for _ in range(TURNS):
            if lib.ucp_worker_progress(self.worker) == 0:
                status = lib.ucp_worker_arm(self.worker)
                if status == lib.UCS_OK:
                    return
                if status != lib.UCS_ERR_BUSY:
                    raise UcpError(status, "ucp_worker_arm")
        self._come_by()

    async def _finish(self, request, what, *in_use):
        """Ends any operation. What is `in_use` lives until its completion, also if the task that waits is cancelled."""
        status = lib.UCS_PTR_STATUS(request)
        self._come_by()
        if status == lib.UCS_INPROGRESS:
            area = ffi.cast("struct area *", request)
            if area.done:  # the callback ran inside the call
                status = area.status
                give_back(request)
            else:
                future = self.loop.create_future()
                waiting[request] = future, in_use
                try:
                    status = await future
                except asyncio.CancelledError:  # a receive ends here and now, everything else goes on
                    if waiting.get(request, (None,))[0] is future:
                        lib.ucp_request_cancel(self.worker, request)
                    raise
        must(status, what)

    def address(self):
        attr = ffi.new("ucp_worker_attr_t *", {"field_mask": lib.UCP_WORKER_ATTR_FIELD_ADDRESS})
        must(lib.ucp_worker_query(self.worker, attr), "ucp_worker_query")
        address = bytes(ffi.buffer(attr.address, attr.address_length))
        lib.ucp_worker_release_address(self.worker, attr.address)
        return address

    def connect(self, address):
        address, ep = ffi.from_buffer(address), ffi.new("ucp_ep_h *")
        must(lib.ucp_ep_create(self.worker, ffi.new("ucp_ep_params_t *", {
            "field_mask": lib.UCP_EP_PARAM_FIELD_REMOTE_ADDRESS,
            "address": ffi.cast("ucp_address_t *", address)}), ep), "ucp_ep_create")
        return ep[0]

    async def send(self, ep, tag, data):
        data = ffi.from_buffer(data)
        request = lib.ucp_tag_send_nbx(ep, data, len(data), tag, self._param("send", lib.sent))
        await self._finish(request, "ucp_tag_send_nbx", data)

    async def receive(self, tag, length):
        """The message with this tag, which has this length."""
        result = bytearray(length)
        data, mask = ffi.from_buffer(result), 0xffffffffffffffff
        param = self._param("recv", lib.received, lib.UCP_OP_ATTR_FLAG_NO_IMM_CMPL)
        request = lib.ucp_tag_recv_nbx(self.worker, data, length, tag, mask, param)
        await self._finish(request, "ucp_tag_recv_nbx", data)
        return result

    async def send_am(self, ep, am_id, header, data):
        header, data = ffi.from_buffer(header), ffi.from_buffer(data)
        param = self._param("send", lib.sent, lib.UCP_OP_ATTR_FIELD_FLAGS)
        param.flags = lib.UCP_AM_SEND_FLAG_REPLY
        request = lib.ucp_am_send_nbx(ep, am_id, header, len(header), data, len(data), param)
        await self._finish(request, "ucp_am_send_nbx", header, data)

    async def fetch(self, message):
        """The payload of an active message, wherever it is: with this worker, or still with its sender."""
        result = bytearray(message.length)
        if message.data is not None:
            data = ffi.from_buffer(result)
            request = lib.ucp_am_recv_data_nbx(self.worker, message.data, data, len(data),
                                               self._param("recv_am", lib.fetched))
            await self._finish(request, "ucp_am_recv_data_nbx", data)
        return result

    async def close(self, ep):
        await self._finish(lib.ucp_ep_close_nbx(ep, self._param("send", lib.sent)), "ucp_ep_close_nbx")

    def destroy(self):
        self.loop.remove_reader(self.fd)  # the descriptor goes with the worker
        if self.coming is not None:
            self.coming.cancel()
        lib.ucp_worker_destroy(self.worker)
        lib.ucp_cleanup(self.context)

    @staticmethod
    def _param(kind, callback, mask=0):
        param = ffi.new("ucp_request_param_t *", {"op_attr_mask": lib.UCP_OP_ATTR_FIELD_CALLBACK | mask})
        setattr(param.cb, kind, callback)
        return param
