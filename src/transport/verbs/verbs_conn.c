/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RC queue pairs: send queue entries, completions and teardown.
 *
 * One request in each half of the send queue, at least each 64th, is signaled and thereby completes all requests before
 * it. A function that needs an earlier completion posts an empty write, for which one entry is reserved. After an error
 * every request completes, so the completion queue has an entry for each.
 */
#include "transport/verbs/verbs_conn.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/compiler.h"
#include "base/counter.h"
#include "base/string.h"
#include "os/clock.h"
#include "os/random.h"

#define PSN_MASK    0xffffffu
#define LEAVING_NS  UINT64_C(10000000000)
#define GRACE_NS    UINT64_C(10000000)

static unsigned on_alarm(struct cw_alarm *alarm);
static int end_draining(struct cw_verbs_iface *iface);

void cw_verbs_path(const struct cw_verbs_iface *iface, const struct cw_verbs_address *to, unsigned gid_index,
                   unsigned peer_gid, struct ibv_ah_attr *attr)
{
    *attr = (struct ibv_ah_attr){.port_num = iface->port.number, .sl = iface->settings.sl, .dlid = to->lid};
    if (to->ethernet) {
        attr->is_global = 1;
        attr->grh.sgid_index = iface->port.gid_indices[gid_index];
        attr->grh.hop_limit = iface->settings.hop_limit;
        attr->grh.traffic_class = iface->settings.traffic_class;
        memcpy(attr->grh.dgid.raw, to->gids[peer_gid], 16);
    }
}

/* A limit of the device or the system is reached: connections are parked, or the core tries other transports. Logged
 * once. */
static void log_limit(struct cw_verbs_iface *iface, const char *what, int error)
{
    if (!cw_verbs_make_space(iface) && !iface->limit_logged) {
        iface->limit_logged = 1;
        cw_warn("%s is out of resources for another connection (%s: %s); using another transport if there is one",
                iface->port.name, what, strerror(error));
    }
}

/* No device reports its inline limit; creation fails if it is exceeded. */
static struct ibv_qp *create_qp(struct cw_verbs_iface *iface, struct ibv_qp_init_attr *init)
{
    struct ibv_qp_init_attr asked = *init;
    struct ibv_qp *qp;

    for (;;) {
        *init = asked;
        qp = iface->lib->create_qp(iface->pd, init);
        if (qp != NULL || errno != EINVAL || asked.cap.max_inline_data == 0) {
            return qp;
        }
        asked.cap.max_inline_data /= 2;
    }
}

bool cw_verbs_conn_make_qp(struct cw_verbs_conn *conn)
{
    struct cw_verbs_iface *iface = cw_verbs_iface_of(&conn->super);
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT,
                        .port_num = iface->port.number,
                        .pkey_index = iface->port.pkey_index,
                        .qp_access_flags = IBV_ACCESS_REMOTE_WRITE}; /* allows empty writes, even without a domain */
    struct ibv_qp_init_attr init = {
        .send_cq = iface->send_cq,
        .recv_cq = iface->recv_cq,
        .srq = iface->srq,
        .qp_type = IBV_QPT_RC,
        .cap = {.max_send_wr = iface->settings.sends, .max_send_sge = 2, .max_inline_data = iface->settings.inlined}};
    int error;

    if (!cw_verbs_grow_cq(iface)) {
        log_limit(iface, "its queues", errno);
        return false;
    }
    if (iface->domain != NULL) {
        attr.qp_access_flags |= IBV_ACCESS_REMOTE_READ | (iface->port.has_atomics ? IBV_ACCESS_REMOTE_ATOMIC : 0);
    }
    if (conn->requests == NULL) {
        conn->requests = malloc(iface->settings.sends * iface->request_size);
    }
    conn->qp = (conn->requests == NULL) ? NULL : create_qp(iface, &init);
    error = errno;
    if (conn->requests != NULL && conn->qp == NULL && end_draining(iface)) {
        conn->qp = create_qp(iface, &init);
        error = errno;
    }
    if (conn->qp == NULL) {
        log_limit(iface, "a queue pair", error);
        return false;
    }
    conn->max_inline = (unsigned)cw_smaller(init.cap.max_inline_data, iface->settings.inlined); /* to be retained */
    error =
        iface->lib->modify_qp(conn->qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
    if (error != 0) {
        log_limit(iface, "setting up a queue pair", error);
        (void)iface->lib->destroy_qp(conn->qp);
        conn->qp = NULL;
        return false;
    }
    conn->serial = ++iface->last_serial & 0x7fffffffu;
    conn->psn = (uint32_t)cw_random_u64() & PSN_MASK;
    cw_hash_add(&iface->by_qp, &conn->by_qp, conn->qp->qp_num);
    iface->num_qps++;
    cw_verbs_share_cq(iface);
    cw_verbs_live_add(conn);
    return true;
}

struct cw_verbs_conn *cw_verbs_conn_new(struct cw_verbs_iface *iface, void *user)
{
    struct cw_verbs_conn *conn;

