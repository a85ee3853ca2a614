/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Loads libfabric once per process.
 */
#include "transport/ofi/libfabric.h"

#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "os/env.h"
#include "os/file.h"
#include "os/library.h"
#include "os/lock.h"
#include "os/memory.h"
#include "os/signals.h"

#define SYMBOL(member) {"fi_" #member, offsetof(struct cw_libfabric, member), 0}
static const struct cw_symbol symbols[] = {SYMBOL(getinfo), SYMBOL(freeinfo), SYMBOL(dupinfo),
                                           SYMBOL(fabric),  SYMBOL(version),  SYMBOL(strerror)};
#undef SYMBOL

#define UPDATE "install libfabric 1.9 or later"
static const struct cw_library file = {
    .file = "libfabric.so.1",
    .absent = "install libfabric (package libfabric1)",
    .old = UPDATE,
    .symbols = symbols,
    .num_symbols = sizeof(symbols) / sizeof(symbols[0]),
};

/* All registration modes: transport/ofi/ofi_mr.c implements what each requires. */
#define MR_MODES                                                                                                       \
    (FI_MR_LOCAL | FI_MR_RAW | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_RMA_EVENT | FI_MR_ENDPOINT | \
     FI_MR_HMEM)

static struct cw_lock lock;
static struct cw_libfabric library;
static int tried; /* 1: loading failed, 2: loaded */
static struct fi_info *offers;
static char reason[CW_LIBRARY_WHY]; /* why loading failed, if tried is 1 */
static uint32_t offered_to; /* the process that called fi_getinfo(3); a child calls again, because some offers contain
                             * the process id */
static struct cw_signals signals; /* dispositions saved between cw_libfabric_begin() and cw_libfabric_end() */

static void begin(void)
{
    cw_signals_note(&signals);
}

static void end(void)
{
    const void *inside = NULL;

    memcpy(&inside, &library.getinfo, sizeof(inside));
    cw_signals_put_back(&signals, inside);
}

void cw_libfabric_begin(void)
{
    cw_lock_enter(&lock);
    begin();
}

void cw_libfabric_end(void)
{
    end();
    cw_lock_leave(&lock);
}

/* Whether the version in use, the older one of the library and its headers here, has what is needed. */
static bool is_recent(void)
{
    const uint32_t built = FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION);

    library.api = library.version();
    library.api = (library.api < built) ? library.api : built;
    snprintf(reason, sizeof(reason), "%s has version %u.%u; " UPDATE, file.file, FI_MAJOR(library.api),
             FI_MINOR(library.api));
    return FI_VERSION_GE(library.api, FI_VERSION(1, 9));
}

/* Dependencies of Debian's libfabric install signal handlers when they are loaded, and others when they are unloaded,
 * so it stays loaded even if unused. */
static void open_library(void)
{
    begin();
    tried = (cw_library_open(&file, &library, reason) != NULL && is_recent()) ? 2 : 1;
    end();
}

static const struct cw_libfabric *get(const char **why)
{
    if (cw_env_is_secure()) { /* FI_PROVIDER_PATH names code that it loads */
        *why = "libfabric trusts the environment of its user, which is unsafe in a privileged program (set-user-id, "
               "set-group-id or file capabilities)";
        return NULL;
    }
    if (tried == 0) {
        open_library();
    }
    *why = reason;
    return (tried == 2) ? &library : NULL;
}

const struct cw_libfabric *cw_libfabric(const char **why)
{
    const struct cw_libfabric *result;

    cw_lock_enter(&lock);
    result = get(why);
    cw_lock_leave(&lock);
    return result;
}

/* The hints leave the capabilities open, so that each offer lists all that its provider supports. */
static void ask(const struct cw_libfabric *fi)
{
    struct fi_info *hints = fi->dupinfo(NULL);
    int error;

    if (hints == NULL) {
        return;
    }
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->mr_mode = MR_MODES;
    hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
    error = fi->getinfo(fi->api, NULL, NULL, 0, hints, &offers);
    if (error != 0) {
        cw_debug("libfabric finds no provider: %s", fi->strerror(-error));
        offers = NULL;
    }
    offered_to = cw_memory_process();
    fi->freeinfo(hints);
}

const struct fi_info *cw_libfabric_offers(const char **why)
{
    const struct cw_libfabric *fi;
    const struct fi_info *result = NULL;

    cw_lock_enter(&lock);
    fi = get(why);
    if (fi != NULL) {
        if (offered_to != cw_memory_process()) {
            begin();
            ask(fi);
            end();
        }
        *why = "no provider of libfabric offers reliable datagrams here";
        result = offers;
    }
    cw_lock_leave(&lock);
    return result;
}

/* Whether libfabric has such an offer with these flags for sends and these capabilities for receives. */
static bool is_offered(const struct fi_info *offer, uint64_t flags, uint64_t capabilities)
{
    const char *why;
    const struct cw_libfabric *fi = cw_libfabric(&why);
    struct fi_info *hints = (fi != NULL) ? fi->dupinfo(offer) : NULL;
    struct fi_info *found = NULL;
    bool result;

    if (hints == NULL) {
        return false;
    }
    hints->tx_attr->op_flags |= flags;
    hints->caps |= capabilities;
    hints->rx_attr->caps |= capabilities;
    cw_libfabric_begin();
    result = fi->getinfo(fi->api, NULL, NULL, 0, hints, &found) == 0 && found != NULL &&
             (found->caps & capabilities) == capabilities;
    cw_libfabric_end();
    if (found != NULL) {
        fi->freeinfo(found);
    }
    fi->freeinfo(hints);
    return result;
}

int cw_libfabric_takes(const struct fi_info *offer, uint64_t flags)
{
    return is_offered(offer, flags, 0);
}

bool cw_libfabric_can(const struct fi_info *offer, uint64_t capabilities)
{
    return (offer->caps & capabilities) == capabilities || is_offered(offer, 0, capabilities);
}

int cw_libfabric_sees_fabric(void)
{
    static const char *const names[] = {"/sys/class/cxi", "/sys/bus/pci/drivers/efa", "/sys/class/hfi1"};
    size_t i;

    for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (cw_file_exists(names[i])) {
            return 1;
        }
    }
    return 0;
}
