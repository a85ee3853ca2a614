/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The part of libfabric that is used. The library is opened when settings or devices ask for it and never otherwise:
 * Causeway needs libfabric's headers to be built, and no libfabric to run. It stays open until the process ends. Thread
 * safe.
 *
 * libfabric looks at all devices of the machine when it is asked for the first time, which takes a part of a second.
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
    uint32_t api; /* the level of the interface that both libraries know */
};

/* NULL: libfabric is not there; *why is then the reason, a constant text. */
const struct cw_libfabric *cw_libfabric(const char **why);

/* The offers of the providers of this machine for reliable datagrams: the list of fi_getinfo(3) in libfabric's own
 * order. libfabric is asked once in each process, and the list is never freed. NULL: there is no offer; *why is the
 * reason. */
const struct fi_info *cw_libfabric_offers(const char **why);

/* Whether the provider of an offer takes these flags for everything that is sent. */
int cw_libfabric_takes(const struct fi_info *offer, uint64_t flags);
/* Whether the provider of an offer has these capabilities for what is received, also if it offers them only to who asks
 * for them. */
bool cw_libfabric_can(const struct fi_info *offer, uint64_t capabilities);

/* Calls that open objects of a provider stand between these two: libfabric, the libraries that it brings and some
 * providers install signal handlers, and the dispositions of the process are afterwards as they were. Threads that a
 * provider starts there take no signals of the program. Other threads wait meanwhile. */
void cw_libfabric_begin(void);
void cw_libfabric_end(void);

/* Whether this machine has a network card that only libfabric can drive. The call looks up some names and opens
 * nothing. */
int cw_libfabric_sees_fabric(void);

#endif