    if (cw_verbs_receive_begin(iface) != UCS_OK) {
        log_limit(iface, "its queues", errno);
        return NULL;
    }
    conn = calloc(1, sizeof(*conn) + iface->settings.sends * sizeof(conn->slots[0]));
    if (conn == NULL || cw_idmap_add(&iface->ids, conn, &conn->id) != UCS_OK) {
        free(conn);
        return NULL;
    }
    conn->super.iface = &iface->super;
    conn->super.user = user;
    conn->ops_end = &conn->ops;
    conn->alarm.fire = on_alarm;
    conn->posted = conn->completed = conn->signalled = conn->checked = conn->lent = (uint32_t)cw_counter_start;
    conn->packets = conn->handled = (uint32_t)cw_counter_start;
    cw_list_init(&conn->blocked);
    cw_list_init(&conn->due);
    cw_list_init(&conn->live);
    cw_list_add_tail(&iface->conns, &conn->link);
    iface->num_conns++;
    cw_watch_listener_more(&iface->watched);
    return conn;
}

/* Whether the device may still access memory of the core. */
static int uses_lent_memory(const struct cw_verbs_conn *conn)
{
    return (int32_t)(conn->lent - conn->completed) > 0;
}

static int uses_memory(const struct cw_verbs_conn *conn)
{
    return conn->ops != NULL || uses_lent_memory(conn);
}

void cw_verbs_conn_complete(struct cw_verbs_conn *conn, uint32_t until, ucs_status_t status)
{
    struct cw_verbs_iface *iface = cw_verbs_iface_of(&conn->super);
    struct cw_verbs_segment **slot;

    if (conn->ops != NULL) {
        cw_verbs_ops_fetched(conn, until, status);
    }

    iface->in_flight -= until - conn->completed;
    for (; conn->completed != until; conn->completed++) {
        slot = &conn->slots[conn->completed & (iface->settings.sends - 1)];
        if (*slot != NULL) {
            cw_verbs_segment_put(iface, *slot);
            *slot = NULL;
        }
    }
    if (!uses_lent_memory(conn)) {
        conn->lent = until; /* keeps the numbers within half of their range */
    }
}

/* Requests in flight complete with errors, and no packet is received any more. No END can follow, so a datagram
 * notifies the peer; if it is lost, the checks of a peer that watches the connection or waits for a message find
 * out. */
static void break_qp(struct cw_verbs_conn *conn)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

    if (conn->is_broken) {
        return;
    }
    conn->is_broken = 1;
    if (conn->qp != NULL) {
        (void)cw_verbs_iface_of(&conn->super)->lib->modify_qp(conn->qp, &attr, IBV_QP_STATE);
    }
    if ((conn->is_ready || conn->epoch > 0) && !conn->peer_knows) {
        cw_verbs_cancel(conn);
    }
}

void cw_verbs_qp_destroy(struct cw_verbs_iface *iface, struct ibv_qp *qp)
{
    (void)iface->lib->destroy_qp(qp);
    iface->num_qps--;
    cw_verbs_share_cq(iface);
}

void cw_verbs_conn_forget_requests(struct cw_verbs_conn *conn)
{
    cw_verbs_conn_complete(conn, conn->posted, UCS_ERR_CONNECTION_RESET);
    conn->unsent = 0;
}

static void destroy_qp(struct cw_verbs_conn *conn)
{
    struct cw_verbs_iface *iface = cw_verbs_iface_of(&conn->super);

    (void)cw_verbs_chain_drop(conn);
    if (conn->qp != NULL) {
        cw_hash_remove(&iface->by_qp, &conn->by_qp);
        cw_verbs_live_remove(conn);
        cw_verbs_qp_destroy(iface, conn->qp);
        conn->qp = NULL;
    }
    cw_verbs_conn_forget_requests(conn);
}

/* Memory may be reused when its request has completed. If requests do not complete in time, destroys the queue pair. */
static void stop_now(struct cw_verbs_conn *conn)
{
    struct cw_verbs_iface *iface = cw_verbs_iface_of(&conn->super);

    if (cw_verbs_is_running(conn)) {
        cw_verbs_hold_received(iface);
        destroy_qp(conn);
    } else {
        cw_verbs_conn_complete(conn, conn->posted, UCS_ERR_CONNECTION_RESET);
    }
}

static void begin_stop(struct cw_verbs_conn *conn)
{
    conn->unsent += cw_verbs_chain_drop(conn);
    if (!conn->is_broken && conn->unsent == 0) {
        cw_verbs_conn_nudge(conn); /* nothing would report requests that complete without a signal */
    }
    break_qp(conn);
    (void)cw_verbs_sent(cw_verbs_iface_of(&conn->super));
}

/* As cw_verbs_conn_stop, but does not block. Returns 0 if completions, or the alarm, will put the connection on the due
 * list. */
static int try_stop(struct cw_verbs_conn *conn)
{
    struct cw_poller *poller = cw_verbs_iface_of(&conn->super)->poller;

    begin_stop(conn);
    if (cw_verbs_is_running(conn)) {
        if (!cw_alarm_is_set(&conn->alarm)) {
            cw_poller_alarm_set(poller, &conn->alarm, cw_clock_ns() + CW_VERBS_STOP_NS);
        }
        return 0;
    }
    cw_poller_alarm_cancel(poller, &conn->alarm);
    stop_now(conn);
    return 1;
}

