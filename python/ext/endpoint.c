/* SPDX-License-Identifier: BSD-3-Clause */
/* Endpoints and what is sent through them. */
#include "core.h"

#include <search.h>
#include <stdio.h>

static int compare(const void *one, const void *other)
{
    uintptr_t a = (uintptr_t)((const Endpoint *)one)->handle;
    uintptr_t b = (uintptr_t)((const Endpoint *)other)->handle;

    return (a > b) - (a < b);
}

Endpoint *cw_endpoint_find(const Worker *worker, ucp_ep_h handle)
{
    const Endpoint wanted = {.handle = handle};
    Endpoint **found      = tfind(&wanted, &worker->endpoints, compare);

    return found != NULL ? *found : NULL;
}

/* From now on the handle is not used. */
static void forget(Endpoint *self)
{
    cw_child_remove(&self->child);
    tdelete(self, &self->worker->endpoints, compare);
    self->handle = NULL;
}

/* Why the endpoint has failed, in the words of ucp_ep_print_info, which are the library's only ones for it. */
static char *reason_of(ucp_ep_h handle)
{
    static const char mark[] = " reason: ";
    char *text = NULL, *reason = NULL;
    size_t length;
    FILE *stream = open_memstream(&text, &length);

    if (stream != NULL) {
        ucp_ep_print_info(handle, stream);
        const char *at = fclose(stream) == 0 ? strstr(text, mark) : NULL;
        if (at != NULL) {
            at += strlen(mark);
            reason = strndup(at, strcspn(at, "\n"));
        }
        free(text);
    }
    return reason;
}

static void note_reason(Endpoint *self)
{
    if (self->reason == NULL && self->handle != NULL) {
        self->reason = reason_of(self->handle);
    }
}

const char *cw_endpoint_reason(Endpoint *self, ucs_status_t status)
{
    const char *known = ucs_status_string(status);

    note_reason(self);
    return self->reason != NULL && strncmp(self->reason, known, strlen(known)) == 0 ? self->reason : NULL;
}

static void on_failure(void *arg, ucp_ep_h ep, ucs_status_t status)
{
    Worker *worker = arg;
    Endpoint *self = cw_endpoint_find(worker, ep);

    if (self == NULL) {
        return; /* A borrowed one that Python has closed. */
    }
    self->status = status;
    note_reason(self);
    if (self->borrowed) {
        forget(self);
    }
    Arrival *arrival = self->on_error != NULL ? calloc(1, sizeof(*arrival)) : NULL;
    if (arrival != NULL) {
        arrival->kind   = ARRIVAL_FAILURE;
        arrival->status = status;
        arrival->owner  = Py_NewRef((PyObject *)self);
        cw_worker_called(worker, arrival);
    }
}

/* Closes it; what is left of that is done by progress. */
static void close_now(Endpoint *self, unsigned flags)
{
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS, .flags = flags};
    ucp_ep_h handle           = self->handle;

    forget(self);
    if (!self->borrowed && handle != NULL) {
        ucs_status_ptr_t closing = ucp_ep_close_nbx(handle, &param);
        if (UCS_PTR_IS_PTR(closing)) {
            ucp_request_free(closing);
        }
    }
}

static void end_endpoint(Child *child)
{
    close_now((Endpoint *)((char *)child - offsetof(Endpoint, child)), UCP_EP_CLOSE_FLAG_FORCE);
}

static Endpoint *make(Worker *worker)
{
    Endpoint *self = PyObject_New(Endpoint, &cw_endpoint_type);

    if (self != NULL) {
        memset((char *)self + sizeof(PyObject), 0, sizeof(*self) - sizeof(PyObject));
        self->worker    = (Worker *)Py_NewRef(worker);
        self->child.end = end_endpoint;
    }
    return self;
}

/* False: no memory. */
static bool adopt(Endpoint *self, ucp_ep_h handle)
{
    self->handle = handle;
    cw_child_add(self->worker, 1, &self->child);
    return tsearch(self, &self->worker->endpoints, compare) != NULL;
}

/* What the library is asked to call when the endpoint fails; the object is found by the handle. */
static void ask_for_failures(Worker *worker, ucp_ep_params_t *params)
{
    params->field_mask |= UCP_EP_PARAM_FIELD_ERR_HANDLER | UCP_EP_PARAM_FIELD_USER_DATA;
    params->err_handler.cb = on_failure;
    params->user_data      = worker;
}

