/* SPDX-License-Identifier: BSD-3-Clause */
/* The module: its types, exceptions, socket addresses, and what a fork changes. */
#include "core.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <ucs/debug/log_def.h>

unsigned long cw_generation;
static PyObject *errors; /* The module causeway._errors. */

static void in_child(void)
{
    cw_generation++;
}

static _Thread_local char said[512];

/* Warnings are printed as before; the exception of the call that they belong to repeats the last one. */
static ucs_log_func_rc_t note_log(const char *file, unsigned line, const char *function, ucs_log_level_t level,
                                  const ucs_log_component_config_t *component, const char *message, va_list args)
{
    (void)file;
    (void)line;
    (void)function;
    (void)component;
    if (level <= UCS_LOG_LEVEL_WARN) {
        vsnprintf(said, sizeof(said), message, args);
    }
    return UCS_LOG_FUNC_RC_CONTINUE;
}

const char *cw_log_said(void)
{
    return said[0] != '\0' ? said : NULL;
}

void cw_log_forget(void)
{
    said[0] = '\0';
}

PyObject *cw_error_new(ucs_status_t status, const char *what, const char *reason)
{
    /* A reason may name what a peer has sent: it is no text in UTF-8 for certain. */
    return PyObject_CallMethod(errors, "make", "isy", (int)status, what,
                               reason != NULL ? reason : ucs_status_string(status));
}

PyObject *cw_raise(ucs_status_t status, const char *what)
{
    return cw_raise_reason(status, what, cw_log_said());
}

PyObject *cw_raise_reason(ucs_status_t status, const char *what, const char *reason)
{
    PyObject *error = cw_error_new(status, what, reason);

    if (error != NULL) {
        PyErr_SetObject((PyObject *)Py_TYPE(error), error);
        Py_DECREF(error);
    }
    return NULL;
}

static PyObject *raise_named(const char *name, const char *what)
{
    PyObject *type = PyObject_GetAttrString(errors, name);

    if (type != NULL) {
        PyErr_SetString(type, what);
        Py_DECREF(type);
    }
    return NULL;
}

PyObject *cw_raise_closed(const char *what)
{
    return raise_named("ClosedError", what);
}

PyObject *cw_raise_forked(void)
{
    return raise_named("ForkedError", "the object was made before fork(); a child makes a context of its own");
}

int cw_to_uint64(PyObject *number, void *value)
{
    PyObject *index = PyNumber_Index(number);

    if (index == NULL) {
        return 0;
    }
    *(uint64_t *)value = PyLong_AsUnsignedLongLong(index);
    Py_DECREF(index);
    return !PyErr_Occurred();
}

int cw_to_uint32(PyObject *number, void *value)
{
    uint64_t wide;

    if (!cw_to_uint64(number, &wide)) {
        return 0;
    }
    if (wide > UINT32_MAX) {
        PyErr_SetString(PyExc_OverflowError, "int too big to convert to 32 bits");
        return 0;
    }
    *(uint32_t *)value = (uint32_t)wide;
    return 1;
}

bool cw_address_of(PyObject *host_port, struct sockaddr_storage *address, socklen_t *length)
{
    const char *host;
    uint64_t port;
    unsigned flow = 0, scope = 0; /* As socket.getaddrinfo() has them. */
    struct sockaddr_in *four = (struct sockaddr_in *)address;
    struct sockaddr_in6 *six = (struct sockaddr_in6 *)address;

    memset(address, 0, sizeof(*address));
    if (!PyTuple_Check(host_port) ||
        !PyArg_ParseTuple(host_port, "sO&|II", &host, cw_to_uint64, &port, &flow, &scope)) {
        if (!PyErr_Occurred()) {
            PyErr_SetString(PyExc_TypeError, "an address is a tuple (host, port)");
        }
        return false;
    }
    if (port > 65535) {
        PyErr_SetString(PyExc_OverflowError, "a port is a number from 0 to 65535");
        return false;
    }
    if (inet_pton(AF_INET, host, &four->sin_addr) == 1) {
        four->sin_family = AF_INET;
        four->sin_port   = htons((uint16_t)port);
        *length          = sizeof(*four);
        return true;
    }
    if (inet_pton(AF_INET6, host, &six->sin6_addr) == 1) {
        six->sin6_family   = AF_INET6;
        six->sin6_port     = htons((uint16_t)port);
        six->sin6_flowinfo = htonl(flow);
        six->sin6_scope_id = scope;
        *length            = sizeof(*six);
        return true;
    }
    PyErr_Format(PyExc_ValueError, "'%.200s' is no IP address", host);
    return false;
}

PyObject *cw_address_tuple(const struct sockaddr_storage *address)
{
    const struct sockaddr_in *four = (const struct sockaddr_in *)address;
    const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)address;
    char text[INET6_ADDRSTRLEN]    = "";

    if (address->ss_family == AF_INET) {
        inet_ntop(AF_INET, &four->sin_addr, text, sizeof(text));
        return Py_BuildValue("(si)", text, (int)ntohs(four->sin_port));
    }
    inet_ntop(AF_INET6, &six->sin6_addr, text, sizeof(text));
    return Py_BuildValue("(si)", text, (int)ntohs(six->sin6_port));
}

static PyObject *version(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    return PyUnicode_FromString(ucp_get_version_string());
}

static PyMethodDef functions[] = {{"version", version, METH_NOARGS, "Version of the library."}, {NULL, NULL, 0, NULL}};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "causeway._core",
                                        .m_doc = "The library's objects; causeway makes them convenient.", .m_size = -1,
                                        .m_methods = functions};

PyMODINIT_FUNC PyInit__core(void)
{
    static const struct {
        const char *name;
        PyTypeObject *type;
    } types[]        = {{"Context", &cw_context_type},   {"Worker", &cw_worker_type}, {"Endpoint", &cw_endpoint_type},
                        {"Listener", &cw_listener_type}, {"Client", &cw_client_type}, {"Message", &cw_message_type},
                        {"Memory", &cw_memory_type},     {"RemoteKey", &cw_key_type}, {"Request", &cw_request_type}};
    PyObject *module = PyModule_Create(&definition);

    if (module == NULL) {
        return NULL;
    }
    errors = PyImport_ImportModule("causeway._errors");
    ucs_log_push_handler(note_log);
    if (errors == NULL || pthread_atfork(NULL, NULL, in_child) != 0) {
        Py_DECREF(module);
        return PyErr_Occurred() ? NULL : PyErr_NoMemory();
    }
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        if (PyType_Ready(types[i].type) != 0 ||
            PyModule_AddObjectRef(module, types[i].name, (PyObject *)types[i].type) != 0) {
            Py_DECREF(module);
            return NULL;
        }
    }
    return module;
}
