/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Workers: progress, the descriptor, what has arrived, and the end. A worker belongs to the thread that made it; calls
 * from another one raise. What Python frees (which may be on any thread) is given back under the interpreter lock.
 *
 * Waking a process that sleeps takes longer than a short message does. So run() goes on with progress for `patience`
 * before it arms and lets the event loop sleep, as long as that pays: each time that nothing came meanwhile, more of
 * the next times go without.
 */
#include "core.h"
#include <time.h>

#define MAX_ROUNDS   64       /* of progress that did something, and ... */
#define MAX_LENGTH   1000000  /* ... nanoseconds in one call, so that other tasks of the loop have their turn */
#define MAX_PATIENCE 10000000 /* nanoseconds */
#define MAX_SKIPPED  63
#define LAST_ROUNDS  100000 /* of progress at the end, as long as something is in flight */

bool cw_worker_owned(const Worker *worker)
{
    return worker->handle != NULL && worker->generation == cw_generation;
}

bool cw_worker_usable(const Worker *worker)
{
    cw_log_forget();
    if (worker->generation != cw_generation) {
        cw_raise_forked();
    } else if (worker->handle == NULL) {
        cw_raise_closed("the worker is closed");
    } else if (worker->thread != PyThread_get_thread_ident()) {
        PyErr_SetString(PyExc_RuntimeError, "the worker belongs to another thread; use loop.call_soon_threadsafe()");
    } else if (worker->ending) {
        cw_raise_closed("the worker is being closed");
    } else {
        return true;
    }
    return false;
}

void cw_child_add(Worker *worker, int order, Child *child)
{
    child->next = worker->children[order];
    child->link = &worker->children[order];
    if (child->next != NULL) {
        child->next->link = &child->next;
    }
    worker->children[order] = child;
}

void cw_child_remove(Child *child)
{
    if (child->link != NULL) {
        *child->link = child->next;
        if (child->next != NULL) {
            child->next->link = child->link;
        }
        child->link = NULL;
    }
}

void cw_worker_called(Worker *worker, Arrival *arrival)
{
    arrival->next        = NULL;
    *worker->arrived_end = arrival;
    worker->arrived_end  = &arrival->next;
}

void cw_worker_nudge(Worker *worker)
{
    if ((worker->done != NULL || worker->arrived != NULL) && !worker->inside) {
        ucp_worker_signal(worker->handle);
    }
}

