/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is used of libfabric, opened when settings or devices ask for it and never otherwise: the library needs its
 * headers to be built and nothing to run. It stays open until the process ends. Thread safe.
 *
 * libfabric looks at all devices of the machine when it is asked for the first time, which takes a part of a second.
 */
#ifndef CW_OS_LIBFABRIC_H
#define CW_OS_LIBFABRIC_H

#include <rdma/fabric.h>
#include <stdint.h>

struct cw_libfabric {
    int (*getinfo)(uint32_t version, const char *node, const char *service, uint64_t flags, const struct fi_info *hints,
                   struct fi_info **info);
    void (*freeinfo)(struct fi_info *info);
    struct fi_info *(*dupinfo)(const struct fi_info *info);
    int (*fabric)(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context);
    uint32_t (*version)(void);
    const char *(*strerror)(int error);
    uint32_t api; /* the interface level that both sides know */
};

/* NULL when it is not there, with the reason, a constant text. */
const struct cw_libfabric *cw_libfabric(const char **why);

/* What the providers of this machine offer for reliable datagrams: the list of fi_getinfo(3) in libfabric's own order,
 * asked for once in each process and never freed. NULL: nothing, with the reason. */
const struct fi_info *cw_libfabric_offers(const char **why);

/* Whether this machine has a network card for which libfabric is the only way: some names are looked up, nothing is
 * opened. */
int cw_libfabric_sees_fabric(void);

#endif
