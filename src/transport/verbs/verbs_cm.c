/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connection setup. The dialler retransmits a hello until it gets a reply; the acceptor answers every copy with the
 * same reply. The dialler then sends READY over the connection, so no other message needs an answer. A dialler that
 * gives up sends a cancel; if that is lost, it answers the next reply by another one, so the acceptor repeats its reply
 * until READY comes. A parked connection is reopened by the same handshake, with its epoch in the hello.
 */
#include "transport/verbs/verbs_conn.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "os/clock.h"
#include "os/neighbour.h"
#include "os/random.h"
#include "os/route.h"

#define REFUSALS      32u
#define NEXT_REPLY_NS UINT64_C(200000000) /* before the first repetition of a reply */

struct cw_verbs_refusal {
    uint64_t key; /* key of the dialler's interface; 0: unused entry */
    uint64_t id;
    size_t length;
    uint8_t reply[CW_HELLO_MAX];
};

#define NEIGHBOUR_POLL_NS UINT64_C(10000000)
#define SLOW_RETRY_NS     UINT64_C(1000000000)

int cw_verbs_gid_address(const uint8_t gid[16], struct cw_net_address *address)
{
    if (cw_verbs_gid_is_ipv4(gid)) {
        *address = (struct cw_net_address){.family = CW_NET_IPV4};
        memcpy(address->bytes, gid + 12, 4);
        return 1;
    }
    *address = (struct cw_net_address){.family = CW_NET_IPV6};
    memcpy(address->bytes, gid, 16);
    return !cw_verbs_gid_is_local(gid);
}

/* Queries the routing table, and changes the chosen GIDs to ones that match it: one port may have GIDs of several
 * network interfaces (VLANs). Returns NULL, or why the peer is unreachable. */
static const char *fit_routes(const struct cw_verbs_iface *iface, const struct cw_verbs_address *peer,
                              unsigned *our_gid, unsigned *peer_gid)
{
    uint32_t devices[CW_VERBS_MAX_GIDS] = {0};
    struct cw_net_address to[CW_VERBS_MAX_GIDS];
    struct cw_route routes[CW_VERBS_MAX_GIDS];
    int is_global[CW_VERBS_MAX_GIDS] = {0};
    unsigned i, kind;

    for (i = 0; i < peer->num_gids; i++) {
        is_global[i] = cw_verbs_gid_address(peer->gids[i], &to[i]);
    }
    cw_routes_find(to, peer->num_gids, routes);
    for (i = 0; i < peer->num_gids; i++) {
        kind = routes[i].kind;
        if (is_global[i] && (kind == CW_ROUTE_DIRECT || kind == CW_ROUTE_GATEWAY)) {
            devices[i] = cw_neighbour_device(routes[i].device);
        }
    }
    (void)cw_verbs_pair_on(&iface->local, iface->port.net_devices, peer, devices, our_gid, peer_gid);
    kind = is_global[*peer_gid] ? routes[*peer_gid].kind : CW_ROUTE_UNKNOWN;
    switch (kind) {
    case CW_ROUTE_NONE:
        return "there is no route to its address (GID)";
    case CW_ROUTE_DOWN:
        return "the interface towards its address (GID) has no carrier";
    default:
        return NULL;
    }
}

/* Returns NULL, or why the peer is unreachable. Does not query the routing table: that takes system calls, and the core
 * calls this for each new endpoint. */
static const char *find_path(struct cw_verbs_iface *iface, const void *bytes, size_t length,
                             struct cw_verbs_address *peer, unsigned *our_gid, unsigned *peer_gid)
{
    const char *why = cw_verbs_address_decode(bytes, length, peer);

    why = (why == NULL) ? cw_verbs_pair(&iface->local, peer, our_gid, peer_gid) : why;
    return (why == NULL && iface->vanished) ? "the device is gone" : why;
}

int cw_verbs_reachable(struct cw_iface *super, const void *address, size_t length, const char **why)
{
    struct cw_verbs_address peer;
    unsigned our_gid, peer_gid;
    const char *wrong =
        find_path(cw_container_of(super, struct cw_verbs_iface, super), address, length, &peer, &our_gid, &peer_gid);

    if (wrong != NULL) {
        *why = wrong;
    }
    return wrong == NULL;
}

