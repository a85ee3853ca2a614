/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How both sides of a TCP connection agree about its protection (docs/WIRE.md): the dialler offers what its settings
 * say, the acceptor agrees if its own say exactly the same, both prove themselves if that is demanded, and the guard
 * takes its place. Nothing is negotiated, so nothing can be talked down. Whoever disagrees says why and ends it.
 *
 * The messages are read into greeting->in, which the greeting itself uses afterwards.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "transport/tcp/tcp_guard.h"
#include "transport/tcp/tcp_guard_wire.h"

enum phase {
    BEGIN,                        /* the acceptor waits for an offer */
    OFFERED,                      /* the dialler waits for the answer */
    DONE
};

static const char malformed[] = "its greeting is malformed";
static const char deaf[]      = "it takes no answer";

static struct cw_tcp_guarding *guarding_of(const struct cw_tcp_conn *conn)
{
    return cw_tcp_iface_of(&conn->super)->guarding;
}

int cw_tcp_agreed(const struct cw_tcp_conn *conn)
{
    return conn->greeting->phase == DONE || guarding_of(conn)->protection == CW_TCP_PLAIN;
}

static const char *protection_name(uint8_t protection)
{
    switch (protection) {
    case CW_TCP_PLAIN:
        return "none";
    case CW_TCP_CHECKSUM:
        return "checksums (UCX_TCP_CHECKSUM)";
    case CW_TCP_SECRET:
        return "a cluster secret (UCX_AUTH_KEY_FILE)";
    case CW_TCP_SECRET | CW_TCP_CHECKSUM:
        return "a cluster secret and checksums (UCX_AUTH_KEY_FILE, UCX_TCP_CHECKSUM)";
    case CW_TCP_TLS_PSK:
        return "TLS by a cluster secret (UCX_AUTH_TLS=psk)";
    case CW_TCP_TLS_CERT:
        return "TLS by certificates (UCX_AUTH_TLS=cert)";
    default:
        return "one that this version does not know";
    }
}

/* A sentence that lives until the next one. */
static const char *differs(struct cw_tcp_conn *conn, uint8_t theirs)
{
    struct cw_tcp_guarding *guarding = guarding_of(conn);

    snprintf(guarding->why, sizeof(guarding->why),
             "its settings protect connections otherwise (there: %s; here: %s); these settings must be the same in all "
             "processes",
             protection_name(theirs), protection_name(guarding->protection));
    return guarding->why;
}

/* Such messages always fit into a new socket's buffer. */
static int say(struct cw_tcp_conn *conn, enum cw_tcp_agreement_kind kind, const void *body, size_t length)
{
    const int dialled  = conn->state != CW_TCP_STRANGER;
    const uint32_t key = dialled ? conn->greeting->key : conn->listening ? 0 : cw_tcp_iface_of(&conn->super)->key;
    uint8_t bytes[CW_TCP_GREETING_SIZE + sizeof(struct cw_tcp_offer)];

    cw_tcp_greeting_encode(bytes, (enum cw_tcp_greeting_kind)kind, length, key);
    memcpy(bytes + CW_TCP_GREETING_SIZE, body, length);
    length += CW_TCP_GREETING_SIZE;
    return cw_net_send(conn->item.fd, bytes, length) == (ssize_t)length;
}

static void say_unsuited(struct cw_tcp_conn *conn, enum cw_tcp_unsuited_reason reason)
{
    const struct cw_tcp_unsuited body = {guarding_of(conn)->protection, (uint8_t)reason, {0, 0}};

    (void)say(conn, CW_TCP_UNSUITED, &body, sizeof(body));
    conn->greeting->said_no = 1;
}

static const char *say_offer(struct cw_tcp_conn *conn, enum cw_tcp_agreement_kind kind)
{
    const struct cw_tcp_offer offer = {.protection = guarding_of(conn)->protection};

    return say(conn, kind, &offer, sizeof(offer)) ? NULL : deaf;
}

/* From here on everything goes through the guard. */
static const char *put_guard(struct cw_tcp_conn *conn)
{
    const uint8_t protection = guarding_of(conn)->protection;

    conn->greeting->phase = DONE;
    conn->greeting->have  = 0;
    if (protection & CW_TCP_CHECKSUM) {
        conn->guard = cw_tcp_guard_crc_new(conn->state != CW_TCP_STRANGER);
        if (conn->guard == NULL) {
            return "there is no memory for its checksums";
        }
        conn->guard->conn = conn;
        cw_list_init(&conn->guard->unread);
    }
    return NULL;
}

static const char *ended(int error)
{
    return (error == -EPIPE) ? "it closed the connection before both agreed" : strerror(-error);
}

