/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests. One that is posted is kept alive by itself, with the buffer that it uses, until it is complete; the task
 * that awaits it is woken by cw_worker_drain(). The library's request is given back there.
 *
 * A request is what asyncio calls a future-like object: a task that awaits it calls add_done_callback() with what makes
 * its next step. Where no task is under way (in a callback of the event loop) that step is made at once, which spares
 * a turn of the loop and its system call; elsewhere it is handed to call_soon().
 */
#include "core.h"

/* The endpoint is kept, since only it knows the reason. */
static void note_status(Request *request, ucs_status_t status)
{
    request->status = status;
    request->done   = true;
    if (status != UCS_OK && request->ep != NULL) {
        request->endpoint = (Endpoint *)Py_XNewRef((PyObject *)cw_endpoint_find(request->worker, request->ep));
    }
}

void cw_request_finish(Request *request, ucs_status_t status)
{
    Worker *worker = request->worker;

    note_status(request, status);
    if (request->posted) { /* Else the callback runs inside the call that posts it. */
        *request->link = request->next;
        if (request->next != NULL) {
            request->next->link = request->link;
        }
        request->next     = NULL;
        *worker->done_end = request;
        worker->done_end  = &request->next;
    }
}

static void on_send(void *handle, ucs_status_t status, void *user_data)
{
    (void)handle;
    cw_request_finish(user_data, status);
}

static void on_tag(void *handle, ucs_status_t status, const ucp_tag_recv_info_t *info, void *user_data)
{
    (void)handle;
    ((Request *)user_data)->info = *info;
    cw_request_finish(user_data, status);
}

static void on_length(void *handle, ucs_status_t status, size_t length, void *user_data)
{
    (void)handle;
    ((Request *)user_data)->info.length = length;
    cw_request_finish(user_data, status);
}

Request *cw_request_new(Worker *worker, enum result kind, PyObject *buffer, bool writable, ucp_request_param_t *param)
{
    Request *request = PyObject_New(Request, &cw_request_type);

    if (request == NULL) {
        return NULL;
    }
    memset((char *)request + sizeof(PyObject), 0, sizeof(*request) - sizeof(PyObject));
    request->worker = (Worker *)Py_NewRef(worker);
    request->kind   = kind;
    if (buffer != NULL && !cw_buffer_get(buffer, writable, &request->buffer)) {
        Py_DECREF(request);
        return NULL;
    }
    /* A getter of the buffer is foreign code, which may have closed the worker. */
    if (buffer != NULL && !cw_worker_usable(worker)) {
        Py_DECREF(request);
        return NULL;
    }
    memset(param, 0, sizeof(*param));
    param->op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS;
    param->user_data    = request;
    param->cb.send      = on_send;
    if (kind == RESULT_TAG) {
        param->op_attr_mask |= UCP_OP_ATTR_FIELD_RECV_INFO;
        param->cb.recv            = on_tag;
        param->recv_info.tag_info = &request->info;
    } else if (kind == RESULT_LENGTH) {
        param->op_attr_mask |= UCP_OP_ATTR_FIELD_RECV_INFO;
        param->cb.recv_am       = on_length;
        param->recv_info.length = &request->info.length;
    }
    if (request->buffer.cuda || buffer != NULL) {
        param->op_attr_mask |= UCP_OP_ATTR_FIELD_MEMORY_TYPE;
        param->memory_type = request->buffer.cuda ? UCS_MEMORY_TYPE_CUDA : UCS_MEMORY_TYPE_HOST;
    }
    return request;
}

static void release(Request *request)
{
    cw_buffer_release(&request->buffer);
    if (request->key != NULL) {
        request->key->uses--;
        Py_CLEAR(request->key);
    }
}

