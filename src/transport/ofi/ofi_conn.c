/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connection setup, keepalive and teardown. Each end of a connection has a number and a random token, which every
 * packet carries, so a packet of a former process at an address matches no connection.
 *
 * A dial is a HELLO, which the acceptor answers by REPLY or REFUSED. The last packet of a connection is BYE; a canceled
 * dial sends LEAVE. Providers report little about peers that ended, so the transport detects the end of a process by
 * the operating system if it runs on this machine, and by packets that fail. A watched connection sends a PING now and
 * then: its completion shows that the peer's device works, whatever the peer's program does, and a process that does
 * not know the connection answers GONE.
 */
#include "transport/ofi/ofi_send.h"

#include "transport/ofi/ofi_access.h"
#include "transport/ofi/ofi_watch.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/counter.h"
#include "base/log.h"
#include "base/string.h"
#include "os/clock.h"
#include "os/process.h"
#include "os/random.h"

#define POLLS_PER_INTERVAL 4u
#define SAY_AGAIN_NS       UINT64_C(1000000000) /* interval of the first HELLO retransmission, doubled each time */
#define DRAINED            64u /* progress calls without an event after which a dead peer's end is reported */

/* The HELLO of a dial until it is answered: progress sends it, because dialling must make no system call, and
 * retransmits it, because an acceptor busy with unauthenticated peers may drop it. */
struct ofi_call {
    size_t address_length;
    size_t hello_length;
    char bytes[]; /* the address, then the hello */
};

static unsigned deadline_over(struct cw_alarm *alarm);

struct ofi_conn *cw_ofi_conn_new(struct ofi_iface *iface, struct ofi_peer *peer, void *user)
{
    struct ofi_conn *conn = calloc(1, sizeof(*conn));

    if (conn == NULL) {
        return NULL;
    }
    conn->super = (struct cw_conn){.iface = &iface->super, .user = user};
    conn->peer = peer;
    conn->age = iface->ages++;
    conn->token = (uint32_t)cw_random_u64();
    conn->next_access = (uint32_t)cw_counter_start;
    conn->next_out = conn->next_in = conn->handled = conn->reported = (uint32_t)cw_counter_start % CW_OFI_SEQUENCES;
    conn->deadline = (struct cw_alarm){.fire = deadline_over};
    cw_list_init(&conn->blocked);
    cw_list_init(&conn->ending);
    cw_list_init(&conn->calling);
    cw_list_init(&conn->slots);
    cw_list_init(&conn->retained);
    cw_list_init(&conn->flushes);
    cw_list_init(&conn->accesses);
    cw_list_init(&conn->access_flushes);
    conn->last = (peer != NULL) ? cw_ofi_slot_new(iface, OFI_BLOCK_SMALL) : NULL; /* a dial allocates it later */
    if ((peer != NULL && conn->last == NULL) || cw_idmap_add(&iface->numbers, conn, &conn->number) != UCS_OK) {
        if (conn->last != NULL) {
            cw_ofi_slot_free(iface, conn->last);
        }
        free(conn);
        return NULL;
    }
    if (peer != NULL) {
        cw_ofi_peer_hold(peer);
    }
    cw_list_add_tail(&iface->conns, &conn->link);
    iface->num_conns++;
    cw_watch_listener_more(&iface->watch);
    return conn;
}

void cw_ofi_conn_free(struct ofi_conn *conn)
{
    struct ofi_iface *iface = cw_ofi_iface_of(&conn->super);
    struct cw_list *link;

    cw_poller_alarm_cancel(iface->poller, &conn->deadline);
    cw_ofi_marked(iface, conn);
    while ((link = cw_list_pop_head(&conn->slots)) != NULL) {
        cw_container_of(link, struct ofi_slot, link)->conn = NULL;
        cw_list_add_tail(&iface->orphans, link);
    }
    while ((link = cw_list_pop_head(&conn->retained)) != NULL) {
        free(cw_container_of(link, struct ofi_retained, link));
    }
    if (conn->last != NULL) {
        cw_ofi_slot_free(iface, conn->last);
    }
    cw_list_remove(&conn->blocked);
    cw_list_remove(&conn->ending);
    cw_list_remove(&conn->calling);
    cw_list_remove(&conn->link);
    free(conn->call);
    cw_ofi_route_drop(iface, conn->reach.route);
    cw_idmap_remove(&iface->numbers, conn->number);
    iface->former[iface->next_former].number = conn->number;
    iface->former[iface->next_former].token = conn->token;
    iface->next_former = (iface->next_former + 1) % CW_OFI_FORMER;
    iface->num_conns--;
    cw_ofi_peer_drop(conn->peer);
    free(conn->super.end);
    free(conn);
}

