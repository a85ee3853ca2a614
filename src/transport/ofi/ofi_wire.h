/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The packets between two interfaces of the transport ofi. All numbers are little endian. docs/WIRE.md has the details.
 *
 * Every libfabric message is one packet: a header, and the payload of its id. Packets with an id, REPLY and BYE carry a
 * sequence number, by which the receiver restores their order; all others are unordered.
 */
#ifndef CW_TRANSPORT_OFI_OFI_WIRE_H
#define CW_TRANSPORT_OFI_OFI_WIRE_H

#include <stdint.h>

#define CW_OFI_VERSION     3u
#define CW_OFI_MAX_ADDRESS 160u /* bytes of a provider's address */

struct cw_ofi_header {
    uint64_t to;       /* number of the connection at the receiver; 0: none yet */
    uint32_t token;    /* random, chosen by the receiver when the connection was made */
    uint32_t sequence; /* sequence number << 8 | packet id; id 0: a struct cw_ofi_control follows */
    uint32_t length;   /* bytes behind the header, since the length that the provider reports is not sufficient */
    uint32_t handled;  /* sequence number of the packet that the sender of this one expects next (acknowledgement) */
};
_Static_assert(sizeof(struct cw_ofi_header) == 24, "part of the wire");

#define CW_OFI_SEQUENCES (1u << 24)

enum cw_ofi_kind {
    CW_OFI_HELLO = 1, /* to 0: a dial; then the dialler's address entry and reach, and its core's hello */
    CW_OFI_REPLY = 2, /* ordered, the first: dial accepted; then the acceptor's entry and reach, and its core's reply */
    CW_OFI_REFUSED = 3, /* dial refused; then the core's reply */
    CW_OFI_GONE = 4, /* answers a dial, a packet or a PING: no such connection or listener */
    CW_OFI_BYE = 5, /* ordered, the last: the sender closed its end */
    CW_OFI_LEAVE = 6, /* to 0: the dial with that number and token was canceled */
    CW_OFI_PING = 7, /* asks whether the connection exists; then the sender's address entry */
    CW_OFI_PONG = 8,
    CW_OFI_HANDLED = 9 /* header only, an acknowledgement: the sender has handled many packets and has no other packet
                        * to carry it, or wants a completion behind packets that have none */
};

struct cw_ofi_control {
    uint64_t number; /* sender's number of the connection */
    uint32_t token;
    uint8_t kind;
    uint8_t version;
    uint8_t entry_length; /* bytes of the sender's address entry that follow */
    uint8_t reach_length; /* bytes of the struct cw_ofi_reach that follows, and of its address; 0: there is none */
    uint16_t length;      /* bytes of the core's payload behind them */
    uint16_t watch_port;  /* TCP port at which the sender's process can be watched, only with an entry; 0: none */
    uint32_t unused3;
};
_Static_assert(sizeof(struct cw_ofi_control) == 24, "part of the wire");

/* The transport's entry in a worker address; the provider's address of `length` bytes follows. */
struct cw_ofi_entry {
    uint64_t life;     /* random, unique for each interface ever opened */
    uint64_t pidns;    /* PID namespace of the process (cw_host_pidns_id) */
    uint32_t process;  /* process id in that namespace */
    uint32_t provider; /* checksum of the provider's name: only equal providers are compatible */
    uint32_t format;   /* address format, FI_FORMAT of libfabric */
    uint8_t version;
    uint8_t local; /* the address is valid only on one machine */
    uint16_t length;
    uint64_t boot; /* boot id of the machine (cw_host_boot_id) */
};
_Static_assert(sizeof(struct cw_ofi_entry) == 40, "part of the wire");

/* How the peer's device accesses the sender's memory. */
struct cw_ofi_reach {
    uint32_t mr_mode;   /* provider's mr_mode: both sides must have the same */
    uint8_t key_length; /* key length: both sides must have the same */
    uint8_t domain;     /* number of the sender's domain in keys, from 1 */
    uint16_t length;    /* length of the address behind this structure, for accesses; 0: that of packets is used */
};
_Static_assert(sizeof(struct cw_ofi_reach) == 8, "part of the wire");

#define CW_OFI_MAX_ENTRY (sizeof(struct cw_ofi_entry) + CW_OFI_MAX_ADDRESS)

#endif