PyObject *cw_endpoint_new(Worker *worker, ucp_ep_params_t *params, PyObject *on_error)
{
    ucp_ep_h handle;
    Endpoint *self = make(worker);

    if (self == NULL) {
        return NULL;
    }
    params->field_mask |= UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE;
    params->err_mode = UCP_ERR_HANDLING_MODE_PEER;
    ask_for_failures(worker, params);
    ucs_status_t status = ucp_ep_create(worker->handle, params, &handle);
    if (status != UCS_OK) {
        Py_DECREF(self);
        return cw_raise(status, "the endpoint cannot be made");
    }
    Endpoint *known = cw_endpoint_find(worker, handle);
    if (known != NULL) { /* Borrowed before, and the program's own from now on. */
        Py_DECREF(self);
        self           = (Endpoint *)Py_NewRef((PyObject *)known);
        self->borrowed = false;
    } else if (!adopt(self, handle)) {
        Py_DECREF(self);
        return PyErr_NoMemory();
    }
    Py_XSETREF(self->on_error, on_error == Py_None ? NULL : Py_NewRef(on_error));
    return (PyObject *)self;
}

PyObject *cw_endpoint_for(Worker *worker, ucp_ep_h handle)
{
    Endpoint *known        = cw_endpoint_find(worker, handle);
    Endpoint *self         = known == NULL ? make(worker) : NULL;
    ucp_ep_params_t params = {.field_mask = 0};

    if (known != NULL) {
        return Py_NewRef((PyObject *)known);
    }
    if (self == NULL) {
        PyErr_Clear();
        return NULL;
    }
    self->borrowed = true;
    ask_for_failures(worker, &params);
    if (!adopt(self, handle) || ucp_ep_modify_nb(handle, &params) != NULL) {
        Py_CLEAR(self);
    }
    return (PyObject *)self;
}

PyObject *cw_worker_connect(Worker *worker, PyObject *args)
{
    PyObject *peer, *on_error;
    struct sockaddr_storage storage;
    socklen_t length;
    Buffer address         = {.object = NULL};
    ucp_ep_params_t params = {.field_mask = 0};

    if (!PyArg_ParseTuple(args, "OO", &peer, &on_error)) {
        return NULL;
    }
    cw_log_forget();
    if (PyTuple_Check(peer)) {
        if (!cw_address_of(peer, &storage, &length)) {
            return NULL;
        }
        params.field_mask = UCP_EP_PARAM_FIELD_SOCK_ADDR | UCP_EP_PARAM_FIELD_FLAGS;
        params.flags      = UCP_EP_PARAMS_FLAGS_CLIENT_SERVER;
        params.sockaddr   = (ucs_sock_addr_t){.addr = (struct sockaddr *)&storage, .addrlen = length};
    } else {
        if (!PyBytes_Check(peer)) {
            PyErr_SetString(PyExc_TypeError, "a peer is a (host, port) tuple or the bytes of a worker's address");
            return NULL;
        }
        /* The library learns where an address ends from the address itself. */
        ucp_worker_address_attr_t attr = {.field_mask = UCP_WORKER_ADDRESS_ATTR_FIELD_UID};
        char *copy                     = PyMem_Calloc(1, (size_t)PyBytes_GET_SIZE(peer) + 4096);
        if (copy == NULL) {
            return PyErr_NoMemory();
        }
        memcpy(copy, PyBytes_AS_STRING(peer), (size_t)PyBytes_GET_SIZE(peer));
        ucs_status_t status = ucp_worker_address_query((ucp_address_t *)copy, &attr);
        if (status != UCS_OK) {
            PyMem_Free(copy);
            return cw_raise(status, "these bytes are no address of a worker");
        }
        params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
        params.address    = (ucp_address_t *)copy;
        address.address   = copy;
    }
    PyObject *endpoint = cw_worker_usable(worker) ? cw_endpoint_new(worker, &params, on_error) : NULL;
    PyMem_Free(address.address);
    return endpoint;
}

static bool usable(const Endpoint *self)
{
    if (!cw_worker_usable(self->worker)) {
        return false;
    }
    if (self->handle == NULL && self->borrowed && self->status != UCS_OK) {
        cw_raise_reason(self->status, "the peer has ended the connection", self->reason);
        return false;
    }
    if (self->handle == NULL) {
        cw_raise_closed("the endpoint is closed");
        return false;
    }
    return true;
}

