/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Loads libfabric by dlopen(3).
 */
#include "transport/ofi/libfabric.h"

#include <dlfcn.h>
#include <pthread.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "os/env.h"
#include "os/signals.h"

#define FILE_NAME "libfabric.so.1"

/* All registration modes: transport/ofi/ofi_mr.c implements what each requires. */
#define MR_MODES                                                                                                       \
    (FI_MR_LOCAL | FI_MR_RAW | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_RMA_EVENT | FI_MR_ENDPOINT | \
     FI_MR_HMEM)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct cw_libfabric library;
static int tried; /* 1: loading failed, 2: loaded */
static struct fi_info *offers;
static char reason[256]; /* why loading failed, if tried is 1 */
static pid_t offered_to; /* the process that called fi_getinfo(3); a child calls again, because some offers contain the
                          * process id */
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
    pthread_mutex_lock(&lock);
    begin();
}

void cw_libfabric_end(void)
{
    end();
    pthread_mutex_unlock(&lock);
}

static int find(void *handle)
{
    static const struct {
        const char *name;
        size_t offset;
    } symbols[] = {
        {"fi_getinfo", offsetof(struct cw_libfabric, getinfo)},
        {"fi_freeinfo", offsetof(struct cw_libfabric, freeinfo)},
        {"fi_dupinfo", offsetof(struct cw_libfabric, dupinfo)},
        {"fi_fabric", offsetof(struct cw_libfabric, fabric)},
        {"fi_version", offsetof(struct cw_libfabric, version)},
        {"fi_strerror", offsetof(struct cw_libfabric, strerror)},
    };
    void *address;
    const uint32_t built = FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION);
    size_t i;

    for (i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
        address = dlsym(handle, symbols[i].name);
        if (address == NULL) {
            snprintf(reason, sizeof(reason), FILE_NAME " has no %s; install libfabric 1.9 or later", symbols[i].name);
            return 0;
        }
        memcpy((char *)&library + symbols[i].offset, &address, sizeof(address));
    }
    library.api = library.version();
    library.api = (library.api < built) ? library.api : built;
    snprintf(reason, sizeof(reason), FILE_NAME " has version %u.%u; install libfabric 1.9 or later",
             FI_MAJOR(library.api), FI_MINOR(library.api));
    return FI_VERSION_GE(library.api, FI_VERSION(1, 9));
}

/* Dependencies of Debian's libfabric install signal handlers when they are loaded, and others when they are unloaded,
 * so it stays loaded even if unused. */
static void open_library(void)
{
    const char *error;
    void *handle;

    begin();
    handle = dlopen(FILE_NAME, RTLD_NOW | RTLD_LOCAL);
    tried = 1;
    if (handle == NULL) {
        error = dlerror();
        snprintf(reason, sizeof(reason), FILE_NAME " cannot be opened (%s); install libfabric (package libfabric1)",
                 (error != NULL) ? error : "no reason given");
    } else if (find(handle)) {
        tried = 2;
    }
    end();
}

static const struct cw_libfabric *get(const char **why)
{
    if (cw_env_is_secure()) { /* FI_PROVIDER_PATH names code that it loads */
        *why = "libfabric obeys its user's environment, which does not suit a program that has more rights than its "
               "user (set-user-id, set-group-id or file capabilities)";
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

    pthread_mutex_lock(&lock);
    result = get(why);
    pthread_mutex_unlock(&lock);
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
    offered_to = getpid();
    fi->freeinfo(hints);
}

const struct fi_info *cw_libfabric_offers(const char **why)
{
    const struct cw_libfabric *fi;
    const struct fi_info *result = NULL;

    pthread_mutex_lock(&lock);
    fi = get(why);
    if (fi != NULL) {
        if (offered_to != getpid()) {
            begin();
            ask(fi);
            end();
        }
        *why = "no provider of libfabric offers reliable datagrams here";
        result = offers;
    }
    pthread_mutex_unlock(&lock);
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
        if (access(names[i], F_OK) == 0) {
            return 1;
        }
    }
    return 0;
}
