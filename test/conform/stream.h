/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Numbered packets that both ends can compute: which slot sends number n, its id, its size and every byte follow from
 * the stream's seed. So the receiver checks contents, order, loss and duplication at once.
 */
#ifndef CW_CONFORM_STREAM_H
#define CW_CONFORM_STREAM_H

#include <stdint.h>

#include "rig.h"

enum cw_slot { CW_SLOT_SHORT, CW_SLOT_BCOPY, CW_SLOT_ZCOPY };

/* One packet. `length` counts everything that arrives, so short adds its 8 header bytes. */
struct cw_packet_plan {
    enum cw_slot slot;
    uint8_t id;
    size_t length;
    size_t header_length;      /* zcopy */
    unsigned iov_count;        /* zcopy */
    uint64_t seed;             /* of its bytes */
};

struct cw_stream {
    uint64_t seed;
    struct cw_limits limits;   /* of the sending interface */
    size_t typical;            /* most packets are no longer than this; 0: 256 */
    uint64_t count;            /* how many there are */
    uint64_t next;             /* the first that was not sent, or not received, yet */
    unsigned outstanding;      /* zcopy sends whose completion has not come */
    unsigned canceled;         /* of them, those that ended with another status than UCS_OK */
    unsigned blocked;          /* CW_AGAIN came and room did not */
    unsigned again;            /* how often */
    unsigned done;             /* 1 once everything was taken, or came; the target of cw_rig_wait */
    ucs_status_t status;       /* of the send that broke it off */
};

void cw_stream_init(struct cw_stream *stream, uint64_t seed, const struct cw_side *sender, uint64_t count);
/* Number n of the stream. */
void cw_stream_plan(const struct cw_stream *stream, uint64_t number, struct cw_packet_plan *plan);

/* Sends what can be sent now, at most `max` packets; after CW_AGAIN nothing until `room`. Returns how many were
 * taken. */
unsigned cw_stream_push(struct cw_end *end, unsigned max);
/* Both streams to the end, pushing and progressing in turn. NULL: that end sends nothing. */
void cw_stream_run(struct cw_rig *rig, struct cw_end *one, struct cw_end *other);

/* One attempt to send one packet. INPROGRESS is counted in stream->outstanding. */
ucs_status_t cw_packet_send(struct cw_end *end, struct cw_stream *stream, const struct cw_packet_plan *plan);
/* Checks what came against the plan. */
int cw_packet_check(const struct cw_packet_plan *plan, uint8_t id, const void *data, size_t length);

/* Called by the upcalls of the rig. */
void cw_stream_receive(struct cw_end *end, uint8_t id, const void *data, size_t length);
void cw_stream_room(struct cw_end *end);

void cw_pattern_fill(void *data, size_t length, uint64_t seed);

#endif