/* The common fields of a connection's datagrams. */
static struct cw_verbs_datagram datagram_for(const struct cw_verbs_conn *conn, enum cw_verbs_kind kind)
{
    const struct cw_verbs_iface *iface = cw_verbs_iface_of(&conn->super);

    return (struct cw_verbs_datagram){.kind = kind,
                                  .key = conn->peer.key,
                                  .to = conn->peer_id,
                                  .from = conn->id,
                                  .mtu = iface->local.mtu,
                                  .reads = iface->settings.reads,
                                  .gid_from = conn->gid_index,
                                  .gid_to = conn->peer_gid,
                                  .qp = (conn->qp != NULL) ? conn->qp->qp_num : 0,
                                  .psn = conn->psn,
                                  .epoch = conn->epoch,
                                  .handled = conn->handled,
                                  .is_refused = conn->is_refused,
                                  .words = conn->words,
                                  .length = conn->num_words};
}

static void send_datagram(struct cw_verbs_conn *conn, const struct cw_verbs_datagram *datagram)
{
    cw_verbs_ud_send(cw_verbs_iface_of(&conn->super), &conn->peer, conn->gid_index, conn->peer_gid, datagram);
}

static void send_hello(struct cw_verbs_conn *conn, enum cw_verbs_kind kind)
{
    struct cw_verbs_datagram datagram = datagram_for(conn, kind);

    datagram.address = cw_verbs_iface_of(&conn->super)->local;
    send_datagram(conn, &datagram);
}

static void send_reply(struct cw_verbs_conn *conn)
{
    const struct cw_verbs_datagram datagram = datagram_for(conn, CW_VERBS_REPLY);

    send_datagram(conn, &datagram);
}

void cw_verbs_cancel(struct cw_verbs_conn *conn)
{
    struct cw_verbs_datagram datagram = datagram_for(conn, CW_VERBS_CANCEL);

    datagram.length = 0;
    conn->peer_knows = 1;
    send_datagram(conn, &datagram);
}

bool cw_verbs_say_close(struct cw_verbs_conn *conn, uint64_t now_ns)
{
    if (now_ns < conn->retry.next_ns && conn->is_said) {
        return true;
    }
    if (conn->is_said && !cw_verbs_retry_step(&conn->retry, now_ns)) {
        return false;
    }
    conn->is_said = 1;
    send_hello(conn, CW_VERBS_CLOSE);
    cw_poller_alarm_set(cw_verbs_iface_of(&conn->super)->poller, &conn->alarm, conn->retry.next_ns);
    return true;
}

