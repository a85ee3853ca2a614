/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One-sided operations: what puts, gets and atomics of an endpoint share (docs/change/one-sided.md): the queue of
 * operations that cannot start yet, the count of operations in flight, flush and fence. put.c, get.c and amo.c hold the
 * operations; target.c is the target side; cma.c copies between processes.
 */
#ifndef CW_RMA_RMA_H
#define CW_RMA_RMA_H

#include <stdbool.h>

#include "core/rkey.h"
#include "msg/datatype.h"
#include "msg/op_ep.h"
#include "wire/rma.h"

struct cw_put_places;

/* State of a worker. */
struct cw_rma_state {
    struct cw_list all; /* struct cw_rma of all endpoints that have one */
};

/* Gets whose data is read after the call. */
struct cw_rma_late {
    uint32_t count;
    uint32_t fetching;       /* those of them whose accesses the device of the lane has all accepted */
    uint64_t first;          /* the range that holds the memory of all of them */
    uint64_t end;
};

/* The state of the target. */
struct cw_rma_serving {
    uint32_t answers;             /* not yet sent to the peer; at most CW_RMA_WINDOW */
    ucs_status_t refused;         /* status of a refusal since the peer's last FLUSH */
    struct cw_put_places *places; /* destinations of placed puts; NULL: none arrived yet */
};

/* At most one per endpoint, created by the first operation that is not direct, or by the first operation of the peer
 * that cannot be answered at once. */
struct cw_rma {
    struct cw_list link; /* worker->rma->all */
    struct ucp_ep *ep;
    struct cw_list queue;    /* requests that have not started, in order */
    struct cw_request *pump; /* request in ep->pending that sends the queue; NULL: none */
    const struct cw_request *placing; /* a put whose PUT_LIST was sent, but not the bytes; NULL: none */
    struct cw_list waits;    /* struct cw_flush_wait, the oldest first */
    struct cw_job job;       /* ends waits and runs the queue */
    uint32_t generation;     /* generation of operations that begin now */
    uint32_t open;           /* operations of this generation that have not ended */
    uint32_t replies;        /* operations that await an answer of the peer; at most CW_RMA_WINDOW */
    uint32_t async_puts;     /* puts in flight that later packets may overtake */
    uint64_t sent_mark;      /* number of packets sent that only FLUSHED confirms */
    uint64_t asked_mark;     /* sent_mark when the last FLUSH was sent */
    uint64_t acked_mark;     /* sent_mark up to which packets are confirmed */
    uint64_t fence_mark;     /* sent_mark at the last fence; may lag by any number of packets */
    struct cw_rma_late late;
    struct cw_rma_serving serving;
    uint32_t passed;         /* passed fences that still block active messages */
    uint8_t unflushed;       /* the device has short puts with no completion requested yet */
    uint8_t running;
    uint8_t no_packets;      /* UCX_PROTO_EMULATION_ENABLE=n */
    uint8_t fencing;         /* fence.c: the call is running */
    uint8_t in_order;        /* the queue holds a put, a get or a barrier: later operations wait behind it */
    ucs_status_t error;      /* status of a refused operation, for the next flush */
};

/* NULL: out of memory. */
struct cw_rma *cw_rma_get(struct ucp_ep *ep);

/* Result of an attempt (request->send): the request is neither in the queue nor on ep->inflight; another part of the
 * library ends it with cw_request_complete. */
#define CW_RMA_OWNED UCS_ERR_NO_ELEM

/*
 * Gives the request of a new operation its generation. request->release must call cw_rma_end with this number exactly
 * once.
 */
static inline uint32_t cw_rma_begin(struct cw_rma *rma)
{
    rma->open++;
    cw_ep_add_flush_rma(rma->ep);
    return rma->generation;
}
void cw_rma_end(struct ucp_ep *ep, uint32_t generation);
/* Recomputes whether the endpoint belongs on the flush list. */
void cw_rma_update(struct cw_rma *rma);

/* Batching of an operation that follows another send without progress in between. CW_RMA_AT_ONCE: sent in the call.
 * CW_RMA_FOLLOWS: passed to the transport in the call, which sends it with the next operation or in progress.
 * CW_RMA_COLLECTED: waits in the queue for progress. */
enum cw_rma_haste { CW_RMA_AT_ONCE, CW_RMA_FOLLOWS, CW_RMA_COLLECTED };

/* The status of an attempt that only packets could carry out, where none may be sent: CW_AGAIN until the endpoint is
 * open. Then they are forbidden, which is logged. */
