/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Providers and domains as devices, `<provider>:<domain>`, and the selection of those in use. A provider goes by its
 * core name, because users need not know libfabric's utility layers over it (";ofi_rxm").
 */
#include "transport/ofi/ofi.h"

#include <stdio.h>
#include <string.h>

#include "base/crc32c.h"
#include "base/bytes.h"
#include "base/string.h"
#include "config/config.h"

#define MAX_OFFERS 64u

/* Fabrics that no other transport supports; used by default. */
static const char *const alone[] = {"efa", "cxi", "opx"};
/* Providers that UCX_TLS may name. */
static const char *const named[] = {"efa", "cxi", "opx", "psm3"};

struct offers {
    const struct fi_info *infos[MAX_OFFERS];
    struct cw_device devices[MAX_OFFERS];
    unsigned count;
};

static bool is_one_of(const char *name, const char *const *list, size_t count)
{
    size_t i;

    for (i = 0; i < count; i++) {
        if (strcmp(name, list[i]) == 0) {
            return true;
        }
    }
    return false;
}

static bool has(const struct cw_name_list *list, const char *name)
{
    unsigned i;

    for (i = 0; i < list->count; i++) {
        if (strcmp(list->names[i] + (list->names[i][0] == '\\'), name) == 0) {
            return true;
        }
    }
    return false;
}

/* Gets the core name, such as "tcp" of "tcp;ofi_rxm". A provider whose name does not fit is no device. */
static int core_name(const struct fi_info *info, char *name, size_t size)
{
    const char *full = info->fabric_attr->prov_name;
    const size_t core = (full != NULL) ? strcspn(full, ";") : 0;

    if (core == 0 || core >= size) {
        return 0;
    }
    cw_bytes_copy_any(name, full, core);
    name[core] = '\0';
    return 1;
}

/* Whether the settings allow this provider. */
static bool is_wanted(const struct cw_config *config, const char *provider)
{
    const struct cw_allow_list *tls = &config->tls;
    const int is_named = is_one_of(provider, named, sizeof(named) / sizeof(named[0]));

    if (tls->mode == CW_LIST_ALLOW) { /* srd is UCX's transport for efa devices */
        return has(&tls->list, "ofi") || (is_named && has(&tls->list, provider)) ||
               (strcmp(provider, "efa") == 0 && has(&tls->list, "srd"));
    }
    if (tls->mode == CW_LIST_EXCEPT && (has(&tls->list, "ofi") || has(&tls->list, provider))) {
        return false;
    }
    return is_one_of(provider, alone, sizeof(alone) / sizeof(alone[0]));
}

/* Whether to load libfabric at all: the user names it or a provider, or the machine has such a fabric. */
static bool is_asked_for(const struct cw_config *config)
{
    size_t i;

    for (i = 0; config->tls.mode == CW_LIST_ALLOW && i < sizeof(named) / sizeof(named[0]); i++) {
        if (is_wanted(config, named[i])) {
            return true;
        }
    }
    return config->tls.mode != CW_LIST_ALLOW &&
           is_wanted(config, alone[0]) + is_wanted(config, alone[1]) + is_wanted(config, alone[2]) > 0 &&
           cw_libfabric_sees_fabric();
}

static int usable(const struct fi_info *info)
{
    const uint64_t least = FI_MSG | FI_SEND | FI_RECV;

    return info->fabric_attr != NULL && info->domain_attr != NULL && info->ep_attr != NULL && info->tx_attr != NULL &&
           info->rx_attr != NULL && info->domain_attr->name != NULL && (info->caps & least) == least &&
           info->ep_attr->type == FI_EP_RDM && info->ep_attr->msg_prefix_size == 0 &&
           info->ep_attr->max_msg_size >= 2 * CW_OFI_SMALL && (info->mode & ~(FI_CONTEXT | FI_CONTEXT2)) == 0;
}

/* Whether an earlier offer has that name, or, with `domains`, whether another provider has that domain. */
static bool is_known(const struct offers *offers, const char *name, int domains)
{
    unsigned i;

    for (i = 0; i < offers->count; i++) {
        if (strcmp(offers->devices[i].name, name) == 0 ||
            (domains && strcmp(strchr(offers->devices[i].name, ':'), strchr(name, ':')) == 0)) {
            return true;
        }
    }
    return false;
}