ucs_status_t cw_verbs_dial(struct cw_iface *super, const void *address, size_t address_length, const void *hello,
                           size_t hello_length, void *user, struct cw_conn **conn_p)
{
    struct cw_verbs_iface *iface = cw_container_of(super, struct cw_verbs_iface, super);
    struct cw_verbs_address peer;
    struct cw_verbs_conn *conn;
    unsigned our_gid, peer_gid;
    const uint64_t now = cw_clock_ns();
    const char *why = find_path(iface, address, address_length, &peer, &our_gid, &peer_gid);

    if (why == NULL && peer.ethernet) {
        why = fit_routes(iface, &peer, &our_gid, &peer_gid);
    }
    if (why != NULL || hello_length > CW_HELLO_MAX) {
        cw_diag("%s: cannot connect: %s", iface->port.name, (why != NULL) ? why : "the hello is too long");
        return UCS_ERR_UNREACHABLE;
    }
    conn = cw_verbs_conn_new(iface, user);
    if (conn == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    conn->words = malloc(hello_length + 1);
    if (conn->words == NULL || (!cw_verbs_dial_begin(conn) && !cw_verbs_can_wait(iface))) {
        cw_verbs_conn_free(conn);
        return UCS_ERR_NO_MEMORY;
    }
    cw_bytes_copy_any(conn->words, hello, hello_length);
    conn->num_words = hello_length;
    conn->peer = peer;
    conn->gid_index = (uint8_t)our_gid;
    conn->peer_gid = (uint8_t)peer_gid;
    conn->is_dialler = 1;
    if (conn->qp != NULL) {
        cw_verbs_retry_begin(&conn->retry, now, iface->settings.first_retry_ns, iface->settings.connect_timeout_ns);
        /* Progress sends the first hello, once the system has resolved the neighbour. */
        cw_poller_alarm_set(iface->poller, &conn->alarm, now);
    } else {
        cw_verbs_wait(conn);
    }
    *conn_p = &conn->super;
    return UCS_OK;
}

/* Whether an address handle can be created without waiting for the neighbour's link address. */
static bool knows_neighbour(const struct cw_verbs_conn *conn)
{
    const struct cw_verbs_port *port = &cw_verbs_iface_of(&conn->super)->port;
    struct cw_net_address address;

    return !conn->peer.ethernet || !cw_verbs_gid_address(conn->peer.gids[conn->peer_gid], &address) ||
           cw_neighbour_is_known(&address, port->net_devices[conn->gid_index]);
}

/* A peer that does not progress is alive and answers later: reopening gives up only if the peer's process could be
 * watched and is gone. */
static bool goes_on(struct cw_verbs_conn *conn, uint64_t now_ns)
{
    struct cw_verbs_iface *iface = cw_verbs_iface_of(&conn->super);
    char peer[CW_VERBS_GID_TEXT + 32];

    if (conn->state != CW_VERBS_REOPENING || !cw_verbs_reopens_for_ever(conn) ||
        (conn->peer.watch_port != 0 && !cw_verbs_is_seen(conn))) {
        return false;
    }
    cw_verbs_peer_text(conn, peer, sizeof(peer));
    cw_log_ratelimited(&iface->ud_limit, CW_LOG_WARN, "%s: no reply from %s within UCX_UD_TIMEOUT; retrying",
                       iface->port.name, peer);
    cw_verbs_retry_begin(&conn->retry, now_ns, SLOW_RETRY_NS, iface->settings.connect_timeout_ns);
    return true;
}

unsigned cw_verbs_cm_alarm(struct cw_verbs_conn *conn, uint64_t now_ns)
{
    struct cw_verbs_iface *iface = cw_verbs_iface_of(&conn->super);

    if (conn->state == CW_VERBS_ACCEPTING && conn->epoch == 0 && cw_verbs_retry_step(&conn->retry, now_ns)) {
        send_reply(conn);
        cw_poller_alarm_set(iface->poller, &conn->alarm, conn->retry.next_ns);
        return 0;
    }
    if (conn->state == CW_VERBS_ACCEPTING) {
        cw_verbs_cancel(conn);
        cw_verbs_conn_fail(conn, UCS_ERR_ENDPOINT_TIMEOUT, "no confirmation that it receives");
        return 1;
    }
    if (!conn->is_said && !knows_neighbour(conn)) {
        if (now_ns < conn->retry.end_ns) {
            cw_poller_alarm_set(iface->poller, &conn->alarm, now_ns + NEIGHBOUR_POLL_NS);
            return 0;
        }
        cw_verbs_conn_fail(conn, UCS_ERR_UNREACHABLE,
                           "its address does not resolve (ARP, neighbour discovery)");
        return 1;
    }
    if (!conn->is_said) {
        conn->is_said = 1;
        send_hello(conn, CW_VERBS_HELLO);
        cw_poller_alarm_set(iface->poller, &conn->alarm, conn->retry.next_ns);
        return 0;
    }
    if (cw_verbs_retry_step(&conn->retry, now_ns) || goes_on(conn, now_ns)) {
        if (conn->retry.interval_ns >= SLOW_RETRY_NS) {
            cw_verbs_watch_begin(conn); /* for goes_on */
        }
        send_hello(conn, CW_VERBS_HELLO);
        cw_poller_alarm_set(iface->poller, &conn->alarm, conn->retry.next_ns);
        return 0;
    }
    cw_verbs_cancel(conn);
    if (conn->is_renewing) {
        cw_verbs_conn_fail(conn, UCS_ERR_ENDPOINT_TIMEOUT,
                           "no reply within ten times UCX_KEEPALIVE_INTERVAL, or UCX_UD_TIMEOUT");
        return 1;
    }
    cw_verbs_conn_fail(conn, UCS_ERR_UNREACHABLE, "no reply within UCX_UD_TIMEOUT");
    return 1;
}

/* Whether a datagram comes from that address, as the device reports it: a forged hello would make this side send
 * datagrams to a third party, and a forged cancel would end a foreign connection. */
static int comes_from(const struct cw_verbs_address *address, unsigned index, const struct ibv_wc *wc,
                      const uint8_t *grh)
{
    const uint8_t *gid = address->gids[index];

    if (!address->ethernet) {
        return wc->slid == address->lid;
    }
    if (!(wc->wc_flags & IBV_WC_GRH)) {
        return 0;
    }
    return cw_verbs_gid_is_ipv4(gid) ? memcmp(grh + 20 + 12, gid + 12, 4) == 0 : memcmp(grh + 8, gid, 16) == 0;
}

static bool is_peer(const struct cw_verbs_conn *conn, uint64_t from, const struct ibv_wc *wc, const uint8_t *grh)
{
    return conn->peer_id == from && conn->peer.qp == wc->src_qp && comes_from(&conn->peer, conn->peer_gid, wc, grh);
}

static uint64_t peer_hash(uint64_t key, uint64_t id)
{
    return cw_hash_mix(key ^ cw_hash_mix(id));
}

static struct cw_verbs_conn *find_accepted(const struct cw_verbs_iface *iface, uint64_t key, uint64_t id)
{
    struct cw_hash_link *link = cw_hash_find(&iface->by_peer, peer_hash(key, id));
    struct cw_verbs_conn *conn;

    for (; link != NULL; link = cw_hash_next(link)) {
        conn = cw_container_of(link, struct cw_verbs_conn, by_peer);
        if (conn->peer.key == key && conn->peer_id == id) {
            return conn;
        }
    }
    return NULL;
}

static void answer_without(struct cw_verbs_iface *iface, const struct cw_verbs_datagram *hello,
                           enum cw_verbs_answer answer, const uint8_t *reply, size_t length)
{
    const struct cw_verbs_datagram datagram = {.kind = CW_VERBS_REPLY,
                                           .answer = answer,
                                           .key = hello->address.key,
                                           .to = hello->from,
                                           .epoch = hello->epoch,
                                           .mtu = iface->local.mtu,
                                           .gid_from = hello->gid_to,
                                           .gid_to = hello->gid_from,
                                           .words = reply,
                                           .length = length};

    cw_verbs_ud_send(iface, &hello->address, hello->gid_to, hello->gid_from, &datagram);
}

/* Refuses a dialler and retains the answer: if it is lost, the dialler retransmits, but the core is asked only once. */
static void refuse(struct cw_verbs_iface *iface, const struct cw_verbs_datagram *hello, const uint8_t *reply,
                   size_t length)
{
    struct cw_verbs_refusal *refusal;

    answer_without(iface, hello, CW_VERBS_REFUSED, reply, length);
    if (iface->refusals == NULL) {
        iface->refusals = calloc(REFUSALS, sizeof(*iface->refusals));
    }
    if (iface->refusals != NULL) {
        refusal = &iface->refusals[iface->next_refusal++ % REFUSALS];
        refusal->key = hello->address.key;
        refusal->id = hello->from;
        refusal->length = length;
        cw_bytes_copy_any(refusal->reply, reply, length);
    }
}

/* Whether that hello was refused already; if so, sends the answer again. */
static bool was_refused(struct cw_verbs_iface *iface, const struct cw_verbs_datagram *hello)
{
    unsigned i;

    for (i = 0; iface->refusals != NULL && i < REFUSALS; i++) {
        if (iface->refusals[i].key == hello->address.key && iface->refusals[i].id == hello->from) {
            answer_without(iface, hello, CW_VERBS_REFUSED, iface->refusals[i].reply, iface->refusals[i].length);
            return true;
        }
    }
    return false;
}

/* Creates a connection for the dialler. NULL: no queue pair is available, with *later set if a retransmission may
 * succeed, or the hello is invalid. */
static struct cw_verbs_conn *accept_new(struct cw_verbs_iface *iface, const struct cw_verbs_datagram *hello,
                                        bool *later)
{
    struct cw_verbs_conn *conn = cw_verbs_conn_new(iface, NULL);
    int error;

    if (conn == NULL) {
        return NULL;
    }
    if (!cw_verbs_conn_make_qp(conn)) {
        *later = cw_verbs_can_wait(iface);
        cw_verbs_conn_free(conn);
        return NULL;
    }
    conn->state = CW_VERBS_ACCEPTING;
    conn->peer = hello->address;
    conn->peer_id = hello->from;
    conn->gid_index = (uint8_t)hello->gid_to;
    conn->peer_gid = (uint8_t)hello->gid_from;
    error = cw_verbs_conn_connect(conn, hello->qp, hello->psn, hello->mtu, hello->reads);
    if (error != 0) {
        cw_log_ratelimited(&iface->ud_limit, CW_LOG_WARN, "%s: cannot accept a connection: %s", iface->port.name,
                           strerror(error));
        cw_verbs_conn_free(conn);
        return NULL;
    }
    cw_hash_add(&iface->by_peer, &conn->by_peer, peer_hash(conn->peer.key, conn->peer_id));
    conn->is_listed = 1;
    return conn;
}

static unsigned take_hello(struct cw_verbs_iface *iface, const struct cw_verbs_datagram *hello)
{
    const struct cw_upcalls *upcalls = iface->super.upcalls;
    struct cw_verbs_conn *conn = find_accepted(iface, hello->address.key, hello->from);
    uint8_t reply[CW_HELLO_MAX];
    size_t length = sizeof(reply);
    bool later = false;
    ucs_status_t status;

    if (conn != NULL) {
        if (conn->words != NULL) {
            send_reply(conn);
        }
        return 0;
    }
    if (was_refused(iface, hello)) {
        return 0;
    }
    if (upcalls->is_ours != NULL && !upcalls->is_ours(&iface->super, hello->words, hello->length)) {
        answer_without(iface, hello, CW_VERBS_FAILED, NULL, 0); /* before a queue pair is created for it */
        return 0;
    }
    if (upcalls->refuses != NULL && upcalls->refuses(&iface->super, hello->words, hello->length, reply, &length)) {
        answer_without(iface, hello, CW_VERBS_REFUSED, reply, length);
        return 0;
    }
    conn = accept_new(iface, hello, &later);
    if (conn == NULL) {
        if (!later) { /* else a retransmitted hello may succeed */
            answer_without(iface, hello, CW_VERBS_FAILED, NULL, 0);
        }
        return 0;
    }
    conn->words = malloc(CW_HELLO_MAX);
    if (conn->words == NULL) {
        cw_verbs_conn_free(conn);
        answer_without(iface, hello, CW_VERBS_FAILED, NULL, 0);
        return 0;
    }
    status =
        iface->super.upcalls->accept(iface->super.owner, &conn->super, hello->words, hello->length, reply, &length);
    if (status != UCS_OK) {
        cw_verbs_conn_free(conn);
        refuse(iface, hello, reply, length);
        return 0;
    }
    cw_bytes_copy_any(conn->words, reply, length);
    conn->num_words = length;
    send_reply(conn);
    cw_verbs_retry_begin(&conn->retry, cw_clock_ns(), NEXT_REPLY_NS, iface->settings.connect_timeout_ns);
    cw_poller_alarm_set(iface->poller, &conn->alarm, conn->retry.next_ns);
    return 1;
}

bool cw_verbs_wins(const struct cw_verbs_conn *conn)
{
    const uint64_t key = cw_verbs_iface_of(&conn->super)->key;

    return (key != conn->peer.key) ? key < conn->peer.key : conn->id < conn->peer_id;
}

/* The connection that a peer's hello or close refers to; NULL: it no longer exists. */
static struct cw_verbs_conn *find_parked(const struct cw_verbs_iface *iface, const struct cw_verbs_datagram *datagram,
                                         const struct ibv_wc *wc, const uint8_t *grh)
{
    struct cw_verbs_conn *conn = cw_idmap_get(&iface->ids, datagram->to);

    return (conn != NULL && conn->state < CW_VERBS_CLOSED && is_peer(conn, datagram->from, wc, grh)) ? conn : NULL;
}

static void take_reopen(struct cw_verbs_iface *iface, const struct cw_verbs_datagram *hello, const struct ibv_wc *wc,
                        const uint8_t *grh)
{
    struct cw_verbs_conn *conn = find_parked(iface, hello, wc, grh);

    if (conn == NULL) {
        answer_without(iface, hello, CW_VERBS_FAILED, NULL, 0);
        return;
    }
    if ((conn->state == CW_VERBS_PARTING || conn->state == CW_VERBS_YIELDING) && hello->epoch == conn->epoch + 1) {
        cw_verbs_park(conn); /* the peer has parked it: the hello overtook its last control word */
    }
    if ((conn->state == CW_VERBS_OPEN || conn->state == CW_VERBS_PARKING || conn->state == CW_VERBS_BROKEN ||
         conn->state == CW_VERBS_ACCEPTING) &&
        hello->epoch == conn->epoch + 1 && !cw_verbs_renew_for_peer(conn)) {
        return; /* a retransmitted hello may succeed */
    }
    if (hello->epoch != conn->epoch) {
        return; /* a late copy */
    }
    if (conn->state == CW_VERBS_ACCEPTING) {
        send_reply(conn);
    }
    if (conn->state != CW_VERBS_PARKED && (conn->state != CW_VERBS_REOPENING || cw_verbs_wins(conn))) {
        return;
    }
    if (conn->qp == NULL && !cw_verbs_conn_make_qp(conn)) {
        return; /* a retransmitted hello may succeed */
    }
    cw_verbs_dial_end(conn);
    cw_poller_alarm_cancel(iface->poller, &conn->alarm);
    conn->state = CW_VERBS_ACCEPTING;
    conn->is_ready = 0;
    conn->peer_handled = hello->handled;
    conn->peer_is_refused = hello->is_refused;
    if (!cw_verbs_reopens_for_ever(conn)) {
        cw_poller_alarm_set(iface->poller, &conn->alarm,
                            cw_clock_ns() + CW_VERBS_STUCK_POLLS * iface->settings.keepalive_ns);
    }
    if (cw_verbs_conn_connect(conn, hello->qp, hello->psn, hello->mtu, hello->reads) != 0) {
        cw_verbs_conn_fail(conn, UCS_ERR_IO_ERROR, "the device cannot reopen it");
        return;
    }
    send_reply(conn);
}

static void take_close(struct cw_verbs_iface *iface, const struct cw_verbs_datagram *close, const struct ibv_wc *wc,
                       const uint8_t *grh)
{
    struct cw_verbs_conn *conn = find_parked(iface, close, wc, grh);

    answer_without(iface, close, CW_VERBS_FAILED, NULL, 0);
    if (conn != NULL) {
        (void)cw_verbs_sent(iface); /* the device may have reported the reason */
        conn->peer_knows = 1;
        cw_verbs_conn_fail(conn, UCS_ERR_CONNECTION_RESET, "closed by the peer");
    }
}

static unsigned reopened(struct cw_verbs_iface *iface, struct cw_verbs_conn *conn,
                         const struct cw_verbs_datagram *reply)
{
    if (reply->epoch != conn->epoch) {
        return 0; /* a late copy */
    }
    if (conn->state == CW_VERBS_LEAVING) {
        conn->state = CW_VERBS_OVER;
        cw_verbs_conn_due(conn);
        return 0;
    }
    if (reply->answer != CW_VERBS_ACCEPTED) {
        conn->peer_knows = 1;
        cw_verbs_conn_fail(conn, UCS_ERR_CONNECTION_RESET, "closed by the peer");
        return 1;
    }
    if (conn->qp == NULL) {
        return 0; /* it waits for a queue pair, and has sent no hello */
    }
    if (cw_verbs_conn_connect(conn, reply->qp, reply->psn, reply->mtu, reply->reads) != 0) {
        cw_verbs_conn_fail(conn, UCS_ERR_IO_ERROR, "the device cannot reopen it");
        return 1;
    }
    cw_verbs_dial_end(conn);
    cw_poller_alarm_cancel(iface->poller, &conn->alarm);
    conn->state = CW_VERBS_OPEN;
    conn->is_ready = 1;
    conn->peer_handled = reply->handled;
    conn->peer_is_refused = reply->is_refused;
    cw_verbs_renewed(conn, true);
    cw_verbs_conn_poll_later(conn);
    if (!cw_list_empty(&conn->blocked)) {
        cw_verbs_conn_due(conn);
    }
    return 1;
}

static unsigned open_dialled(struct cw_verbs_iface *iface, struct cw_verbs_conn *conn,
                             const struct cw_verbs_datagram *reply)
{
    int error;

    conn->peer_id = reply->from;
    error = cw_verbs_conn_connect(conn, reply->qp, reply->psn, reply->mtu, reply->reads);
    if (error != 0) {
        cw_verbs_cancel(conn);
        cw_verbs_conn_fail(conn, UCS_ERR_UNREACHABLE, strerror(error));
        return 0;
    }
    free(conn->words);
    conn->words = NULL;
    cw_verbs_dial_end(conn);
    cw_poller_alarm_cancel(iface->poller, &conn->alarm);
    conn->state = CW_VERBS_OPEN;
    conn->is_ready = 1;
    cw_verbs_conn_say(conn, CW_VERBS_READY);
    cw_verbs_conn_poll_later(conn);
    cw_verbs_watch_begin(conn);
    iface->super.upcalls->opened(&conn->super, UCS_OK, reply->words, reply->length);
    return 1;
}

/* A peer accepted a dial that was given up. Only another connection to the same peer knows the key for datagrams to it;
 * without one the peer's end waits until its timeout. */
static void cancel_late(struct cw_verbs_iface *iface, const struct cw_verbs_datagram *reply, const struct ibv_wc *wc,
                        const uint8_t *grh)
{
    struct cw_verbs_datagram cancel = {.kind = CW_VERBS_CANCEL,
                                    .to = reply->from,
                                    .from = reply->to,
                                    .mtu = iface->local.mtu,
                                    .gid_from = reply->gid_to,
                                    .gid_to = reply->gid_from};
    const struct cw_verbs_conn *conn;

    cw_list_for_each(conn, &iface->conns, const struct cw_verbs_conn, link)
    {
        if (conn->peer.qp == wc->src_qp && reply->gid_from < conn->peer.num_gids &&
            comes_from(&conn->peer, reply->gid_from, wc, grh)) {
            cancel.key = conn->peer.key;
            cw_verbs_ud_send(iface, &conn->peer, reply->gid_to, reply->gid_from, &cancel);
            return;
        }
    }
}

static unsigned take_reply(struct cw_verbs_iface *iface, const struct cw_verbs_datagram *reply, const struct ibv_wc *wc,
                           const uint8_t *grh)
{
    struct cw_verbs_conn *conn = cw_idmap_get(&iface->ids, reply->to);
    char peer[CW_VERBS_GID_TEXT + 32];

    if (conn != NULL && is_peer(conn, conn->peer_id, wc, grh) &&
        (conn->state == CW_VERBS_REOPENING || (conn->state == CW_VERBS_LEAVING && conn->qp == NULL))) {
        return reopened(iface, conn, reply);
    }
    if (conn == NULL || conn->state != CW_VERBS_DIALLING || conn->qp == NULL) {
        if (reply->answer == CW_VERBS_ACCEPTED && (conn == NULL || conn->peer_id != reply->from)) {
            cw_debug("%s: late reply from queue pair %u", iface->port.name, wc->src_qp);
            cancel_late(iface, reply, wc, grh);
        }
        return 0;
    }
    if (wc->src_qp != conn->peer.qp) {
        return 0;
    }
    if (reply->answer == CW_VERBS_ACCEPTED) {
        return open_dialled(iface, conn, reply);
    }
    if (reply->answer == CW_VERBS_FAILED) {
        cw_verbs_peer_text(conn, peer, sizeof(peer));
        cw_log_ratelimited(&iface->ud_limit, CW_LOG_WARN,
                           "%s: %s is out of resources for another connection (see its log), or its process was "
                           "replaced; using another transport if there is one",
                           iface->port.name, peer);
    }
    cw_poller_alarm_cancel(iface->poller, &conn->alarm);
    conn->state = CW_VERBS_CLOSED;
    conn->status = (reply->answer == CW_VERBS_REFUSED) ? UCS_ERR_REJECTED : UCS_ERR_UNREACHABLE;
    iface->super.upcalls->opened(&conn->super, conn->status, (reply->answer == CW_VERBS_REFUSED) ? reply->words : NULL,
                                 (reply->answer == CW_VERBS_REFUSED) ? reply->length : 0);
    return 1;
}

/* Either a dialler gives up before it has sent a packet, or a peer that knows this end's id closed with accesses in
 * flight and has destroyed its queue pair. */
static unsigned take_cancel(struct cw_verbs_iface *iface, const struct cw_verbs_datagram *cancel,
                            const struct ibv_wc *wc, const uint8_t *grh)
{
    struct cw_verbs_conn *conn = NULL;
    struct cw_list *link;

    if (cancel->to != 0) {
        conn = cw_idmap_get(&iface->ids, cancel->to);
    }
    for (link = iface->conns.next; conn == NULL && link != &iface->conns; link = link->next) {
        conn = cw_container_of(link, struct cw_verbs_conn, link);
        if (conn->is_dialler || conn->peer_id != cancel->from || conn->peer.qp != wc->src_qp) {
            conn = NULL;
        }
    }
    if (conn == NULL || !is_peer(conn, cancel->from, wc, grh)) {
        return 0;
    }
    if (!conn->is_ready && !conn->is_dialler && conn->epoch == 0) {
        conn->peer_knows = 1;
        cw_verbs_conn_fail(conn, UCS_ERR_CONNECTION_RESET, "the peer gave up");
    } else if ((conn->is_ready || conn->epoch > 0) && conn->id == cancel->to) {
        (void)cw_verbs_sent(iface); /* the device may have reported the reason before the cancel arrived */
        conn->peer_knows = 1;
        cw_verbs_conn_fail(conn, UCS_ERR_CONNECTION_RESET, "closed by the peer");
    }
    return 0;
}

unsigned cw_verbs_datagram(struct cw_verbs_iface *iface, const struct cw_verbs_datagram *datagram,
                           const struct ibv_wc *wc, const uint8_t *grh)
{
    unsigned our_gid, peer_gid;

    if (datagram->gid_to >= iface->local.num_gids) {
        return 0;
    }
    if (datagram->kind == CW_VERBS_REPLY) {
        return take_reply(iface, datagram, wc, grh);
    }
    if (datagram->kind == CW_VERBS_CANCEL) {
        return take_cancel(iface, datagram, wc, grh);
    }
    if (!comes_from(&datagram->address, datagram->gid_from, wc, grh) || wc->src_qp != datagram->address.qp ||
        datagram->from == 0 || cw_verbs_pair(&iface->local, &datagram->address, &our_gid, &peer_gid) != NULL) {
        cw_log_ratelimited(&iface->ud_limit, CW_LOG_WARN,
                           "%s: dropped a hello whose source does not match its sender", iface->port.name);
        return 0;
    }
    if (datagram->kind == CW_VERBS_CLOSE) {
        take_close(iface, datagram, wc, grh);
        return 0;
    }
    if (datagram->epoch > 0) {
        take_reopen(iface, datagram, wc, grh);
        return 0;
    }
    return iface->is_closing ? 0 : take_hello(iface, datagram);
}