ucs_status_t cw_rma_refuse_packets(const struct ucp_ep *ep, const struct cw_dt_cursor *cursor, const char *what);

/*
 * Starts an operation, or queues it. request->send is its attempt, which returns UCS_OK: complete; UCS_INPROGRESS: in
 * flight, and the request moves to ep->inflight; CW_RMA_OWNED; CW_AGAIN: no tx space; CW_BLOCKED: the operation waits
 * for answers or for the end of other operations; CW_LATER: it has sent many bytes and yields to others; any other
 * status ends it. `keep` copies data that the program may reuse when the request outlives the call; NULL: an atomic or
 * a flush, which later operations may overtake, or a barrier. A put or a get that is posted CW_RMA_AT_ONCE overtakes
 * atomics and flushes. The result is that of an *_nbx call; after NULL or an error the request no longer exists.
 */
ucs_status_ptr_t cw_rma_post(struct cw_request *request, uint32_t attr_mask, enum cw_rma_haste haste,
                             ucs_status_t (*keep)(struct cw_request *));

/* As cw_rma_post, but an operation that does not end within the call fails. */
ucs_status_ptr_t cw_rma_post_forced(struct cw_request *request);

/* Makes this or the next progress run the queue, because an operation in it may be able to start now. */
void cw_rma_kick(struct cw_rma *rma);

/* Whether the target has carried out the packets sent before the last fence. */
static inline int cw_rma_confirmed(const struct cw_rma *rma)
{
    return rma->acked_mark >= rma->fence_mark;
}

/* Whether a write to this range would change bytes that a get has yet to read. */
static inline bool cw_rma_is_late(const struct cw_rma *rma, uint64_t address, uint64_t length)
{
    return rma->late.count > 0 && address < rma->late.end && rma->late.first < address + length;
}

/* cw_rma_late_add: a get becomes late. cw_rma_late_remove: a late get has ended. */
static inline void cw_rma_late_add(struct cw_rma *rma, uint64_t address, uint64_t length)
{
    if (rma->late.count++ == 0) {
        rma->late.first = address;
        rma->late.end = address + length;
        return;
    }
    rma->late.first = (address < rma->late.first) ? address : rma->late.first;
    rma->late.end = (address + length > rma->late.end) ? address + length : rma->late.end;
}

static inline void cw_rma_late_remove(struct cw_rma *rma)
{
    rma->late.count--;
    if (cw_unlikely(!cw_list_empty(&rma->queue))) {
        cw_rma_kick(rma);
    }
}

/* Whether an access that needs no packets may be made in the call. It may overtake queued atomics, which can wait for
 * the target's progress for a long time. */
static inline bool cw_rma_is_clear(const struct ucp_ep *ep, uint64_t address, uint64_t length, int writes)
{
    const struct cw_rma *rma = cw_op_ep(ep)->rma;

    return cw_likely(rma == NULL) ||
           (!rma->in_order && cw_rma_confirmed(rma) && !(writes && cw_rma_is_late(rma, address, length)));
}

/* Whether an access can be made by loads and stores in this call. The caller has seen that the key allows such access
 * to the range. */
static inline bool cw_rma_is_direct(const struct ucp_ep *ep, const struct ucp_rkey *rkey, uint64_t address,
                                    uint64_t length, int writes)
{
    return cw_likely(cw_rkey_is_live(rkey) && ep->state != CW_EP_FAILED &&
                     cw_rma_is_clear(ep, address, length, writes));
}

/* Stores the memory type for queries of the request. */
static inline void cw_rma_note_type(struct cw_request *request, const struct cw_dt_cursor *cursor)
{
    _Static_assert(UCS_MEMORY_TYPE_LAST <= 16, "it fits");
    request->flags |= CW_REQUEST_TYPED | (uint16_t)((unsigned)cw_dt_memory_type(cursor) << CW_REQUEST_TYPE_SHIFT);
}

/* Traces that the call itself did the whole operation, although the program requested a request. */
static inline void cw_rma_note_mapped(const struct cw_request *request, enum cw_counter counter, uint64_t length)
{
    cw_trace_note(request, CW_TRACE_BEGIN, counter, 0, length);
    cw_trace_note(request, CW_TRACE_PATH, CW_TRACE_MAPPED, 0, length);
}

/* Whether the operation at the head of the queue may access memory now. UCS_OK, or the result of the attempt. */
ucs_status_t cw_rma_admit(struct cw_rma *rma, uint64_t address, uint64_t length, int writes);

/* As cw_rma_admit, for a write by the device of the lane. *flags_p: flags of its accesses (transport/access.h), by
 * which the device itself waits for earlier gets. */