static PyObject *result_of(const Request *request)
{
    if (request->status != UCS_OK) {
        const char *reason =
            request->endpoint != NULL ? cw_endpoint_reason(request->endpoint, request->status) : NULL;
        reason = reason == NULL && !request->posted ? cw_log_said() : reason;
        return cw_raise_reason(request->status, request->what, reason);
    }
    switch (request->kind) {
    case RESULT_LENGTH:
        return PyLong_FromSize_t(request->info.length);
    case RESULT_TAG:
        return Py_BuildValue("(nK)", (Py_ssize_t)request->info.length, (unsigned long long)request->info.sender_tag);
    case RESULT_OLD:
        return PyLong_FromUnsignedLongLong(request->width == 4 ? (uint32_t)request->old : request->old);
    case RESULT_VALUE:
        if (PyExceptionInstance_Check(request->value)) {
            PyErr_SetObject((PyObject *)Py_TYPE(request->value), request->value);
            return NULL;
        }
        return Py_NewRef(request->value);
    default:
        Py_RETURN_NONE;
    }
}

/* Takes the reference to the request over: a result, an exception, or the request itself. */
PyObject *cw_request_posted(Request *request, ucs_status_ptr_t pointer, const char *what)
{
    Worker *worker = request->worker;
    PyObject *answer;

    request->what = what;
    if (UCS_PTR_IS_PTR(pointer) && !request->done) {
        request->handle = pointer;
        request->posted = true;
        request->next   = worker->pending;
        request->link   = &worker->pending;
        if (request->next != NULL) {
            request->next->link = &request->next;
        }
        worker->pending = request;
        worker->posted++;
        cw_worker_nudge(worker);
        return Py_NewRef(request); /* One reference is the list's. */
    }
    if (UCS_PTR_IS_PTR(pointer)) {
        ucp_request_free(pointer);
    } else {
        note_status(request, UCS_PTR_STATUS(pointer));
    }
    cw_worker_nudge(worker);
    release(request);
    answer = result_of(request);
    Py_DECREF(request);
    return answer;
}

static void wake_soon(Request *request, PyObject *callback, PyObject *context)
{
    PyObject *method   = PyObject_GetAttrString(request->worker->loop, "call_soon");
    PyObject *args     = method != NULL ? PyTuple_Pack(2, callback, request) : NULL;
    PyObject *keywords = args != NULL && context != NULL ? Py_BuildValue("{sO}", "context", context) : NULL;
    PyObject *handle   = NULL;

    if (args != NULL && (context == NULL || keywords != NULL)) {
        handle = PyObject_Call(method, args, keywords);
    }
    if (handle == NULL) {
        PyErr_WriteUnraisable(callback);
    }
    Py_XDECREF(handle);
    Py_XDECREF(keywords);
    Py_XDECREF(args);
    Py_XDECREF(method);
}

/* False: a step of the task raised what ends the program, and the exception is set. */
static bool wake(Request *request, bool direct)
{
    PyObject *callback = request->callback, *context = request->context;
    bool good = true;

    request->worker->called++;

    request->callback = NULL;
    request->context  = NULL;
    if (callback == NULL) {
        return true;
    }
    if (!direct || context == NULL || PyContext_Enter(context) != 0) {
        PyErr_Clear();
        wake_soon(request, callback, context);
    } else {
        PyObject *answer = PyObject_CallOneArg(callback, (PyObject *)request);
        if (answer == NULL) { /* As the event loop does it with its callbacks. */
            good = !PyErr_ExceptionMatches(PyExc_SystemExit) && !PyErr_ExceptionMatches(PyExc_KeyboardInterrupt);
            if (good) {
                PyErr_WriteUnraisable(callback);
            }
        }
        Py_XDECREF(answer);
        PyObject *type, *value, *trace;
        PyErr_Fetch(&type, &value, &trace);
        if (PyContext_Exit(context) != 0) {
            PyErr_WriteUnraisable(callback);
        }
        PyErr_Restore(type, value, trace);
    }
    Py_XDECREF(context);
    Py_DECREF(callback);
    return good;
}

