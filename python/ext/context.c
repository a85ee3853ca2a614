/* SPDX-License-Identifier: BSD-3-Clause */
/* Contexts. */
#include "core.h"

bool cw_context_usable(const Context *context)
{
    cw_log_forget();
    if (context->generation != cw_generation) {
        cw_raise_forked();
    } else if (context->handle == NULL) {
        cw_raise_closed("the context is closed");
    } else {
        return true;
    }
    return false;
}

/* Settings of a dict into a configuration; false with an exception. */
static bool configure(PyObject *settings, ucp_config_t *config)
{
    PyObject *name, *value;
    Py_ssize_t at = 0;

    while (settings != NULL && settings != Py_None && PyDict_Next(settings, &at, &name, &value)) {
        const char *name_text  = PyUnicode_AsUTF8(name);
        const char *value_text = name_text != NULL ? PyUnicode_AsUTF8(value) : NULL;
        if (value_text == NULL) {
            return false;
        }
        ucs_status_t status = ucp_config_modify(config, name_text, value_text);
        if (status != UCS_OK) {
            cw_raise(status, "a setting has a value that it cannot have");
            return false;
        }
    }
    return true;
}

static PyObject *context_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"features", "settings", "name", NULL};
    uint64_t features;
    PyObject *settings   = NULL;
    const char *name     = "python";
    ucp_config_t *config = NULL;

    if (!PyArg_ParseTupleAndKeywords(args, keywords, "O&|Oz", names, cw_to_uint64, &features, &settings, &name)) {
        return NULL;
    }
    if (settings != NULL && settings != Py_None && !PyDict_Check(settings)) {
        PyErr_SetString(PyExc_TypeError, "settings must be a dict of str to str");
        return NULL;
    }
    cw_log_forget();
    Context *self = (Context *)type->tp_alloc(type, 0);
    if (self == NULL) {
        return NULL;
    }
    self->generation    = cw_generation;
    ucp_params_t params = {.field_mask        = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_MT_WORKERS_SHARED,
                           .features          = features | UCP_FEATURE_WAKEUP,
                           .mt_workers_shared = 1};
    if (name != NULL) {
        params.field_mask |= UCP_PARAM_FIELD_NAME;
        params.name = name;
    }
    ucs_status_t status = ucp_config_read(NULL, NULL, &config);
    bool configured     = status == UCS_OK && configure(settings, config);
    if (configured) {
        status = ucp_init(&params, config, &self->handle);
    }
    if (config != NULL) {
        ucp_config_release(config);
    }
    if (status != UCS_OK || !configured) {
        Py_DECREF(self);
        return PyErr_Occurred() ? NULL : cw_raise(status, "the context cannot be made");
    }
    return (PyObject *)self;
}

static PyObject *context_close(Context *self, PyObject *unused)
{
    (void)unused;
    if (self->handle == NULL) {
        Py_RETURN_NONE;
    }
    if (!cw_context_usable(self)) {
        return NULL;
    }
    if (self->users > 0) {
        PyErr_SetString(PyExc_RuntimeError, "workers or mapped memory of the context exist: close them first");
        return NULL;
    }
    ucp_cleanup(self->handle);
    self->handle = NULL;
    Py_RETURN_NONE;
}

static void context_dealloc(Context *self)
{
    if (self->handle != NULL && self->generation == cw_generation) {
        ucp_cleanup(self->handle);
    }
    Py_TYPE(self)->tp_free((PyObject *)self);
}

PyObject *cw_memory_map(Context *self, PyObject *buffer);

static PyMethodDef methods[] = {{"close", (PyCFunction)context_close, METH_NOARGS, "Destroy the context."},
                                {"map", (PyCFunction)cw_memory_map, METH_O, "map(buffer): let peers reach it."},
                                {NULL, NULL, 0, NULL}};

PyTypeObject cw_context_type = {PyVarObject_HEAD_INIT(NULL, 0).tp_name = "causeway._core.Context",
                                .tp_basicsize                          = sizeof(Context),
                                .tp_new                                = context_new,
                                .tp_dealloc                            = (destructor)context_dealloc,
                                .tp_flags                              = Py_TPFLAGS_DEFAULT,
                                .tp_doc                                = "A context of UCP.",
                                .tp_methods                            = methods};