void cw_verbs_conn_stop(struct cw_verbs_conn *conn)
{
    const uint64_t end = cw_clock_ns() + CW_VERBS_STOP_NS;

    begin_stop(conn);
    while (cw_verbs_is_running(conn) && cw_clock_ns() < end) {
        (void)cw_verbs_sent(cw_verbs_iface_of(&conn->super));
    }
    stop_now(conn);
}

/* Removes the connection from all lists and tables. */
static void forget(struct cw_verbs_conn *conn)
{
    struct cw_verbs_iface *iface = cw_verbs_iface_of(&conn->super);

    cw_poller_alarm_cancel(iface->poller, &conn->alarm);
    cw_verbs_watch_end(conn);
    cw_verbs_live_remove(conn);
    cw_list_remove(&conn->blocked);
    cw_list_remove(&conn->due);
    if (conn->is_listed) {
        cw_hash_remove(&iface->by_peer, &conn->by_peer);
        conn->is_listed = 0;
    }
    if (conn->state != CW_VERBS_DRAINING) {
        cw_idmap_remove(&iface->ids, conn->id);
    }
    conn->super.user = NULL;
    conn->state = CW_VERBS_DRAINING;
}

void cw_verbs_conn_end(struct cw_verbs_conn *conn)
{
    cw_verbs_iface_of(&conn->super)->num_draining -= conn->state == CW_VERBS_DRAINING;
    forget(conn);
    destroy_qp(conn);
    cw_list_remove(&conn->link);
    cw_verbs_iface_of(&conn->super)->num_conns--;
    free(conn->words);
    free(conn->requests);
    free(conn->super.end);
    free(conn);
}

/* Drivers discard the completions of a destroyed queue pair. Lost receive completions would corrupt the count of posted
 * receives, so the queue pair first drains for a while. */
void cw_verbs_conn_free(struct cw_verbs_conn *conn)
{
    if (conn->qp == NULL || !conn->is_connected) {
        cw_verbs_conn_end(conn);
        return;
    }
    break_qp(conn);
    forget(conn);
    cw_verbs_iface_of(&conn->super)->num_draining++;
    cw_poller_alarm_set_lazy(cw_verbs_iface_of(&conn->super)->poller, &conn->alarm, cw_clock_ns() + CW_VERBS_DRAIN_NS);
}

/* Destroys the queue pairs that only drain completions. */
static int end_draining(struct cw_verbs_iface *iface)
{
    struct cw_verbs_conn *conn, *next;
    int any = cw_verbs_retired_free(iface, true);

    if (iface->num_draining == 0) {
        return any;
    }
    cw_verbs_hold_received(iface);
    cw_list_for_each_safe(conn, next, &iface->conns, struct cw_verbs_conn, link)
    {
        if (conn->state == CW_VERBS_DRAINING) {
            cw_verbs_conn_end(conn);
            any = 1;
        }
    }
    return any;
}

int cw_verbs_conn_connect(struct cw_verbs_conn *conn, uint32_t qp, uint32_t psn, unsigned mtu, unsigned reads)
{
    struct cw_verbs_iface *iface = cw_verbs_iface_of(&conn->super);
    const struct cw_verbs_settings *settings = &iface->settings;
    const unsigned our_mtu = iface->local.mtu;
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR,
                     .path_mtu = (enum ibv_mtu)((mtu < our_mtu) ? mtu : our_mtu),
                     .dest_qp_num = qp,
                     .rq_psn = psn & PSN_MASK,
                     .max_dest_rd_atomic = settings->reads,
                     .min_rnr_timer = settings->rnr_timer};
    int error;

    cw_verbs_path(iface, &conn->peer, conn->gid_index, conn->peer_gid, &attr.ah_attr);
    conn->is_connected = 1;
    cw_verbs_poll_broken(iface);
    error = iface->lib->modify_qp(conn->qp, &attr,
                                  IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                      IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
    if (error != 0) {
        return error;
    }
    attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS,
                           .sq_psn = conn->psn,
                           .timeout = settings->timeout,
                           .retry_cnt = settings->retries,
                           .rnr_retry = settings->rnr_retries,
                           .max_rd_atomic = (uint8_t)((reads < settings->reads) ? reads : settings->reads)};
    return iface->lib->modify_qp(conn->qp, &attr,
                                 IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                                     IBV_QP_MAX_QP_RD_ATOMIC);
}

void cw_verbs_conn_due(struct cw_verbs_conn *conn)
{
    struct cw_verbs_iface *iface = cw_verbs_iface_of(&conn->super);

    if (cw_list_empty(&conn->due)) {
        if (cw_list_empty(&iface->due)) {
            cw_poller_wake(iface->poller);
        }
        cw_list_add_tail(&iface->due, &conn->due);
    }
}

void cw_verbs_peer_text(const struct cw_verbs_conn *conn, char *text, size_t size)
{
    char gid[CW_VERBS_GID_TEXT];

    cw_verbs_gid_text(conn->peer.gids[conn->peer_gid], gid);
    if (conn->peer.ethernet) {
        snprintf(text, size, "%s", gid);
    } else {
        snprintf(text, size, "LID %u (%s)", conn->peer.lid, gid);
    }
}

