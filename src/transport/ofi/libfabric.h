/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The part of libfabric in use, loaded by dlopen(3) only if settings or devices require it: libfabric's headers are
 * needed to build Causeway, but no libfabric to run it. The library stays loaded until the process ends. Thread safe.
 *
 * The first fi_getinfo(3) probes all devices of the machine, which takes a fraction of a second.
 */
#ifndef CW_TRANSPORT_OFI_LIBFABRIC_H
#define CW_TRANSPORT_OFI_LIBFABRIC_H

#include <rdma/fabric.h>
#include <stdbool.h>
#include <stdint.h>

struct cw_libfabric {
    int (*getinfo)(uint32_t version, const char *node, const char *service, uint64_t flags, const struct fi_info *hints,
                   struct fi_info **info);
    void (*freeinfo)(struct fi_info *info);
    struct fi_info *(*dupinfo)(const struct fi_info *info);
    int (*fabric)(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context);
    uint32_t (*version)(void);
    const char *(*strerror)(int error);
    uint32_t api; /* API version that both libraries support */
};

/* Returns NULL if libfabric is not available; *why is then the reason, a constant text. */
const struct cw_libfabric *cw_libfabric(const char **why);

/* Returns the providers' offers for reliable datagrams (FI_EP_RDM): the list of fi_getinfo(3) in libfabric's order.
 * Queried once per process and never freed. NULL: there is no offer; *why is the reason. */
const struct fi_info *cw_libfabric_offers(const char **why);

/* Whether the provider of an offer supports these flags for all sends. */
int cw_libfabric_takes(const struct fi_info *offer, uint64_t flags);
/* Whether the provider of an offer supports these capabilities for receives, including those that it enables only on
 * request. */
bool cw_libfabric_can(const struct fi_info *offer, uint64_t capabilities);

/* Enclose calls that open provider objects. libfabric, its dependencies and some providers install signal handlers:
 * cw_libfabric_end() restores the process's signal dispositions. Threads that a provider starts in between block the
 * program's signals. Serializes threads. */
void cw_libfabric_begin(void);
void cw_libfabric_end(void);

/* Whether this machine has a network card that only libfabric can drive. Checks for a few files and opens nothing. */
int cw_libfabric_sees_fabric(void);

#endif
