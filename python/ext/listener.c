/* SPDX-License-Identifier: BSD-3-Clause */
/* Listeners, and the clients that they report, each of which is accepted or rejected exactly once. */
#include "core.h"

static void on_client(ucp_conn_request_h handle, void *arg)
{
    Listener *listener = arg;
    Arrival *arrival   = calloc(1, sizeof(*arrival));

    if (arrival == NULL) {
        ucp_listener_reject(listener->handle, handle);
        return;
    }
    arrival->kind   = ARRIVAL_CLIENT;
    arrival->client = handle;
    arrival->owner  = Py_NewRef(listener);
    cw_worker_called(listener->worker, arrival);
}

static void end_listener(Child *child)
{
    Listener *self = (Listener *)((char *)child - offsetof(Listener, child));

    ucp_listener_destroy(self->handle);
    self->handle = NULL;
}

PyObject *cw_worker_listen(Worker *worker, PyObject *args)
{
    PyObject *callable, *address;
    struct sockaddr_storage storage;
    socklen_t length;

    if (!PyArg_ParseTuple(args, "OO", &callable, &address) || !cw_address_of(address, &storage, &length) ||
        !cw_worker_usable(worker)) {
        return NULL;
    }
    Listener *self = PyObject_New(Listener, &cw_listener_type);
    if (self == NULL) {
        return NULL;
    }
    memset((char *)self + sizeof(PyObject), 0, sizeof(*self) - sizeof(PyObject));
    self->worker                 = (Worker *)Py_NewRef(worker);
    self->on_client              = Py_NewRef(callable);
    ucp_listener_params_t params = {
        .field_mask   = UCP_LISTENER_PARAM_FIELD_SOCK_ADDR | UCP_LISTENER_PARAM_FIELD_CONN_HANDLER,
        .sockaddr     = {.addr = (struct sockaddr *)&storage, .addrlen = length},
        .conn_handler = {.cb = on_client, .arg = self},
    };
    ucs_status_t status = ucp_listener_create(worker->handle, &params, &self->handle);
    if (status != UCS_OK) {
        self->handle = NULL;
        Py_DECREF(self);
        return cw_raise(status, "the listener cannot be made");
    }
    self->child.end = end_listener;
    cw_child_add(worker, 0, &self->child);
    return (PyObject *)self;
}

static PyObject *listener_address(Listener *self, PyObject *unused)
{
    ucp_listener_attr_t attr = {.field_mask = UCP_LISTENER_ATTR_FIELD_SOCKADDR};

    (void)unused;
    if (!cw_worker_usable(self->worker)) {
        return NULL;
    }
    if (self->handle == NULL) {
        return cw_raise_closed("the listener is closed");
    }
    ucs_status_t status = ucp_listener_query(self->handle, &attr);
    return status == UCS_OK ? cw_address_tuple(&attr.sockaddr) : cw_raise(status, "the listener has no address");
}

static void listener_end_early(Listener *self)
{
    if (self->handle != NULL && cw_worker_owned(self->worker)) {
        cw_child_remove(&self->child);
        end_listener(&self->child);
    }
}

static PyObject *listener_close(Listener *self, PyObject *unused)
{
    (void)unused;
    if (self->handle != NULL && !cw_worker_usable(self->worker)) {
        return NULL;
    }
    listener_end_early(self);
    Py_RETURN_NONE;
}

static void listener_dealloc(Listener *self)
{
    listener_end_early(self);
    Py_CLEAR(self->on_client);
    Py_CLEAR(self->worker);
    PyObject_Free(self);
}

static PyMethodDef listener_methods[] = {{"address", (PyCFunction)listener_address, METH_NOARGS, "(host, port)"},
                                         {"close", (PyCFunction)listener_close, METH_NOARGS, "Stop listening."},
                                         {NULL, NULL, 0, NULL}};

PyTypeObject cw_listener_type = {PyVarObject_HEAD_INIT(NULL, 0).tp_name = "causeway._core.Listener",
                                 .tp_basicsize                          = sizeof(Listener),
                                 .tp_dealloc                            = (destructor)listener_dealloc,
                                 .tp_flags   = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                 .tp_doc     = "A listener.",
                                 .tp_methods = listener_methods};