void cw_verbs_conn_fail(struct cw_verbs_conn *conn, ucs_status_t status, const char *why)
{
    struct cw_verbs_iface *iface = cw_verbs_iface_of(&conn->super);
    struct cw_text text = {0};
    char peer[CW_VERBS_GID_TEXT + 32];

    if (conn->state >= CW_VERBS_FAILING) {
        if (conn->state == CW_VERBS_LEAVING) {
            conn->state = CW_VERBS_OVER;
            cw_verbs_conn_due(conn);
        }
        return;
    }
    cw_verbs_peer_text(conn, peer, sizeof(peer));
    cw_text_addf(&text, "RDMA connection by %s with %s: %s", iface->port.name, peer, why);
    free(conn->super.end);
    conn->super.end = text.data;
    conn->status = status;
    cw_debug("%s", (text.data != NULL) ? text.data : why);
    cw_verbs_live_remove(conn);
    if (!conn->is_ended) { /* after the peer's END no packet arrives, but the device must still acknowledge the END */
        break_qp(conn);
    }
    conn->state = CW_VERBS_FAILING;
    cw_poller_alarm_cancel(iface->poller, &conn->alarm);
    cw_verbs_conn_due(conn);
}

/* The wr_id of the next request. */
static CW_INLINE uint64_t request_id(const struct cw_verbs_conn *conn)
{
    return ((uint64_t)conn->serial << 32) | conn->posted;
}

/* Retains what is needed to repeat the request, also the bytes of an inline one: it refers to the copy. */
static CW_INLINE void retain(struct cw_verbs_conn *conn, struct ibv_send_wr *wr, struct ibv_sge *copy)
{
    struct cw_verbs_request *request = cw_verbs_request_at(conn, conn->posted);
    int i;

    request->opcode = (uint8_t)wr->opcode;
    request->num_sge = (uint8_t)wr->num_sge;
    request->flags = (uint8_t)wr->send_flags;
    request->word = wr->imm_data;
    request->length = 0;
    request->is_over = 0;
    request->before = conn->packets;
    conn->packets += cw_verbs_is_packet(request);
    if (wr->opcode != IBV_WR_SEND_WITH_IMM) {
        request->address = wr->wr.rdma.remote_addr;
        request->key = wr->wr.rdma.rkey;
    }
    if ((wr->send_flags & IBV_SEND_INLINE) && wr->num_sge == 1 && wr->sg_list->addr == (uintptr_t)request->bytes) {
        request->length = (uint16_t)wr->sg_list->length;
    } else if (wr->send_flags & IBV_SEND_INLINE) {
        for (i = 0; i < wr->num_sge; i++) {
            cw_bytes_copy_short(request->bytes + request->length,
                                (const void *)(uintptr_t)wr->sg_list[i].addr, /* NOLINT */
                                wr->sg_list[i].length);
            request->length = (uint16_t)(request->length + wr->sg_list[i].length);
        }
        *copy = (struct ibv_sge){.addr = (uintptr_t)request->bytes, .length = request->length};
        wr->sg_list = copy;
        wr->num_sge = request->num_sge = request->length > 0;
    } else if (wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP) {
        request->key = wr->wr.atomic.rkey;
        request->atomic.sge = wr->sg_list[0];
        request->atomic.compare_add = wr->wr.atomic.compare_add;
        request->atomic.swap = wr->wr.atomic.swap;
    } else {
        for (i = 0; i < wr->num_sge; i++) {
            request->sges[i] = wr->sg_list[i];
        }
    }
}

/* Whether the next request is signaled. */
static CW_INLINE bool is_signalled(struct cw_verbs_iface *iface, const struct cw_verbs_conn *conn, int wanted)
{
    if (wanted || conn->posted + 1 - conn->signalled >= iface->most_unsignalled ||
        iface->in_flight >= iface->most_unseen) {
        return true;
    }
    iface->hurried = 0;
    return false;
}

/* Gives the request to the open batch, or to the device. Returns 0 or an errno value. */
static CW_INLINE int give(struct cw_verbs_conn *conn, struct ibv_send_wr *wr)
{
    struct ibv_send_wr *bad;

    if (cw_unlikely(conn->batches > 0) && cw_verbs_chain_keep(conn, wr)) {
        return 0;
    }
    if (cw_unlikely(conn->chain != NULL) && !cw_verbs_chain_send(conn)) {
        return EIO;
    }
    return ibv_post_send(conn->qp, wr, &bad);
}

/* Counts the request, which was given away. */
static CW_INLINE void count_request(struct cw_verbs_iface *iface, struct cw_verbs_conn *conn,
                                    struct cw_verbs_segment *segment, unsigned flags)
{
    conn->slots[conn->posted++ & (iface->settings.sends - 1)] = segment;
    iface->in_flight++;
    if (flags & IBV_SEND_SIGNALED) {
        conn->signalled = conn->posted;
    }
}

int cw_verbs_conn_post(struct cw_verbs_conn *conn, struct ibv_send_wr *wr, struct cw_verbs_segment *segment, int signal)
{
    struct cw_verbs_iface *iface = cw_verbs_iface_of(&conn->super);
    const int is_inline = (wr->send_flags & IBV_SEND_INLINE) != 0;
    struct ibv_sge copy;
    int error;

    if (is_signalled(iface, conn, signal)) {
        wr->send_flags |= IBV_SEND_SIGNALED;
    }
    wr->wr_id = request_id(conn);
    retain(conn, wr, &copy);
    error = give(conn, wr);
    if (segment != NULL && (is_inline || error != 0)) {
        cw_verbs_segment_put(iface, segment);
    }
    if (cw_unlikely(error != 0)) {
        cw_verbs_conn_fail(conn, UCS_ERR_IO_ERROR, strerror(error));
        return 0;
    }
    count_request(iface, conn, is_inline ? NULL : segment, wr->send_flags);
    return 1;
}

