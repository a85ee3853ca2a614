/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A provider of libfabric without this library: whether packets arrive of which the provider took more than its
 * queue is long.
 *
 *     bare_queue PROVIDER DOMAIN    status 0: they do; 1: nothing came for 5 s; 77: no such provider
 */
#include <time.h>

#include "bare.h"

#define MESSAGES 1000u
#define ROOM     64u

static struct fi_context2 contexts[MESSAGES + ROOM];
static char out[64], in[ROOM][64];

/* Posts each receive again that is complete. Returns how many were. */
static unsigned receive(void)
{
    struct fi_cq_msg_entry entries[16];
    const ssize_t count = fi_cq_read(receiver.cq, entries, 16);
    ssize_t i;

    for (i = 0; i < count; i++) {
        const size_t k = (size_t)((struct fi_context2 *)entries[i].op_context - &contexts[MESSAGES]);

        must((int)fi_recv(receiver.ep, in[k], sizeof(in[k]), NULL, FI_ADDR_UNSPEC, entries[i].op_context), "fi_recv");
    }
    return (count > 0) ? (unsigned)count : 0;
}

int main(int argc, char **argv)
{
    struct fi_cq_msg_entry entries[16];
    unsigned i, sent = 0, received = 0, came;
    time_t moved;
    fi_addr_t peer;

    if (argc != 3) {
        return 2;
    }
    if (!find(argv[1], argv[2])) {
        return 77;
    }
    info->tx_attr->size = ROOM;
    peer = open_both(4 * ROOM);
    for (i = 0; i < ROOM; i++) {
        must((int)fi_recv(receiver.ep, in[i], sizeof(in[i]), NULL, FI_ADDR_UNSPEC, &contexts[MESSAGES + i]), "fi_recv");
    }
    for (moved = time(NULL); received < MESSAGES && time(NULL) < moved + 5;) {
        while (sent < MESSAGES && fi_send(sender.ep, out, sizeof(out), NULL, peer, &contexts[sent]) == 0) {
            sent++;
        }
        (void)fi_cq_read(sender.cq, entries, 16);
        came = receive();
        moved = (came > 0) ? time(NULL) : moved;
        received += came;
    }
    printf("%s:%s: it took %u of %u messages, %u came\n", argv[1], argv[2], sent, MESSAGES, received);
    return (received == MESSAGES) ? 0 : 1;
}
