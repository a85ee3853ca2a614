/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The protection that the settings demand of every TCP connection of a worker, and the agreement of both sides of a
 * connection on it (docs/WIRE.md).
 *
 * The protection is set up when the worker's iface is opened: no worker may exist whose protection cannot be provided.
 * The dialler offers the protection that its settings demand; the acceptor agrees if its own settings demand exactly
 * that; both authenticate if the protection requires it; then the filter takes over the connection. Nothing is
 * negotiated, so there is no downgrade attack. A side that disagrees sends the reason and closes the connection. The
 * messages are read into handshake->in, which the handshake itself uses afterwards.
 */
#include "transport/tcp/tcp.h"

#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "os/secret.h"
#include "transport/tcp/tls/openssl.h"
#include "transport/tcp/tls/tls.h"

#define KEY_MIN 16u
#define KEY_MAX 4096u

enum auth_tls { AUTH_TLS_OFF, AUTH_TLS_PSK, AUTH_TLS_CERT }; /* cw_words_auth_tls */

static bool is_set(const char *text)
{
    return text != NULL && text[0] != '\0';
}

/* Rejects contradictory settings. */
static ucs_status_t check(const struct cw_tcp_auth *auth)
{
    const int has_key = is_set(auth->key_file);
    const int has_any =
        is_set(auth->cert_file) || is_set(auth->cert_key_file) || is_set(auth->ca_file);
    const int has_all =
        is_set(auth->cert_file) && is_set(auth->cert_key_file) && is_set(auth->ca_file);

    if (auth->tls == AUTH_TLS_PSK && !has_key) {
        cw_error("UCX_AUTH_TLS=psk needs the cluster secret: set UCX_AUTH_KEY_FILE");
    } else if (auth->tls == AUTH_TLS_CERT && !has_all) {
        cw_error("UCX_AUTH_TLS=cert needs UCX_AUTH_CERT_FILE, UCX_AUTH_CERT_KEY_FILE and UCX_AUTH_CA_FILE");
    } else if (auth->tls == AUTH_TLS_CERT && has_key) {
        cw_error("UCX_AUTH_TLS=cert does not use UCX_AUTH_KEY_FILE: unset it, or set UCX_AUTH_TLS=psk");
    } else if (auth->tls != AUTH_TLS_CERT && has_any) {
        cw_error("UCX_AUTH_CERT_FILE, UCX_AUTH_CERT_KEY_FILE and UCX_AUTH_CA_FILE have no effect without "
                 "UCX_AUTH_TLS=cert");
    } else {
        return UCS_OK;
    }
    return UCS_ERR_INVALID_PARAM;
}

/* Stores only a secret that is derived from the key for this purpose, not the key itself. The key's length is part of
 * the input, because HMAC pads a short key with zeros and replaces a long one by its hash. */
static ucs_status_t load_secret(const char *path, const char *purpose, struct cw_tcp_security *security)
{
    struct {
        uint64_t length;
        uint8_t bytes[KEY_MAX];
    } key;
    size_t length = sizeof(key.bytes);
    ucs_status_t status;
    const char *why;

    status = cw_secret_read("UCX_AUTH_KEY_FILE", path, key.bytes, KEY_MIN, &length);
    if (status != UCS_OK) {
        return status;
    }
    key.length = htole64(length);
    security->openssl = cw_openssl_open(CW_OPENSSL_CRYPTO, &why);
    if (security->openssl == NULL) {
        cw_error("UCX_AUTH_KEY_FILE is set, but %s", why);
        status = UCS_ERR_UNSUPPORTED;
    } else if (!cw_hmac(security->openssl, &key, sizeof(key.length) + length, purpose, strlen(purpose),
                        security->secret)) {
        cw_error("UCX_AUTH_KEY_FILE is set, but OpenSSL refuses HMAC-SHA256 with this key");
        status = UCS_ERR_UNSUPPORTED;
    }
    cw_secret_wipe(&key, sizeof(key));
    return status;
}