void cw_verbs_short_init(struct cw_verbs_iface *iface)
{
    iface->short_wr =
        (struct ibv_send_wr){.opcode = IBV_WR_SEND_WITH_IMM, .sg_list = &iface->short_sge, .num_sge = 1};
}

int cw_verbs_conn_post_short(struct cw_verbs_conn *conn, uint8_t id, size_t length)
{
    struct cw_verbs_iface *iface = cw_verbs_iface_of(&conn->super);
    struct cw_verbs_request *request = cw_verbs_request_at(conn, conn->posted);
    const unsigned flags = IBV_SEND_INLINE | (is_signalled(iface, conn, 0) ? IBV_SEND_SIGNALED : 0u);
    int error;

    request->opcode = IBV_WR_SEND_WITH_IMM;
    request->num_sge = 1;
    request->flags = (uint8_t)flags;
    request->is_over = 0;
    request->word = htobe32(id);
    request->length = (uint16_t)length;
    request->before = conn->packets++;
    iface->short_sge.addr = (uintptr_t)request->bytes;
    iface->short_sge.length = (uint32_t)length;
    iface->short_wr.wr_id = request_id(conn);
    iface->short_wr.send_flags = flags;
    iface->short_wr.imm_data = request->word;
    error = give(conn, &iface->short_wr);
    if (cw_unlikely(error != 0)) {
        cw_verbs_conn_fail(conn, UCS_ERR_IO_ERROR, strerror(error));
        return 0;
    }
    count_request(iface, conn, NULL, flags);
    return 1;
}

void cw_verbs_conn_nudge(struct cw_verbs_conn *conn)
{
    struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE};

    if (conn->chain != NULL) {
        (void)cw_verbs_chain_send(conn);
    }
    if (conn->state >= CW_VERBS_OPEN && conn->state < CW_VERBS_BROKEN && conn->posted != conn->signalled &&
        conn->posted - conn->completed < cw_verbs_iface_of(&conn->super)->settings.sends) {
        (void)cw_verbs_conn_post(conn, &wr, NULL, 1);
    }
}

void cw_verbs_conn_say(struct cw_verbs_conn *conn, uint32_t word)
{
    struct ibv_send_wr wr = {.opcode = IBV_WR_SEND_WITH_IMM, .imm_data = htobe32(word)};

    (void)cw_verbs_conn_post(conn, &wr, NULL, word != CW_VERBS_READY);
}

static const char *failure_text(const struct cw_verbs_iface *iface, const struct ibv_wc *wc)
{
    switch (wc->status) {
    case IBV_WC_RETRY_EXC_ERR:
        return "no acknowledgement (UCX_RC_TIMEOUT, UCX_RC_RETRY_COUNT)";
    case IBV_WC_RNR_RETRY_EXC_ERR:
        return "the peer posted no receives (UCX_RC_RNR_RETRY_COUNT)";
    default:
        return iface->lib->wc_status_str(wc->status);
    }
}

/* The status for the accesses: only the first failed request has the cause, and only a refusal concerns the access
 * alone. */
static ucs_status_t failure_status(const struct cw_verbs_conn *conn, const struct ibv_wc *wc)
{
    const int is_refused = wc->status == IBV_WC_REM_ACCESS_ERR || wc->status == IBV_WC_REM_INV_REQ_ERR;

    return (conn->state < CW_VERBS_FAILING && is_refused) ? UCS_ERR_INVALID_ADDR : UCS_ERR_CONNECTION_RESET;
}

static void request_done(struct cw_verbs_iface *iface, const struct ibv_wc *wc)
{
    struct cw_hash_link *link = cw_hash_find(&iface->by_qp, wc->qp_num);
    const uint32_t number = (uint32_t)wc->wr_id;
    struct cw_verbs_conn *conn;

    conn = (link != NULL) ? cw_container_of(link, struct cw_verbs_conn, by_qp) : NULL;
    if (conn == NULL || conn->serial != (uint32_t)(wc->wr_id >> 32) ||
        number - conn->completed >= conn->posted - conn->completed) {
        return; /* a request of an earlier queue pair */
    }
    if (wc->status != IBV_WC_SUCCESS) {
        if (cw_verbs_renew_on_error(conn, number, wc)) {
            return;
        }
        /* Earlier requests completed, or their own failure would have come first. */
        cw_verbs_conn_complete(conn, number, UCS_OK);
        cw_verbs_conn_complete(conn, number + 1, failure_status(conn, wc));
        cw_verbs_conn_due(conn);
        if (conn->state == CW_VERBS_PARTING) { /* only PARTED was in flight */
            conn->is_doubtful = 1;
            return;
        }
        if (conn->state == CW_VERBS_YIELDING) { /* the peer may have parked it before it acknowledged the answer */
            conn->lost = failure_text(iface, wc);
            conn->lost_status = UCS_ERR_ENDPOINT_TIMEOUT;
            return;
        }
        cw_verbs_conn_fail(conn,
                           (wc->status == IBV_WC_RETRY_EXC_ERR || wc->status == IBV_WC_RNR_RETRY_EXC_ERR)
                               ? UCS_ERR_ENDPOINT_TIMEOUT
                               : UCS_ERR_CONNECTION_RESET,
                           failure_text(iface, wc));
        return;
    }
    cw_verbs_conn_complete(conn, number + 1, UCS_OK);
    if (conn->state == CW_VERBS_LEAVING && conn->is_last && number == conn->end) {
        conn->peer_knows = 1;
        conn->state = CW_VERBS_OVER;
    }
    if (conn->state == CW_VERBS_OVER || conn->state == CW_VERBS_PARTING || conn->state == CW_VERBS_BROKEN ||
        conn->num_flushes > 0 || conn->ops != NULL || !cw_list_empty(&conn->blocked)) {
        cw_verbs_conn_due(conn);
    }
}