/* The next message: *ret_p 1: there, 0: not yet, -errno. Answers what is wrong with it. */
static const char *hear(struct cw_tcp_conn *conn, struct cw_tcp_greeting_header *header, int *ret_p)
{
    struct cw_tcp_greeting *greeting = conn->greeting;
    const char *wrong;

    *ret_p = cw_tcp_greeting_read(conn, CW_TCP_GREETING_SIZE);
    if (!cw_tcp_greeting_plausible(greeting->in, greeting->have)) {
        return "it does not speak this protocol";
    }
    if (*ret_p <= 0) {
        return (*ret_p == 0) ? NULL : ended(*ret_p);
    }
    wrong = cw_tcp_greeting_decode(greeting->in, CW_HELLO_MAX, header);
    if (wrong != NULL) {
        return wrong;
    }
    *ret_p = cw_tcp_greeting_read(conn, CW_TCP_GREETING_SIZE + header->length);
    return (*ret_p >= 0) ? NULL : ended(*ret_p);
}

/* The peer's offer or its agreement. */
static const char *take_offer(struct cw_tcp_conn *conn, const struct cw_tcp_greeting_header *header)
{
    static const uint8_t zeros[CW_TCP_NONCE_SIZE];
    struct cw_tcp_offer offer;

    if (header->length != sizeof(offer)) {
        return malformed;
    }
    memcpy(&offer, conn->greeting->in + CW_TCP_GREETING_SIZE, sizeof(offer));
    if (memcmp(offer.reserved, zeros, sizeof(offer.reserved)) != 0 || offer.protection == CW_TCP_PLAIN ||
        (!(offer.protection & CW_TCP_SECRET) && memcmp(offer.nonce, zeros, sizeof(offer.nonce)) != 0)) {
        return malformed;
    }
    if (offer.protection != guarding_of(conn)->protection) {
        say_unsuited(conn, CW_TCP_OTHER_PROTECTION);
        return differs(conn, offer.protection);
    }
    return NULL;
}

static const char *take_unsuited(struct cw_tcp_conn *conn, const struct cw_tcp_greeting_header *header)
{
    struct cw_tcp_unsuited body;

    if (header->length != sizeof(body)) {
        return malformed;
    }
    memcpy(&body, conn->greeting->in + CW_TCP_GREETING_SIZE, sizeof(body));
    if (body.reserved[0] != 0 || body.reserved[1] != 0) {
        return malformed;
    }
    return (body.reason == CW_TCP_OTHER_PROTECTION) ? differs(conn, body.protection) : malformed;
}

const char *cw_tcp_agree_accepted(struct cw_tcp_conn *conn, int *done_p)
{
    struct cw_tcp_greeting_header header;
    const char *wrong;
    int ret;

    *done_p = 0;
    wrong   = hear(conn, &header, &ret);
    if (wrong != NULL || ret == 0) {
        return wrong;
    }
    if (header.key != (conn->listening ? 0 : cw_tcp_iface_of(&conn->super)->key)) {
        return "it looks for another worker, which used this port before";
    }
    switch (header.kind) {
    case CW_TCP_HELLO:
    case CW_TCP_HELLO_PASS:
    case CW_TCP_JOIN:
        say_unsuited(conn, CW_TCP_OTHER_PROTECTION);
        return differs(conn, CW_TCP_PLAIN);
    case CW_TCP_OFFER:
        wrong = take_offer(conn, &header);
        wrong = (wrong == NULL) ? say_offer(conn, CW_TCP_AGREED) : wrong;
        break;
    default:
        return malformed;
    }
    wrong   = (wrong == NULL) ? put_guard(conn) : wrong;
    *done_p = wrong == NULL;
    return wrong;
}

const char *cw_tcp_agree_begin(struct cw_tcp_conn *conn)
{
    conn->greeting->have  = 0;
    conn->greeting->phase = OFFERED;
    return say_offer(conn, CW_TCP_OFFER);
}

const char *cw_tcp_agree_dialled(struct cw_tcp_conn *conn, int *done_p, ucs_status_t *status_p)
{
    struct cw_tcp_greeting_header header;
    const char *wrong;
    int ret;

    *done_p   = 0;
    *status_p = UCS_ERR_CONNECTION_RESET;
    wrong     = hear(conn, &header, &ret);
    if (ret <= 0) {
        return wrong;
    }
    *status_p = UCS_ERR_UNREACHABLE;
    if (wrong != NULL || header.key != conn->greeting->key) {
        return (wrong != NULL) ? wrong : malformed;
    }
    switch (header.kind) {
    case CW_TCP_AGREED:
        wrong = (conn->greeting->phase == OFFERED) ? take_offer(conn, &header) : malformed;
        break;
    case CW_TCP_UNSUITED:
        *status_p = UCS_ERR_REJECTED;
        return take_unsuited(conn, &header);
    case CW_TCP_REFUSED:
        *status_p = UCS_ERR_REJECTED;
        return "it takes no connections any more";
    default:
        return malformed;
    }
    wrong     = (wrong == NULL) ? put_guard(conn) : wrong;
    *done_p   = wrong == NULL;
    *status_p = conn->greeting->said_no ? UCS_ERR_REJECTED : *status_p;
    return wrong;
}