static ucs_status_t load_tls(const struct cw_tcp_auth *auth, struct cw_tcp_security *security)
{
    const int by_key = auth->tls == AUTH_TLS_PSK;
    struct cw_tls_settings settings = {.key = by_key ? security->secret : NULL,
                             .cert_file = auth->cert_file,
                             .cert_key_file = auth->cert_key_file,
                             .ca_file = auth->ca_file};
    ucs_status_t status;

    if (!by_key) {
        status = cw_secret_check("UCX_AUTH_CERT_KEY_FILE", auth->cert_key_file);
        if (status != UCS_OK) {
            return status;
        }
    }
    security->protection = by_key ? CW_TCP_TLS_PSK | CW_TCP_SIZED : CW_TCP_TLS_CERT;
    security->tls = cw_tls_context_new(&settings, security->why, sizeof(security->why));
    if (security->tls == NULL) {
        cw_error("UCX_AUTH_TLS=%s is set, but %s", by_key ? "psk" : "cert", security->why);
        return UCS_ERR_UNSUPPORTED;
    }
    return UCS_OK;
}

ucs_status_t cw_tcp_security_new(const struct cw_tcp_auth *auth, struct cw_tcp_security **security_p)
{
    struct cw_tcp_security *security = calloc(1, sizeof(*security));
    ucs_status_t status = check(auth);

    if (security == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    if (status == UCS_OK && is_set(auth->key_file)) {
        security->protection = CW_TCP_SECRET | CW_TCP_SIZED;
        status = load_secret(auth->key_file,
               (auth->tls == AUTH_TLS_OFF) ? "causeway: proofs of TCP connections"
                                                                : "causeway: key of TLS connections",
                             security);
    }
    if (status == UCS_OK && auth->tls != AUTH_TLS_OFF) {
        status = load_tls(auth, security);
    } else if (auth->checksum) { /* TLS has checksums of its own */
        security->protection |= CW_TCP_CHECKSUM;
    }
    if (status != UCS_OK) {
        cw_tcp_security_free(security);
        return status;
    }
    *security_p = security;
    return UCS_OK;
}

void cw_tcp_security_free(struct cw_tcp_security *security)
{
    if (security != NULL) {
        cw_tls_context_free(security->tls);
        free(security->spare_in);
        cw_secret_wipe(security->secret, sizeof(security->secret));
        free(security);
    }
}

int cw_tcp_prove(const struct cw_tcp_security *security, const struct cw_tcp_claim *claim, uint8_t *proof)
{
    return cw_hmac(security->openssl, security->secret, sizeof(security->secret), claim, sizeof(*claim), proof);
}

enum role { DIALLER, ACCEPTOR };

enum phase {
    BEGIN,     /* the acceptor waits for an offer */
    OFFERED,   /* the dialler waits for the reply */
    PROVING,   /* both wait for the other's proof */
    HANDSHAKE, /* the handshake of both filters */
    DONE
};

static const char malformed[] = "its handshake is malformed";
static const char rx_eof[] = "the reply cannot be sent";
static const char left[] = "it closed the connection during the handshake";
static const char other_key[] = "it has another cluster secret, or none: UCX_AUTH_KEY_FILE must hold the same bytes "
                                "for all processes";

static const char refuses[] = "it refused, because its cluster secret differs: UCX_AUTH_KEY_FILE must hold the same "
                              "bytes for all processes";

static struct cw_tcp_security *security_of(const struct cw_tcp_conn *conn)
{
    return cw_tcp_iface_of(&conn->super)->security;
}

int cw_tcp_agreed(const struct cw_tcp_conn *conn)
{
    return conn->handshake->phase == DONE || security_of(conn)->protection == CW_TCP_PLAIN;
}

static const char *protection_name(uint8_t protection)
{
    switch (protection & ~CW_TCP_SIZED) {
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
        return "one that this version does not support";
    }
}

/* A sentence that describes the difference; valid until the next call. */
static const char *differs(struct cw_tcp_conn *conn, uint8_t theirs)
{
    struct cw_tcp_security *security = security_of(conn);

    if ((theirs ^ security->protection) == CW_TCP_SIZED) {
        return "it is of release 1.0, which accepts some cluster secrets that differ; with UCX_AUTH_KEY_FILE all "
               "processes need this release or a later one";
    }
    snprintf(security->why, sizeof(security->why),
             "its protection of connections differs (there: %s; here: %s); these settings must be the same in all "
             "processes",
             protection_name(theirs), protection_name(security->protection));
    return security->why;
}

static enum role role_of(const struct cw_tcp_conn *conn)
{
    return (conn->state == CW_TCP_UNAUTH) ? ACCEPTOR : DIALLER;
}

/* The key of the worker that was dialled; 0: a listener of the program was dialled. */
static uint32_t key_of(const struct cw_tcp_conn *conn)
{
    if (role_of(conn) == DIALLER) {
        return conn->handshake->key;
    }
    return (conn->listening != NULL) ? 0 : cw_tcp_iface_of(&conn->super)->key;
}

/* Sends a message of the agreement, which always fits into the buffer of a new socket. */
static int say(struct cw_tcp_conn *conn, enum cw_tcp_agreement_kind kind, const void *body, size_t length)
{
    uint8_t bytes[CW_TCP_HANDSHAKE_SIZE + sizeof(struct cw_tcp_offer)];

    cw_tcp_handshake_encode(bytes, (enum cw_tcp_handshake_kind)kind, length, key_of(conn));
    memcpy(bytes + CW_TCP_HANDSHAKE_SIZE, body, length);
    length += CW_TCP_HANDSHAKE_SIZE;
    return cw_net_send(conn->item.fd, bytes, length) == (ssize_t)length;
}

static void say_unsuited(struct cw_tcp_conn *conn, enum cw_tcp_unsuited_reason reason)
{
    const struct cw_tcp_unsuited body = {security_of(conn)->protection, (uint8_t)reason, {0, 0}};

    (void)say(conn, CW_TCP_UNSUITED, &body, sizeof(body));
    conn->handshake->said_no = 1;
}

static const char *say_offer(struct cw_tcp_conn *conn, enum cw_tcp_agreement_kind kind)
{
    struct cw_tcp_offer offer = {.protection = security_of(conn)->protection};

    if (offer.protection & CW_TCP_SECRET) {
        if (!cw_secret_random(offer.nonce, sizeof(offer.nonce))) {
            return "no random numbers for the challenge";
        }
        memcpy(conn->handshake->nonces[role_of(conn)], offer.nonce, sizeof(offer.nonce));
    }
    return say(conn, kind, &offer, sizeof(offer)) ? NULL : rx_eof;
}

static int proof_by(const struct cw_tcp_conn *conn, enum role role, uint8_t proof[CW_TCP_PROOF_SIZE])
{
    struct cw_tcp_claim claim = {.label = "CWproof2",
                            .role = (uint8_t)(1 + role),
                            .protection = security_of(conn)->protection,
                            .version = CW_TCP_VERSION,
                            .key = htole32(key_of(conn))};

    memcpy(claim.nonces, conn->handshake->nonces, sizeof(claim.nonces));
    return cw_tcp_prove(security_of(conn), &claim, proof);
}

static const char *say_proof(struct cw_tcp_conn *conn)
{
    uint8_t proof[CW_TCP_PROOF_SIZE];

    if (!proof_by(conn, role_of(conn), proof)) {
        return "OpenSSL failed to compute the proof";
    }
    return say(conn, CW_TCP_PROOF, proof, sizeof(proof)) ? NULL : rx_eof;
}

/* Verifies the other side's proof. */
static const char *take_proof(struct cw_tcp_conn *conn, const struct cw_tcp_handshake_header *header)
{
    uint8_t proof[CW_TCP_PROOF_SIZE];

    if (conn->handshake->phase != PROVING || header->length != sizeof(proof)) {
        return malformed;
    }
    if (!proof_by(conn, (role_of(conn) == DIALLER) ? ACCEPTOR : DIALLER, proof)) {
        return "OpenSSL failed to compute the proof";
    }
    if (!cw_secret_equal(proof, conn->handshake->in + CW_TCP_HANDSHAKE_SIZE, sizeof(proof))) {
        say_unsuited(conn, CW_TCP_OTHER_KEY);
        return other_key;
    }
    return NULL;
}

static const char *ended(int error)
{
    return (error == -EPIPE) ? left : strerror(-error);
}

int cw_tcp_agree_was_left(const struct cw_tcp_conn *conn, const char *wrong)
{
    return wrong == left && conn->handshake->phase != HANDSHAKE;
}

static const char *shake_hands(struct cw_tcp_conn *conn)
{
    struct cw_tcp_security *security = security_of(conn);
    const int ret = conn->filter->ops->handshake(conn->filter);

    if (ret == 0 || ret == -EINPROGRESS) {
        cw_poller_modify(cw_tcp_iface_of(&conn->super)->poller, &conn->item,
                         CW_POLL_READ | ((ret == 0) ? 0 : CW_POLL_WRITE));
        return NULL;
    }
    if (ret == 1) {
        conn->handshake->phase = DONE;
        cw_poller_modify(cw_tcp_iface_of(&conn->super)->poller, &conn->item, CW_POLL_READ);
        return NULL;
    }
    if (ret != -EPROTO) {
        return ended(ret);
    }
    conn->handshake->said_no = 1; /* by an alert of TLS */
    snprintf(security->why, sizeof(security->why), "the TLS handshake failed (%s); %s", conn->filter->why,
             (security->protection & CW_TCP_TLS_PSK)
                 ? "UCX_AUTH_KEY_FILE must hold the same bytes for all processes"
                 : "both need certificates of an authority in the other's UCX_AUTH_CA_FILE");
    return security->why;
}

/* Installs the filter: from here on all bytes go through it. */
static const char *put_guard(struct cw_tcp_conn *conn)
{
    struct cw_tcp_security *security = security_of(conn);
    const int dialled = role_of(conn) == DIALLER;

    conn->handshake->phase = (security->tls != NULL) ? HANDSHAKE : DONE;
    conn->handshake->have = 0;
    if (security->tls != NULL) {
        conn->filter = cw_tcp_filter_tls_new(security->tls, conn->item.fd, dialled);
    } else if (security->protection & CW_TCP_CHECKSUM) {
        conn->filter = cw_tcp_filter_crc_new(dialled);
    } else {
        return NULL;
    }
    if (conn->filter == NULL) {
        return "out of memory";
    }
    conn->filter->conn = conn;
    cw_list_init(&conn->filter->unread);
    return (security->tls != NULL) ? shake_hands(conn) : NULL;
}

/* Reads the next message. *ret_p: 1: complete, 0: not yet, else -errno. Returns the error in it, or NULL. */
static const char *hear(struct cw_tcp_conn *conn, struct cw_tcp_handshake_header *header, int *ret_p)
{
    struct cw_tcp_handshake *handshake = conn->handshake;
    const char *wrong;

    *ret_p = cw_tcp_handshake_read(conn, CW_TCP_HANDSHAKE_SIZE);
    if (!cw_tcp_handshake_plausible(handshake->in, handshake->have)) {
        return "it does not speak this protocol";
    }
    if (*ret_p <= 0) {
        return (*ret_p == 0) ? NULL : ended(*ret_p);
    }
    wrong = cw_tcp_handshake_decode(handshake->in, CW_HELLO_MAX, header);
    if (wrong != NULL) {
        return wrong;
    }
    *ret_p = cw_tcp_handshake_read(conn, CW_TCP_HANDSHAKE_SIZE + header->length);
    return (*ret_p >= 0) ? NULL : ended(*ret_p);
}

/* Checks the peer's offer, or its agreement. */
static const char *take_offer(struct cw_tcp_conn *conn, const struct cw_tcp_handshake_header *header)
{
    static const uint8_t zeros[CW_TCP_NONCE_SIZE];
    struct cw_tcp_offer offer;

    if (header->length != sizeof(offer)) {
        return malformed;
    }
    memcpy(&offer, conn->handshake->in + CW_TCP_HANDSHAKE_SIZE, sizeof(offer));
    if (memcmp(offer.reserved, zeros, sizeof(offer.reserved)) != 0 || offer.protection == CW_TCP_PLAIN ||
        (!(offer.protection & CW_TCP_SECRET) && memcmp(offer.nonce, zeros, sizeof(offer.nonce)) != 0)) {
        return malformed;
    }
    if (offer.protection != security_of(conn)->protection) {
        say_unsuited(conn, CW_TCP_OTHER_PROTECTION);
        return differs(conn, offer.protection);
    }
    memcpy(conn->handshake->nonces[(role_of(conn) == DIALLER) ? ACCEPTOR : DIALLER], offer.nonce, sizeof(offer.nonce));
    return NULL;
}

/* The next step after both sides agreed: the proofs, the filter's handshake, or the handshake. */
static const char *offer_taken(struct cw_tcp_conn *conn)
{
    const char *wrong = (role_of(conn) == ACCEPTOR) ? say_offer(conn, CW_TCP_AGREED) : NULL;

    if (wrong != NULL || !(security_of(conn)->protection & CW_TCP_SECRET)) {
        return (wrong != NULL) ? wrong : put_guard(conn);
    }
    conn->handshake->phase = PROVING;
    conn->handshake->have = 0;
    return (role_of(conn) == DIALLER) ? say_proof(conn) : NULL;
}

/* The next step after the proof was verified. The acceptor proves itself second, so that an unauthenticated peer gets
 * no proof. */
static const char *proof_taken(struct cw_tcp_conn *conn)
{
    const char *wrong = (role_of(conn) == ACCEPTOR) ? say_proof(conn) : NULL;

    return (wrong != NULL) ? wrong : put_guard(conn);
}

static const char *take_unsuited(struct cw_tcp_conn *conn, const struct cw_tcp_handshake_header *header)
{
    struct cw_tcp_unsuited body;

    if (header->length != sizeof(body)) {
        return malformed;
    }
    memcpy(&body, conn->handshake->in + CW_TCP_HANDSHAKE_SIZE, sizeof(body));
    if (body.reserved[0] != 0 || body.reserved[1] != 0) {
        return malformed;
    }
    if (body.reason == CW_TCP_OTHER_PROTECTION) {
        return differs(conn, body.protection);
    }
    return (body.reason == CW_TCP_OTHER_KEY) ? refuses : malformed;
}

const char *cw_tcp_agree_accepted(struct cw_tcp_conn *conn, int *done_p)
{
    struct cw_tcp_handshake_header header = {0};
    const char *wrong;
    int ret;

    *done_p = 0;
    if (conn->handshake->phase == HANDSHAKE) {
        wrong = shake_hands(conn);
        *done_p = wrong == NULL && conn->handshake->phase == DONE;
        return wrong;
    }
    wrong = hear(conn, &header, &ret);
    if (wrong != NULL || ret == 0) {
        return wrong;
    }
    if (header.key != key_of(conn)) {
        return "it connects to another worker, which used this port before";
    }
    switch (header.kind) {
    case CW_TCP_HELLO:
        say_unsuited(conn, CW_TCP_OTHER_PROTECTION);
        return differs(conn, CW_TCP_PLAIN);
    case CW_TCP_OFFER:
        wrong = (conn->handshake->phase == BEGIN) ? take_offer(conn, &header) : malformed;
        wrong = (wrong == NULL) ? offer_taken(conn) : wrong;
        break;
    case CW_TCP_PROOF:
        wrong = take_proof(conn, &header);
        wrong = (wrong == NULL) ? proof_taken(conn) : wrong;
        break;
    case CW_TCP_UNSUITED:
        return take_unsuited(conn, &header);
    default:
        return malformed;
    }
    *done_p = wrong == NULL && conn->handshake->phase == DONE;
    return wrong;
}

const char *cw_tcp_agree_begin(struct cw_tcp_conn *conn)
{
    conn->handshake->have = 0;
    conn->handshake->phase = OFFERED;
    return say_offer(conn, CW_TCP_OFFER);
}

const char *cw_tcp_agree_dialled(struct cw_tcp_conn *conn, int *done_p, ucs_status_t *status_p)
{
    struct cw_tcp_handshake_header header;
    const char *wrong;
    int ret;

    *done_p = 0;
    *status_p = UCS_ERR_CONNECTION_RESET;
    if (conn->handshake->phase == HANDSHAKE) {
        wrong = shake_hands(conn);
        *done_p = wrong == NULL && conn->handshake->phase == DONE;
        *status_p = conn->handshake->said_no ? UCS_ERR_REJECTED : *status_p;
        return wrong;
    }
    wrong = hear(conn, &header, &ret);
    if (ret <= 0) {
        return wrong;
    }
    *status_p = UCS_ERR_UNREACHABLE;
    if (wrong != NULL || header.key != conn->handshake->key) {
        return (wrong != NULL) ? wrong : malformed;
    }
    switch (header.kind) {
    case CW_TCP_AGREED:
        wrong = (conn->handshake->phase == OFFERED) ? take_offer(conn, &header) : malformed;
        wrong = (wrong == NULL) ? offer_taken(conn) : wrong;
        break;
    case CW_TCP_PROOF:
        wrong = take_proof(conn, &header);
        wrong = (wrong == NULL) ? proof_taken(conn) : wrong;
        break;
    case CW_TCP_UNSUITED:
        *status_p = UCS_ERR_REJECTED;
        return take_unsuited(conn, &header);
    case CW_TCP_REFUSED:
        *status_p = UCS_ERR_REJECTED;
        return "it no longer accepts connections";
    default:
        return malformed;
    }
    *done_p = wrong == NULL && conn->handshake->phase == DONE;
    *status_p = conn->handshake->said_no ? UCS_ERR_REJECTED : *status_p;
    return wrong;
}