/* Collects the offers that the settings allow; `config` NULL: all of them. */
static void collect(const struct cw_config *config, struct offers *offers)
{
    const char *why;
    const struct fi_info *info = cw_libfabric_offers(&why);
    char provider[CW_DEVICE_NAME_MAX], name[2 * CW_DEVICE_NAME_MAX];
    int length;

    offers->count = 0;
    for (; info != NULL && offers->count < MAX_OFFERS; info = info->next) {
        if (!usable(info) || !core_name(info, provider, sizeof(provider)) ||
            (config != NULL && !is_wanted(config, provider))) {
            continue;
        }
        length = snprintf(name, sizeof(name), "%s:%s", provider, info->domain_attr->name);
        if (length < 0 || length >= CW_DEVICE_NAME_MAX ||
            is_known(offers, name, config != NULL && cw_device_list_is_open(&config->net_devices))) {
            continue;
        }
        (void)snprintf(offers->devices[offers->count].name, CW_DEVICE_NAME_MAX, "%.*s", CW_DEVICE_NAME_MAX - 1, name);
        offers->infos[offers->count++] = info;
    }
}

unsigned cw_ofi_query_devices(const struct cw_config *config, struct cw_device *devices, unsigned max)
{
    struct offers offers;
    unsigned i, count = 0, pass;

    if (!is_asked_for(config)) {
        return 0;
    }
    collect(config, &offers);
    for (pass = 0; pass < 2; pass++) { /* devices that the user names come first */
        for (i = 0; i < offers.count; i++) {
            if (cw_device_list_allows(&config->net_devices, offers.devices[i].name) == (pass == 0)) {
                if (count < max) {
                    devices[count] = offers.devices[i];
                }
                count++;
            }
        }
    }
    return count;
}

void cw_ofi_explain(const struct cw_config *config, struct cw_text *text)
{
    struct offers offers;
    const char *why;
    unsigned i;

    if (!is_asked_for(config)) {
        cw_text_add(text, "Not probed: UCX_TLS names no provider of libfabric, and this machine has no fabric of EFA, "
                          "CXI or OPX, for which it is used by default.\n");
        return;
    }
    if (cw_libfabric_offers(&why) == NULL) {
        cw_text_addf(text, "%s.\n", why);
        return;
    }
    collect(config, &offers);
    if (offers.count > 0) {
        return;
    }
    collect(NULL, &offers);
    cw_text_add(text, "libfabric has no provider that UCX_TLS allows; it offers");
    for (i = 0; i < offers.count; i++) {
        cw_text_addf(text, "%s %s", (i > 0) ? "," : "", offers.devices[i].name);
    }
    cw_text_add(text, (offers.count > 0) ? ".\n" : " none.\n");
}

const struct fi_info *cw_ofi_offer(const char *device, const char **why)
{
    struct offers offers;
    unsigned i;

    if (cw_libfabric_offers(why) == NULL) {
        return NULL;
    }
    *why = "no provider of libfabric offers it any more";
    collect(NULL, &offers);
    for (i = 0; i < offers.count; i++) {
        if (strcmp(offers.devices[i].name, device) == 0) {
            return offers.infos[i];
        }
    }
    return NULL;
}

int cw_ofi_is_local(const struct fi_info *info)
{
    const uint8_t *bytes = info->src_addr;

    if (cw_string_starts(info->fabric_attr->prov_name, "shm")) {
        return 1;
    }
    if (bytes == NULL || info->src_addrlen < 16) {
        return 0;
    }
    if (info->addr_format == FI_SOCKADDR_IN) {
        return bytes[4] == 127;
    }
    return info->addr_format == FI_SOCKADDR_IN6 && info->src_addrlen >= 24 &&
           memcmp(bytes + 8, "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\1", 16) == 0;
}

uint32_t cw_ofi_provider_sum(const struct fi_info *info)
{
    return cw_crc32c(0, info->fabric_attr->prov_name, strlen(info->fabric_attr->prov_name));
}