/* The caller has taken it out of the list of the done, whose reference ends here. False: as wake(). */
bool cw_request_settle(Request *request)
{
    if (request->handle != NULL && request->worker->handle != NULL) {
        ucp_request_free(request->handle);
    }
    request->handle = NULL;
    release(request);
    bool good = wake(request, request->worker->direct);
    Py_DECREF(request);
    return good;
}

static bool settled(const Request *request)
{
    return request->done && request->handle == NULL;
}

static PyObject *request_result(Request *self, PyObject *unused)
{
    (void)unused;
    if (!settled(self)) {
        PyErr_SetString(PyExc_RuntimeError, "the operation is not complete");
        return NULL;
    }
    if (self->cancelled) {
        PyObject *module = PyImport_ImportModule("asyncio");
        PyObject *class  = module != NULL ? PyObject_GetAttrString(module, "CancelledError") : NULL;
        if (class != NULL) {
            PyErr_SetObject(class, self->message);
        }
        Py_XDECREF(class);
        Py_XDECREF(module);
        return NULL;
    }
    return result_of(self);
}

/* One that Python completes, by set(). */
PyObject *cw_request_waiter(Worker *worker, PyObject *unused)
{
    ucp_request_param_t param;

    (void)unused;
    if (!cw_worker_usable(worker)) {
        return NULL;
    }
    worker->posted++;
    return (PyObject *)cw_request_new(worker, RESULT_VALUE, NULL, false, &param);
}

static PyObject *request_set(Request *self, PyObject *value)
{
    Worker *worker = self->worker;

    if (self->kind != RESULT_VALUE || self->done) {
        PyErr_SetString(PyExc_RuntimeError, "this operation completes by itself, or is complete");
        return NULL;
    }
    self->value = Py_NewRef(value);
    self->done  = true;
    if (worker->direct) { /* Below cw_worker_drain(), which goes on with this one. */
        *worker->done_end = (Request *)Py_NewRef(self);
        worker->done_end  = &self->next;
    } else {
        wake(self, false);
    }
    Py_RETURN_NONE;
}

static PyObject *get_value(Request *self, void *unused)
{
    (void)unused;
    return Py_NewRef(self->value != NULL ? self->value : Py_None);
}

/* What a task calls when it is cancelled. It goes on, with CancelledError, when the library has left the buffer. */
static PyObject *request_cancel(Request *self, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"msg", NULL};
    PyObject *message    = NULL;

    if (!PyArg_ParseTupleAndKeywords(args, keywords, "|O", names, &message)) {
        return NULL;
    }
    if (settled(self)) {
        Py_RETURN_FALSE;
    }
    if (!self->cancelled) {
        self->cancelled = true;
        Py_XSETREF(self->message, message == Py_None ? NULL : Py_XNewRef(message));
        if (self->kind == RESULT_VALUE) {
            self->done = true;
            wake(self, false);
        } else if (!self->done) {
            if (!cw_worker_usable(self->worker)) {
                self->cancelled = false;
                return NULL;
            }
            ucp_request_cancel(self->worker->handle, self->handle);
            cw_worker_nudge(self->worker);
        }
    }
    Py_RETURN_TRUE;
}

static PyObject *request_add_done_callback(Request *self, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"callback", "context", NULL};
    PyObject *callback, *context = NULL;

    if (!PyArg_ParseTupleAndKeywords(args, keywords, "O|$O", names, &callback, &context)) {
        return NULL;
    }
    context = context == Py_None ? NULL : context;
    if (settled(self)) {
        wake_soon(self, callback, context);
    } else if (self->callback != NULL) {
        PyErr_SetString(PyExc_RuntimeError, "the operation is awaited already");
        return NULL;
    } else {
        self->callback = Py_NewRef(callback);
        self->context  = Py_XNewRef(context);
    }
    Py_RETURN_NONE;
}