/* The endpoint after the buffer was checked, which may run foreign code. */
static Request *request_for(Endpoint *self, enum result kind, PyObject *buffer, bool writable,
                            ucp_request_param_t *param)
{
    Request *request = usable(self) ? cw_request_new(self->worker, kind, buffer, writable, param) : NULL;

    if (request != NULL && !usable(self)) {
        Py_CLEAR(request);
    }
    if (request != NULL) {
        request->ep = self->handle;
    }
    return request;
}

static PyObject *endpoint_am_send(Endpoint *self, PyObject *args)
{
    uint32_t id, flags;
    PyObject *header_object, *payload;
    Buffer header;
    ucp_request_param_t param;

    if (!PyArg_ParseTuple(args, "O&OOO&", cw_to_uint32, &id, &header_object, &payload, cw_to_uint32, &flags)) {
        return NULL;
    }
    if (!PyObject_CheckBuffer(header_object)) {
        return PyErr_Format(PyExc_TypeError, "the header must be bytes-like, not '%.100s'",
                            Py_TYPE(header_object)->tp_name);
    }
    if (!cw_buffer_get(header_object, false, &header)) {
        return NULL;
    }
    Request *request = request_for(self, RESULT_NONE, payload, false, &param);
    if (request == NULL) {
        cw_buffer_release(&header);
        return NULL;
    }
    param.flags           = flags | UCP_AM_SEND_FLAG_COPY_HEADER;
    ucs_status_ptr_t sent = ucp_am_send_nbx(self->handle, id, header.address, header.length, request->buffer.address,
                                            request->buffer.length, &param);
    cw_buffer_release(&header);
    return cw_request_posted(request, sent, "the active message cannot be sent");
}

static PyObject *endpoint_tag_send(Endpoint *self, PyObject *args)
{
    PyObject *buffer;
    uint64_t tag;
    int sync;
    ucp_request_param_t param;

    if (!PyArg_ParseTuple(args, "OO&p", &buffer, cw_to_uint64, &tag, &sync)) {
        return NULL;
    }
    Request *request = request_for(self, RESULT_NONE, buffer, false, &param);
    if (request == NULL) {
        return NULL;
    }
    ucs_status_ptr_t sent =
        sync ? ucp_tag_send_sync_nbx(self->handle, request->buffer.address, request->buffer.length, tag, &param)
             : ucp_tag_send_nbx(self->handle, request->buffer.address, request->buffer.length, tag, &param);
    return cw_request_posted(request, sent, "the tag message cannot be sent");
}

static PyObject *endpoint_stream_send(Endpoint *self, PyObject *buffer)
{
    ucp_request_param_t param;
    Request *request = request_for(self, RESULT_NONE, buffer, false, &param);

    if (request == NULL) {
        return NULL;
    }
    return cw_request_posted(request,
                             ucp_stream_send_nbx(self->handle, request->buffer.address, request->buffer.length, &param),
                             "the stream cannot be written");
}

static PyObject *endpoint_stream_recv(Endpoint *self, PyObject *args)
{
    PyObject *buffer;
    int all;
    ucp_request_param_t param;

    if (!PyArg_ParseTuple(args, "Op", &buffer, &all)) {
        return NULL;
    }
    Request *request = request_for(self, RESULT_LENGTH, buffer, true, &param);
    if (request == NULL) {
        return NULL;
    }
    param.op_attr_mask &= ~(uint32_t)UCP_OP_ATTR_FIELD_RECV_INFO;
    param.flags = all ? UCP_STREAM_RECV_FLAG_WAITALL : 0;
    return cw_request_posted(request,
                             ucp_stream_recv_nbx(self->handle, request->buffer.address, request->buffer.length,
                                                 &request->info.length, &param),
                             "the stream cannot be read");
}

static RemoteKey *key_for(Endpoint *self, PyObject *object)
{
    RemoteKey *key = (RemoteKey *)object;

    if (!PyObject_TypeCheck(object, &cw_key_type)) {
        PyErr_SetString(PyExc_TypeError, "a RemoteKey is required");
    } else if (key->handle == NULL) {
        cw_raise_closed("the remote key is closed");
    } else if (key->endpoint != self) {
        PyErr_SetString(PyExc_ValueError, "the remote key belongs to another endpoint");
    } else {
        return key;
    }
    return NULL;
}

