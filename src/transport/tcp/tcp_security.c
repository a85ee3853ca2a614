/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The protection that the settings demand of every TCP connection of a worker. It is prepared when the worker's iface
 * is opened: no worker may exist whose protection cannot be provided. Also the proofs that both sides of a connection
 * know the cluster secret.
 */
#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "config/config.h"
#include "os/openssl.h"
#include "os/secret.h"
#include "os/tls.h"
#include "transport/tcp/tcp_filter.h"
#include "transport/tcp/tcp_filter_wire.h"

#define KEY_MIN 16u
#define KEY_MAX 4096u

enum auth_tls { AUTH_TLS_OFF, AUTH_TLS_PSK, AUTH_TLS_CERT }; /* cw_words_auth_tls */

static int is_set(const char *text)
{
    return text != NULL && text[0] != '\0';
}

/* Refuses settings that contradict each other. */
static ucs_status_t check(const struct cw_config *config)
{
    const int has_key = is_set(config->auth_key_file);
    const int has_any =
        is_set(config->auth_cert_file) || is_set(config->auth_cert_key_file) || is_set(config->auth_ca_file);
    const int has_all =
        is_set(config->auth_cert_file) && is_set(config->auth_cert_key_file) && is_set(config->auth_ca_file);

    if (config->auth_tls == AUTH_TLS_PSK && !has_key) {
        cw_error("UCX_AUTH_TLS=psk needs the cluster secret: set UCX_AUTH_KEY_FILE");
    } else if (config->auth_tls == AUTH_TLS_CERT && !has_all) {
        cw_error("UCX_AUTH_TLS=cert needs UCX_AUTH_CERT_FILE, UCX_AUTH_CERT_KEY_FILE and UCX_AUTH_CA_FILE");
    } else if (config->auth_tls == AUTH_TLS_CERT && has_key) {
        cw_error("UCX_AUTH_TLS=cert makes no use of UCX_AUTH_KEY_FILE: unset it, or set UCX_AUTH_TLS=psk");
    } else if (config->auth_tls != AUTH_TLS_CERT && has_any) {
        cw_error("UCX_AUTH_CERT_FILE, UCX_AUTH_CERT_KEY_FILE and UCX_AUTH_CA_FILE protect nothing without "
                 "UCX_AUTH_TLS=cert");
    } else {
        return UCS_OK;
    }
    return UCS_ERR_INVALID_PARAM;
}

/* Only a secret that is derived from the key for this purpose is kept, not the key itself. The key's length goes in
 * front, because HMAC fills a short key up with zeros and takes the hash of a long one in its place. */
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
    key.length        = htole64(length);
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

static ucs_status_t load_tls(const struct cw_config *config, struct cw_tcp_security *security)
{
    const int by_key                = config->auth_tls == AUTH_TLS_PSK;
    struct cw_tls_settings settings = {.key           = by_key ? security->secret : NULL,
                                       .cert_file     = config->auth_cert_file,
                                       .cert_key_file = config->auth_cert_key_file,
                                       .ca_file       = config->auth_ca_file};
    ucs_status_t status;

    if (!by_key) {
        status = cw_secret_check("UCX_AUTH_CERT_KEY_FILE", config->auth_cert_key_file);
        if (status != UCS_OK) {
            return status;
        }
    }
    security->protection = by_key ? CW_TCP_TLS_PSK | CW_TCP_SIZED : CW_TCP_TLS_CERT;
    security->tls        = cw_tls_context_new(&settings, security->why, sizeof(security->why));
    if (security->tls == NULL) {
        cw_error("UCX_AUTH_TLS=%s is set, but %s", by_key ? "psk" : "cert", security->why);
        return UCS_ERR_UNSUPPORTED;
    }
    return UCS_OK;
}

ucs_status_t cw_tcp_security_new(const struct cw_config *config, struct cw_tcp_security **security_p)
{
    struct cw_tcp_security *security = calloc(1, sizeof(*security));
    ucs_status_t status              = check(config);

    if (security == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    if (status == UCS_OK && is_set(config->auth_key_file)) {
        security->protection = CW_TCP_SECRET | CW_TCP_SIZED;
        status               = load_secret(config->auth_key_file,
                             (config->auth_tls == AUTH_TLS_OFF) ? "causeway: proofs of TCP connections"
                                                                              : "causeway: key of TLS connections",
                                           security);
    }
    if (status == UCS_OK && config->auth_tls != AUTH_TLS_OFF) {
        status = load_tls(config, security);
    } else if (config->tcp_checksum) { /* TLS has checksums of its own */
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
