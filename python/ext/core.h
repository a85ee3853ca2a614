/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The extension module causeway._core: what its files share.
 *
 * The interpreter lock is held in every call and never given up, so a worker (thread mode SERIALIZED) is used by one
 * thread at a time whatever Python does. No Python code runs inside a callback of the library: callbacks put what
 * happened into lists of the worker, and cw_worker_drain() calls Python when the library has returned. Python may close
 * anything there, so the lists refer to endpoints by their objects, never by handles.
 */
#ifndef CW_PYTHON_CORE_H
#define CW_PYTHON_CORE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <ucp/api/ucp.h>
#include <ucp/api/ucp_compat.h>
#include <stdbool.h>

typedef struct Context {
    PyObject_HEAD ucp_context_h handle; /* NULL: closed. */
    unsigned long generation;
    size_t users; /* Workers and memory that exist. */
} Context;

/* What must end before the worker does. */
typedef struct Child {
    struct Child *next, **link; /* Of the worker's list; link NULL: not in it. */
    void (*end)(struct Child *child);
} Child;

typedef struct Request Request;

/* What a callback was called with. */
typedef struct Arrival {
    struct Arrival *next;
    enum { ARRIVAL_MESSAGE, ARRIVAL_CLIENT, ARRIVAL_FAILURE } kind;
    unsigned id;         /* Of an active message. */
    bool rendezvous;     /* data is a descriptor. */
    void *data;          /* Of the library; NULL: there is none. */
    size_t length;       /* Of the payload. */
    ucs_status_t status; /* Of the failure. */
    ucp_conn_request_h client;
    PyObject *owner; /* The listener, the endpoint that failed, or that to the sender (NULL: none): a reference. */
    size_t header_length;
    char header[];
} Arrival;

typedef struct Worker {
    PyObject_HEAD Context *context;
    ucp_worker_h handle; /* NULL: closed. */
    unsigned long generation, thread;
    int fd;
    PyObject *loop;      /* The event loop that runs it. */
    int64_t patience;    /* Nanoseconds of progress before sleeping; 0: none. */
    int skipped, skips;  /* How often the next attempts to be patient are left out, and how many of these are left. */
    bool inside;         /* run() is under way, which checks the lists again by itself. */
    bool direct;         /* No task is under way: those that waited make their next step at once. */
    bool ending;         /* ucp_worker_destroy() is under way. */
    size_t called, posted; /* During run(): callbacks called, and what they posted then. */
    size_t exports;      /* Views of payloads that exist. */
    Child *children[3];  /* Listeners and clients; messages and endpoints; keys: in the order of their ends. */
    Request *pending;    /* Posted. */
    Request *done, **done_end;
    Arrival *arrived, **arrived_end;
    PyObject *handlers; /* Identifier to callable. */
    void *endpoints;    /* A tree (tsearch) by handle: one Endpoint for each handle that may be used. */
} Worker;

typedef struct Endpoint {
    PyObject_HEAD Child child;
    Worker *worker;
    ucp_ep_h handle;     /* NULL: closed, or borrowed and at its end. */
    bool borrowed;       /* The library made it, to answer a sender, and ends it when the peer does. */
    ucs_status_t status; /* What it failed with. */
    char *reason;        /* In the library's words; NULL: none. */
    PyObject *on_error;  /* Called with the exception of the failure. */
} Endpoint;

typedef struct Listener {
    PyObject_HEAD Child child;
    Worker *worker;
    ucp_listener_h handle;
    PyObject *on_client;
} Listener;

typedef struct Client {
    PyObject_HEAD Child child;
    Listener *listener;
    ucp_conn_request_h handle; /* NULL: accepted or rejected. */
} Client;

typedef struct Message {
    PyObject_HEAD Child child;
    Worker *worker;
    PyObject *header;
    PyObject *endpoint; /* None: the sender wants no reply. */
    void *data;         /* NULL: none, given back or fetched. */
    size_t length;
    bool rendezvous;
    size_t exports;
} Message;

typedef struct Memory {
    PyObject_HEAD Context *context;
    ucp_mem_h handle;
    Py_buffer view;
    PyObject *object; /* That has the memory, where it has no buffer protocol. */
    uint64_t address;
    size_t length;
} Memory;

typedef struct RemoteKey {
    PyObject_HEAD Child child;
    Endpoint *endpoint;
    ucp_rkey_h handle;
    size_t uses; /* Operations that use it. */
} RemoteKey;

