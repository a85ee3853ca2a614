/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The packets between two interfaces of the transport ofi. All numbers are little endian. docs/WIRE.md has the details.
 *
 * Every message of the provider is one packet: a header, and the content that belongs to the id. Packets with an id
 * carry a running number, by which the receiver restores their order, and so do REPLY and BYE; the others are outside
 * this order.
 */
#ifndef CW_TRANSPORT_OFI_OFI_WIRE_H
#define CW_TRANSPORT_OFI_OFI_WIRE_H

#include <stdint.h>

#define CW_OFI_VERSION     3u
#define CW_OFI_MAX_ADDRESS 160u /* bytes of a provider's address */

struct cw_ofi_header {
    uint64_t to;       /* number of the connection at the receiver; 0: none yet */
    uint32_t token;    /* random, chosen by the receiver when the connection was made */
    uint32_t sequence; /* running number << 8 | id of the packet; id 0: a struct cw_ofi_control follows */
    uint32_t length;   /* bytes behind the header, since the length that the provider reports is not enough */
    uint32_t handled;  /* running number of the packet that the sender of this one expects next */
};
_Static_assert(sizeof(struct cw_ofi_header) == 24, "part of the wire");

#define CW_OFI_SEQUENCES (1u << 24)

enum cw_ofi_kind {
    CW_OFI_HELLO = 1, /* to 0: a dial; then the dialler's address entry and reach, and the hello of its core */
    CW_OFI_REPLY = 2, /* in order, the first: accepted; then the acceptor's entry and reach, and the core's reply */
    CW_OFI_REFUSED = 3, /* to a dial: refused; then the reply of the core */
    CW_OFI_GONE = 4, /* to a dial, a packet or a PING: there is no such connection or listener */
    CW_OFI_BYE = 5, /* in order, the last: the sender closed its end */
    CW_OFI_LEAVE = 6, /* to 0: the dial with that number and token was given up */
    CW_OFI_PING = 7, /* asks whether that connection exists; then the address entry of the sender */
    CW_OFI_PONG = 8,
    CW_OFI_HANDLED = 9 /* its header alone: the sender has handled many packets and has no other packet to tell it, or
                      * wants a completion behind packets that have none */
};

struct cw_ofi_control {
    uint64_t number; /* number of the connection at the sender, and its token */
    uint32_t token;
    uint8_t kind;
    uint8_t version;
    uint8_t entry_length; /* bytes of the sender's address entry that follow */
    uint8_t reach_length; /* bytes of the struct cw_ofi_reach that follows, and of its address; 0: there is none */
    uint16_t length;      /* bytes of the core behind them */
    uint16_t watch_port;  /* of TCP, where the sender's process can be watched, with an entry alone; 0: none */
    uint32_t unused3;
};
_Static_assert(sizeof(struct cw_ofi_control) == 24, "part of the wire");

/* The transport's entry of a worker address; the address of the provider follows, `length` bytes. */
struct cw_ofi_entry {
    uint64_t life;     /* random: differs for each interface that was ever opened */
    uint64_t pidns;    /* namespace of the process, by cw_host_pidns_id, */
    uint32_t process;  /* and the process there */
    uint32_t provider; /* a sum of the provider's name: only equal providers can talk to each other */
    uint32_t format;   /* form of the address, a number of FI_FORMAT of libfabric */
    uint8_t version;
    uint8_t local; /* the address is valid on one machine alone */
    uint16_t length;
    uint64_t boot; /* the machine, by cw_host_boot_id */
};
_Static_assert(sizeof(struct cw_ofi_entry) == 40, "part of the wire");

/* How the device of the peer reaches memory of the sender. */
struct cw_ofi_reach {
    uint32_t mr_mode;   /* of the provider: both sides must have the same mode, */
    uint8_t key_length; /* and the same length of keys */
    uint8_t domain;     /* the number by which keys name the sender's domain, from 1 */
    uint16_t length;    /* of the address behind this structure, which memory belongs to; 0: that of packets */
};
_Static_assert(sizeof(struct cw_ofi_reach) == 8, "part of the wire");

#define CW_OFI_MAX_ENTRY (sizeof(struct cw_ofi_entry) + CW_OFI_MAX_ADDRESS)

#endif
