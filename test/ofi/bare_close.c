/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A provider of libfabric without this library: whether a receiver lives on when an endpoint of its own process that
 * sent to it is closed before the messages are received.
 *
 *     bare_close PROVIDER DOMAIN LENGTH    status 0: it lives; death by a signal: it does not; 77: no such provider
 */
#include "bare.h"

#define MESSAGES 16u

static struct fi_context2 contexts[2 * MESSAGES];
static char out[65536], in[MESSAGES][65536];

static void close_side(struct side *side)
{
    must(fi_close(&side->ep->fid), "closing the endpoint");
    must(fi_close(&side->cq->fid), "closing the queue");
    must(fi_close(&side->av->fid), "closing the address vector");
    must(fi_close(&side->domain->fid), "closing the domain");
}

int main(int argc, char **argv)
{
    struct fi_cq_msg_entry entries[16];
    fi_addr_t peer;
    unsigned i;

    if (argc != 4 || (size_t)atoi(argv[3]) > sizeof(out)) {
        return 2;
    }
    if (!find(argv[1], argv[2])) {
        return 77;
    }
    peer = open_both(128);
    for (i = 0; i < MESSAGES; i++) {
        must((int)fi_recv(receiver.ep, in[i], sizeof(in[i]), NULL, FI_ADDR_UNSPEC, &contexts[i]), "fi_recv");
    }
    for (i = 0; i < MESSAGES; i++) {
        (void)fi_send(sender.ep, out, (size_t)atoi(argv[3]), NULL, peer, &contexts[MESSAGES + i]);
        (void)fi_cq_read(sender.cq, entries, 16);
    }
    close_side(&sender);
    for (i = 0; i < 1000; i++) {
        (void)fi_cq_read(receiver.cq, entries, 16);
    }
    printf("%s:%s: the receiver of %s bytes lives\n", argv[1], argv[2], argv[3]);
    close_side(&receiver);
    return 0;
}
