/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One-sided operations: what puts, gets and atomics of an endpoint share (docs/change/one-sided.md): the queue of those
 * that cannot start, the count of those under way, flush and fence. The operations themselves: put.c, get.c, amo.c;
 * rma_target.c is the owner's side; copy.c copies between processes.
 */
#ifndef CW_OP_RMA_H
#define CW_OP_RMA_H

#include "core/rkey.h"
#include "op/datatype.h"
#include "op/op_ep.h"
#include "wire/rma.h"

struct cw_put_places;

/* Per endpoint, made at the first operation that is not direct, and at the first that the peer asks for and
 * that cannot be answered at once. */
struct cw_rma {
    struct cw_list link; /* op_state->rma */
    struct ucp_ep *ep;
    struct cw_list queue;    /* requests that did not start, in order */
    struct cw_request *pump; /* stands for the queue on ep->pending; NULL: not there */
    struct cw_list waits;    /* struct cw_flush_wait, the oldest first */
    struct cw_job job;       /* ends waits and goes on with the queue */
    uint32_t generation;     /* of operations that begin now */
    uint32_t open;           /* operations of this generation that did not end */
    uint32_t replies;        /* operations that the peer has to answer; at most CW_RMA_WINDOW */
    uint32_t answers;        /* to gets that could be copied, packets so far */
    uint32_t async_puts;     /* puts under way that packets sent later may overtake */
    uint32_t sent_mark;      /* packets sent that only FLUSHED confirms, */
    uint32_t asked_mark;     /* those before the last FLUSH sent, */
    uint32_t acked_mark;     /* those confirmed, */
    uint32_t fence_mark;     /* and those before the last fence */
    uint32_t counted;        /* counted puts: packets sent, */
    uint32_t carried;        /* those known to be carried out, */
    uint32_t fence_count;    /* and those before the last fence */
    uint32_t num_late;       /* gets whose data is read later than the call: */
    uint32_t num_fetching;   /* those of them that the device of the lane has taken whole */
    uint64_t late_first;     /* the range that holds all of theirs */
    uint64_t late_end;
    uint32_t serving;             /* as owner: answers that are owed to the peer; at most CW_RMA_WINDOW */
    uint32_t passed;              /* fences that were passed and that active messages do not know of yet */
    struct cw_counted *packets;     /* the rest of it; NULL: nothing was counted yet */
    struct cw_board *owner_board; /* as owner: of the peer's counted packets, once it is used, */
    uint32_t counted_here;        /* and its packets that came; */
    uint64_t claim_waited_ns;     /* how long we waited for the origin, since the transport was told, */
    uint8_t counted_shut;          /* and whether it was too long: it gets the claim no more */
    uint32_t num_quick;           /* get.c: gets that the system could make as well, the oldest first, */
    uint32_t num_orphans;         /* those that it made, while the answer is still to come, */
    uint64_t quick_bytes;         /* and how much of them is asked for */
    struct cw_list quick;
    struct cw_put_places *places; /* as owner: of a put of many pieces; NULL: there was none yet */
    struct cw_list confirms; /* flushes that wait for the counted packets */
    struct cw_job fallback;  /* fallback.c: on the worker's list if falls_back */
    uint64_t fallback_since;  /* nanoseconds: nothing moved; 0: not known yet */
    uint32_t fallback_seen;   /* what had moved by then */
    uint32_t fallback_rounds;
    uint32_t told_carried; /* what those that wait know of `carried` */
    uint8_t falls_back;    /* and in which way */
    uint8_t must_ask;      /* the board tells of a refusal: FLUSHED tells which */
    uint8_t running;
    uint8_t absent;       /* get.c: the peer does not answer at once: so many gets are not asked for, */
    uint8_t absent_for;   /* and so many were not the last time; 0: it answers */
    uint8_t fencing;      /* fence.c: within the call */
    ucs_status_t error;   /* as origin: what the peer refused, for the next flush */
    ucs_status_t refused; /* as owner: what we refused since the peer's last FLUSH */
};

/* Puts and gets of up to so much go by packets where the system could copy, too (counted.h, get.c). So an owner whose
 * answer to a get has to wait copies it: the asker may not wait for it any more, and then nobody would know that the
 * memory is in use. */
#define CW_RMA_QUICK_PUT (4096u << 10)
#define CW_RMA_QUICK     (64u << 10)

/* NULL: no memory. */
struct cw_rma *cw_rma_get(struct ucp_ep *ep);

/* An answer of an attempt (request->send): something else than the endpoint's lists ends the request, by
 * cw_request_complete. */
#define CW_RMA_OWNED UCS_ERR_NO_ELEM