static ucs_status_t on_message(void *arg, const void *header, size_t header_length, void *data, size_t length,
                               const ucp_am_recv_param_t *param)
{
    Worker *worker   = (Worker *)((void **)arg)[0];
    Arrival *arrival = malloc(sizeof(*arrival) + header_length);

    if (arrival == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    memset(arrival, 0, sizeof(*arrival));
    if (param->recv_attr & UCP_AM_RECV_ATTR_FIELD_REPLY_EP) {
        arrival->owner = cw_endpoint_for(worker, param->reply_ep);
        if (arrival->owner == NULL) {
            free(arrival);
            return UCS_ERR_NO_MEMORY;
        }
    }
    arrival->kind          = ARRIVAL_MESSAGE;
    arrival->id            = (unsigned)(uintptr_t)((void **)arg)[1];
    arrival->rendezvous    = (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0;
    arrival->length        = length;
    arrival->header_length = header_length;
    if (header_length > 0) {
        memcpy(arrival->header, header, header_length);
    }
    cw_worker_called(worker, arrival);
    if (length == 0 && !arrival->rendezvous) {
        return UCS_OK;
    }
    arrival->data = data;
    return UCS_INPROGRESS;
}

static void deliver_message(Worker *worker, Arrival *arrival)
{
    PyObject *id      = PyLong_FromUnsignedLong(arrival->id);
    PyObject *pair    = id != NULL ? PyDict_GetItemWithError(worker->handlers, id) : NULL; /* borrowed */
    PyObject *handler = pair != NULL ? Py_NewRef(PyTuple_GET_ITEM(pair, 0)) : NULL;
    PyObject *message = cw_message_new(worker, arrival); /* Takes data and owner over, also when it fails. */
    PyObject *answer  = message != NULL && handler != NULL ? PyObject_CallOneArg(handler, message) : NULL;

    if (PyErr_Occurred()) {
        PyErr_WriteUnraisable(handler);
    }
    Py_XDECREF(answer);
    Py_XDECREF(message);
    Py_XDECREF(handler);
    Py_XDECREF(id);
}

static void deliver_other(Arrival *arrival)
{
    PyObject *answer = NULL;

    if (arrival->kind == ARRIVAL_FAILURE) {
        Endpoint *endpoint = (Endpoint *)arrival->owner;
        PyObject *on_error = Py_XNewRef(endpoint->on_error);
        PyObject *error    = cw_error_new(arrival->status, "the connection has ended", endpoint->reason);
        if (error != NULL && on_error != NULL) {
            answer = PyObject_CallOneArg(on_error, error);
        }
        Py_XDECREF(error);
        Py_XDECREF(on_error);
    } else {
        Listener *listener = (Listener *)arrival->owner;
        PyObject *client   = cw_client_new(listener, arrival->client);
        if (client != NULL && listener->on_client != NULL) {
            answer = PyObject_CallOneArg(listener->on_client, client);
        }
        Py_XDECREF(client);
    }
    if (PyErr_Occurred()) {
        PyErr_WriteUnraisable(arrival->owner);
    }
    Py_XDECREF(answer);
    Py_DECREF(arrival->owner);
}

/* Whether there was anything; -1: a step of a task raised what ends the program, and the exception is set. */
int cw_worker_drain(Worker *worker)
{
    int some = 0;

    while (worker->done != NULL || worker->arrived != NULL) {
        Request *request = worker->done;
        Arrival *arrival = worker->arrived;

        some = 1;
        if (request != NULL) {
            worker->done = request->next;
            if (worker->done == NULL) {
                worker->done_end = &worker->done;
            }
            if (!cw_request_settle(request)) {
                return -1;
            }
            continue;
        }
        worker->arrived = arrival->next;
        if (worker->arrived == NULL) {
            worker->arrived_end = &worker->arrived;
        }
        if (arrival->kind == ARRIVAL_MESSAGE) {
            deliver_message(worker, arrival);
        } else {
            worker->called++;
            deliver_other(arrival);
        }
        free(arrival);
    }
    return some;
}

static int64_t now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

/* Progress and what came of it: as cw_worker_drain(). */
static int step(Worker *self)
{
    bool moved = ucp_worker_progress(self->handle) != 0;
    int some   = cw_worker_drain(self);

    return some != 0 ? some : moved;
}

/*
 * Progress while nothing happens, if it is worth it; as step(). Not where a callback was called and nothing posted for
 * it: then callbacks of the event loop have their turn.
 */
static int wait_for_more(Worker *self)
{
    int some = 0;

    if (self->patience == 0 || self->posted < self->called) {
        return 0;
    }
    if (self->skips > 0) {
        self->skips--;
        return 0;
    }
    int64_t until = now() + self->patience;
    do {
        some = step(self);
    } while (some == 0 && cw_worker_owned(self) && now() < until);
    self->skipped = some != 0 ? 0 : Py_MIN(2 * self->skipped + 1, MAX_SKIPPED);
    self->skips   = self->skipped;
    return some;
}

/* 1: armed; 0: there is more; -1: an exception. */
static int progress(Worker *self)
{
    int64_t begin = now();
    bool waited   = false;

    for (int round = 0; round < MAX_ROUNDS && cw_worker_owned(self) && now() - begin < MAX_LENGTH; round++) {
        int some = step(self);
        if (some == 0 && cw_worker_owned(self) && !waited) {
            some   = wait_for_more(self);
            waited = some == 0;
        }
        if (some < 0) {
            return -1;
        }
        if (some > 0) {
            waited = false;
        } else if (cw_worker_owned(self)) {
            ucs_status_t status = ucp_worker_arm(self->handle);
            if (status != UCS_ERR_BUSY) {
                return status == UCS_OK || cw_raise(status, "the worker cannot be armed") != NULL ? 1 : -1;
            }
        }
    }
    return self->handle == NULL;
}

/*
 * Progress until there is no more, then arm. True: sleep until the descriptor is readable; False: call again soon.
 * run(direct): whether no task is under way, which the event loop that calls it knows.
 */
static PyObject *worker_run(Worker *self, PyObject *direct)
{
    if (!cw_worker_usable(self)) {
        return NULL;
    }
    if (self->inside) {
        Py_RETURN_FALSE;
    }
    Py_INCREF(self);
    self->inside = true;
    self->direct = direct == Py_True;
    self->called = self->posted = 0;
    int armed                 = progress(self);
    self->inside              = false;
    self->direct              = false;
    Py_DECREF(self);
    return armed < 0 ? NULL : PyBool_FromLong(armed);
}

static PyObject *worker_fileno(Worker *self, PyObject *unused)
{
    (void)unused;
    return cw_worker_usable(self) ? PyLong_FromLong(self->fd) : NULL;
}

static PyObject *worker_address(Worker *self, PyObject *unused)
{
    ucp_worker_attr_t attr = {.field_mask = UCP_WORKER_ATTR_FIELD_ADDRESS};

    (void)unused;
    if (!cw_worker_usable(self)) {
        return NULL;
    }
    ucs_status_t status = ucp_worker_query(self->handle, &attr);
    if (status != UCS_OK) {
        return cw_raise(status, "the worker's address cannot be had");
    }
    PyObject *bytes = PyBytes_FromStringAndSize((const char *)attr.address, (Py_ssize_t)attr.address_length);
    ucp_worker_release_address(self->handle, attr.address);
    return bytes;
}

static void free_handler_arg(PyObject *capsule)
{
    free(PyCapsule_GetPointer(capsule, NULL));
}

static PyObject *worker_set_handler(Worker *self, PyObject *args)
{
    uint32_t id;
    PyObject *handler;

    if (!PyArg_ParseTuple(args, "O&O", cw_to_uint32, &id, &handler) || !cw_worker_usable(self)) {
        return NULL;
    }
    ucp_am_handler_param_t param = {
        .field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG |
                      UCP_AM_HANDLER_PARAM_FIELD_FLAGS,
        .id    = id,
        .flags = UCP_AM_FLAG_PERSISTENT_DATA | UCP_AM_FLAG_WHOLE_MSG,
    };
    void **arg     = malloc(2 * sizeof(void *));
    PyObject *keep = arg != NULL ? PyCapsule_New(arg, NULL, free_handler_arg) : NULL;
    if (keep == NULL) {
        free(arg);
        return PyErr_Occurred() ? NULL : PyErr_NoMemory();
    }
    arg[0]              = self;
    arg[1]              = (void *)(uintptr_t)id;
    param.arg           = arg;
    param.cb            = handler == Py_None ? NULL : on_message;
    ucs_status_t status = ucp_worker_set_am_recv_handler(self->handle, &param);
    if (status != UCS_OK) {
        Py_DECREF(keep);
        return cw_raise(status, "the handler of active messages cannot be set");
    }
    PyObject *key  = PyLong_FromUnsignedLong(id);
    PyObject *pair = key != NULL ? PyTuple_Pack(2, handler, keep) : NULL;
    int failed     = pair == NULL || PyDict_SetItem(self->handlers, key, pair) != 0;
    Py_XDECREF(key);
    Py_XDECREF(pair);
    Py_DECREF(keep);
    if (failed) {
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *worker_tag_recv(Worker *self, PyObject *args)
{
    PyObject *buffer;
    uint64_t tag, mask;
    ucp_request_param_t param;

    if (!PyArg_ParseTuple(args, "OO&O&", &buffer, cw_to_uint64, &tag, cw_to_uint64, &mask) || !cw_worker_usable(self)) {
        return NULL;
    }
    Request *request = cw_request_new(self, RESULT_TAG, buffer, true, &param);
    if (request == NULL) {
        return NULL;
    }
    return cw_request_posted(
        request, ucp_tag_recv_nbx(self->handle, request->buffer.address, request->buffer.length, tag, mask, &param),
        "the receive of a tag message failed");
}

static PyObject *worker_tag_probe(Worker *self, PyObject *args)
{
    uint64_t tag, mask;
    ucp_tag_recv_info_t info;

    if (!PyArg_ParseTuple(args, "O&O&", cw_to_uint64, &tag, cw_to_uint64, &mask) || !cw_worker_usable(self)) {
        return NULL;
    }
    if (ucp_tag_probe_nb(self->handle, tag, mask, 0, &info) == NULL) {
        Py_RETURN_NONE;
    }
    return Py_BuildValue("(nK)", (Py_ssize_t)info.length, (unsigned long long)info.sender_tag);
}

static PyObject *worker_flush(Worker *self, PyObject *unused)
{
    ucp_request_param_t param;

    (void)unused;
    Request *request = cw_worker_usable(self) ? cw_request_new(self, RESULT_NONE, NULL, false, &param) : NULL;
    if (request == NULL) {
        return NULL;
    }
    return cw_request_posted(request, ucp_worker_flush_nbx(self->handle, &param), "the flush of the worker failed");
}

static PyObject *worker_fence(Worker *self, PyObject *unused)
{
    (void)unused;
    if (!cw_worker_usable(self)) {
        return NULL;
    }
    ucs_status_t status = ucp_worker_fence(self->handle);
    if (status != UCS_OK) {
        return cw_raise(status, "the fence failed");
    }
    Py_RETURN_NONE;
}

static void end_children(Worker *self, int order)
{
    while (self->children[order] != NULL) {
        Child *child = self->children[order];
        cw_child_remove(child);
        child->end(child);
    }
}

static void end(Worker *self)
{
    self->ending = true;
    self->direct = false;  /* A task may be what closes it. */
    cw_worker_drain(self); /* Makes messages and clients of what has arrived, so that they are given back below. */
    end_children(self, 0);
    end_children(self, 1);
    for (Request *request = self->pending, *next; request != NULL; request = next) {
        next = request->next;
        Py_INCREF(request);
        ucp_request_cancel(self->handle, request->handle);
        Py_DECREF(request);
        if (request->done) { /* The list may have changed by more than this one. */
            next = self->pending;
        }
    }
    /* What was in flight uses its buffer and its key until progress has ended it. */
    for (int round = 0; self->pending != NULL && round < LAST_ROUNDS; round++) {
        ucp_worker_progress(self->handle);
    }
    cw_worker_drain(self);
    for (int order = 0; order < 3; order++) {
        end_children(self, order);
    }
    ucp_worker_destroy(self->handle);
    self->handle = NULL;
    while (self->pending != NULL) {
        cw_request_finish(self->pending, UCS_ERR_CANCELED);
    }
    cw_worker_drain(self);
    self->ending = false;
    self->context->users--;
    PyDict_Clear(self->handlers);
}

static PyObject *worker_close(Worker *self, PyObject *unused)
{
    (void)unused;
    if (self->handle == NULL || self->ending) {
        Py_RETURN_NONE;
    }
    if (!cw_worker_usable(self)) {
        return NULL;
    }
    if (self->exports > 0) {
        PyErr_SetString(PyExc_BufferError, "views of payloads exist: release them before the worker is closed");
        return NULL;
    }
    end(self); /* Also while run() is under way, which calls Python only when the library has returned. */
    Py_RETURN_NONE;
}

static PyObject *worker_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    Context *context;
    PyObject *loop;
    double patience            = 0;
    ucp_worker_params_t params = {
        .field_mask  = UCP_WORKER_PARAM_FIELD_THREAD_MODE | UCP_WORKER_PARAM_FIELD_FLAGS,
        .thread_mode = UCS_THREAD_MODE_SERIALIZED,
        .flags       = UCP_WORKER_FLAG_IGNORE_REQUEST_LEAK,
    };

    if (keywords != NULL && PyDict_GET_SIZE(keywords) > 0) {
        PyErr_SetString(PyExc_TypeError, "Worker() takes no keywords");
        return NULL;
    }
    if (!PyArg_ParseTuple(args, "O!Od", &cw_context_type, &context, &loop, &patience) || !cw_context_usable(context)) {
        return NULL;
    }
    if (!(patience >= 0 && patience * 1e9 <= MAX_PATIENCE)) {
        PyErr_SetString(PyExc_ValueError, "the time to try progress before sleeping is 0 to 0.01 seconds");
        return NULL;
    }
    Worker *self = (Worker *)type->tp_alloc(type, 0);
    if (self == NULL) {
        return NULL;
    }
    self->done_end    = &self->done;
    self->arrived_end = &self->arrived;
    self->handlers    = PyDict_New();
    self->generation  = cw_generation;
    self->thread      = PyThread_get_thread_ident();
    self->context     = (Context *)Py_NewRef(context);
    self->loop        = Py_NewRef(loop);
    self->patience    = (int64_t)(patience * 1e9);
    if (self->handlers == NULL) {
        Py_DECREF(self);
        return NULL;
    }
    ucs_status_t status = ucp_worker_create(context->handle, &params, &self->handle);
    if (status == UCS_OK) {
        context->users++;
        status = ucp_worker_get_efd(self->handle, &self->fd);
    }
    if (status != UCS_OK) {
        Py_DECREF(self);
        return cw_raise(status, "the worker cannot be made");
    }
    return (PyObject *)self;
}

/* Everything that uses the worker keeps it, so nothing is left here but what the worker itself holds. */
static void worker_dealloc(Worker *self)
{
    if (cw_worker_owned(self)) {
        PyDict_Clear(self->handlers);
        Py_SET_REFCNT((PyObject *)self, 1); /* Messages that are made of what has arrived come and go meanwhile. */
        end(self);
        Py_SET_REFCNT((PyObject *)self, 0);
    }
    Py_CLEAR(self->handlers);
    Py_CLEAR(self->loop);
    Py_CLEAR(self->context);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyObject *get_closed(Worker *self, void *unused)
{
    (void)unused;
    return PyBool_FromLong(self->handle == NULL);
}

static PyObject *get_pending(Worker *self, void *unused)
{
    Py_ssize_t count = 0;

    (void)unused;
    for (const Request *request = self->pending; request != NULL; request = request->next) {
        count++;
    }
    return PyLong_FromSsize_t(count);
}

PyObject *cw_worker_listen(Worker *self, PyObject *args);
PyObject *cw_worker_connect(Worker *self, PyObject *args);

static PyMethodDef methods[] = {
    {"run", (PyCFunction)worker_run, METH_O, "run(direct): progress to the end and arm; False: call again soon."},
    {"fileno", (PyCFunction)worker_fileno, METH_NOARGS, "The descriptor."},
    {"address", (PyCFunction)worker_address, METH_NOARGS, "The address, as bytes."},
    {"waiter", (PyCFunction)cw_request_waiter, METH_NOARGS, "Something to await that Python completes."},
    {"set_handler", (PyCFunction)worker_set_handler, METH_VARARGS, "set_handler(id, callable or None)"},
    {"tag_recv", (PyCFunction)worker_tag_recv, METH_VARARGS, "tag_recv(buffer, tag, mask)"},
    {"tag_probe", (PyCFunction)worker_tag_probe, METH_VARARGS, "tag_probe(tag, mask)"},
    {"flush", (PyCFunction)worker_flush, METH_NOARGS, "Flush all endpoints."},
    {"fence", (PyCFunction)worker_fence, METH_NOARGS, "Order remote memory operations."},
    {"listen", (PyCFunction)cw_worker_listen, METH_VARARGS, "listen(on_client, address)"},
    {"connect", (PyCFunction)cw_worker_connect, METH_VARARGS, "connect(address, on_error)"},
    {"close", (PyCFunction)worker_close, METH_NOARGS, "Close endpoints by force, then the worker."},
    {NULL, NULL, 0, NULL}};

static PyGetSetDef properties[] = {{"closed", (getter)get_closed, NULL, "Whether it is closed.", NULL},
                                   {"pending", (getter)get_pending, NULL, "Operations that are under way.", NULL},
                                   {NULL, NULL, NULL, NULL, NULL}};

PyTypeObject cw_worker_type = {PyVarObject_HEAD_INIT(NULL, 0).tp_name = "causeway._core.Worker",
                               .tp_basicsize                          = sizeof(Worker),
                               .tp_new                                = worker_new,
                               .tp_dealloc                            = (destructor)worker_dealloc,
                               .tp_flags                              = Py_TPFLAGS_DEFAULT,
                               .tp_doc                                = "A worker of UCP.",
                               .tp_methods                            = methods,
                               .tp_getset                             = properties};
