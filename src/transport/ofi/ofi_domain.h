/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libfabric's fabric and domain, and memory registration (transport/ofi/ofi_domain.c, ofi_mr.c).
 */
#ifndef CW_TRANSPORT_OFI_OFI_DOMAIN_H
#define CW_TRANSPORT_OFI_OFI_DOMAIN_H

#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <stdbool.h>

#include "mem/domain.h"
#include "os/lock.h"
#include "transport/ofi/libfabric.h"
#include "transport/ofi/ofi_wire.h"

/* When a write is known to be in the target's memory. */
enum ofi_delivery {
    OFI_DELIVERY_UNKNOWN,   /* never: writes are not used */
    OFI_DELIVERY_COMPLETE,  /* at its completion (FI_DELIVERY_COMPLETE) */
    OFI_DELIVERY_READ_BACK, /* when a read that was posted directly behind it completes, since reads do not pass
                             * writes */
    OFI_DELIVERY_FENCED     /* as READ_BACK, with the read fenced (FI_FENCE) */
};

/* Deviations of a provider from its fi_info (transport/ofi/ofi_quirk.c). */
enum cw_ofi_quirk {
    CW_OFI_HIDES_REFUSALS = 1u << 0, /* an access with a wrong key never completes at the initiator */
    CW_OFI_DELIVERS_LATE = 1u << 1, /* FI_DELIVERY_COMPLETE is accepted but not honoured */
    CW_OFI_SHARES_BREAK = 1u << 2, /* a refused access also loses packets of other connections to that peer */
    CW_OFI_EAGER_16K = 1u << 3, /* longer packets use rendezvous: the sender would have to progress the provider until
                                 * the receiver has fetched them */
    CW_OFI_SHORT_PACKETS = 1u << 4, /* packets longer than the inject size wait for an acknowledgement: a lost one stops
                                     * all packets to an endpoint (ofi_rxd), and an acknowledgement from an endpoint of
                                     * this process that was closed meanwhile crashes the process (shm) */
    CW_OFI_NAMELESS_INJECT = 1u << 5, /* injected packets complete without a context */
    CW_OFI_LOSES_EXCESS = 1u << 6, /* packets beyond its queue length are accepted but never sent */
    CW_OFI_FEARS_THE_CLOSED = 1u << 7, /* a packet to a closed endpoint of this process crashes the process */
    CW_OFI_LEAVES_RECEIVES = 1u << 8, /* an interface that is closed leaks only its receive queue */
    CW_OFI_LOSES_UNPOSTED = 1u << 9, /* packets without a posted receive are lost when their connection ends */
    CW_OFI_FREES_TWICE = 1u << 10, /* closing the endpoint frees a read twice whose response is partly received, which
                                    * crashes the process */
    CW_OFI_MISNAMES_SOURCE = 1u << 11 /* FI_SOURCE reports a wrong entry of the address vector */
};

/* libfabric's fabric and domain. The domain of a context (mem/domain.h) is shared by its workers' interfaces; an
 * interface without one creates a private one, whose `reaches` is 0. Constant while it is open. */
struct ofi_domain {
    struct cw_domain super;
    const struct cw_libfabric *fi;
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    enum ofi_delivery delivery;
    unsigned quirks;     /* bits of enum cw_ofi_quirk */
    bool names_source;   /* receives report the sender's entry in the address vector */
    int reaches;         /* remote access works in both directions */
    unsigned atomics;    /* bits 1 << enum cw_access_op: supported fetching operations */
    unsigned key_length; /* bytes of a key */
    struct cw_lock lock; /* protects calls that use the domain or `end` */
    struct fid_ep *end;  /* the endpoint that the program's registrations are bound to (FI_MR_ENDPOINT); NULL: they
                          * belong to the domain */
    struct fid_av *end_av;
    struct fid_cq *end_cq;
    size_t end_length;
    uint8_t end_address[CW_OFI_MAX_ADDRESS];
};

/* ---- ofi_quirk.c ---- */
/* Returns bits of enum cw_ofi_quirk. */
unsigned cw_ofi_quirks(const struct fi_info *info);

/* ---- ofi_domain.c ---- */
extern const struct cw_domain_kind cw_ofi_domain_kind;
/* Opens a domain for a single interface. Logs the reason of a failure. */
ucs_status_t cw_ofi_domain_make(const char *device, struct ofi_domain **domain_p);
void cw_ofi_domain_close(struct cw_domain *super);
/* Progresses the provider for accesses of peers to memory that belongs to `end`. */
void cw_ofi_domain_progress(struct ofi_domain *domain);
static inline int cw_ofi_reads_back(const struct ofi_domain *domain)
{
    return domain->delivery == OFI_DELIVERY_READ_BACK || domain->delivery == OFI_DELIVERY_FENCED;
}

/* ---- ofi_mr.c ---- */
/* Whether what peers need fits into a part of a key. */
int cw_ofi_keys_fit(const struct fi_info *info);
unsigned cw_ofi_part_length(const struct ofi_domain *domain);
/* Registers memory, bound to `ep` if the provider requires that. Returns 0 or an error of libfabric. */
int cw_ofi_mr_new(const struct ofi_domain *domain, struct fid_ep *ep, void *memory, size_t length, uint64_t access,
                  struct fid_mr **mr);
/* Gets the key of a registration and its base address for the provider. Returns 0 or an error of libfabric. */
int cw_ofi_mr_key(const struct ofi_domain *domain, struct fid_mr *mr, struct cw_remote_key *key);

#endif