static PyObject *put_or_get(Endpoint *self, PyObject *args, bool get)
{
    PyObject *buffer, *object;
    uint64_t address;
    ucp_request_param_t param;

    if (!PyArg_ParseTuple(args, "OO&O", &buffer, cw_to_uint64, &address, &object)) {
        return NULL;
    }
    Request *request = request_for(self, RESULT_NONE, buffer, get, &param);
    RemoteKey *key   = request != NULL ? key_for(self, object) : NULL;
    if (key == NULL) {
        Py_XDECREF(request);
        return NULL;
    }
    request->key = (RemoteKey *)Py_NewRef(key);
    key->uses++;
    ucs_status_ptr_t posted =
        get ? ucp_get_nbx(self->handle, request->buffer.address, request->buffer.length, address, key->handle, &param)
            : ucp_put_nbx(self->handle, request->buffer.address, request->buffer.length, address, key->handle, &param);
    return cw_request_posted(request, posted, get ? "the get failed" : "the put failed");
}

static PyObject *endpoint_put(Endpoint *self, PyObject *args)
{
    return put_or_get(self, args, false);
}

static PyObject *endpoint_get(Endpoint *self, PyObject *args)
{
    return put_or_get(self, args, true);
}

/* A word of 4 or 8 bytes, of a number that fits it with a sign or without. */
static bool word_of(PyObject *number, int width, uint64_t *word)
{
    PyObject *index = PyNumber_Index(number);
    int overflow    = 0;

    if (index == NULL) {
        return false;
    }
    long long with_sign = PyLong_AsLongLongAndOverflow(index, &overflow);
    *word               = overflow > 0 ? PyLong_AsUnsignedLongLong(index) : (uint64_t)with_sign;
    Py_DECREF(index);
    if (PyErr_Occurred()) {
        return false;
    }
    if (overflow < 0 || (width == 4 && (overflow > 0 || with_sign > UINT32_MAX || with_sign < INT32_MIN))) {
        PyErr_Format(PyExc_OverflowError, "int too big to convert to a word of %d bytes", width);
        return false;
    }
    return true;
}

static PyObject *endpoint_atomic(Endpoint *self, PyObject *args)
{
    int operation, width, fetch;
    uint64_t operand, other, address;
    PyObject *object, *operand_object, *other_object;
    ucp_request_param_t param;

    if (!PyArg_ParseTuple(args, "iOOO&Oip", &operation, &operand_object, &other_object, cw_to_uint64, &address, &object,
                          &width, &fetch)) {
        return NULL;
    }
    if ((width != 4 && width != 8) || operation < 0 || operation >= UCP_ATOMIC_OP_LAST) {
        PyErr_SetString(PyExc_ValueError, "atomics are for words of 4 or 8 bytes");
        return NULL;
    }
    if (!word_of(operand_object, width, &operand) || !word_of(other_object, width, &other)) {
        return NULL;
    }
    Request *request = request_for(self, fetch ? RESULT_OLD : RESULT_NONE, NULL, false, &param);
    RemoteKey *key   = request != NULL ? key_for(self, object) : NULL;
    if (key == NULL) {
        Py_XDECREF(request);
        return NULL;
    }
    request->key     = (RemoteKey *)Py_NewRef(key);
    request->operand = operand;
    request->old     = other;
    request->width   = width;
    key->uses++;
    param.op_attr_mask |= UCP_OP_ATTR_FIELD_DATATYPE;
    param.datatype = ucp_dt_make_contig((size_t)width);
    if (fetch) {
        param.op_attr_mask |= UCP_OP_ATTR_FIELD_REPLY_BUFFER;
        param.reply_buffer = &request->old;
    }
    return cw_request_posted(
        request,
        ucp_atomic_op_nbx(self->handle, (ucp_atomic_op_t)operation, &request->operand, 1, address, key->handle, &param),
        "the atomic operation failed");
}

static PyObject *endpoint_flush(Endpoint *self, PyObject *unused)
{
    ucp_request_param_t param;
    Request *request = request_for(self, RESULT_NONE, NULL, false, &param);

    (void)unused;
    if (request == NULL) {
        return NULL;
    }
    return cw_request_posted(request, ucp_ep_flush_nbx(self->handle, &param), "the flush failed");
}

static PyObject *endpoint_close(Endpoint *self, PyObject *args)
{
    int force;
    ucp_request_param_t param;

    if (!PyArg_ParseTuple(args, "p", &force)) {
        return NULL;
    }
    if (self->handle == NULL) {
        Py_RETURN_NONE;
    }
    Request *request = request_for(self, RESULT_NONE, NULL, false, &param);
    if (request == NULL) {
        return NULL;
    }
    ucp_ep_h handle = self->handle;
    forget(self);
    if (self->borrowed) {
        Py_DECREF(request);
        Py_RETURN_NONE;
    }
    param.flags = force ? UCP_EP_CLOSE_FLAG_FORCE : 0;
    return cw_request_posted(request, ucp_ep_close_nbx(handle, &param), "the endpoint was closed with an error");
}

