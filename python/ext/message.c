/* SPDX-License-Identifier: BSD-3-Clause */
/* Active messages that have arrived. A payload that came whole is lent by the buffer protocol, read-only. */
#include "core.h"

static void end_message(Child *child)
{
    Message *self = (Message *)((char *)child - offsetof(Message, child));

    if (self->data != NULL) {
        ucp_am_data_release(self->worker->handle, self->data);
        self->data = NULL;
    }
}

PyObject *cw_message_new(Worker *worker, Arrival *arrival)
{
    Message *self = PyObject_New(Message, &cw_message_type);

    if (self == NULL) {
        if (arrival->data != NULL) {
            ucp_am_data_release(worker->handle, arrival->data);
        }
        Py_XDECREF(arrival->owner);
        return NULL;
    }
    memset((char *)self + sizeof(PyObject), 0, sizeof(*self) - sizeof(PyObject));
    self->worker     = (Worker *)Py_NewRef(worker);
    self->data       = arrival->data;
    self->length     = arrival->length;
    self->rendezvous = arrival->rendezvous;
    self->child.end  = end_message;
    cw_child_add(worker, 1, &self->child);
    self->header   = PyBytes_FromStringAndSize(arrival->header, (Py_ssize_t)arrival->header_length);
    self->endpoint = arrival->owner != NULL ? arrival->owner : Py_NewRef(Py_None);
    if (self->header == NULL) {
        Py_DECREF(self);
        return NULL;
    }
    return (PyObject *)self;
}

static PyObject *message_recv(Message *self, PyObject *buffer)
{
    ucp_request_param_t param;

    if (!cw_worker_usable(self->worker)) {
        return NULL;
    }
    if (!self->rendezvous) {
        return cw_raise_closed("the payload is here already");
    }
    Request *request = cw_request_new(self->worker, RESULT_LENGTH, buffer, true, &param);
    if (request == NULL) {
        return NULL;
    }
    if (self->data == NULL) { /* Also by what the buffer runs when it is checked. */
        Py_DECREF(request);
        return cw_raise_closed("the payload was fetched before");
    }
    if (request->buffer.length < self->length) {
        Py_DECREF(request);
        PyErr_Format(PyExc_ValueError, "the buffer is smaller than the payload of %zu bytes", self->length);
        return NULL;
    }
    void *data = self->data;
    self->data = NULL;
    cw_child_remove(&self->child);
    return cw_request_posted(
        request, ucp_am_recv_data_nbx(self->worker->handle, data, request->buffer.address, self->length, &param),
        "the payload of the active message cannot be fetched");
}

static PyObject *message_release(Message *self, PyObject *unused)
{
    (void)unused;
    if (self->data != NULL && !cw_worker_usable(self->worker)) {
        return NULL;
    }
    if (self->exports > 0) {
        PyErr_SetString(PyExc_BufferError, "views of the payload exist");
        return NULL;
    }
    cw_child_remove(&self->child);
    end_message(&self->child);
    Py_RETURN_NONE;
}

static int message_view(Message *self, Py_buffer *view, int flags)
{
    view->obj = NULL;
    if (!cw_worker_usable(self->worker)) {
        return -1;
    }
    if (self->rendezvous || (self->data == NULL && self->length > 0)) {
        PyErr_SetString(PyExc_BufferError, self->rendezvous ? "the payload has to be fetched into a buffer first"
                                                            : "the payload was given back");
        return -1;
    }
    void *data = self->data != NULL ? self->data : PyBytes_AS_STRING(self->header);
    if (PyBuffer_FillInfo(view, (PyObject *)self, data, (Py_ssize_t)self->length, 1, flags) != 0) {
        return -1;
    }
    self->exports++;
    self->worker->exports++;
    return 0;
}

static void message_view_end(Message *self, Py_buffer *view)
{
    (void)view;
    self->exports--;
    self->worker->exports--;
}

static void message_dealloc(Message *self)
{
    if (cw_worker_owned(self->worker)) {
        cw_child_remove(&self->child);
        end_message(&self->child);
    }
    Py_CLEAR(self->header);
    Py_CLEAR(self->endpoint);
    Py_CLEAR(self->worker);
    PyObject_Free(self);
}

static PyObject *get_header(Message *self, void *unused)
{
    (void)unused;
    return Py_NewRef(self->header);
}

static PyObject *get_endpoint(Message *self, void *unused)
{
    (void)unused;
    return Py_NewRef(self->endpoint);
}

static PyObject *get_length(Message *self, void *unused)
{
    (void)unused;
    return PyLong_FromSize_t(self->length);
}

static PyObject *get_rendezvous(Message *self, void *unused)
{
    (void)unused;
    return PyBool_FromLong(self->rendezvous);
}

static PyMethodDef methods[] = {
    {"recv", (PyCFunction)message_recv, METH_O, "recv(buffer): fetch the payload of an announced message."},
    {"release", (PyCFunction)message_release, METH_NOARGS, "Give the payload back."},
    {NULL, NULL, 0, NULL}};

static PyGetSetDef properties[] = {
    {"header", (getter)get_header, NULL, "The header, as bytes.", NULL},
    {"endpoint", (getter)get_endpoint, NULL, "To the sender, or None.", NULL},
    {"length", (getter)get_length, NULL, "Bytes of the payload.", NULL},
    {"rendezvous", (getter)get_rendezvous, NULL, "Whether the payload has to be fetched.", NULL},
    {NULL, NULL, NULL, NULL, NULL}};

static PyBufferProcs as_buffer = {(getbufferproc)message_view, (releasebufferproc)message_view_end};

PyTypeObject cw_message_type = {PyVarObject_HEAD_INIT(NULL, 0).tp_name = "causeway._core.Message",
                                .tp_basicsize                          = sizeof(Message),
                                .tp_dealloc                            = (destructor)message_dealloc,
                                .tp_flags     = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                .tp_doc       = "An active message that has arrived.",
                                .tp_as_buffer = &as_buffer,
                                .tp_methods   = methods,
                                .tp_getset    = properties};