static void set_dial_alarm(struct ofi_conn *conn)
{
    const uint64_t at_ns = (conn->say_ns < conn->dial_end_ns) ? conn->say_ns : conn->dial_end_ns;

    cw_poller_alarm_set(cw_ofi_iface_of(&conn->super)->poller, &conn->deadline, at_ns);
}

static void begin_dial(struct ofi_conn *conn, uint64_t timeout_ns)
{
    const uint64_t now_ns = cw_clock_ns();

    conn->dial_end_ns = (timeout_ns == UINT64_MAX) ? UINT64_MAX : now_ns + timeout_ns;
    conn->pause_ns = SAY_AGAIN_NS;
    conn->say_ns = now_ns + conn->pause_ns;
    set_dial_alarm(conn);
}

ucs_status_t cw_ofi_dial(struct cw_iface *super, const void *address, size_t address_length, const void *hello,
                         size_t hello_length, void *user, struct cw_conn **conn_p)
{
    struct ofi_iface *iface = cw_container_of(super, struct ofi_iface, super);
    struct ofi_conn *conn;
    const char *why;

    if (iface->broken || hello_length > CW_HELLO_MAX || !cw_ofi_entry_check(iface, address, address_length, &why)) {
        return UCS_ERR_UNREACHABLE;
    }
    conn = cw_ofi_conn_new(iface, NULL, user);
    if (conn == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    conn->call = malloc(sizeof(*conn->call) + address_length + hello_length);
    if (conn->call == NULL) {
        cw_ofi_conn_free(conn);
        return UCS_ERR_NO_MEMORY;
    }
    *conn->call = (struct ofi_call){.address_length = address_length, .hello_length = hello_length};
    cw_bytes_copy_any(conn->call->bytes, address, address_length);
    cw_bytes_copy_any(conn->call->bytes + address_length, hello, hello_length);
    cw_ofi_line_up(iface, &iface->calling, &conn->calling);
    cw_poller_wake(iface->poller);
    conn->is_dialling = 1;
    *conn_p = &conn->super;
    begin_dial(conn, iface->connect_timeout_ns);
    return UCS_OK;
}

static int say_hello(struct ofi_conn *conn)
{
    const struct ofi_call *call = conn->call;
    const struct cw_ofi_notice notice = {.kind = CW_OFI_HELLO,
                               .with_entry = 1,
                               .with_reach = 1,
                               .bytes = call->bytes + call->address_length,
                               .length = call->hello_length};

    return cw_ofi_notify(cw_ofi_iface_of(&conn->super), conn->peer, conn, &notice, NULL) != NULL;
}

static void call(struct ofi_conn *conn)
{
    struct ofi_iface *iface = cw_ofi_iface_of(&conn->super);
    const struct ofi_call *call = conn->call;
    ucs_status_t status = cw_ofi_peer_get(iface, call->bytes, call->address_length, true, &conn->peer);

    conn->last = cw_ofi_slot_new(iface, OFI_BLOCK_SMALL);
    if (status != UCS_OK) {
        cw_ofi_end(conn, status, "no process at this address");
    } else if (conn->last == NULL || !say_hello(conn)) {
        cw_ofi_end(conn, UCS_ERR_NO_MEMORY, "out of memory");
    }
}

unsigned cw_ofi_call(struct ofi_iface *iface)
{
    struct cw_list *link;
    unsigned count = 0;

    while ((link = cw_list_pop_head(&iface->calling)) != NULL) {
        call(cw_container_of(link, struct ofi_conn, calling));
        count++;
    }
    return count;
}

/* Sends the connection's last packet, which needs no answer. */
static void say_bye(struct ofi_iface *iface, struct ofi_conn *conn)
{
    struct cw_ofi_notice notice = {
        .kind = CW_OFI_BYE, .to = conn->peer_number, .token = conn->peer_token, .number = conn->next_out};
    struct ofi_slot *bye;

    if (conn->is_dialling) {
        notice = (struct cw_ofi_notice){.kind = CW_OFI_LEAVE};
    }
    if (!conn->said_bye && conn->peer != NULL && !cw_ofi_peer_is_dead(conn->peer)) {
        bye = cw_ofi_write_notify(iface, conn, &notice, conn->last);
        if (bye != NULL) {
            cw_ofi_access_bye(conn, bye);
        }
        conn->last = NULL;
    }
}

void cw_ofi_close_conn(struct cw_conn *super)
{
    struct ofi_conn *conn = cw_ofi_conn_of(super);
    struct ofi_iface *iface = cw_ofi_iface_of(super);

    cw_ofi_accesses_abandon(conn);
    say_bye(iface, conn);
    conn->state = OFI_BROKEN;
    conn->status = UCS_ERR_CANCELED;
    cw_ofi_accesses_end(conn, UCS_ERR_CANCELED);
    cw_ofi_cancel_flushes(conn);
    cw_ofi_conn_free(conn);
}

/* All packets are copies, so the transport no longer accesses memory of the program; it must only stop delivering
 * packets. */
void cw_ofi_abandon(struct cw_conn *super)
{
    struct ofi_conn *conn = cw_ofi_conn_of(super);

    cw_ofi_accesses_abandon(conn);
    say_bye(cw_ofi_iface_of(super), conn);
    cw_list_remove(&conn->calling);
    conn->said_bye = 1;
    conn->abandoned = 1;
    conn->is_dialling = 0;
    conn->state = OFI_BROKEN;
    conn->status = UCS_ERR_CANCELED;
    cw_list_remove(&conn->ending);
    cw_poller_alarm_cancel(cw_ofi_iface_of(super)->poller, &conn->deadline);
}

static bool is_awaited(struct ofi_conn *conn)
{
    const struct cw_upcalls *upcalls = conn->super.iface->upcalls;

    return conn->flying > 0 || conn->accessing > 0 || (upcalls->awaits != NULL && upcalls->awaits(&conn->super));
}

static void set_poll(struct ofi_conn *conn)
{
    struct ofi_iface *iface = cw_ofi_iface_of(&conn->super);

    conn->wakes = (uint8_t)is_awaited(conn);
    if (conn->wakes) {
        cw_poller_alarm_set(iface->poller, &conn->deadline, conn->poll_ns);
    } else {
        cw_poller_alarm_set_lazy(iface->poller, &conn->deadline, conn->poll_ns);
    }
}

void cw_ofi_poll_later(struct ofi_conn *conn)
{
    const uint64_t interval_ns = cw_ofi_iface_of(&conn->super)->keepalive_ns;

    if (interval_ns != UINT64_MAX) {
        conn->poll_ns = cw_clock_ns() + interval_ns / POLLS_PER_INTERVAL + 1;
        set_poll(conn);
    }
}

static bool is_checked(const struct ofi_conn *conn)
{
    return conn->watched || cw_ofi_iface_of(&conn->super)->injects;
}

void cw_ofi_polls_asleep(struct ofi_iface *iface)
{
    struct ofi_conn *conn;

    if (iface->keepalive_ns == UINT64_MAX) {
        return;
    }
    cw_list_for_each(conn, &iface->conns, struct ofi_conn, link)
    {
        if (is_checked(conn) && conn->state == OFI_OPEN && conn->wakes != is_awaited(conn)) {
            set_poll(conn);
        }
    }
}

void cw_ofi_watch(struct cw_conn *super)
{
    struct ofi_conn *conn = cw_ofi_conn_of(super);

    if (!conn->watched) {
        conn->watched = 1;
        if (conn->state == OFI_OPEN) {
            cw_ofi_poll_later(conn);
            cw_ofi_watch_begin(conn);
        }
    }
}

/* The answer to a ping acknowledges packets: those sent before the ping and not acknowledged by it are lost. */
static void ask(struct ofi_iface *iface, struct ofi_conn *conn)
{
    const struct cw_ofi_notice notice = {
        .kind = CW_OFI_PING, .to = conn->peer_number, .token = conn->peer_token, .with_entry = 1};

    conn->ping = cw_ofi_notify(iface, conn->peer, conn, &notice, NULL);
    if (conn->ping == NULL) {
        return;
    }
    conn->pings++;
    if (iface->injects && conn->asking == 0) {
        conn->asking = conn->pings;
        conn->asked = conn->next_out;
    }
}

void cw_ofi_conn_proved(struct ofi_conn *conn)
{
    conn->is_proved = 1;
    cw_ofi_peer_proved(conn->peer);
    if (conn->watched && conn->state == OFI_OPEN) {
        cw_ofi_watch_begin(conn);
    }
}

void cw_ofi_ponged(struct ofi_conn *conn)
{
    conn->pongs++;
    if (conn->asking == 0 || conn->pongs < conn->asking) {
        return;
    }
    conn->asking = 0;
    if (conn->handled != conn->asked && (conn->asked - conn->handled) % CW_OFI_SEQUENCES < CW_OFI_SEQUENCES / 2) {
        cw_ofi_end(conn, UCS_ERR_CONNECTION_RESET, "packets were lost");
    }
}

/* A ping that did not complete during all checks of an interval means that the peer's device receives nothing. A
 * connection that expects nothing gets no ping for an interval, so that an idle one wakes no worker. An unwatched
 * connection gets a ping only while packets are unacknowledged. */
static void check_silence(struct ofi_conn *conn)
{
    const int is_seen = conn->peer->watch.is_seen; /* then the system reports its end, and a stopped peer may not
                                                    * receive pings */

    conn->silent = (conn->heard || conn->ping == NULL || !conn->watched || is_seen) ? 0 : conn->silent + 1;
    if (conn->silent >= POLLS_PER_INTERVAL) {
        cw_ofi_end(conn, UCS_ERR_ENDPOINT_TIMEOUT, "no packets arrive there");
        return;
    }
    conn->quiet = conn->heard ? 0 : conn->quiet + 1;
    if (conn->ping == NULL && conn->quiet >= (is_awaited(conn) ? 1 : POLLS_PER_INTERVAL) &&
        (conn->watched || conn->handled != conn->next_out)) {
        ask(cw_ofi_iface_of(&conn->super), conn);
    }
    conn->heard = 0;
    cw_ofi_poll_later(conn);
}

static void dial_on(struct ofi_conn *conn)
{
    const uint64_t now_ns = cw_clock_ns();

    if (now_ns >= conn->dial_end_ns) {
        cw_ofi_end(conn, UCS_ERR_UNREACHABLE, "it does not answer");
        return;
    }
    if (conn->peer != NULL && conn->flying == 0) {
        (void)say_hello(conn);
    }
    conn->pause_ns *= 2;
    conn->say_ns = now_ns + conn->pause_ns;
    set_dial_alarm(conn);
}

static unsigned deadline_over(struct cw_alarm *alarm)
{
    struct ofi_conn *conn = cw_container_of(alarm, struct ofi_conn, deadline);

    if (conn->state == OFI_DIALLING) {
        dial_on(conn);
    } else if (conn->state == OFI_OPEN) {
        check_silence(conn);
    }
    return 1;
}

void cw_ofi_open_now(struct ofi_conn *conn, const void *reply, size_t length)
{
    cw_poller_alarm_cancel(cw_ofi_iface_of(&conn->super)->poller, &conn->deadline);
    free(conn->call);
    conn->call = NULL;
    conn->state = OFI_OPEN;
    conn->is_dialling = 0;
    conn->is_proved = 1;
    if (is_checked(conn)) {
        cw_ofi_poll_later(conn);
    }
    if (conn->watched) {
        cw_ofi_watch_begin(conn);
    }
    conn->super.iface->upcalls->opened(&conn->super, UCS_OK, reply, length);
}

void cw_ofi_end(struct ofi_conn *conn, ucs_status_t status, const char *why)
{
    struct ofi_iface *iface = cw_ofi_iface_of(&conn->super);
    struct cw_text text = {0};

    if (conn->state == OFI_ENDING || conn->state == OFI_BROKEN) {
        return;
    }
    cw_list_remove(&conn->calling);
    if (conn->peer != NULL) {
        cw_text_addf(&text, "connection over %s with process %u: %s", iface->info->fabric_attr->prov_name,
                     conn->peer->entry.process, why);
    } else {
        cw_text_addf(&text, "connection over %s: %s", iface->info->fabric_attr->prov_name, why);
    }
    conn->super.end = text.data;
    conn->status = (conn->state == OFI_DIALLING) ? UCS_ERR_UNREACHABLE : status;
    conn->state = OFI_ENDING;
    iface->idle_rounds = 0;
    cw_poller_alarm_cancel(iface->poller, &conn->deadline);
    cw_ofi_line_up(iface, &iface->ending, &conn->ending);
    cw_poller_wake(iface->poller);
}

void cw_ofi_notify_end(struct ofi_conn *conn)
{
    const struct cw_upcalls *upcalls = conn->super.iface->upcalls;
    const int was_dialling = conn->is_dialling;

    cw_list_remove(&conn->ending);
    cw_list_remove(&conn->blocked);
    conn->state = OFI_BROKEN;
    cw_ofi_accesses_end(conn, conn->status);
    if (was_dialling) {
        conn->is_dialling = 0;
        conn->said_bye = 1;
        upcalls->opened(&conn->super, conn->status, NULL, 0);
    } else {
        upcalls->closed(&conn->super, conn->status);
    }
}

unsigned cw_ofi_notify_ends(struct ofi_iface *iface)
{
    unsigned count = 0;

    while (!cw_list_empty(&iface->ending) && (iface->broken || iface->idle_rounds >= DRAINED)) {
        cw_ofi_notify_end(cw_list_head(&iface->ending, struct ofi_conn, ending));
        count++;
    }
    return count;
}

void cw_ofi_peer_died(struct ofi_peer *peer, ucs_status_t status, const char *why)
{
    struct ofi_conn *conn;

    peer->dead = 1;
    if (peer->process.fd >= 0) {
        cw_poller_remove(peer->iface->poller, &peer->process);
        cw_process_unwatch(peer->process.fd);
        peer->process.fd = -1;
    }
    cw_list_for_each(conn, &peer->iface->conns, struct ofi_conn, link)
    {
        if (conn->peer == peer) {
            cw_ofi_end(conn, status, why);
        }
    }
}