static void endpoint_dealloc(Endpoint *self)
{
    if (self->handle != NULL && cw_worker_owned(self->worker)) {
        close_now(self, 0); /* What was sent is delivered, as with a socket that is forgotten. */
    }
    free(self->reason);
    Py_CLEAR(self->on_error);
    Py_CLEAR(self->worker);
    PyObject_Free(self);
}

static PyObject *get_closed(Endpoint *self, void *unused)
{
    (void)unused;
    return PyBool_FromLong(self->handle == NULL);
}

static PyObject *get_status(Endpoint *self, void *unused)
{
    (void)unused;
    return PyLong_FromLong(self->status);
}

static PyObject *get_error(Endpoint *self, void *unused)
{
    (void)unused;
    if (self->status == UCS_OK) {
        Py_RETURN_NONE;
    }
    return cw_error_new(self->status, "the connection has ended", self->reason);
}

static int set_on_error(Endpoint *self, PyObject *value, void *unused)
{
    (void)unused;
    Py_XSETREF(self->on_error, value == Py_None ? NULL : Py_XNewRef(value));
    return 0;
}

/* The peer's host and port; None of one that was reached by a worker's address, or that has no connection. */
static PyObject *get_peer(Endpoint *self, void *unused)
{
    ucp_ep_attr_t attr = {.field_mask = UCP_EP_ATTR_FIELD_REMOTE_SOCKADDR};

    (void)unused;
    if (self->handle == NULL || !cw_worker_owned(self->worker) ||
        ucp_ep_query(self->handle, &attr) != UCS_OK) {
        Py_RETURN_NONE;
    }
    return cw_address_tuple(&attr.remote_sockaddr);
}

PyObject *cw_key_unpack(Endpoint *self, PyObject *bytes);

static PyObject *endpoint_unpack(Endpoint *self, PyObject *bytes)
{
    return usable(self) ? cw_key_unpack(self, bytes) : NULL;
}

static PyMethodDef methods[] = {
    {"am_send", (PyCFunction)endpoint_am_send, METH_VARARGS, "am_send(id, header, payload, flags)"},
    {"tag_send", (PyCFunction)endpoint_tag_send, METH_VARARGS, "tag_send(buffer, tag, sync)"},
    {"stream_send", (PyCFunction)endpoint_stream_send, METH_O, "stream_send(buffer)"},
    {"stream_recv", (PyCFunction)endpoint_stream_recv, METH_VARARGS, "stream_recv(buffer, all)"},
    {"put", (PyCFunction)endpoint_put, METH_VARARGS, "put(buffer, address, key)"},
    {"get", (PyCFunction)endpoint_get, METH_VARARGS, "get(buffer, address, key)"},
    {"atomic", (PyCFunction)endpoint_atomic, METH_VARARGS, "atomic(op, operand, other, address, key, width, fetch)"},
    {"flush", (PyCFunction)endpoint_flush, METH_NOARGS, "Flush."},
    {"unpack", (PyCFunction)endpoint_unpack, METH_O, "unpack(bytes): a remote key."},
    {"close", (PyCFunction)endpoint_close, METH_VARARGS, "close(force)"},
    {NULL, NULL, 0, NULL}};

static PyGetSetDef properties[] = {{"closed", (getter)get_closed, NULL, "Whether it is closed.", NULL},
                                   {"status", (getter)get_status, NULL, "What it failed with; 0: it has not.", NULL},
                                   {"error", (getter)get_error, NULL, "The same as an exception, or None.", NULL},
                                   {"peer", (getter)get_peer, NULL, "Host and port of the peer, or None.", NULL},
                                   {"on_error", NULL, (setter)set_on_error, "Called with that exception.", NULL},
                                   {NULL, NULL, NULL, NULL, NULL}};

PyTypeObject cw_endpoint_type = {PyVarObject_HEAD_INIT(NULL, 0).tp_name = "causeway._core.Endpoint",
                                 .tp_basicsize                          = sizeof(Endpoint),
                                 .tp_dealloc                            = (destructor)endpoint_dealloc,
                                 .tp_flags   = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                 .tp_doc     = "A connection to a peer.",
                                 .tp_methods = methods,
                                 .tp_getset  = properties};
