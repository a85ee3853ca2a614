/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The bytes that the verbs transport shows to others: the address of an interface, and the datagrams that set
 * connections up. Pure encoding and decoding; bytes from outside may have any value. Their layout: docs/WIRE.md.
 */
#ifndef CW_TRANSPORT_VERBS_VERBS_WIRE_H
#define CW_TRANSPORT_VERBS_VERBS_WIRE_H

#include <stddef.h>
#include <stdint.h>

#define CW_VERBS_MAX_GIDS      4u
#define CW_VERBS_ADDRESS_HEAD  19u
#define CW_VERBS_ADDRESS_MAX   (CW_VERBS_ADDRESS_HEAD + 16u * CW_VERBS_MAX_GIDS)
#define CW_VERBS_WORDS_MAX     256u
#define CW_VERBS_DATAGRAM_HEAD 44u
#define CW_VERBS_DATAGRAM_MAX  (CW_VERBS_DATAGRAM_HEAD + 1u + CW_VERBS_ADDRESS_MAX + CW_VERBS_WORDS_MAX)

struct cw_verbs_address {
    unsigned ethernet;
    unsigned mtu;
    uint16_t lid;        /* of InfiniBand */
    uint16_t watch_port; /* of Ethernet: of TCP at each GID, where the process can be watched; 0: none */
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
    uint32_t epoch;                  /* of a connection that is parked: how often it was; else 0 */
    struct cw_verbs_address address; /* only in a hello and a close */
    size_t length;
    const uint8_t *words; /* borrowed */
};

/* Returns the length, at most CW_VERBS_ADDRESS_MAX. */
size_t cw_verbs_address_encode(const struct cw_verbs_address *address, uint8_t *to);
/* NULL, or what is wrong. */
const char *cw_verbs_address_decode(const void *from, size_t length, struct cw_verbs_address *address);

/* Returns the length, at most CW_VERBS_DATAGRAM_MAX. */
size_t cw_verbs_datagram_encode(const struct cw_verbs_datagram *datagram, uint8_t *to);
const char *cw_verbs_datagram_decode(const void *from, size_t length, struct cw_verbs_datagram *datagram);

/* Whether the GID holds an IPv4 address, and whether it is link-local. */
int cw_verbs_gid_is_ipv4(const uint8_t gid[16]);
int cw_verbs_gid_is_local(const uint8_t gid[16]);

/* Chooses the GIDs of both sides for a connection. NULL, or the reason why the peer cannot be reached. */
const char *cw_verbs_pair(const struct cw_verbs_address *ours, const struct cw_verbs_address *theirs, unsigned *our_gid,
                          unsigned *their_gid);

/* Chooses GIDs of one family that fit the routes: the first of ours that lies on the network device through which the
 * system reaches one of theirs. The numbers of the devices are those of each GID; 0: not known. 0: no two fit, and
 * nothing is chosen. */
int cw_verbs_pair_on(const struct cw_verbs_address *ours, const uint32_t our_devices[CW_VERBS_MAX_GIDS],
                     const struct cw_verbs_address *theirs, const uint32_t their_devices[CW_VERBS_MAX_GIDS],
                     unsigned *our_gid, unsigned *their_gid);

/* The times at which a datagram is sent again to a peer that does not answer: after `first`, then each time after twice
 * the interval, which is at most a second, until the end. */
struct cw_verbs_retry {
    uint64_t next_ns;
    uint64_t interval_ns;
    uint64_t end_ns;
};

void cw_verbs_retry_begin(struct cw_verbs_retry *retry, uint64_t now_ns, uint64_t first_ns, uint64_t timeout_ns);
/* Called at next_ns. 1: the caller sends again, and next_ns is later; 0: the time is over. */
int cw_verbs_retry_step(struct cw_verbs_retry *retry, uint64_t now_ns);

#endif
