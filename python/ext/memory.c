/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory that peers may reach, and keys to the memory of peers. */
#include "core.h"

PyObject *cw_memory_map(Context *context, PyObject *object)
{
    Buffer buffer;

    if (!cw_context_usable(context) || !cw_buffer_get(object, true, &buffer)) {
        return NULL;
    }
    Memory *self = cw_context_usable(context) ? PyObject_New(Memory, &cw_memory_type) : NULL;
    if (self == NULL) {
        cw_buffer_release(&buffer);
        return NULL;
    }
    self->context               = (Context *)Py_NewRef(context);
    self->handle                = NULL;
    self->view                  = buffer.view;
    self->object                = buffer.object;
    self->address               = (uint64_t)(uintptr_t)buffer.address;
    self->length                = buffer.length;
    ucp_mem_map_params_t params = {
        .field_mask =
            UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH | UCP_MEM_MAP_PARAM_FIELD_MEMORY_TYPE,
        .address     = buffer.address,
        .length      = buffer.length,
        .memory_type = buffer.cuda ? UCS_MEMORY_TYPE_CUDA : UCS_MEMORY_TYPE_HOST,
    };
    ucs_status_t status = ucp_mem_map(context->handle, &params, &self->handle);
    if (status != UCS_OK) {
        self->handle = NULL;
        context->users++; /* Taken back when the object goes. */
        Py_DECREF(self);
        return cw_raise(status, "the memory cannot be mapped");
    }
    context->users++;
    return (PyObject *)self;
}

static void unmap(Memory *self)
{
    if (self->context == NULL) {
        return;
    }
    if (self->handle != NULL && self->context->handle != NULL && self->context->generation == cw_generation) {
        ucp_mem_unmap(self->context->handle, self->handle);
    }
    self->handle = NULL;
    self->context->users--;
    if (self->view.obj != NULL) {
        PyBuffer_Release(&self->view);
    }
    Py_CLEAR(self->object);
    Py_CLEAR(self->context);
}

static PyObject *memory_key(Memory *self, PyObject *unused)
{
    ucp_memh_pack_params_t params            = {.field_mask = 0};
    ucp_memh_buffer_release_params_t release = {.field_mask = 0};
    void *packed;
    size_t length;

    (void)unused;
    if (self->handle == NULL) {
        return cw_raise_closed("the memory is not mapped any more");
    }
    if (!cw_context_usable(self->context)) {
        return NULL;
    }
    ucs_status_t status = ucp_memh_pack(self->handle, &params, &packed, &length);
    if (status != UCS_OK) {
        return cw_raise(status, "the key cannot be packed");
    }
    PyObject *bytes = PyBytes_FromStringAndSize(packed, (Py_ssize_t)length);
    ucp_memh_buffer_release(packed, &release);
    return bytes;
}

static PyObject *memory_close(Memory *self, PyObject *unused)
{
    (void)unused;
    if (self->context != NULL && !cw_context_usable(self->context)) {
        return NULL;
    }
    unmap(self);
    Py_RETURN_NONE;
}

static void memory_dealloc(Memory *self)
{
    unmap(self);
    PyObject_Free(self);
}

static PyObject *get_address(Memory *self, void *unused)
{
    (void)unused;
    return PyLong_FromUnsignedLongLong(self->address);
}

static PyObject *get_length(Memory *self, void *unused)
{
    (void)unused;
    return PyLong_FromSize_t(self->length);
}

static PyObject *memory_repr(Memory *self)
{
    if (self->handle == NULL) {
        return PyUnicode_FromString("<causeway.Memory closed>");
    }
    return PyUnicode_FromFormat("<causeway.Memory of %zu bytes at %p>", self->length,
                                (void *)(uintptr_t)self->address);
}

static PyMethodDef memory_methods[] = {{"key", (PyCFunction)memory_key, METH_NOARGS, "The key for peers, as bytes."},
                                       {"close", (PyCFunction)memory_close, METH_NOARGS, "Unmap."},
                                       {NULL, NULL, 0, NULL}};

static PyGetSetDef memory_properties[] = {{"address", (getter)get_address, NULL, "Of the first byte.", NULL},
                                          {"length", (getter)get_length, NULL, "In bytes.", NULL},
                                          {NULL, NULL, NULL, NULL, NULL}};