int cw_verbs_sent(struct cw_verbs_iface *iface)
{
    struct ibv_wc wc[CW_VERBS_BATCH];
    int any = 0, num, i;

    do {
        num = cw_verbs_poll(iface, iface->send_cq, CW_VERBS_BATCH, wc);
        for (i = 0; i < num; i++) {
            if (wc[i].wr_id & CW_VERBS_UD_WR) {
                cw_verbs_ud_sent(iface, &wc[i]);
            } else {
                request_done(iface, &wc[i]);
            }
        }
        any |= num > 0;
    } while (num == CW_VERBS_BATCH);
    return any;
}

static void flush_at(struct cw_verbs_conn *conn, unsigned index, ucs_status_t status)
{
    struct cw_completion *completion = conn->flushes[index].completion;

    conn->num_flushes--;
    memmove(&conn->flushes[index], &conn->flushes[index + 1], (conn->num_flushes - index) * sizeof(conn->flushes[0]));
    completion->done(completion, status);
}

/* The status of a flush: that of accesses reports the first refused one that has no completion, once. */
static ucs_status_t take_flush_status(struct cw_verbs_conn *conn, int is_of_packets)
{
    const ucs_status_t status = conn->access_status;

    if (conn->status != UCS_OK) {
        return (is_of_packets && conn->is_ended) ? UCS_OK : conn->status;
    }
    if (is_of_packets) {
        return UCS_OK;
    }
    conn->access_status = UCS_OK;
    return status;
}

/* Makes the pending upcalls. In them the core may call everything but close. */
static unsigned settle(struct cw_verbs_iface *iface, struct cw_verbs_conn *conn)
{
    const struct cw_upcalls *upcalls = iface->super.upcalls;
    unsigned count = 0;

    if (conn->state == CW_VERBS_OVER) {
        cw_verbs_conn_free(conn);
        return 0;
    }
    if (conn->state == CW_VERBS_DRAINING) {
        if (cw_alarm_is_set(&conn->alarm)) {
            return 0;
        }
        if (iface->drained) {
            cw_verbs_conn_end(conn);
        } else {
            cw_verbs_conn_due(conn);
        }
        return 0;
    }
    cw_verbs_park_settle(conn);
    if (conn->lost != NULL && iface->drained) {
        (void)cw_verbs_sent(iface); /* the device may have reported a reason */
        cw_verbs_conn_fail(conn, conn->lost_status, conn->lost);
        conn->lost = NULL;
        cw_verbs_conn_due(conn);
        return 1;
    }
    /* packets received before the end are delivered first */
    if ((conn->state == CW_VERBS_FAILING || conn->lost != NULL) && !iface->drained) {
        cw_verbs_conn_due(conn);
        return 1;
    }
    /* Accesses and flushes end with the connection's status, in the same call as `closed`: neither are they canceled by
     * close, nor does the core take the end of the connection for theirs. */
    if (conn->state == CW_VERBS_FAILING && uses_memory(conn) && !conn->is_ended && !try_stop(conn)) {
        return 0;
    }
    if (conn->ops != NULL) {
        count += cw_verbs_ops_settle(conn, 0);
    }
    while (conn->num_flushes > 0 && (conn->state == CW_VERBS_FAILING ||
                                     (int32_t)(conn->completed - conn->flushes[0].until) >= 0)) {
        flush_at(conn, 0, take_flush_status(conn, conn->flushes[0].is_of_packets));
        count++;
    }
    if (conn->state == CW_VERBS_FAILING) {
        conn->state = CW_VERBS_CLOSED;
        cw_list_remove(&conn->blocked);
        if (conn->is_dialler && !conn->is_ready && conn->epoch == 0) {
            upcalls->opened(&conn->super, conn->status, NULL, 0);
        } else {
            upcalls->closed(&conn->super, conn->status);
        }
        return count + 1;
    }
    if (!cw_list_empty(&conn->blocked)) {
        if (cw_verbs_has_place(conn)) {
            cw_list_remove(&conn->blocked);
            upcalls->space(&conn->super);
            count++;
        } else if (iface->in_flight >= iface->most_in_flight) {
            iface->starved = 1; /* other connections took the entries */
        }
    }
    return count;
}

