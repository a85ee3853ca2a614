/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Positions, see tcp_position.h. All times are parts of UCX_KEEPALIVE_INTERVAL; the looks of tcp_watch.c come every
 * eighth of it. A peer that misses bytes would take a position frame for a part of them. So an end sends no question
 * before a peer that misses bytes has had its time to tell.
 */
#include "transport/tcp/tcp_position.h"

#include <string.h>

#include "base/log.h"
#include "os/clock.h"
#include "transport/tcp/tcp_dial.h"
#include "transport/tcp/tcp_filter.h"
#include "transport/tcp/tcp_send.h"
#include "transport/tcp/tcp_watch.h"

/* Numbers of looks: those without new bytes before the first question, those without an answer before the second and
 * last one, and those with new bytes in each after which a question is sent anyway. */
#define LOOKS_TO_ASK   3u
#define LOOKS_TO_AGAIN 2u
#define LOOKS_OF_TALK  8u
#define QUESTIONS      2u

/* The part of the interval for which the peer must have stood still, with no bytes on their way to it. */
#define LIMIT_PART 2u
#define LIMIT_NS   UINT64_C(10000000000) /* where no interval is set */

static void fill(const struct cw_tcp_conn *conn, enum cw_tcp_mark_kind kind, uint32_t number,
                 struct cw_tcp_position_body *body)
{
    *body = (struct cw_tcp_position_body){.number = htole32(number),
                                          .kind   = (uint8_t)kind,
                                          .inside = (uint8_t)(conn->state == CW_TCP_OPEN &&
                                                              cw_tcp_position_inside(conn)),
                                          .sent   = htole32(conn->sent),
                                          .taken  = htole32(conn->received)};
}

/* Sends a position frame. The frame itself counts neither as sent nor as something to ask about. */
static void say(struct cw_tcp_conn *conn, enum cw_tcp_mark_kind kind, uint32_t number)
{
    struct cw_tcp_watch *watch = conn->watch;
    const uint32_t before      = conn->sent;
    struct cw_tcp_position_body body;

    fill(conn, kind, number, &body);
    (void)cw_tcp_send_frame(conn, CW_TCP_MARK, &body, sizeof(body));
    if (watch != NULL) {
        watch->known = (watch->known == before) ? conn->sent : watch->known;
        watch->asked = (watch->asked == before) ? conn->sent : watch->asked;
        watch->seen  = (watch->seen == before) ? conn->sent : watch->seen;
    }
}

int cw_tcp_position_waits(const struct cw_tcp_watch *watch)
{
    const struct cw_tcp_conn *conn = watch->conn;

    return cw_tcp_position_inside(conn) || (conn->awaits && conn->received == watch->first);
}

int cw_tcp_position_is_due(const struct cw_tcp_watch *watch)
{
    const struct cw_tcp_conn *conn = watch->conn;

    return conn->filter == NULL && conn->state == CW_TCP_OPEN &&
           (conn->sent != watch->known || cw_tcp_position_waits(watch));
}

/* For a connection within a packet, or before the first one. */
static void look_at_standstill(struct cw_tcp_watch *watch, uint64_t now_ns)
{
    struct cw_tcp_conn *conn = watch->conn;

    if (conn->received != watch->taken || watch->stands_ns == 0) {
        watch->taken     = conn->received;
        watch->stands_ns = now_ns;
        watch->tell_ns   = now_ns;
    } else if (now_ns >= watch->tell_ns && conn->tx == NULL) {
        say(conn, CW_TCP_POSITION_WAITS, 0);
        watch->tell_ns = now_ns + (now_ns - watch->stands_ns) / 2;
    }
}

static uint64_t limit_ns(const struct cw_tcp_conn *conn)
{
    const uint64_t interval_ns = cw_tcp_iface_of(&conn->super)->settings.silence_ns;

    return (interval_ns > 0) ? interval_ns / LIMIT_PART : LIMIT_NS;
}

/* Whether the peer told lately that it stands still, and may tell so again. It would take a question for a part of the
 * bytes that it misses. */
static int stands_still(const struct cw_tcp_conn *conn, uint64_t now_ns)
{
    return conn->stands_ns != 0 && now_ns - conn->stands_ns < LIMIT_PART * limit_ns(conn);
}

/* Counts one more look. Whether the time for a question has come. */
static int has_waited(struct cw_tcp_watch *watch)
{
    if (watch->conn->sent == watch->seen) {
        watch->looks++;
        return watch->looks >= ((watch->questions == 0) ? LOOKS_TO_ASK : LOOKS_TO_AGAIN);
    }
    watch->seen      = watch->conn->sent;
    watch->looks     = 0;
    watch->questions = 0;
    watch->talked += watch->talked < LOOKS_OF_TALK;
    return watch->talked == LOOKS_OF_TALK;
}

