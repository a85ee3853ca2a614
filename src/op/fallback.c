/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fallback timer (docs/change/one-sided.md, "Counted packets"): a job of progress, which runs while operations wait
 * for an owner although the system could copy instead. Invariant: the job is on the worker's list while short gets,
 * flushes of counted puts, or operations behind too many counted puts wait; it is not on the list while the answer to a
 * FLUSH will start it again.
 */
#include "op/cma.h"
#include "op/counted.h"

#define FALLBACK_NS      UINT64_C(6000) /* a little more than the system's copy takes: at worst the time doubles */
#define BYTES_PER_NS     8u             /* the speed of the system's copy */
#define ROUNDS_PER_CLOCK 4u

enum fallback { RESTS, PACED, HURRIES }; /* rma->falls_back */

/* Puts the job on the list, unless a callback that the job has run did so already. */
static void stay(struct cw_rma *rma, enum fallback how)
{
    if (rma->falls_back >= how) {
        return;
    }
    cw_list_remove(&rma->fallback.link);
    rma->falls_back = (uint8_t)how;
    if (how == HURRIES) {
        cw_worker_add_job(rma->ep->worker, &rma->fallback);
    } else {
        cw_worker_add_paced(rma->ep->worker, &rma->fallback);
    }
}

void cw_fallback_begin(struct cw_rma *rma, int hurries)
{
    if (rma->falls_back == RESTS) {
        rma->fallback_rounds = 0;
        rma->fallback_since  = 0;
    }
    stay(rma, hurries ? HURRIES : PACED);
}

/* Reads the claim pair: in each round if few packets wait, else in fewer rounds, because each read takes the cache line
 * away from the owner. */
static void look(struct cw_rma *rma)
{
    const uint64_t waiting = rma->counted - rma->carried;

    if (waiting > 0 && rma->fallback_rounds % (waiting / 4 + 1) == 0) {
        cw_counted_look(rma);
    }
}

/* Returns whether no operation has made progress for long enough. The read of the clock costs most here, so few rounds
 * do it. */
static int is_over(struct cw_rma *rma)
{
    const uint64_t seen = rma->answers + rma->carried;
    uint64_t now_ns;

    if (rma->fallback_rounds % ROUNDS_PER_CLOCK != 0) {
        return 0;
    }
    now_ns = cw_clock_ns();
    if (rma->fallback_since == 0 || rma->fallback_seen != seen) {
        rma->fallback_seen  = seen;
        rma->fallback_since = now_ns;
    }
    if (now_ns - rma->fallback_since < FALLBACK_NS + rma->quick_bytes / BYTES_PER_NS) {
        return 0;
    }
    cw_counted_look(rma); /* a round that sent much is long: the owner may have gone on */
    return rma->fallback_seen == rma->answers + rma->carried;
}

/* Returns whether the owner is known to be absent: the system copied one get, so it copies those that were asked for
 * with it. */
static int is_known(const struct cw_rma *rma)
{
    return rma->absent > 0 && !cw_list_empty(&rma->quick) && cw_counted_is_settled(rma) && cw_rma_confirmed(rma);
}

/* Counted packets were carried out: continues the operations that wait for them. */
static void moved(struct cw_rma *rma)
{
    rma->told_carried = rma->carried;
    cw_rma_end_confirms(rma);
    if (!cw_list_empty(&rma->queue)) {
        cw_rma_kick(rma);
        cw_ep_reap_later(rma->ep); /* drains pending, where the pump may wait for room that it does not need any more */
    }
}

/* False: the owner holds the claim just now. */
static bool lose(struct cw_rma *rma)
{
    ucs_status_t status;

    if (!cw_counted_is_settled(rma)) { /* a get comes after the puts before it */
        status = cw_counted_rescue(rma);
        if (status == UCS_ERR_UNSUPPORTED) {
            cw_rma_ask(rma);
        } else if (status == UCS_OK) {
            moved(rma);
        }
        return status != CW_AGAIN;
    }
    if (!cw_rma_confirmed(rma)) {
        cw_rma_ask(rma); /* operations after a fence may need packets */
    } else if (!cw_list_empty(&rma->quick)) {
        cw_get_copy_oldest(rma);
    }
    return true;
}

/* Returns how often the job must run. Operations that wait for counted packets need a look in each round; gets that
 * were asked for wait for a packet. */
static enum fallback what_waits(const struct cw_rma *rma)
{
    if (rma->asked_mark != rma->acked_mark && !(cw_counted_is_settled(rma) && cw_rma_confirmed(rma))) {
        return RESTS; /* the FLUSHED packet starts the job again */
    }
    if (!cw_counted_is_settled(rma) && (!cw_list_empty(&rma->confirms) || !cw_list_empty(&rma->queue))) {
        return HURRIES;
    }
    return cw_list_empty(&rma->quick) ? RESTS : (rma->absent > 0) ? HURRIES : PACED;
}

static bool run(struct cw_job *job)
{
    struct cw_rma *rma = cw_container_of(job, struct cw_rma, fallback);
    bool worked        = false;
    int over;

    rma->falls_back = RESTS;
    if (rma->ep->state != CW_EP_OPEN) {
        return false; /* the endpoint is about to end the job */
    }
    look(rma);
    over = is_over(rma);
    if (rma->carried != rma->told_carried) { /* seen just now, or by another function before */
        moved(rma);
        worked = true;
    }
    if (over || is_known(rma)) {
        worked |= lose(rma);
    }
    rma->fallback_rounds++;
    stay(rma, what_waits(rma));
    return worked;
}

void cw_fallback_init(struct cw_rma *rma)
{
    rma->fallback.run = run;
    cw_list_init(&rma->fallback.link);
    cw_list_init(&rma->quick);
    cw_list_init(&rma->confirms);
}

void cw_fallback_end(struct cw_rma *rma)
{
    cw_list_remove(&rma->fallback.link);
}