/* Lets as many waiting connections send as there are send_cq entries, in FIFO order. */
static void feed(struct cw_verbs_iface *iface)
{
    unsigned places = iface->most_in_flight - iface->in_flight;
    struct cw_verbs_conn *conn;

    iface->starved = 0;
    cw_list_for_each(conn, &iface->blocked, struct cw_verbs_conn, blocked)
    {
        if (cw_verbs_has_place(conn)) {
            cw_verbs_conn_due(conn);
            if (--places == 0) {
                iface->starved = 1;
                return;
            }
        }
    }
}

unsigned cw_verbs_conns_settle(struct cw_verbs_iface *iface)
{
    struct cw_list list;
    struct cw_list *link;
    unsigned count = 0;

    if (cw_verbs_can_feed(iface)) {
        feed(iface);
    }
    cw_list_init(&list);
    cw_list_splice_tail(&list, &iface->due);
    while ((link = cw_list_pop_head(&list)) != NULL) {
        count += settle(iface, cw_container_of(link, struct cw_verbs_conn, due));
    }
    return count;
}

void cw_verbs_conn_ended(struct cw_verbs_conn *conn)
{
    conn->peer_knows = 1;
    if (conn->state < CW_VERBS_FAILING) {
        conn->is_ended = 1;
        conn->grace_ns = cw_clock_ns() + GRACE_NS;
    }
    cw_verbs_conn_fail(conn, UCS_ERR_CONNECTION_RESET, "closed by the peer");
}

bool cw_verbs_conn_is_wanted(const struct cw_verbs_conn *conn)
{
    const struct cw_upcalls *upcalls = conn->super.iface->upcalls;

    return conn->is_watched || (upcalls->awaits != NULL && upcalls->awaits(&conn->super));
}

void cw_verbs_conn_poll_later(struct cw_verbs_conn *conn)
{
    struct cw_verbs_iface *iface = cw_verbs_iface_of(&conn->super);

    if ((conn->state != CW_VERBS_OPEN && conn->state != CW_VERBS_PARKING) ||
        iface->settings.keepalive_ns == UINT64_MAX) {
        return;
    }
    if (cw_verbs_conn_is_wanted(conn)) {
        cw_poller_alarm_set(iface->poller, &conn->alarm, cw_clock_ns() + iface->settings.keepalive_ns);
    } else {
        cw_poller_alarm_set_lazy(iface->poller, &conn->alarm, cw_clock_ns() + iface->settings.keepalive_ns);
    }
}

static unsigned check(struct cw_verbs_conn *conn)
{
    struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE};

    if (conn->completed != conn->checked) {
        conn->idle_polls = 0;
    }
    if (conn->posted != conn->completed) {
        if (conn->is_watched && ++conn->idle_polls > CW_VERBS_STUCK_POLLS) {
            cw_verbs_conn_fail(conn, UCS_ERR_ENDPOINT_TIMEOUT,
                               "the peer processed nothing for ten times UCX_KEEPALIVE_INTERVAL");
            return 1;
        }
        cw_verbs_conn_nudge(conn);
    } else if (cw_verbs_conn_is_wanted(conn)) {
        (void)cw_verbs_conn_post(conn, &wr, NULL, 1);
    }
    conn->checked = conn->completed;
    cw_verbs_conn_poll_later(conn);
    return 0;
}

static unsigned on_alarm(struct cw_alarm *alarm)
{
    struct cw_verbs_conn *conn = cw_container_of(alarm, struct cw_verbs_conn, alarm);

    switch (conn->state) {
    case CW_VERBS_OPEN:
    case CW_VERBS_PARKING:
        return check(conn);
    case CW_VERBS_LEAVING:
        if (conn->qp == NULL && cw_verbs_say_close(conn, cw_clock_ns())) {
            return 0;
        }
        conn->state = CW_VERBS_OVER;
        cw_verbs_conn_due(conn);
        return 0;
    case CW_VERBS_BROKEN:
    case CW_VERBS_DRAINING:
        cw_verbs_conn_due(conn);
        return 0;
    case CW_VERBS_FAILING:
    case CW_VERBS_CLOSED:
        stop_now(conn);
        cw_verbs_conn_due(conn);
        return 0;
    case CW_VERBS_DIALLING:
    case CW_VERBS_ACCEPTING:
    case CW_VERBS_REOPENING:
        return cw_verbs_cm_alarm(conn, cw_clock_ns());
    default:
        return 0;
    }
}

void cw_verbs_watch(struct cw_conn *super)
{
    struct cw_verbs_conn *conn = cw_verbs_conn_of(super);

    if (!conn->is_watched) {
        conn->is_watched = 1;
        cw_verbs_conn_poll_later(conn);
        cw_verbs_watch_begin(conn);
        cw_verbs_port_follow(cw_verbs_iface_of(super));
        if (conn->state == CW_VERBS_PARKED && !cw_verbs_is_seen(conn)) {
            cw_verbs_reopen(conn);
        }
    }
}