/*
 * A request of an operation begins: gives it its generation. To be followed by cw_rma_end in request->release, with the
 * same number, exactly once.
 */
static inline uint32_t cw_rma_begin(struct cw_rma *rma)
{
    rma->open++;
    cw_ep_owes_rma(rma->ep);
    return rma->generation;
}
void cw_rma_end(struct ucp_ep *ep, uint32_t generation);
/* Tells the core whether a flush has to come here. */
void cw_rma_update(struct cw_rma *rma);

/* An operation that follows another send: it goes at once; its bytes are handed over at once, and leave with those of
 * the next, or with progress; it waits for progress. */
enum cw_rma_haste { CW_RMA_AT_ONCE, CW_RMA_FOLLOWS, CW_RMA_COLLECTED };

/*
 * Starts an operation, or puts it into the queue. request->send is its attempt: UCS_OK: complete; UCS_INPROGRESS: under
 * way, the request goes to ep->inflight; CW_RMA_OWNED; CW_AGAIN: the transport has no room; CW_HOLD: it waits for
 * answers or for other operations to end; CW_LATER: it sent a good deal, others may go first; other errors end it.
 * `keep` (may be NULL) copies what the program may reuse when the request outlives the call. The result is as *_nbx
 * calls define it; on NULL and on errors the request is gone.
 */
ucs_status_ptr_t cw_rma_post(struct cw_request *request, uint32_t attr_mask, enum cw_rma_haste haste,
                             ucs_status_t (*keep)(struct cw_request *));

/* Conditions of operations changed: the queue is looked at in this or the next progress. */
void cw_rma_kick(struct cw_rma *rma);

/* Whether the packets before the last fence are carried out. */
static inline int cw_rma_confirmed(const struct cw_rma *rma)
{
    return (int32_t)(rma->acked_mark - rma->fence_mark) >= 0 && (int32_t)(rma->carried - rma->fence_count) >= 0;
}

/* Whether a write there would change what a get is still to read. */
static inline int cw_rma_is_late(const struct cw_rma *rma, uint64_t address, uint64_t length)
{
    return rma->num_late > 0 && address < rma->late_end && rma->late_first < address + length;
}

/* A get becomes late, and is over. */
static inline void cw_rma_late_add(struct cw_rma *rma, uint64_t address, uint64_t length)
{
    if (rma->num_late++ == 0) {
        rma->late_first = address;
        rma->late_end   = address + length;
        return;
    }
    rma->late_first = (address < rma->late_first) ? address : rma->late_first;
    rma->late_end   = (address + length > rma->late_end) ? address + length : rma->late_end;
}

static inline void cw_rma_late_remove(struct cw_rma *rma)
{
    rma->num_late--;
    if (cw_unlikely(!cw_list_empty(&rma->queue))) {
        cw_rma_kick(rma);
    }
}

/* Whether an access that needs no packets may be made in the call. */
static inline int cw_rma_is_clear(const struct ucp_ep *ep, uint64_t address, uint64_t length, int writes)
{
    const struct cw_rma *rma = cw_op_ep(ep)->rma;

    return cw_likely(rma == NULL) ||
           (cw_list_empty(&rma->queue) && cw_rma_confirmed(rma) && !(writes && cw_rma_is_late(rma, address, length)));
}

/* Whether an access can be made by loads and stores in this call. It lies in what the key says may be accessed so. */
static inline int cw_rma_is_direct(const struct ucp_ep *ep, const struct ucp_rkey *rkey, uint64_t address,
                                   uint64_t length, int writes)
{
    return cw_likely(cw_rkey_is_live(rkey) && ep->state != CW_EP_FAILED &&
                     cw_rma_is_clear(ep, address, length, writes));
}

/* For the trace: the call itself did all of it, and the program wants to see a request. */
static inline void cw_rma_note_mapped(const struct cw_request *request, enum cw_counter counter, uint64_t length)
{
    cw_trace_note(request, CW_TRACE_BEGIN, counter, 0, length);
    cw_trace_note(request, CW_TRACE_WAY, CW_TRACE_MAPPED, 0, length);
}

/* The same for an attempt, which is at the head of the queue by then: UCS_OK, or what the attempt answers. */
ucs_status_t cw_rma_admit(struct cw_rma *rma, uint64_t address, uint64_t length, int writes);

/* The same for a write by the device of the lane, which may leave it to the device to wait for the gets before: flags
 * of its accesses in *flags_p (transport/access.h). */
ucs_status_t cw_rma_admit_device(struct cw_rma *rma, uint64_t address, uint64_t length, unsigned *flags_p);

