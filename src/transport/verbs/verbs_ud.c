/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The UD queue pair. Every host of the partition can send to it: a datagram is dropped unless it carries the key of the
 * interface, and an answer goes only to the address that the device reports as the sender's (verbs_cm.c).
 */
#include "transport/verbs/verbs_conn.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define QKEY      0x4357u
#define SEND_AREA ((size_t)CW_VERBS_UD_RECEIVES * CW_VERBS_UD_SPACE)
#define MEMORY    (SEND_AREA + (size_t)CW_VERBS_UD_SENDS * CW_VERBS_UD_SEND)

_Static_assert(CW_VERBS_DATAGRAM_MAX <= CW_VERBS_UD_SEND, "a datagram fits");

static int post_receive(struct cw_verbs_iface *iface, uint64_t slot)
{
    struct ibv_sge sge = {.addr = (uintptr_t)iface->ud_memory + slot * CW_VERBS_UD_SPACE,
                        .length = CW_VERBS_UD_SPACE,
                        .lkey = iface->ud_mr->lkey};
    struct ibv_recv_wr *bad, wr = {.wr_id = CW_VERBS_UD_WR | slot, .sg_list = &sge, .num_sge = 1};

    return ibv_post_recv(iface->ud, &wr, &bad);
}

/* Brings the queue pair from RESET to RTS, with all receives posted. Returns 0 or an errno value. */
static int start(struct cw_verbs_iface *iface)
{
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_INIT, .port_num = iface->port.number, .pkey_index = iface->port.pkey_index, .qkey = QKEY};
    uint64_t slot;
    int error;

    error = iface->lib->modify_qp(iface->ud, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);
    for (slot = 0; error == 0 && slot < CW_VERBS_UD_RECEIVES; slot++) {
        error = post_receive(iface, slot);
    }
    attr.qp_state = IBV_QPS_RTR;
    if (error == 0) {
        error = iface->lib->modify_qp(iface->ud, &attr, IBV_QP_STATE);
    }
    attr.qp_state = IBV_QPS_RTS;
    return (error == 0) ? iface->lib->modify_qp(iface->ud, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN) : error;
}

ucs_status_t cw_verbs_ud_open(struct cw_verbs_iface *iface)
{
    struct ibv_qp_init_attr init = {.send_cq = iface->send_cq,
                                 .recv_cq = iface->recv_cq,
                                 .qp_type = IBV_QPT_UD,
                                 .sq_sig_all = 1,
                                 .cap = {.max_send_wr = CW_VERBS_UD_SENDS,
                                                .max_recv_wr = CW_VERBS_UD_RECEIVES,
                                                .max_send_sge = 1,
                                                .max_recv_sge = 1}};
    int error;

    iface->ud_memory = cw_verbs_memory(iface, MEMORY, &iface->ud_mr);
    if (iface->ud_memory == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    iface->ud = iface->lib->create_qp(iface->pd, &init);
    error = (iface->ud != NULL) ? start(iface) : errno;
    if (error != 0) {
        return cw_verbs_lacks(iface, "its UD queue pair", error);
    }
    return UCS_OK;
}

void cw_verbs_ud_close(struct cw_verbs_iface *iface)
{
    unsigned i;

    if (iface->ud != NULL) {
        (void)iface->lib->destroy_qp(iface->ud);
    }
    for (i = 0; i < CW_VERBS_HANDLES; i++) {
        if (iface->handles[i].handle != NULL) {
            (void)iface->lib->destroy_ah(iface->handles[i].handle);
        }
    }
    if (iface->ud_memory != NULL) {
        (void)iface->lib->dereg_mr(iface->ud_mr);
        free(iface->ud_memory);
    }
}

/* Restarts the queue pair instead of replacing it, because peers know its number. */
static void restart(struct cw_verbs_iface *iface)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};
    int error = iface->lib->modify_qp(iface->ud, &attr, IBV_QP_STATE);

    error = (error == 0) ? start(iface) : error;
    iface->ud_sending = 0;
    if (error != 0) {
        cw_error("%s can open no more connections: its UD queue pair failed and cannot be reset: %s",
                 iface->port.name, strerror(error));
    }
}

/* A completion with an error. Of several requests that end with a broken queue pair the first one reports why. */
static void broken(struct cw_verbs_iface *iface, const struct ibv_wc *wc)
{
    if (wc->status != IBV_WC_WR_FLUSH_ERR) {
        cw_log_ratelimited(&iface->ud_limit, CW_LOG_WARN,
                           "%s: a datagram broke the UD queue pair (%s); creating a new one", iface->port.name,
                           iface->lib->wc_status_str(wc->status));
        restart(iface);
    }
}

