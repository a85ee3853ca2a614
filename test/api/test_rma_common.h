/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the tests of memory, keys, remote access, atomics, flush and fence share: memory that is open to peers, and
 * targets. A target is memory that one reaches through an endpoint and a key; it lies in this process or in a second
 * one, the servant, which does with its memory what it is ordered and progresses while it waits for the next order,
 * unless ordered to be silent. A pair without endpoints of its own stays usable: everything goes through the target.
 */
#ifndef CW_API_TEST_RMA_COMMON_H
#define CW_API_TEST_RMA_COMMON_H

#include "harness.h"

#include <pthread.h>

#define CW_RMA_FEATURES (UCP_FEATURE_TAG | UCP_FEATURE_RMA | UCP_FEATURE_AMO32 | UCP_FEATURE_AMO64 | UCP_FEATURE_AM)

enum { CW_PAGE = 4096, CW_MIB = 1 << 20, CW_BLOB_MAX = 4096 };

enum cw_memory {
    CW_MEMORY_ALLOCATED, /* by the library */
    CW_MEMORY_HEAP,      /* at an address that 8 divides and 16 does not */
    CW_MEMORY_SHARED,    /* a mapping that other processes could have too */
    CW_MEMORY_KINDS
};

/* Parameters whose unmasked fields are garbage; with address, length and flags. */
ucp_mem_map_params_t cw_mem_garbage(uint64_t mask);
ucp_mem_map_params_t cw_mem_params(void *address, size_t length, unsigned flags);
/* Each fails the test unless it works; refusal: unless it does not. */
ucp_mem_h cw_mem_map(ucp_context_h context, void *address, size_t length, unsigned flags);
ucs_status_t cw_mem_refusal(ucp_context_h context, const ucp_mem_map_params_t *params);
ucp_mem_attr_t cw_mem_query(ucp_mem_h memh);
void cw_mem_unmap(ucp_context_h context, ucp_mem_h memh);

/* Registered memory: [base, base + length) is what was asked for. */
struct cw_region {
    enum cw_memory kind;
    ucp_context_h context;
    ucp_mem_h memh;
    char *base;
    size_t length;
    void *own;          /* what to free or to unmap, if it is not the library's */
    size_t own_length;
};

void cw_region_open(struct cw_region *region, ucp_context_h context, enum cw_memory kind, size_t length);
/* As it is, of memory that belongs to the caller. */
void cw_region_register(struct cw_region *region, ucp_context_h context, void *base, size_t length);
void cw_region_unmap(struct cw_region *region);
void cw_region_close(struct cw_region *region);
/* Packs, and unpacks for this endpoint. */
ucp_rkey_h cw_region_key(const struct cw_region *region, ucp_ep_h ep);
/* Malloc'ed copy of the packed key. */
void *cw_region_blob(const struct cw_region *region, size_t *length);

/* Makes the worker progress in a thread of its own while this one is inside a blocking call. */
struct cw_helper {
    pthread_t thread;
    ucp_worker_h worker;
    volatile int stop;
};

void cw_helper_start(struct cw_helper *helper, ucp_worker_h worker);
void cw_helper_stop(struct cw_helper *helper);

enum cw_order {
    CW_ORDER_MAP,      /* kind, length: answers address, blob and which region it is */
    CW_ORDER_UNMAP,    /* the memory stays, unless it is the library's */
    CW_ORDER_DROP,
    CW_ORDER_FILL,     /* offset, length, seed */
    CW_ORDER_FIND,     /* offset, length, seed: answers the offset of the first wrong byte or -1 */
    CW_ORDER_SET,      /* offset, length, byte */
    CW_ORDER_PEEK,     /* offset: answers the 8 bytes there */
    CW_ORDER_STORE,    /* offset, value of 8 bytes */
    CW_ORDER_AWAIT,    /* offset, value: looks without progress until the 8 bytes are the value */
    CW_ORDER_SILENT,   /* waits for orders without progress from now on */
    CW_ORDER_LIVELY,
    CW_ORDER_QUIT
};

struct cw_servant {
    struct cw_remote remote;
    struct cw_pair *pair;
    uint64_t region; /* the orders are about this one of its regions */
};

/* To be named in the roles of a program that uses a servant: CW_SERVANT_ROLE in the array of roles. */
int cw_servant_run(int fd, const char *argument);
#define CW_SERVANT_ROLE {"servant", cw_servant_run}

/* pair: its first side is opened here, with an endpoint in PEER mode whose failures are counted. */
void cw_servant_start(struct cw_servant *servant, struct cw_pair *pair);
uint64_t cw_servant_order(struct cw_servant *servant, enum cw_order order, uint64_t a, uint64_t b, uint64_t c);
void cw_servant_dismiss(struct cw_servant *servant);
void cw_servant_kill(struct cw_servant *servant);
extern int cw_servant_failures;
extern ucs_status_t cw_servant_failure;

/* Memory to put to and get from. offset 0 is its first byte. */
struct cw_target {
    struct cw_pair *pair;
    ucp_ep_h ep;
    ucp_rkey_h key;
    uint64_t address;
    size_t length;
    struct cw_region region;    /* if it is in this process */
    struct cw_servant *servant; /* or the process that has it, */
    uint64_t number;            /* and which of its regions it is */
};

/* In the memory of pair->rx; or of the servant, if it is not NULL. */
void cw_target_open(struct cw_target *target, struct cw_pair *pair, struct cw_servant *servant, enum cw_memory kind,
                    size_t length);
void cw_target_close(struct cw_target *target);
void cw_target_fill(struct cw_target *target, size_t offset, size_t length, uint64_t seed);
void cw_target_set(struct cw_target *target, size_t offset, size_t length, int byte);
ssize_t cw_target_find(struct cw_target *target, size_t offset, size_t length, uint64_t seed);
void cw_target_check(struct cw_target *target, size_t offset, size_t length, uint64_t seed);
uint64_t cw_target_peek(struct cw_target *target, size_t offset);
void cw_target_store(struct cw_target *target, size_t offset, uint64_t value);
/* Of a target that a servant has. */
uint64_t cw_target_order(struct cw_target *target, enum cw_order order, uint64_t a, uint64_t b, uint64_t c);
/* Flushes the endpoint; the status. */
ucs_status_t cw_target_flush(struct cw_target *target);
/* Around a blocking call: the owner has to progress meanwhile if it is in this process. */
void cw_target_lend(struct cw_target *target, struct cw_helper *helper);
void cw_target_return(struct cw_target *target, struct cw_helper *helper);

/* Put or get of 8 bytes without any ado, and flushed: what both sides then see must agree. */
void cw_target_try(struct cw_target *target, size_t offset);

#endif