/* The same for a write by packets, which are in order by themselves. A read by packets needs nothing of that. */
static inline ucs_status_t cw_rma_admit_packets(const struct cw_rma *rma, uint64_t address, uint64_t length)
{
    return cw_unlikely(cw_rma_is_late(rma, address, length)) ? CW_HOLD : UCS_OK;
}

/* The same for a copy by the system: it must not pass counted puts, which may write to the same bytes. */
ucs_status_t cw_rma_admit_copy(struct cw_rma *rma, uint64_t address, uint64_t length, int writes);

/* fallback.c: looks after what the system could do, as long as such things wait. `hurries`: in each round of progress,
 * else now and then. */
void cw_fallback_init(struct cw_rma *rma);
void cw_fallback_begin(struct cw_rma *rma, int hurries);
void cw_fallback_end(struct cw_rma *rma);
/* The oldest quick get is copied by the system. */
void cw_get_copy_oldest(struct cw_rma *rma);
/* Ends the flushes that waited for what is counted by now; has the owner asked about the rest. */
void cw_rma_end_confirms(struct cw_rma *rma);
void cw_rma_ask(struct cw_rma *rma);

/* handlers->ep_flush (rma_flush.c), and ucp_worker_fence. */
ucs_status_t cw_rma_flush(struct ucp_ep *ep, struct cw_flush_wait *wait, int confirm);
ucs_status_t cw_rma_fence(struct ucp_worker *worker);
void cw_rma_ep_lost(struct ucp_ep *ep, ucs_status_t status);

/* The operations. Arguments are checked (by abi/rma.c) as far as range and rights within the key; `length`: bytes in
 * all, at least 1. */
ucs_status_ptr_t cw_put(struct ucp_ep *ep, const void *buffer, size_t count, size_t length, uint64_t address,
                        struct ucp_rkey *rkey, const ucp_request_param_t *param);
ucs_status_ptr_t cw_get(struct ucp_ep *ep, void *buffer, size_t count, size_t length, uint64_t address,
                        struct ucp_rkey *rkey, const ucp_request_param_t *param);
/* A get of plain bytes by a packet that fits a cell, if everything is ready for it (get_quick.c). NULL: cw_get. */
ucs_status_ptr_t cw_get_by_cell(struct ucp_ep *ep, void *buffer, uint64_t length, uint64_t address,
                                struct ucp_rkey *rkey, const ucp_request_param_t *param);
/* `size` 4 or 8; reply NULL: the posting form. */
ucs_status_ptr_t cw_amo(struct ucp_ep *ep, enum cw_wire_amo_op op, const void *operand, void *reply, unsigned size,
                        uint64_t address, struct ucp_rkey *rkey, const ucp_request_param_t *param);

/* Packets. The owner's: */
ucs_status_t cw_rma_target_on_put(struct ucp_ep *ep, const void *data, size_t length);
ucs_status_t cw_rma_target_on_put_rts(struct ucp_ep *ep, const void *data, size_t length);
ucs_status_t cw_rma_target_on_get(struct ucp_ep *ep, const void *data, size_t length);
ucs_status_t cw_amo_on_request(struct ucp_ep *ep, const void *data, size_t length);
ucs_status_t cw_rma_on_flush(struct ucp_ep *ep, const void *data, size_t length);
ucs_status_t cw_cma_on_help(struct ucp_ep *ep, const void *data, size_t length);
/* Carries out a PUT of more than its header; the refusal is noted. */
ucs_status_t cw_rma_target_put(struct ucp_ep *ep, const void *data, size_t length);
/* The origin's: */
ucs_status_t cw_get_on_refused(struct ucp_ep *ep, const void *data, size_t length);
ucs_status_t cw_amo_on_reply(struct ucp_ep *ep, const void *data, size_t length);
ucs_status_t cw_rma_on_flushed(struct ucp_ep *ep, const void *data, size_t length);
ucs_status_t cw_cma_on_helped(struct ucp_ep *ep, const void *data, size_t length);

/*
 * As owner: sends an answer of 8 to CW_CONTROL_MAX bytes, and counts it while it cannot go out. UCS_ERR_IO_ERROR: the
 * peer asked for more than it may, which costs the connection.
 */
ucs_status_t cw_rma_answer(struct ucp_ep *ep, uint8_t id, const void *packet, size_t length);
/* The same count for answers that take longer: before and after. */
ucs_status_t cw_rma_serve_begin(struct ucp_ep *ep);
void cw_rma_serve_end(struct ucp_ep *ep);
/* As owner: a put or posted atomic is refused; one log line, limited in rate. */
void cw_rma_refuse(struct ucp_ep *ep, uint64_t address, uint64_t length, ucs_status_t status);

#endif