PyTypeObject cw_memory_type = {PyVarObject_HEAD_INIT(NULL, 0).tp_name = "causeway._core.Memory",
                               .tp_basicsize                          = sizeof(Memory),
                               .tp_dealloc                            = (destructor)memory_dealloc,
                               .tp_repr                               = (reprfunc)memory_repr,
                               .tp_flags   = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                               .tp_doc     = "Memory that peers may reach.",
                               .tp_methods = memory_methods,
                               .tp_getset  = memory_properties};

/* ---- keys ---- */

static void end_key(Child *child)
{
    RemoteKey *self = (RemoteKey *)((char *)child - offsetof(RemoteKey, child));

    if (self->uses == 0) { /* Else the worker goes with operations that have not ended, and the key stays. */
        ucp_rkey_destroy(self->handle);
    }
    self->handle = NULL;
}

PyObject *cw_key_unpack(Endpoint *endpoint, PyObject *bytes)
{
    if (!PyBytes_Check(bytes)) {
        PyErr_SetString(PyExc_TypeError, "a key is unpacked from bytes");
        return NULL;
    }
    /* The library learns where a key ends from the key itself: the rest are zeros. Nothing but zeros is a key of no
     * memory, which some C programs unpack and never use. */
    size_t length = (size_t)PyBytes_GET_SIZE(bytes), zeros = 0;
    char *copy    = PyMem_Calloc(1, length + 4096);
    if (copy == NULL) {
        return PyErr_NoMemory();
    }
    memcpy(copy, PyBytes_AS_STRING(bytes), length);
    ucp_rkey_h handle;
    while (zeros < length && copy[zeros] == 0) {
        zeros++;
    }
    ucs_status_t status = UCS_ERR_INVALID_PARAM;
    if (zeros < length) {
        status = ucp_ep_rkey_unpack(endpoint->handle, copy, &handle);
    }
    PyMem_Free(copy);
    if (status != UCS_OK) {
        return cw_raise(status, "the remote key cannot be unpacked");
    }
    RemoteKey *self = PyObject_New(RemoteKey, &cw_key_type);
    if (self == NULL) {
        ucp_rkey_destroy(handle);
        return NULL;
    }
    memset((char *)self + sizeof(PyObject), 0, sizeof(*self) - sizeof(PyObject));
    self->endpoint  = (Endpoint *)Py_NewRef(endpoint);
    self->handle    = handle;
    self->child.end = end_key;
    cw_child_add(endpoint->worker, 2, &self->child);
    return (PyObject *)self;
}

static PyObject *key_close(RemoteKey *self, PyObject *unused)
{
    (void)unused;
    if (self->handle == NULL) {
        Py_RETURN_NONE;
    }
    if (!cw_worker_usable(self->endpoint->worker)) {
        return NULL;
    }
    if (self->uses > 0) {
        PyErr_SetString(PyExc_RuntimeError, "operations use the remote key");
        return NULL;
    }
    cw_child_remove(&self->child);
    end_key(&self->child);
    Py_RETURN_NONE;
}

static void key_dealloc(RemoteKey *self)
{
    if (self->handle != NULL && cw_worker_owned(self->endpoint->worker)) {
        cw_child_remove(&self->child);
        end_key(&self->child);
    }
    Py_CLEAR(self->endpoint);
    PyObject_Free(self);
}

static PyObject *key_repr(RemoteKey *self)
{
    return PyUnicode_FromFormat("<causeway.RemoteKey%s>", self->handle == NULL ? " closed" : "");
}

static PyMethodDef key_methods[] = {{"close", (PyCFunction)key_close, METH_NOARGS, "Destroy the key."},
                                    {NULL, NULL, 0, NULL}};

PyTypeObject cw_key_type = {PyVarObject_HEAD_INIT(NULL, 0).tp_name = "causeway._core.RemoteKey",
                            .tp_basicsize                          = sizeof(RemoteKey),
                            .tp_dealloc                            = (destructor)key_dealloc,
                            .tp_repr                               = (reprfunc)key_repr,
                            .tp_flags   = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                            .tp_doc     = "The right to reach memory of a peer.",
                            .tp_methods = key_methods};