/* ---- clients ---- */

/* What is not decided when the listener has gone is accepted and closed by force, since nothing else takes it. */
static void end_client(Child *child)
{
    Client *self             = (Client *)((char *)child - offsetof(Client, child));
    ucp_conn_request_h taken = self->handle;

    self->handle = NULL;
    if (self->listener->handle != NULL) {
        ucp_listener_reject(self->listener->handle, taken);
        return;
    }
    ucp_ep_params_t params    = {.field_mask   = UCP_EP_PARAM_FIELD_CONN_REQUEST | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE,
                                 .conn_request = taken,
                                 .err_mode     = UCP_ERR_HANDLING_MODE_PEER};
    ucp_request_param_t force = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS, .flags = UCP_EP_CLOSE_FLAG_FORCE};
    ucp_ep_h ep;
    if (ucp_ep_create(self->listener->worker->handle, &params, &ep) == UCS_OK) {
        ucs_status_ptr_t closing = ucp_ep_close_nbx(ep, &force);
        if (UCS_PTR_IS_PTR(closing)) {
            ucp_request_free(closing);
        }
    }
}

PyObject *cw_client_new(Listener *listener, ucp_conn_request_h handle)
{
    Client *self = PyObject_New(Client, &cw_client_type);

    if (self == NULL) {
        if (listener->handle != NULL) {
            ucp_listener_reject(listener->handle, handle);
        }
        return NULL;
    }
    memset((char *)self + sizeof(PyObject), 0, sizeof(*self) - sizeof(PyObject));
    self->listener  = (Listener *)Py_NewRef(listener);
    self->handle    = handle;
    self->child.end = end_client;
    cw_child_add(listener->worker, 0, &self->child);
    return (PyObject *)self;
}

static bool client_usable(const Client *self)
{
    if (!cw_worker_usable(self->listener->worker)) {
        return false;
    }
    if (self->handle == NULL) {
        cw_raise_closed("the client was accepted or rejected before");
        return false;
    }
    return true;
}

static PyObject *client_address(Client *self, PyObject *unused)
{
    ucp_conn_request_attr_t attr = {.field_mask = UCP_CONN_REQUEST_ATTR_FIELD_CLIENT_ADDR};

    (void)unused;
    if (!client_usable(self)) {
        return NULL;
    }
    ucs_status_t status = ucp_conn_request_query(self->handle, &attr);
    return status == UCS_OK ? cw_address_tuple(&attr.client_address) : cw_raise(status, "the client has no address");
}

static PyObject *client_accept(Client *self, PyObject *on_error)
{
    if (!client_usable(self)) {
        return NULL;
    }
    ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_CONN_REQUEST, .conn_request = self->handle};
    self->handle           = NULL;
    cw_child_remove(&self->child);
    return cw_endpoint_new(self->listener->worker, &params, on_error);
}

static PyObject *client_reject(Client *self, PyObject *unused)
{
    (void)unused;
    if (!client_usable(self)) {
        return NULL;
    }
    cw_child_remove(&self->child);
    end_client(&self->child);
    Py_RETURN_NONE;
}

static void client_dealloc(Client *self)
{
    if (self->handle != NULL && cw_worker_owned(self->listener->worker)) {
        cw_child_remove(&self->child);
        end_client(&self->child);
    }
    Py_CLEAR(self->listener);
    PyObject_Free(self);
}

static PyMethodDef client_methods[] = {{"address", (PyCFunction)client_address, METH_NOARGS, "(host, port)"},
                                       {"accept", (PyCFunction)client_accept, METH_O, "accept(on_error)"},
                                       {"reject", (PyCFunction)client_reject, METH_NOARGS, "Decline the client."},
                                       {NULL, NULL, 0, NULL}};

PyTypeObject cw_client_type = {PyVarObject_HEAD_INIT(NULL, 0).tp_name = "causeway._core.Client",
                               .tp_basicsize                          = sizeof(Client),
                               .tp_dealloc                            = (destructor)client_dealloc,
                               .tp_flags   = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                               .tp_doc     = "A client that asks for a connection.",
                               .tp_methods = client_methods};
