/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Common ground of the test_am programs: a handler that does what its sink says and notes what it saw.
 *
 * Callers: test_am_*.c. A sink is zeroed or made by cw_am_sink_new and freed by cw_am_sink_free. Its handler may run
 * only while the pair is in progress or inside a call that may run it (GEN-6).
 */
#ifndef CW_API_TEST_AM_COMMON_H
#define CW_API_TEST_AM_COMMON_H

#include "harness.h"

enum {
    CW_AM_COPY_HEADER = 1 << 3, /* UCP_AM_SEND_FLAG_COPY_HEADER, which the headers of 1.13 lack */
    CW_AM_ATTR_ALL = UCP_AM_RECV_ATTR_FIELD_REPLY_EP | UCP_AM_RECV_ATTR_FLAG_DATA | UCP_AM_RECV_ATTR_FLAG_RNDV
};

/* What the handler does with a payload; in each case it then returns answer, except CW_AM_KEEP: UCS_INPROGRESS. */
enum cw_am_action {
    CW_AM_TAKE,  /* copies eager data, fetches rendezvous data into a buffer of room bytes, or of its length */
    CW_AM_FETCH, /* fetches both kinds with ucp_am_recv_data_nbx */
    CW_AM_KEEP,  /* keeps what the library lends and copies the rest */
    CW_AM_DROP   /* checks nothing */
};

struct cw_am_sink {
    /* How to act. */
    enum cw_am_action action;
    ucs_status_t answer;
    ucp_worker_h worker;
    bool exact_room;
    size_t room;
    uint64_t fetch_mask; /* further bits of the fetch's op_attr_mask */
    void (*then)(struct cw_am_sink *sink);
    void *then_arg;
    /* What the last message was; data is a copy or the buffer that the fetch fills. */
    int calls;
    char header[16384];
    size_t header_length;
    struct cw_buffer data;
    size_t length;
    uint64_t attr;
    ucp_ep_h reply_ep;
    void *lent;
    bool retained;
    struct cw_op fetch;
    size_t fetched; /* from RECV_INFO or the callback */
};

struct cw_am_sink *cw_am_sink_new(ucp_worker_h worker, enum cw_am_action action);
void cw_am_sink_free(struct cw_am_sink *sink);
/* Installs the sink's handler; everything else in the parameters is garbage (GEN-2). */
void cw_am_install(struct cw_am_sink *sink, unsigned id, uint32_t flags);
ucs_status_t cw_am_set(ucp_worker_h worker, unsigned id, ucp_am_recv_callback_t cb, void *arg, uint32_t flags);
ucs_status_t cw_am_handler(void *arg, const void *header, size_t header_length, void *data, size_t length,
                           const ucp_am_recv_param_t *param);

/* Sends with callback; flags of 0 are not passed at all. */
void cw_am_send(struct cw_op *op, ucp_ep_h ep, unsigned id, const void *header, size_t header_length,
                const void *data, size_t length, uint32_t flags);
/* A fetch with callback and RECV_INFO; the length is in *fetched after cw_op_wait. */
void cw_am_fetch(struct cw_op *op, size_t *fetched, ucp_worker_h worker, void *desc, void *buffer, size_t length,
                 uint64_t more_mask);
/* Parameters of a fetch that count into op and *fetched. */
ucp_request_param_t cw_am_fetch_param(struct cw_op *op, size_t *fetched);
/* Waits for the next call of the handler and, if it fetches, for the end of the fetch. */
void cw_am_wait(struct cw_pair *pair, struct cw_am_sink *sink, int calls);
/* Sends one message of patterns, waits for both sides, and checks what the sink saw. Returns the sender's status. */
ucs_status_t cw_am_pass(struct cw_pair *pair, struct cw_am_sink *sink, unsigned id, size_t header_length,
                        size_t length, uint32_t flags);
/* A pair with AM alone, UCX_RNDV_THRESH as given or, with NULL, as the library likes it. */
void cw_am_open(struct cw_pair *pair, const char *rndv_thresh);
bool cw_am_is_rndv(const struct cw_am_sink *sink);

#endif
