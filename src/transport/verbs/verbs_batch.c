/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Posts several requests with one doorbell. Between begin and end of a batch the connection owns a chain that collects
 * them; their send queue entries are counted at once. A request that cannot be chained posts the chain first, which
 * preserves the order.
 */
#include "transport/verbs/verbs_conn.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define CHAIN     16u
#define MOST_SGES 2

struct cw_verbs_chain {
    struct cw_verbs_chain *next; /* iface->spare_chains */
    unsigned count;
    struct {
        struct ibv_send_wr wr;
        struct ibv_sge sges[MOST_SGES];
    } retained[CHAIN];
};

static struct cw_verbs_chain *chain_of(struct cw_verbs_conn *conn)
{
    struct cw_verbs_iface *iface = cw_verbs_iface_of(&conn->super);

    if (conn->chain == NULL) {
        conn->chain = iface->spare_chains;
        if (conn->chain == NULL) {
            conn->chain = calloc(1, sizeof(*conn->chain));
        } else {
            iface->spare_chains = conn->chain->next;
        }
    }
    return conn->chain;
}

int cw_verbs_chain_keep(struct cw_verbs_conn *conn, const struct ibv_send_wr *wr)
{
    struct cw_verbs_chain *chain;
    unsigned index;

    if (wr->num_sge == 0 || wr->num_sge > MOST_SGES) {
        return 0;
    }
    chain = chain_of(conn);
    if (chain == NULL) {
        return 0;
    }
    if (chain->count == CHAIN) {
        if (!cw_verbs_chain_send(conn)) {
            return 0;
        }
        chain = chain_of(conn); /* reuses the chain that was just released */
    }
    index = chain->count++;
    chain->retained[index].wr = *wr;
    memcpy(chain->retained[index].sges, wr->sg_list, (size_t)wr->num_sge * sizeof(struct ibv_sge));
    chain->retained[index].wr.sg_list = chain->retained[index].sges;
    chain->retained[index].wr.next = NULL;
    if (index > 0) {
        chain->retained[index - 1].wr.next = &chain->retained[index].wr;
    }
    return 1;
}

unsigned cw_verbs_chain_drop(struct cw_verbs_conn *conn)
{
    struct cw_verbs_iface *iface = cw_verbs_iface_of(&conn->super);
    struct cw_verbs_chain *chain = conn->chain;
    unsigned count;

    if (chain == NULL) {
        return 0;
    }
    count = chain->count;
    chain->count = 0;
    chain->next = iface->spare_chains;
    iface->spare_chains = chain;
    conn->chain = NULL;
    return count;
}

int cw_verbs_chain_send(struct cw_verbs_conn *conn)
{
    struct cw_verbs_chain *chain = conn->chain;
    struct ibv_send_wr *bad;
    int error = 0;

    if (conn->state >= CW_VERBS_FAILING) {
        conn->unsent += cw_verbs_chain_drop(conn);
        return 1;
    }
    if (chain != NULL && chain->count > 0) {
        error = ibv_post_send(conn->qp, &chain->retained[0].wr, &bad);
    }
    (void)cw_verbs_chain_drop(conn);
    if (error != 0) {
        cw_verbs_conn_fail(conn, UCS_ERR_IO_ERROR, strerror(error));
    }
    return error == 0;
}

void cw_verbs_batch(struct cw_conn *super, enum cw_batch what)
{
    struct cw_verbs_conn *conn = cw_verbs_conn_of(super);

    if (what == CW_BATCH_BEGIN || what == CW_BATCH_LONG) {
        conn->batches++;
    } else if (what == CW_BATCH_END) {
        assert(conn->batches > 0);
        if (--conn->batches == 0 && conn->chain != NULL) {
            (void)cw_verbs_chain_send(conn);
        }
    }
}

void cw_verbs_chains_free(struct cw_verbs_iface *iface)
{
    struct cw_verbs_chain *chain;

    while ((chain = iface->spare_chains) != NULL) {
        iface->spare_chains = chain->next;
        free(chain);
    }
}
