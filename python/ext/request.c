/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests. One that is posted is kept alive by itself, with the buffer that it uses, until it is complete; its future
 * is told by cw_worker_drain(). The library's request is given back there.
 */
#include "core.h"

void cw_request_finish(Request *request, ucs_status_t status)
{
    Worker *worker = request->worker;

    request->status = status;
    request->done   = true;
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

static PyObject *result_of(const Request *request, const char *what)
{
    if (request->status != UCS_OK) {
        return cw_raise(request->status, what);
    }
    switch (request->kind) {
    case RESULT_LENGTH:
        return PyLong_FromSize_t(request->info.length);
    case RESULT_TAG:
        return Py_BuildValue("(nK)", (Py_ssize_t)request->info.length, (unsigned long long)request->info.sender_tag);
    case RESULT_OLD:
        return PyLong_FromUnsignedLongLong(request->width == 4 ? (uint32_t)request->old : request->old);
    default:
        Py_RETURN_NONE;
    }
}

/* Takes the reference to the request over: a result, an exception, or the request itself. */
PyObject *cw_request_posted(Request *request, ucs_status_ptr_t pointer, const char *what)
{
    Worker *worker = request->worker;
    PyObject *answer;

    if (UCS_PTR_IS_PTR(pointer) && !request->done) {
        request->handle = pointer;
        request->posted = true;
        request->next   = worker->pending;
        request->link   = &worker->pending;
        if (request->next != NULL) {
            request->next->link = &request->next;
        }
        worker->pending = request;
        cw_worker_nudge(worker);
        return Py_NewRef(request); /* One reference is the list's. */
    }
    if (UCS_PTR_IS_PTR(pointer)) {
        ucp_request_free(pointer);
    } else {
        request->status = UCS_PTR_STATUS(pointer);
        request->done   = true;
    }
    cw_worker_nudge(worker);
    release(request);
    answer = result_of(request, what);
    Py_DECREF(request);
    return answer;
}

/* The caller has taken it out of the list of the done, whose reference ends here. */
void cw_request_settle(Request *request)
{
    PyObject *future = request->future;

    if (request->handle != NULL && request->worker->handle != NULL) {
        ucp_request_free(request->handle);
    }
    request->handle = NULL;
    release(request);
    request->future = NULL;
    if (future != NULL) {
        PyObject *is_done = PyObject_CallMethod(future, "done", NULL);
        PyObject *told    = is_done == Py_False ? PyObject_CallMethod(future, "set_result", "O", Py_None) : NULL;
        if (is_done == NULL || (is_done == Py_False && told == NULL)) {
            PyErr_WriteUnraisable(future);
        }
        Py_XDECREF(is_done);
        Py_XDECREF(told);
        Py_DECREF(future);
    }
    Py_DECREF(request);
}

static PyObject *request_result(Request *self, PyObject *unused)
{
    (void)unused;
    if (!self->done || self->buffer.view.obj != NULL) {
        PyErr_SetString(PyExc_RuntimeError, "the operation is not complete");
        return NULL;
    }
    return result_of(self, "the operation failed");
}

static PyObject *request_cancel(Request *self, PyObject *unused)
{
    (void)unused;
    if (!cw_worker_usable(self->worker)) {
        return NULL;
    }
    if (!self->done) {
        ucp_request_cancel(self->worker->handle, self->handle);
        cw_worker_nudge(self->worker);
    }
    Py_RETURN_NONE;
}

static PyObject *get_done(Request *self, void *unused)
{
    (void)unused;
    return PyBool_FromLong(self->done && self->handle == NULL);
}

static int set_future(Request *self, PyObject *value, void *unused)
{
    (void)unused;
    if (self->done && self->handle == NULL) {
        PyErr_SetString(PyExc_RuntimeError, "the operation is complete already");
        return -1;
    }
    Py_XSETREF(self->future, Py_XNewRef(value));
    return 0;
}

static void request_dealloc(Request *self)
{
    release(self);
    Py_CLEAR(self->future);
    Py_CLEAR(self->worker);
    PyObject_Free(self);
}

static PyMethodDef methods[] = {
    {"result", (PyCFunction)request_result, METH_NOARGS, "What the operation gave; raises what it failed with."},
    {"cancel", (PyCFunction)request_cancel, METH_NOARGS, "Cancel it if that can be done."},
    {NULL, NULL, 0, NULL}};

static PyGetSetDef properties[] = {
    {"done", (getter)get_done, NULL, "Whether it is complete and its buffer is free.", NULL},
    {"future", NULL, (setter)set_future, "The future that is told at completion.", NULL},
    {NULL, NULL, NULL, NULL, NULL}};

PyTypeObject cw_request_type = {PyVarObject_HEAD_INIT(NULL, 0).tp_name = "causeway._core.Request",
                                .tp_basicsize                          = sizeof(Request),
                                .tp_dealloc                            = (destructor)request_dealloc,
                                .tp_flags   = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                .tp_doc     = "An operation that is under way.",
                                .tp_methods = methods,
                                .tp_getset  = properties};
