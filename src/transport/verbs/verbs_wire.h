/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Wire format of the verbs transport: interface addresses, and the datagrams that set up connections. Pure encoding and
 * decoding; input bytes are untrusted. Layout: docs/WIRE.md.
 */
#ifndef CW_TRANSPORT_VERBS_VERBS_WIRE_H
#define CW_TRANSPORT_VERBS_VERBS_WIRE_H

#include <stddef.h>
#include <stdint.h>

#define CW_VERBS_MAX_GIDS      4u
#define CW_VERBS_ADDRESS_HEAD  19u
#define CW_VERBS_ADDRESS_MAX   (CW_VERBS_ADDRESS_HEAD + 16u * CW_VERBS_MAX_GIDS)
#define CW_VERBS_WORDS_MAX     256u
#define CW_VERBS_DATAGRAM_HEAD 49u
#define CW_VERBS_DATAGRAM_MAX  (CW_VERBS_DATAGRAM_HEAD + 1u + CW_VERBS_ADDRESS_MAX + CW_VERBS_WORDS_MAX)

struct cw_verbs_address {
    unsigned ethernet;
    unsigned mtu;
    uint16_t lid;        /* InfiniBand */
    uint16_t watch_port; /* Ethernet: TCP port at each GID at which the process can be watched; 0: none */
    uint16_t pkey;
    uint32_t qp;
    uint64_t key;
    unsigned domain; /* number of the memory domain; 0: none */
    unsigned num_gids;
    uint8_t gids[CW_VERBS_MAX_GIDS][16];
};

enum cw_verbs_kind { CW_VERBS_HELLO = 1, CW_VERBS_REPLY, CW_VERBS_CANCEL, CW_VERBS_CLOSE };
enum cw_verbs_answer { CW_VERBS_ACCEPTED, CW_VERBS_REFUSED, CW_VERBS_FAILED };

struct cw_verbs_datagram {
    enum cw_verbs_kind kind;
    enum cw_verbs_answer answer;
    uint64_t key;
    uint64_t to;
    uint64_t from;
    unsigned mtu;
    unsigned reads;
    unsigned gid_from;
    unsigned gid_to;
    uint32_t qp;
    uint32_t psn;
    uint32_t epoch;      /* connection that is reopened: how often it gave up its queue pair; else 0 */
    uint32_t handled;    /* packets of the peer that it has handled */
    unsigned is_refused; /* the sender knows which of its accesses broke the queue pair */
    struct cw_verbs_address address; /* only in HELLO and CLOSE */
    size_t length;
    const uint8_t *words; /* borrowed */
};

/* Returns the length, at most CW_VERBS_ADDRESS_MAX. */
size_t cw_verbs_address_encode(const struct cw_verbs_address *address, uint8_t *to);
/* Returns NULL, or what is wrong. */
const char *cw_verbs_address_decode(const void *from, size_t length, struct cw_verbs_address *address);

/* Returns the length, at most CW_VERBS_DATAGRAM_MAX. */
size_t cw_verbs_datagram_encode(const struct cw_verbs_datagram *datagram, uint8_t *to);
const char *cw_verbs_datagram_decode(const void *from, size_t length, struct cw_verbs_datagram *datagram);

/* Whether the GID holds an IPv4 address; whether it is link-local. */
int cw_verbs_gid_is_ipv4(const uint8_t gid[16]);
int cw_verbs_gid_is_local(const uint8_t gid[16]);

/* Chooses the GIDs of both sides for a connection. Returns NULL, or why the peer is unreachable. */
const char *cw_verbs_pair(const struct cw_verbs_address *ours, const struct cw_verbs_address *theirs, unsigned *our_gid,
                          unsigned *their_gid);

/* Chooses GIDs of one family that fit the routes: the first of ours that lies on the network interface through which
 * the system reaches one of theirs. The arrays hold the network interface index of each GID; 0: unknown. Returns 0 if
 * no two fit; the choice is then unchanged. */
int cw_verbs_pair_on(const struct cw_verbs_address *ours, const uint32_t our_devices[CW_VERBS_MAX_GIDS],
                     const struct cw_verbs_address *theirs, const uint32_t their_devices[CW_VERBS_MAX_GIDS],
                     unsigned *our_gid, unsigned *their_gid);

/* Retransmission of a datagram: first after `first_ns`, then with the interval doubled each time up to one second,
 * until the timeout. */
struct cw_verbs_retry {
    uint64_t next_ns;
    uint64_t interval_ns;
    uint64_t end_ns;
};

void cw_verbs_retry_begin(struct cw_verbs_retry *retry, uint64_t now_ns, uint64_t first_ns, uint64_t timeout_ns);
/* Call at next_ns. Returns 1: send again, next_ns is updated; 0: timed out. */
int cw_verbs_retry_step(struct cw_verbs_retry *retry, uint64_t now_ns);

#endif