static PyObject *request_get_loop(Request *self, PyObject *unused)
{
    (void)unused;
    return Py_NewRef(self->worker->loop);
}

static PySendResult request_send(PyObject *object, PyObject *value, PyObject **result)
{
    Request *self = (Request *)object;

    (void)value;
    if (!settled(self)) {
        if (self->blocking) {
            PyErr_SetString(PyExc_RuntimeError, "the operation was not awaited by a task of asyncio");
            *result = NULL;
            return PYGEN_ERROR;
        }
        self->blocking = true;
        *result        = Py_NewRef(object);
        return PYGEN_NEXT;
    }
    *result = request_result(self, NULL);
    return *result != NULL ? PYGEN_RETURN : PYGEN_ERROR;
}

static PyObject *request_next(PyObject *self)
{
    PyObject *result;

    if (request_send(self, Py_None, &result) == PYGEN_RETURN) {
        PyObject *stop = PyObject_CallOneArg(PyExc_StopIteration, result);
        if (stop != NULL) {
            PyErr_SetObject(PyExc_StopIteration, stop);
        }
        Py_XDECREF(stop);
        Py_CLEAR(result);
    }
    return result;
}

static PyObject *request_await(PyObject *self)
{
    return Py_NewRef(self);
}

static PyObject *get_done(Request *self, void *unused)
{
    (void)unused;
    return PyBool_FromLong(settled(self));
}

static PyObject *get_blocking(Request *self, void *unused)
{
    (void)unused;
    return PyBool_FromLong(self->blocking);
}

static int set_blocking(Request *self, PyObject *value, void *unused)
{
    int truth = value != NULL ? PyObject_IsTrue(value) : 0;

    (void)unused;
    if (truth < 0) {
        return -1;
    }
    self->blocking = truth != 0;
    return 0;
}

static void request_dealloc(Request *self)
{
    release(self);
    Py_CLEAR(self->endpoint);
    Py_CLEAR(self->callback);
    Py_CLEAR(self->context);
    Py_CLEAR(self->message);
    Py_CLEAR(self->value);
    Py_CLEAR(self->worker);
    PyObject_Free(self);
}

static PyMethodDef methods[] = {
    {"result", (PyCFunction)request_result, METH_NOARGS, "What the operation gave; raises what it failed with."},
    {"cancel", (PyCFunction)request_cancel, METH_VARARGS | METH_KEYWORDS, "Cancel it if that can be done."},
    {"add_done_callback", (PyCFunction)request_add_done_callback, METH_VARARGS | METH_KEYWORDS, "For tasks."},
    {"set", (PyCFunction)request_set, METH_O, "Complete one of Worker.waiter(): with a result or an exception."},
    {"get_loop", (PyCFunction)request_get_loop, METH_NOARGS, "The event loop of the worker."},
    {NULL, NULL, 0, NULL}};

static PyGetSetDef properties[] = {
    {"done", (getter)get_done, NULL, "Whether it is complete and its buffer is free.", NULL},
    {"value", (getter)get_value, NULL, "What set() was given, or None.", NULL},
    {"_asyncio_future_blocking", (getter)get_blocking, (setter)set_blocking, "For tasks.", NULL},
    {NULL, NULL, NULL, NULL, NULL}};

static PyAsyncMethods async_methods = {.am_await = request_await, .am_send = request_send};

PyTypeObject cw_request_type = {PyVarObject_HEAD_INIT(NULL, 0).tp_name = "causeway._core.Request",
                                .tp_basicsize                          = sizeof(Request),
                                .tp_dealloc                            = (destructor)request_dealloc,
                                .tp_as_async                           = &async_methods,
                                .tp_iter                               = PyObject_SelfIter,
                                .tp_iternext                           = request_next,
                                .tp_flags   = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                .tp_doc     = "An operation that is under way, for one task to await.",
                                .tp_methods = methods,
                                .tp_getset  = properties};