/* Memory of a Python object in use by an operation. */
typedef struct Buffer {
    Py_buffer view;   /* view.obj NULL: none. */
    PyObject *object; /* With __cuda_array_interface__. */
    void *address;
    size_t length;
    bool cuda;
} Buffer;

enum result { RESULT_NONE, RESULT_LENGTH, RESULT_TAG, RESULT_OLD, RESULT_VALUE };

struct Request {
    PyObject_HEAD Worker *worker;
    Request *next, **link; /* Of the list of pending ones; next alone: of those that are done. */
    void *handle;
    Buffer buffer;
    RemoteKey *key;
    ucp_ep_h ep;                  /* NULL: the operation is one of the worker. */
    Endpoint *endpoint;           /* That failed with the operation; NULL: none. */
    PyObject *callback, *context; /* Of the task that awaits it: what makes its next step, and where. */
    PyObject *message;            /* Of the cancellation. */
    PyObject *value;              /* RESULT_VALUE: by set(). */
    enum result kind;
    const char *what; /* Failed, as a sentence. */
    bool done, posted;
    bool blocking;  /* asyncio's mark that it was yielded to a task. */
    bool cancelled; /* The task wants CancelledError, whatever comes of the operation. */
    ucs_status_t status;
    ucp_tag_recv_info_t info;
    uint64_t operand, old;
    int width;
};

extern PyTypeObject cw_context_type, cw_worker_type, cw_endpoint_type, cw_listener_type, cw_client_type,
    cw_message_type, cw_memory_type, cw_key_type, cw_request_type;

/* module.c */
extern unsigned long cw_generation; /* Changes in a child of fork(). */
/* What the library has logged in this thread since cw_log_forget(); NULL: nothing. */
const char *cw_log_said(void);
void cw_log_forget(void);
PyObject *cw_error_new(ucs_status_t status, const char *what, const char *reason); /* NULL: that of the status. */
PyObject *cw_raise_reason(ucs_status_t status, const char *what, const char *reason);
PyObject *cw_raise(ucs_status_t status, const char *what); /* In a call: with what it has logged. */
PyObject *cw_raise_closed(const char *what);
PyObject *cw_raise_forked(void);
bool cw_address_of(PyObject *host_port, struct sockaddr_storage *address, socklen_t *length);
PyObject *cw_address_tuple(const struct sockaddr_storage *address);
/* Converters for "O&" of PyArg_Parse*(). The formats of Python for unsigned numbers cut what does not fit. */
int cw_to_uint32(PyObject *number, void *value);
int cw_to_uint64(PyObject *number, void *value);

/* buffer.c */
bool cw_buffer_get(PyObject *object, bool writable, Buffer *buffer);
void cw_buffer_release(Buffer *buffer);

/* context.c */
bool cw_context_usable(const Context *context);

/* worker.c */
bool cw_worker_usable(const Worker *worker);
bool cw_worker_owned(const Worker *worker); /* For what frees: no exception; false: nothing may be done. */
int cw_worker_drain(Worker *worker);
void cw_worker_called(Worker *worker, Arrival *arrival);
void cw_worker_nudge(Worker *worker); /* After each call of the library that may have run callbacks. */
void cw_child_add(Worker *worker, int order, Child *child);
void cw_child_remove(Child *child);

/* endpoint.c */
Endpoint *cw_endpoint_find(const Worker *worker, ucp_ep_h handle); /* NULL: closed. */
const char *cw_endpoint_reason(Endpoint *endpoint, ucs_status_t status); /* NULL: it failed with another, or not. */
PyObject *cw_endpoint_new(Worker *worker, ucp_ep_params_t *params, PyObject *on_error);
PyObject *cw_endpoint_for(Worker *worker,
                          ucp_ep_h handle); /* To the sender of a message, in its callback; NULL: no memory. */

/* listener.c */
PyObject *cw_client_new(Listener *listener, ucp_conn_request_h handle);

/* message.c */
PyObject *cw_message_new(Worker *worker, Arrival *arrival);

/* request.c */
Request *cw_request_new(Worker *worker, enum result kind, PyObject *buffer, bool writable, ucp_request_param_t *param);
PyObject *cw_request_posted(Request *request, ucs_status_ptr_t pointer, const char *what);
PyObject *cw_request_waiter(Worker *worker, PyObject *unused);
void cw_request_finish(Request *request, ucs_status_t status);
bool cw_request_settle(Request *request); /* Outside of callbacks: frees what it used and wakes who awaits it. */

#endif