void cw_verbs_ud_sent(struct cw_verbs_iface *iface, const struct ibv_wc *wc)
{
    iface->ud_sending -= (iface->ud_sending > 0);
    if (wc->status != IBV_WC_SUCCESS) { /* the port has lost its link */
        broken(iface, wc);
    }
}

static struct ibv_ah *handle_for(struct cw_verbs_iface *iface, const struct cw_verbs_address *to, unsigned gid_index,
                                 unsigned peer_gid)
{
    const uint8_t *gid = to->gids[peer_gid];
    const uint8_t index = iface->port.gid_indices[gid_index];
    struct ibv_ah_attr attr = {.port_num = iface->port.number, .sl = iface->settings.sl, .dlid = to->lid};
    unsigned i;

    for (i = 0; i < CW_VERBS_HANDLES; i++) {
        if (iface->handles[i].handle != NULL && iface->handles[i].lid == to->lid && iface->handles[i].index == index &&
            memcmp(iface->handles[i].gid, gid, 16) == 0) {
            return iface->handles[i].handle;
        }
    }
    cw_verbs_path(iface, to, gid_index, peer_gid, &attr);
    i = iface->next_handle++ % CW_VERBS_HANDLES;
    if (iface->handles[i].handle != NULL) {
        (void)iface->lib->destroy_ah(iface->handles[i].handle); /* may drop datagrams that use the handle */
    }
    iface->handles[i].handle = iface->lib->create_ah(iface->pd, &attr);
    iface->handles[i].lid = to->lid;
    iface->handles[i].index = index;
    memcpy(iface->handles[i].gid, gid, 16);
    return iface->handles[i].handle;
}

void cw_verbs_ud_send(struct cw_verbs_iface *iface, const struct cw_verbs_address *to, unsigned gid_index,
                      unsigned peer_gid, const struct cw_verbs_datagram *datagram)
{
    char *memory = iface->ud_memory + SEND_AREA + (size_t)(iface->ud_next % CW_VERBS_UD_SENDS) * CW_VERBS_UD_SEND;
    struct ibv_sge sge = {.addr = (uintptr_t)memory, .lkey = iface->ud_mr->lkey};
    struct ibv_send_wr *bad, wr = {.wr_id = CW_VERBS_UD_WR, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND};

    if (iface->ud_sending == CW_VERBS_UD_SENDS) {
        (void)cw_verbs_sent(iface);
    }
    if (iface->ud_sending == CW_VERBS_UD_SENDS || iface->vanished) {
        return;
    }
    wr.wr.ud.ah = handle_for(iface, to, gid_index, peer_gid);
    wr.wr.ud.remote_qpn = to->qp;
    wr.wr.ud.remote_qkey = QKEY;
    if (wr.wr.ud.ah == NULL) {
        cw_log_ratelimited(&iface->ud_limit, CW_LOG_DEBUG, "%s: no path to a peer: %s", iface->port.name,
                           strerror(errno));
        return;
    }
    sge.length = (uint32_t)cw_verbs_datagram_encode(datagram, (uint8_t *)memory);
    if (ibv_post_send(iface->ud, &wr, &bad) == 0) {
        iface->ud_next++;
        iface->ud_sending++;
    }
}

unsigned cw_verbs_ud_received(struct cw_verbs_iface *iface, const struct ibv_wc *wc)
{
    const uint64_t slot = wc->wr_id & ~CW_VERBS_UD_WR;
    struct cw_verbs_datagram datagram;
    const uint8_t *bytes;
    const char *wrong;
    unsigned count = 0;
    int error;

    if (wc->status != IBV_WC_SUCCESS) {
        broken(iface, wc);
        return 0;
    }
    if (slot >= CW_VERBS_UD_RECEIVES) {
        return 0;
    }
    bytes = (const uint8_t *)iface->ud_memory + slot * CW_VERBS_UD_SPACE;
    if (wc->byte_len < CW_VERBS_UD_GRH || wc->byte_len > CW_VERBS_UD_SPACE) {
        wrong = "it is too short";
    } else {
        wrong = cw_verbs_datagram_decode(bytes + CW_VERBS_UD_GRH, wc->byte_len - CW_VERBS_UD_GRH, &datagram);
    }
    if (wrong == NULL && datagram.key != iface->key) {
        wrong = "it is for another interface, or from an unauthenticated peer";
    }
    if (wrong == NULL) {
        count = cw_verbs_datagram(iface, &datagram, wc, bytes);
    } else {
        cw_log_ratelimited(&iface->ud_limit, CW_LOG_DEBUG, "%s: dropped a datagram of %u bytes: %s",
                           iface->port.name, wc->byte_len, wrong);
    }
    error = post_receive(iface, slot);
    if (error != 0) {
        cw_log_ratelimited(&iface->ud_limit, CW_LOG_WARN, "%s: lost a receive for datagrams: %s", iface->port.name,
                           strerror(error));
    }
    return count;
}
