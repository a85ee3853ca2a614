/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The bench on which a transport is tested: two interfaces (one, for a transport that only reaches itself) with a
 * poller each and upcalls that record and check. The rules that hold for every upcall of transport.h are checked here,
 * once: only inside progress(), only on live connections, `opened` once and before packets, `closed` once and after
 * them.
 *
 * A check that fails inside an upcall is noted and raised when progress() has returned, so that no transport is left in
 * the middle of its work. In a forked process a failed check ends that process with 1. Nothing waits longer than
 * CW_WAIT_MS, or than CW_TEST_WAIT_MS of the environment says.
 */
#ifndef CW_CONFORM_RIG_H
#define CW_CONFORM_RIG_H

#include "runner.h"
#include "base/list.h"
#include "core/lane.h"
#include "transport/transport.h"

#define CW_WAIT_MS      20000u
#define CW_ADDRESS_MAX  1024u
#define CW_MAX_DEVICES  16u
#define CW_BYTES_MAX    CW_HELLO_MAX

enum cw_subject_traits {
    CW_SUBJECT_PROCESSES = 1,  /* reaches other processes of this machine */
    CW_SUBJECT_DIALS_OUT = 2,  /* a damaged address may name a machine of others: such addresses are not dialled */
    CW_SUBJECT_NEEDS_WATCH = 8, /* an idle connection notices a peer's death only if it is watched, and as a silence */
    CW_SUBJECT_CHANCE = 4      /* copies to and from the peer's memory fail by chance */
};

/* The transport under test; defined in one small file per program. */
struct cw_subject {
    const struct cw_transport *transport;
    unsigned traits;
    void (*setup)(void);       /* around each test; NULL: nothing to do */
    void (*teardown)(void);
};

extern const struct cw_subject cw_subject;

struct cw_side;
struct cw_stream;

struct cw_bytes {
    size_t length;
    uint8_t data[CW_BYTES_MAX];
};

/* One end of a connection. Stays until its side is closed, also when the connection is not there any more. */
struct cw_end {
    struct cw_list link;               /* side->ends */
    struct cw_side *side;
    struct cw_conn *conn;              /* NULL: closed by us, or refused */
    struct cw_bytes hello;             /* accepted: as it came */
    struct cw_bytes reply;             /* dialled: as it came */
    int has_reply;
    unsigned is_acceptor;
    unsigned opened;                   /* upcalls seen; 1 from the start for an acceptor */
    ucs_status_t opened_status;
    unsigned closed;
    ucs_status_t closed_status;
    unsigned packets;
    unsigned rooms;
    struct cw_stream *sending;         /* fed by room and by cw_stream_push */
    struct cw_stream *receiving;       /* checks what comes; NULL: packets are only counted */
    void (*on_packet)(struct cw_end *end, uint8_t id, const void *data, size_t length);
    unsigned (*on_place)(struct cw_end *end, uint8_t id, const void *header, size_t length, struct iovec *iov);
    void (*on_placed)(struct cw_end *end, uint8_t id, const void *header, size_t length);
    void (*on_opened)(struct cw_end *end);
    void (*on_room)(struct cw_end *end);
    void (*on_closed)(struct cw_end *end);
    struct cw_side *peer_side;         /* set by tests that dial in upcalls */
    void *arg;
};

struct cw_side {
    struct cw_iface *iface;            /* NULL: closed */
    struct cw_poller *poller;
    struct cw_domain *domain;          /* of transports with access: 1 of side a, 2 of side b */
    struct cw_list ends;
    uint8_t address[CW_ADDRESS_MAX];
    size_t address_length;
    struct cw_device devices[CW_MAX_DEVICES];
    ucs_status_t accept_status;        /* what accept answers */
    struct cw_bytes reply;             /* and with which reply */
    struct cw_stream *accept_sending;  /* given to accepted ends */
    struct cw_stream *accept_receiving;
    void (*on_accept)(struct cw_end *end);
    unsigned accepted;                 /* accept upcalls */
    unsigned upcalls;
    unsigned receives_ran_out;                      /* times that receives ran out */
    struct cw_end *last_accepted;
    size_t reply_max;                  /* *reply_length on entry of the last accept */
};

