/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The protocol of an access to the peer's memory (docs/change/one-sided.md, "Protocols"). It depends on the memory: a
 * peer in this process registers some of both kinds, and its keys are queried. For a peer that is known by its address
 * only, the output says what the transport can do.
 */
#include "why.h"

#include <stdio.h>
#include <stdlib.h>

#include "access/access.h"
#include "core/lane_copies.h"
#include "core/rkey.h"
#include "proto/info.h"
#include "rma/cma.h"

#define REGION_BYTES 4096u

static enum cw_proto_operation operation_of(enum cw_info_op op)
{
    if (op == CW_INFO_PUT) {
        return CW_PROTO_PUT;
    }
    return (op == CW_INFO_GET) ? CW_PROTO_GET : CW_PROTO_AMO_FETCH;
}

/* The row of the library's table for memory that is reached by that path. */
static void print_path(const struct cw_why *why, unsigned remote)
{
    const struct cw_proto_table table = {.operation = operation_of(why->options->op), .remote = remote};
    const struct cw_conn *conn = (why->ep != NULL) ? why->ep->conn : NULL;
    struct cw_protocol_row rows[CW_PROTOCOL_MAX_ROWS];
    unsigned i = 0;

    (void)cw_proto_rows(why->side.worker, why->chosen, conn, &table, rows);
    while (rows[i].last < why->options->size) {
        i++;
    }
    printf("%s: %s\n", rows[i].name, rows[i].why);
}

/* As the library chooses for memory that is not mapped here. */
static unsigned remote_of(const struct cw_why *why, const struct ucp_rkey *rkey)
{
    const struct cw_conn *conn = why->ep->conn;

    if (why->options->op > CW_INFO_GET) {
        return (rkey->key.executor != 0 && cw_lane_peer_domain(conn) == rkey->key.executor) ? CW_REMOTE_ACCESS : 0;
    }
    if (cw_cma_is_possible(why->ep, &rkey->key)) {
        return CW_REMOTE_COPIES;
    }
    return (cw_access_is_possible(why->ep, rkey) &&
            (why->options->op == CW_INFO_GET || conn->iface->limits.access.max_put_bcopy > 0))
               ? CW_REMOTE_ACCESS
               : 0;
}

static void print_region(const struct cw_why *why, const struct ucp_rkey *rkey)
{
    const unsigned rights = ((why->options->op != CW_INFO_GET) ? CW_KEY_WRITE : 0) |
                            ((why->options->op != CW_INFO_PUT) ? CW_KEY_READ : 0);
    char setting[CW_WHY_SETTING_MAX];

    if (cw_rkey_direct(rkey, rkey->key.address, rights) != NULL) {
        print_path(why, CW_REMOTE_MAPPED);
        return;
    }
    print_path(why, remote_of(why, rkey));
    if (!cw_context_allows(why->side.context, "posix")) {
        printf("#       (not mapped here: %s does not allow posix)\n", cw_why_setting(why, CW_SETTING_tls, setting));
    } else {
        printf("#       (not mapped here: %s)\n", (rkey->key.flags & CW_KEY_SHARED)
                                                      ? "it was tried, and the system refused"
                                                      : "the key names nothing that could be");
    }
}

/* `own`: memory of the program; NULL: the library allocates. */
static void print_kind(const struct cw_why *why, ucp_context_h owner, void *own, const char *what)
{
    const ucp_mem_map_params_t params = {
        .field_mask = UCP_MEM_MAP_PARAM_FIELD_LENGTH |
                      ((own == NULL) ? UCP_MEM_MAP_PARAM_FIELD_FLAGS : UCP_MEM_MAP_PARAM_FIELD_ADDRESS),
        .address = own,
        .length = REGION_BYTES,
        .flags = UCP_MEM_MAP_ALLOCATE};
    struct ucp_rkey *rkey;
    size_t length;
    void *packed;
    ucp_mem_h mem;

    printf("#   %s:\n#       ", what);
    if (ucp_mem_map(owner, &params, &mem) != UCS_OK) {
        printf("it cannot be registered here; see the log\n");
        return;
    }
    if (ucp_rkey_pack(owner, mem, &packed, &length) == UCS_OK) {
        if (cw_rkey_unpack(why->side.context, packed, 0, &rkey) == UCS_OK) {
            print_region(why, rkey);
            cw_rkey_release(rkey);
        }
        ucp_rkey_buffer_release(packed);
    }
    (void)ucp_mem_unmap(owner, mem);
}

/* Without a key there is nothing to ask but the transport. */
static void print_unknown(const struct cw_why *why)
{
    printf("#   by packets, which always works:\n#       ");
    print_path(why, 0);
    if (why->options->op != CW_INFO_AMO && cw_iface_copies(why->chosen)) {
        printf("#   before that, if the system allows copies between the processes:\n#       ");
        print_path(why, CW_REMOTE_COPIES);
    }
    if (why->chosen->transport->device_class == CW_DEVICE_NET) {
        return;
    }
    if (cw_context_allows(why->side.context, "posix")) {
        printf("#   before that, if the peer's library has allocated the memory and it can be mapped here:\n"
               "#       ");
        print_path(why, CW_REMOTE_MAPPED);
    }
    printf("#   Which of these applies depends on the key of the memory, which an address does not contain.\n");
}

void cw_why_memory(const struct cw_why *why)
{
    const ucp_context_h owner = (why->peer.context != NULL) ? why->peer.context : why->side.context;
    void *own = malloc(REGION_BYTES);

    printf("# The operation: %s of %zu bytes, by the memory that it is about\n", cw_info_op_name(why->options->op),
           why->options->size);
    /* Memory of a peer that only pretends to be elsewhere would show what is not true of one that is. */
    if (why->ep != NULL && own != NULL && !(why->options->placed && why->options->place == CW_INFO_INTER)) {
        print_kind(why, owner, NULL, "memory that the peer's library has allocated (ucp_mem_map with ALLOCATE)");
        print_kind(why, owner, own, "memory that the peer's program had already");
    } else {
        print_unknown(why);
    }
    printf("#\n");
    free(own);
}