ucs_status_t cw_rma_admit_device(struct cw_rma *rma, uint64_t address, uint64_t length, unsigned *flags_p);

/* As cw_rma_admit, for a write by packets, which the target handles in order. A read by packets needs no such check. */
static inline ucs_status_t cw_rma_admit_packets(const struct cw_rma *rma, uint64_t address, uint64_t length)
{
    return cw_unlikely(cw_rma_is_late(rma, address, length)) ? CW_BLOCKED : UCS_OK;
}

/* The end of the first attempt of an operation by stripes (access/stripes.h). The queue of such operations does not
 * wait for a further lane: the operation leaves it for that of the endpoint. */
ucs_status_t cw_rma_stripes_started(struct cw_request *request, ucs_status_t status);

/* Begins an operation of the endpoint that ends once all short puts of the device so far have ended, if there are any.
 * */
ucs_status_t cw_put_short_flush(struct cw_rma *rma);

/* handlers->ep_flush (flush.c), and ucp_worker_fence. */
ucs_status_t cw_rma_flush(struct ucp_ep *ep, struct cw_flush_wait *wait, int confirm);
ucs_status_t cw_rma_fence(struct ucp_worker *worker);
void cw_rma_ep_ended(struct ucp_ep *ep, ucs_status_t status);

/* The operations. api/rma.c has checked that the key covers the range and allows the access; `length`: bytes in all, at
 * least 1. */
ucs_status_ptr_t cw_put(struct ucp_ep *ep, const void *buffer, size_t count, size_t length, uint64_t address,
                        struct ucp_rkey *rkey, const ucp_request_param_t *param);
ucs_status_ptr_t cw_get(struct ucp_ep *ep, void *buffer, size_t count, size_t length, uint64_t address,
                        struct ucp_rkey *rkey, const ucp_request_param_t *param);
/* `size`: 4 or 8. `reply` NULL: the operation fetches nothing. */
ucs_status_ptr_t cw_amo(struct ucp_ep *ep, enum cw_wire_amo_op op, const void *operand, void *reply, unsigned size,
                        uint64_t address, struct ucp_rkey *rkey, const ucp_request_param_t *param);

/* Packet handlers of the target. */
ucs_status_t cw_rma_target_on_put(struct ucp_ep *ep, const void *data, size_t length);
ucs_status_t cw_rma_target_on_put_rts(struct ucp_ep *ep, const void *data, size_t length);
ucs_status_t cw_rma_target_on_get(struct ucp_ep *ep, const void *data, size_t length);
ucs_status_t cw_amo_on_request(struct ucp_ep *ep, const void *data, size_t length);
ucs_status_t cw_rma_on_flush(struct ucp_ep *ep, const void *data, size_t length);
/* Packet handlers of the initiator. */
ucs_status_t cw_get_on_refused(struct ucp_ep *ep, const void *data, size_t length);
ucs_status_t cw_amo_on_reply(struct ucp_ep *ep, const void *data, size_t length);
ucs_status_t cw_rma_on_flushed(struct ucp_ep *ep, const void *data, size_t length);

/* As target: the rights that an access needs, for cw_mem_enter and cw_mem_pin. Without a token only a peer that could
 * reach this memory by itself is served. */
static inline unsigned cw_rma_rights(const struct ucp_ep *ep, uint64_t token, unsigned rights)
{
    return (cw_unlikely(token == 0) && ep->conn != NULL && cw_lane_peer_is_own(ep->conn)) ? rights | CW_MEM_KEYLESS
                                                                                          : rights;
}

/*
 * As target: sends an answer of 8 to CW_CONTROL_MAX bytes, and counts it in `serving` while it cannot be sent.
 * UCS_ERR_IO_ERROR: the peer has exceeded its window of answers, and loses the connection.
 */
ucs_status_t cw_rma_answer(struct ucp_ep *ep, uint8_t id, const void *packet, size_t length);
/* Counts in `serving` an answer that takes longer: called before its beginning, and after its end. */
ucs_status_t cw_rma_target_begin(struct ucp_ep *ep);
void cw_rma_target_end(struct ucp_ep *ep);
/* As target: records the refusal of a put or an atomic without result, or ends the endpoint if the status is
 * UCS_ERR_CONNECTION_RESET. Logs, limited in rate. */
void cw_rma_refuse(struct ucp_ep *ep, uint64_t address, uint64_t length, ucs_status_t status);
/* Log text, the end of a sentence: why the target refuses with that status, and the remedy. */
const char *cw_rma_why_refused(ucs_status_t status);

#endif