struct cw_rig {
    struct cw_side sides[2];
    struct cw_side *a;
    struct cw_side *b;                 /* == a when the transport only reaches itself */
    int descriptors;                   /* open before the rig was */
    int mappings;
};

/* cmocka's set-up and tear-down: *state is the rig, open, with doorbells. The tear-down fails when descriptors stay. */
int cw_rig_setup(void **state);
int cw_rig_teardown(void **state);
/* A test: the body has `rig`. The group that it is of is named by the file, group_<name>.c. */
#define RIG_TEST(name)                                                  \
    static void name##_of(struct cw_rig *rig);                          \
    TEST_WITH(name, cw_rig_setup, cw_rig_teardown)                      \
    {                                                                   \
        name##_of(*state);                                              \
    }                                                                   \
    static void name##_of(struct cw_rig *rig __attribute__((unused)))

/* What every interface here is opened with. */
const struct cw_config *cw_rig_config(void);

void cw_side_open(struct cw_side *side);
/* Whether sides that are opened from now on may copy between processes; at first they may. */
void cw_rig_allow_peer_memory(int allow);
/* Closes what is left of its connections, then the interface. */
void cw_side_close(struct cw_side *side);
/* One round as a worker does it: descriptors, then the interface. */
unsigned cw_side_progress(struct cw_side *side);
/* As a worker arms (WAK-4): UCS_OK or UCS_ERR_BUSY. */
ucs_status_t cw_side_arm(struct cw_side *side);
/* Progresses and arms until the side may sleep. The other side, if given, is progressed too while this one is busy. */
void cw_side_fall_asleep(struct cw_side *side, struct cw_side *other);
/* Whether the sleeping side's descriptor becomes readable in that time. */
int cw_side_wakes(struct cw_side *side, int timeout_ms);

unsigned cw_rig_progress(struct cw_rig *rig);
/* Progresses until *counter >= target; `what` completes the sentence "waited in vain for ...". */
void cw_rig_wait(struct cw_rig *rig, const unsigned *counter, unsigned target, const char *what);
/* Progresses until nothing has happened for a while. */
void cw_rig_settle(struct cw_rig *rig);
/* Skips the test for a transport that only reaches itself. */
void cw_rig_need_two(const struct cw_rig *rig);
/* Skips the test when the slot is NULL. */
void cw_rig_need(int possible, const char *what);

/* Dials and returns at once. The status is checked. */
struct cw_end *cw_end_dial(struct cw_side *from, const struct cw_side *to, const struct cw_bytes *hello);
/* As cw_end_dial to any bytes; *status_p is what dial answered, NULL is returned when that is no UCS_OK. */
struct cw_end *cw_end_dial_raw(struct cw_side *from, const void *address, size_t length, const struct cw_bytes *hello,
                               ucs_status_t *status_p);
/* Dials from one side to the other and waits until both ends are open. */
void cw_rig_connect(struct cw_rig *rig, struct cw_side *from, struct cw_side *to, struct cw_end **dialler_p,
                    struct cw_end **acceptor_p);
void cw_end_close(struct cw_end *end);
/* The end that was accepted with this hello, or NULL. */
struct cw_end *cw_end_find(struct cw_side *side, const struct cw_bytes *hello);

/* Bytes of that length that no other call gives. */
struct cw_bytes cw_bytes_unique(size_t length);

/* Fails the test, or notes the failure inside an upcall and returns 0. */
int cw_check(int condition, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Between the two, upcalls are legal and failures are only noted; the second one raises what was noted. */
void cw_check_note_begin(void);
void cw_check_note_end(void);
/* Whether a completion may be called now: from progress() or close_conn(). */
int cw_rig_may_complete(void);
/* From now on this process is a child: failures print and _exit(1). */
void cw_check_in_child(void);

uint64_t cw_deadline(void);
void cw_deadline_check(uint64_t deadline, const char *what);

int cw_count_descriptors(void);
int cw_count_mappings(void);
/* 1 unless CW_TEST_SCALE=n asks for shorter runs: count / n, at least 1. */
unsigned cw_scaled(unsigned count);

#endif
