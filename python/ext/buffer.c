/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of Python objects: by the buffer protocol, or by __cuda_array_interface__. Nothing is copied. */
#include "core.h"

/* The length in bytes of an array of the interface, or -1 with an exception. */
static Py_ssize_t cuda_length(PyObject *interface)
{
    PyObject *shape   = PyMapping_GetItemString(interface, "shape");
    PyObject *typestr = shape != NULL ? PyMapping_GetItemString(interface, "typestr") : NULL;
    PyObject *numbers = typestr != NULL ? PySequence_Tuple(shape) : NULL;
    const char *text  = numbers != NULL ? PyUnicode_AsUTF8(typestr) : NULL;
    Py_ssize_t length = -1;

    if (text != NULL) {
        char *end = NULL;
        length    = text[0] != '\0' && text[1] != '\0' ? strtol(text + 2, &end, 10) : 0;
        if (length <= 0 || length > 4096 || *end != '\0') {
            length = -1;
            PyErr_SetString(PyExc_ValueError, "__cuda_array_interface__: the typestr names no size of an element");
        }
    }
    for (Py_ssize_t i = 0; length >= 0 && i < PyTuple_GET_SIZE(numbers); i++) {
        Py_ssize_t extent = PyLong_AsSsize_t(PyTuple_GET_ITEM(numbers, i));
        if (extent < 0 || __builtin_mul_overflow(length, extent, &length)) {
            if (!PyErr_Occurred()) {
                PyErr_SetString(PyExc_ValueError, "__cuda_array_interface__: the shape is negative or too large");
            }
            length = -1;
        }
    }
    Py_XDECREF(shape);
    Py_XDECREF(typestr);
    Py_XDECREF(numbers);
    return length;
}

/* Whether the elements lie one behind the other: strides are missing, None, or those of the C order. */
static bool cuda_contiguous(PyObject *interface, size_t length)
{
    PyObject *strides = PyMapping_HasKeyString(interface, "strides") ? PyMapping_GetItemString(interface, "strides")
                                                                     : Py_NewRef(Py_None);
    bool contiguous   = strides == Py_None;

    if (strides != NULL && !contiguous) {
        PyObject *shape   = PyMapping_GetItemString(interface, "shape");
        PyObject *extents = shape != NULL ? PySequence_Tuple(shape) : NULL;
        PyObject *steps   = extents != NULL ? PySequence_Tuple(strides) : NULL;
        size_t expected   = length;

        contiguous = steps != NULL && PyTuple_GET_SIZE(steps) == PyTuple_GET_SIZE(extents);
        for (Py_ssize_t i = 0; contiguous && length > 0 && i < PyTuple_GET_SIZE(steps); i++) {
            size_t extent = PyLong_AsSize_t(PyTuple_GET_ITEM(extents, i));
            expected /= extent;
            contiguous = extent == 1 || PyLong_AsSsize_t(PyTuple_GET_ITEM(steps, i)) == (Py_ssize_t)expected;
        }
        Py_XDECREF(shape);
        Py_XDECREF(extents);
        Py_XDECREF(steps);
    }
    Py_XDECREF(strides);
    if (!contiguous && !PyErr_Occurred()) {
        PyErr_SetString(PyExc_BufferError, "the array on the device is not C-contiguous");
    }
    return contiguous && !PyErr_Occurred();
}

static bool cuda_get(PyObject *object, PyObject *interface, bool writable, Buffer *buffer)
{
    if (!PyDict_Check(interface)) {
        PyErr_SetString(PyExc_TypeError, "__cuda_array_interface__ must be a dict");
        return false;
    }
    Py_ssize_t length = cuda_length(interface);
    PyObject *data    = length >= 0 ? PyMapping_GetItemString(interface, "data") : NULL;
    if (data == NULL) {
        return false;
    }
    if (!PyTuple_Check(data) || PyTuple_GET_SIZE(data) != 2 || !PyLong_Check(PyTuple_GET_ITEM(data, 0))) {
        Py_DECREF(data);
        PyErr_SetString(PyExc_TypeError, "__cuda_array_interface__: data must be a pair of an address and a bool");
        return false;
    }
    void *address = (void *)(uintptr_t)PyLong_AsUnsignedLongLong(PyTuple_GET_ITEM(data, 0));
    int read_only = PyObject_IsTrue(PyTuple_GET_ITEM(data, 1));
    Py_DECREF(data);
    if (PyErr_Occurred() || !cuda_contiguous(interface, (size_t)length)) {
        return false;
    }
    if (writable && read_only != 0) {
        PyErr_SetString(PyExc_BufferError, "the array on the device is read-only");
        return false;
    }
    buffer->object  = Py_NewRef(object);
    buffer->address = address;
    buffer->length  = (size_t)length;
    buffer->cuda    = true;
    return true;
}

/* Of an object that has not given a writable buffer. Keeps that exception if it is not for this reason. */
static bool is_read_only(PyObject *object)
{
    PyObject *type, *value, *trace;
    Py_buffer view;

    PyErr_Fetch(&type, &value, &trace);
    bool answer = PyObject_GetBuffer(object, &view, PyBUF_SIMPLE) == 0;
    if (answer) {
        answer = view.readonly;
        PyBuffer_Release(&view);
    }
    PyErr_Restore(type, value, trace);
    return answer;
}

bool cw_buffer_get(PyObject *object, bool writable, Buffer *buffer)
{
    memset(buffer, 0, sizeof(*buffer));
    if (!PyObject_CheckBuffer(object)) {
        PyObject *interface = PyObject_GetAttrString(object, "__cuda_array_interface__");
        if (interface == NULL) {
            if (PyErr_ExceptionMatches(PyExc_AttributeError)) {
                PyErr_Format(PyExc_TypeError,
                             "a bytes-like object or one with __cuda_array_interface__ is required, not '%.100s'",
                             Py_TYPE(object)->tp_name);
            }
            return false;
        }
        bool good = cuda_get(object, interface, writable, buffer);
        Py_DECREF(interface);
        return good;
    }
    if (PyObject_GetBuffer(object, &buffer->view, writable ? PyBUF_WRITABLE : PyBUF_SIMPLE) != 0) {
        buffer->view.obj = NULL;
        if (writable && is_read_only(object)) {
            PyErr_Format(PyExc_BufferError, "a read-only buffer cannot be received into: '%.100s'",
                         Py_TYPE(object)->tp_name);
            return false;
        }
        /* Some objects answer ValueError where others answer BufferError. */
        if (PyErr_ExceptionMatches(PyExc_ValueError)) {
            PyErr_SetString(PyExc_BufferError, "the buffer is not C-contiguous");
        }
        return false;
    }
    buffer->address = buffer->view.buf;
    buffer->length  = (size_t)buffer->view.len;
    return true;
}

void cw_buffer_release(Buffer *buffer)
{
    if (buffer->view.obj != NULL) {
        PyBuffer_Release(&buffer->view);
    }
    Py_CLEAR(buffer->object);
}