void cw_verbs_abandon(struct cw_conn *super)
{
    struct cw_verbs_conn *conn = cw_verbs_conn_of(super);
    struct cw_verbs_iface *iface = cw_verbs_iface_of(super);

    if (conn->state == CW_VERBS_DIALLING && conn->is_said) {
        cw_verbs_cancel(conn);
    }
    cw_verbs_conn_stop(conn);
    cw_verbs_live_remove(conn);
    cw_list_remove(&conn->blocked);
    cw_list_remove(&conn->due);
    cw_poller_alarm_cancel(iface->poller, &conn->alarm);
    conn->state = CW_VERBS_CLOSED;
    conn->status = UCS_ERR_CONNECTION_RESET;
}

/* Sends END after all accepted packets; an entry is reserved for it. */
static void say_end(struct cw_verbs_conn *conn)
{
    conn->is_last = 1;
    conn->end = conn->posted;
    cw_verbs_conn_say(conn, CW_VERBS_END);
}

void cw_verbs_conn_first(struct cw_verbs_conn *conn)
{
    struct cw_verbs_iface *iface = cw_verbs_iface_of(&conn->super);

    free(conn->words);
    conn->words = NULL;
    conn->is_ready = 1;
    if (conn->state == CW_VERBS_LEAVING) {
        if (!conn->is_last) {
            cw_verbs_renewed(conn, false);
        }
        if (!conn->is_last && conn->state == CW_VERBS_LEAVING) {
            say_end(conn);
        }
        return;
    }
    conn->is_asked = 0;
    if (conn->state != CW_VERBS_ACCEPTING && conn->state != CW_VERBS_YIELDING) {
        return;
    }
    conn->state = CW_VERBS_OPEN;
    cw_poller_alarm_cancel(iface->poller, &conn->alarm);
    cw_verbs_renewed(conn, false);
    cw_verbs_conn_poll_later(conn);
    cw_verbs_watch_begin(conn);
    if (!cw_list_empty(&conn->blocked)) {
        cw_verbs_conn_due(conn);
    }
}

/* Ends all accesses and registered sends in flight. If the device uses memory of the core, it must stop all requests of
 * this connection. Memory of the transport stays valid until the requests complete. */
static void cancel_ops(struct cw_verbs_conn *conn)
{
    if (conn->state != CW_VERBS_OPEN || uses_lent_memory(conn)) {
        cw_verbs_conn_fail(conn, UCS_ERR_CANCELED, "it was closed");
        cw_verbs_conn_stop(conn);
    }
    (void)cw_verbs_ops_settle(conn, 1);
}

int cw_verbs_stopping(struct cw_conn *super)
{
    struct cw_verbs_conn *conn = cw_verbs_conn_of(super);

    if (!uses_memory(conn)) {
        return 0;
    }
    cw_verbs_conn_fail(conn, UCS_ERR_CANCELED, "it was closed");
    conn->state = CW_VERBS_CLOSED; /* the core expects no `closed` */
    cw_list_remove(&conn->blocked);
    if (try_stop(conn)) {
        if (conn->ops == NULL) {
            return 0;
        }
        cw_verbs_conn_due(conn); /* progress calls their completions, and may copy into memory of the core */
    }
    return 1;
}

/* Closes a connection that has no queue pair, or one that must not send any more. */
static void leave_parked(struct cw_verbs_conn *conn)
{
    const uint64_t now = cw_clock_ns();

    conn->super.user = NULL;
    if (conn->state != CW_VERBS_PARKED) {
        cw_verbs_park(conn);
    }
    cw_verbs_live_remove(conn);
    conn->state = CW_VERBS_LEAVING;
    conn->peer_knows = 1;
    cw_verbs_retry_begin(&conn->retry, now, cw_verbs_iface_of(&conn->super)->settings.first_retry_ns, LEAVING_NS);
    (void)cw_verbs_say_close(conn, now);
}

void cw_verbs_close_conn(struct cw_conn *super)
{
    struct cw_verbs_conn *conn = cw_verbs_conn_of(super);
    struct cw_verbs_iface *iface = cw_verbs_iface_of(super);

    if (uses_memory(conn)) {
        cancel_ops(conn);
    }
    while (conn->num_flushes > 0) {
        flush_at(conn, 0, UCS_ERR_CANCELED);
    }
    if (conn->state == CW_VERBS_DIALLING && conn->is_said) {
        cw_verbs_cancel(conn);
    }
    if (conn->is_ended && !conn->is_broken && cw_clock_ns() < conn->grace_ns) {
        cw_list_remove(&conn->blocked);
        conn->super.user = NULL;
        conn->state = CW_VERBS_LEAVING;
        cw_poller_alarm_set(iface->poller, &conn->alarm, conn->grace_ns);
        return;
    }
    if (conn->state >= CW_VERBS_FAILING || conn->state == CW_VERBS_DIALLING) {
        cw_verbs_conn_free(conn);
        return;
    }
    cw_list_remove(&conn->blocked);
    if (conn->state != CW_VERBS_OPEN && conn->state != CW_VERBS_PARKING && conn->state != CW_VERBS_ACCEPTING) {
        leave_parked(conn);
        return;
    }
    cw_poller_alarm_set(iface->poller, &conn->alarm, cw_clock_ns() + LEAVING_NS);
    conn->super.user = NULL;
    if (conn->is_ready) {
        say_end(conn); /* fails the connection if END cannot be posted */
    }
    if (conn->state == CW_VERBS_FAILING) {
        cw_verbs_conn_free(conn);
        return;
    }
    conn->state = CW_VERBS_LEAVING;
}
