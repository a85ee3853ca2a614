/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fabric and domain of libfabric, and registrations (transport/ofi/ofi_domain.c, ofi_mr.c).
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

/* When a write is known to be in the memory of the peer. */
enum ofi_delivery {
    OFI_DELIVERY_UNKNOWN,   /* never: nothing is written */
    OFI_DELIVERY_TOLD,      /* its completion says so (FI_DELIVERY_COMPLETE) */
    OFI_DELIVERY_READ_BACK, /* when a read that was posted directly behind it has its answer, since reads do not pass
                             * writes */
    OFI_DELIVERY_FENCED     /* when that read was fenced (FI_FENCE) and has its answer */
};

/* A provider does this otherwise than its fi_info says (transport/ofi/ofi_quirk.c). */
enum cw_ofi_quirk {
    CW_OFI_HIDES_REFUSALS = 1u << 0, /* an access with a wrong key never ends at its origin */
    CW_OFI_DELIVERS_LATE = 1u << 1, /* FI_DELIVERY_COMPLETE is taken and not kept */
    CW_OFI_SHARES_BREAK = 1u << 2, /* a refused access also loses packets of other connections to that peer */
    CW_OFI_EAGER_16K = 1u << 3, /* the receiver fetches longer packets, and the sender would have to call the
                                      * provider until that ends */
    CW_OFI_SHORT_PACKETS = 1u << 4, /* packets longer than the inject size wait for an answer: a lost one stops all
                                      * packets to an endpoint (ofi_rxd), and the answer of an endpoint of this
                                      * process that was closed meanwhile ends the process (shm) */
    CW_OFI_NAMELESS_INJECT = 1u << 5, /* injected packets complete without a context */
    CW_OFI_LOSES_EXCESS = 1u << 6, /* packets beyond the length of its queue are taken and never sent */
    CW_OFI_FEARS_THE_CLOSED = 1u << 7, /* a packet to a closed endpoint of this process ends the process */
    CW_OFI_LEAVES_RECEIVES = 1u << 8, /* its queue of receives is all that an interface leaves behind at its end */
    CW_OFI_LOSES_UNPOSTED = 1u << 9, /* at the end of a connection, packets without a posted receive are lost */
    CW_OFI_FREES_TWICE = 1u << 10, /* a read whose answer has begun to come is freed twice when its endpoint is
                                      * closed, which ends the process */
    CW_OFI_MISNAMES_SOURCE = 1u << 11 /* FI_SOURCE names another entry of the address vector */
};

/* Fabric and domain of libfabric. The domain of a context (mem/domain.h) is shared by its workers' interfaces; an
 * interface without one has one of its own, whose `reaches` is 0. Constant while it is open. */
struct ofi_domain {
    struct cw_domain super;
    const struct cw_libfabric *fi;
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    enum ofi_delivery delivery;
    unsigned quirks;     /* of enum cw_ofi_quirk */
    bool names_source;   /* receives tell which entry of the address vector sent the packet */
    int reaches;         /* peers reach memory here, and this side reaches theirs */
    unsigned atomics;    /* bits 1 << enum cw_access_op: operations that return the former value */
    unsigned key_length; /* bytes of a key */
    struct cw_lock lock; /* of calls that name the domain or `end` */
    struct fid_ep *end;  /* the endpoint of all registrations of the program's memory (FI_MR_ENDPOINT); NULL: they
                           * belong to the domain */
    struct fid_av *end_av;
    struct fid_cq *end_cq;
    size_t end_length;
    uint8_t end_address[CW_OFI_MAX_ADDRESS];
};

/* ---- ofi_quirk.c ---- */
/* Bits of enum cw_ofi_quirk. */
unsigned cw_ofi_quirks(const struct fi_info *info);

/* ---- ofi_domain.c ---- */
extern const struct cw_domain_kind cw_ofi_domain_kind;
/* A domain for one interface alone. The reason of a failure is in the log. */
ucs_status_t cw_ofi_domain_make(const char *device, struct ofi_domain **domain_p);
void cw_ofi_domain_close(struct cw_domain *super);
/* Lets the provider move the accesses of peers to memory that belongs to `end`. */
void cw_ofi_domain_progress(struct ofi_domain *domain);
static inline int cw_ofi_reads_back(const struct ofi_domain *domain)
{
    return domain->delivery == OFI_DELIVERY_READ_BACK || domain->delivery == OFI_DELIVERY_FENCED;
}

/* ---- ofi_mr.c ---- */
/* Whether parts of keys have room for what peers need. */
int cw_ofi_keys_fit(const struct fi_info *info);
unsigned cw_ofi_part_length(const struct ofi_domain *domain);
/* Registers memory, bound to `ep` where the provider asks for that. Returns 0, or an error of libfabric. */
int cw_ofi_mr_new(const struct ofi_domain *domain, struct fid_ep *ep, void *memory, size_t length, uint64_t access,
                  struct fid_mr **mr);
/* The key of a registration, and the address at which it begins for the provider. Returns 0, or an error. */
int cw_ofi_mr_key(const struct ofi_domain *domain, struct fid_mr *mr, struct cw_remote_key *key);

#endif