int cw_tcp_position_look(struct cw_tcp_watch *watch, uint64_t now_ns, int unacknowledged)
{
    struct cw_tcp_conn *conn = watch->conn;

    if (conn->broken != UCS_OK) {
        return 0;
    }
    if (cw_tcp_position_waits(watch)) {
        look_at_standstill(watch, now_ns);
        return 1;
    }
    watch->stands_ns = 0;
    if (conn->sent == watch->known) {
        return 0;
    }
    if (!has_waited(watch) || unacknowledged || conn->tx != NULL || stands_still(conn, now_ns)) {
        return 1;
    }
    if (watch->questions == QUESTIONS) {
        watch->known = conn->sent; /* the peer computes; if it misses bytes, it will notice by itself */
        return 0;
    }
    watch->looks = watch->talked = 0;
    watch->questions++;
    watch->asked = conn->sent;
    say(conn, CW_TCP_POSITION_ASKS, ++watch->number);
    return 1;
}

/* The peer has taken `taken` bytes and waits for more. 0: the missing ones are lost: no byte is on its way any more,
 * and the peer has not moved on. */
static int is_coming(struct cw_tcp_conn *conn, uint32_t taken, int inside)
{
    const uint64_t now_ns = cw_clock_ns();

    if ((taken == conn->sent && !inside) || conn->tx != NULL || cw_net_unacknowledged(conn->item.fd) > 0) {
        conn->stands_ns = 0;
        return 1;
    }
    if (conn->stands_ns == 0 || conn->stands_at != taken) {
        conn->stands_ns = now_ns;
        conn->stands_at = taken;
        return 1;
    }
    return now_ns - conn->stands_ns < limit_ns(conn);
}

int cw_tcp_position_arrived(struct cw_tcp_conn *conn, const uint8_t *bytes, size_t length, size_t behind)
{
    struct cw_tcp_watch *watch = conn->watch;
    struct cw_tcp_position_body body;

    if (length != sizeof(body)) {
        return 0;
    }
    memcpy(&body, bytes, sizeof(body));
    if (body.kind < CW_TCP_POSITION_ASKS || body.kind > CW_TCP_POSITION_WAITS || body.inside > 1 ||
        body.reserved[0] != 0 || body.reserved[1] != 0) {
        return 0;
    }
    if (le32toh(body.sent) != conn->received - (uint32_t)behind ||
        (int32_t)(conn->sent - le32toh(body.taken)) < 0 ||
        (body.kind == CW_TCP_POSITION_WAITS && !is_coming(conn, le32toh(body.taken), body.inside))) {
        conn->lossy = 1;
        return 0;
    }
    if (body.kind == CW_TCP_POSITION_ASKS && conn->broken == UCS_OK) {
        say(conn, CW_TCP_POSITION_ANSWERS, le32toh(body.number));
    } else if (body.kind == CW_TCP_POSITION_ANSWERS && watch != NULL && le32toh(body.number) == watch->number) {
        watch->known = watch->asked;
    }
    return 1;
}

static unsigned still_no_answer(struct cw_alarm *alarm)
{
    struct cw_tcp_greeting *greeting = cw_container_of(alarm, struct cw_tcp_greeting, alarm);
    struct cw_tcp_conn *conn         = greeting->conn;
    const uint64_t now_ns            = cw_clock_ns();
    uint8_t frame[CW_TCP_FRAME_HEADER + sizeof(struct cw_tcp_position_body)];
    struct cw_tcp_position_body body;

    if (conn->state != CW_TCP_GREETING || greeting->have > 0) {
        return 0;
    }
    fill(conn, CW_TCP_POSITION_WAITS, 0, &body);
    cw_tcp_frame_encode(frame, CW_TCP_MARK, 0, sizeof(body));
    memcpy(frame + CW_TCP_FRAME_HEADER, &body, sizeof(body));
    if (cw_net_unacknowledged(conn->item.fd) == 0) { /* so there is room */
        conn->sent += (cw_tcp_filter_send(conn, frame, sizeof(frame)) > 0) ? (uint32_t)sizeof(frame) : 0;
    }
    cw_poller_alarm_set(cw_tcp_iface_of(&conn->super)->poller, alarm,
                        now_ns + cw_tcp_watch_pace(conn) + (now_ns - greeting->said_ns) / 2);
    return 0;
}

void cw_tcp_position_await_answer(struct cw_tcp_conn *conn)
{
    struct cw_tcp_greeting *greeting = conn->greeting;
    const uint64_t pace_ns           = cw_tcp_watch_pace(conn);

    if (conn->filter != NULL || pace_ns == 0) {
        return;
    }
    greeting->said_ns    = cw_clock_ns();
    greeting->alarm.fire = still_no_answer;
    cw_poller_alarm_set(cw_tcp_iface_of(&conn->super)->poller, &greeting->alarm, greeting->said_ns + pace_ns);
}
