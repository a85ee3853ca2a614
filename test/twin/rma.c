/* SPDX-License-Identifier: BSD-3-Clause */
/* Puts, gets and atomics: every mask of attributes, opcode, size and old call. RMA-*, AMO-*, FLU-*. */
#include "op.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const size_t lengths[] = {0, 8, 3000, OP_BYTES};

static unsigned char *local, *remote;
static ucp_mem_h memh[2];
static ucp_rkey_h rkey;
static struct twin_pair pair;

static void open_all(uint64_t features)
{
    ucp_mem_map_params_t params = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH,
                                   .length = OP_BYTES};
    void *buffer;
    size_t size, i;

    local = aligned_alloc(64, (OP_BYTES + 63) / 64 * 64);
    remote = aligned_alloc(64, (OP_BYTES + 63) / 64 * 64);
    twin_need(local != NULL && remote != NULL, "memory");
    for (i = 0; i < OP_BYTES; i++) {
        local[i] = (unsigned char)(i * 3 + (i >> 10));
    }
    memset(remote, 0, OP_BYTES);
    twin_pair_open(&pair, features, UCP_ERR_HANDLING_MODE_NONE);
    params.address = local;
    twin_need(ucp_mem_map(pair.context, &params, &memh[0]) == UCS_OK, "ucp_mem_map");
    params.address = remote;
    twin_need(ucp_mem_map(pair.context, &params, &memh[1]) == UCS_OK, "ucp_mem_map");
    twin_need(ucp_rkey_pack(pair.context, memh[1], &buffer, &size) == UCS_OK, "ucp_rkey_pack");
    twin_need(ucp_ep_rkey_unpack(pair.ep[0], buffer, &rkey) == UCS_OK, "ucp_ep_rkey_unpack");
    ucp_rkey_buffer_release(buffer);
}

static void close_all(void)
{
    ucp_rkey_destroy(rkey);
    (void)ucp_mem_unmap(pair.context, memh[0]);
    (void)ucp_mem_unmap(pair.context, memh[1]);
    twin_pair_close(&pair);
    free(local);
    free(remote);
}

static ucs_status_t flush(void)
{
    return twin_wait(&pair, ucp_ep_flush_nb(pair.ep[0], 0, twin_done));
}

static void each(bool put)
{
    static struct op op;
    ucs_status_t status;
    char text[256];
    size_t i, k;

    open_all(UCP_FEATURE_RMA);
    for (i = 0; i < op_masks_count; i++) {
        for (k = 0; k < TWIN_COUNT(lengths); k++) {
            memset(remote, 0, OP_BYTES);
            memset(put ? remote : local, 0, OP_BYTES);
            memset(put ? local : remote, 0x3c, OP_BYTES);
            op_set(&op, &pair, op_masks[i], OP_SEND, memh[0]);
            op_begin(&op);
            op_posted(&op, put ? ucp_put_nbx(pair.ep[0], local, lengths[k], (uintptr_t)remote, rkey, &op.param)
                               : ucp_get_nbx(pair.ep[0], local, lengths[k], (uintptr_t)remote, rkey, &op.param));
            status = op_end(&op, &pair);
            text[0] = '\0';
            op_odd(&op, text, sizeof(text));
            twin_print("%s, %zu bytes, mask %#x: %s%s", put ? "put" : "get", lengths[k], op_masks[i],
                      twin_status(status), text);
            status = flush();
            twin_print("%s, %zu bytes, mask %#x: flush %s, same %d", put ? "put" : "get", lengths[k], op_masks[i],
                      twin_status(status),
                      UCS_PTR_IS_ERR(op.result) ||
                          (memcmp(local, remote, lengths[k]) == 0 &&
                           (lengths[k] == OP_BYTES || (put ? remote : local)[lengths[k]] == 0)));
        }
    }
    close_all();
}

static void puts_masks(void)
{
    each(true);
}

static void gets_masks(void)
{
    each(false);
}

static void datatypes(void)
{
    static const ucp_datatype_t types[] = {ucp_dt_make_contig(0), ucp_dt_make_contig(4)};
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_DATATYPE};
    ucs_status_t status;
    size_t i;

    open_all(UCP_FEATURE_RMA);
    for (i = 0; i < TWIN_COUNT(types); i++) {
        param.datatype = types[i];
        status = twin_wait(&pair, ucp_put_nbx(pair.ep[0], local, 4, (uintptr_t)remote, rkey, &param));
        twin_print("put, type %#llx: %s", (unsigned long long)types[i], twin_status(status));
        status = twin_wait(&pair, ucp_get_nbx(pair.ep[0], local, 4, (uintptr_t)remote, rkey, &param));
        twin_print("get, type %#llx: %s", (unsigned long long)types[i], twin_status(status));
    }
    param.op_attr_mask = 0;
    twin_print("put of no buffer: %s",
              twin_pointer_status(ucp_put_nbx(pair.ep[0], NULL, 8, (uintptr_t)remote, rkey, &param)));
    twin_print("get into no buffer: %s",
              twin_pointer_status(ucp_get_nbx(pair.ep[0], NULL, 8, (uintptr_t)remote, rkey, &param)));
    twin_print("put of nothing: %s", twin_status(twin_wait(&pair, ucp_put_nbx(pair.ep[0], NULL, 0, 0, rkey, &param))));
    twin_print("get of nothing: %s", twin_status(twin_wait(&pair, ucp_get_nbx(pair.ep[0], NULL, 0, 0, rkey, &param))));
    close_all();
}

static void old_calls(void)
{
    ucs_status_t status;
    size_t k;
    int get;

    open_all(UCP_FEATURE_RMA);
    for (get = 0; get < 2; get++) {
        for (k = 0; k < TWIN_COUNT(lengths); k++) {
            memset(remote, get ? 1 : 0, OP_BYTES);
            memset(local, get ? 0 : 1, OP_BYTES);
            status = get ? ucp_get_nbi(pair.ep[0], local, lengths[k], (uintptr_t)remote, rkey)
                         : ucp_put_nbi(pair.ep[0], local, lengths[k], (uintptr_t)remote, rkey);
            twin_print("get %d nbi %zu: error %d, flush %s", get, lengths[k], UCS_STATUS_IS_ERR(status),
                      twin_status(flush()));
            twin_print("same %d", memcmp(local, remote, lengths[k]) == 0);
            memset(get ? local : remote, 0, OP_BYTES);
            status =
                twin_wait(&pair, get ? ucp_get_nb(pair.ep[0], local, lengths[k], (uintptr_t)remote, rkey, twin_done)
                                     : ucp_put_nb(pair.ep[0], local, lengths[k], (uintptr_t)remote, rkey, twin_done));
            twin_print("get %d nb %zu: %s, flush %s", get, lengths[k], twin_status(status), twin_status(flush()));
            twin_print("same %d", memcmp(local, remote, lengths[k]) == 0);
        }
    }
    twin_print("put of no buffer %s", twin_status(ucp_put_nbi(pair.ep[0], NULL, 8, (uintptr_t)remote, rkey)));
    twin_print("get into no buffer %s", twin_status(ucp_get_nbi(pair.ep[0], NULL, 8, (uintptr_t)remote, rkey)));
    close_all();
}

static uint64_t at(size_t offset, size_t size)
{
    uint64_t value = 0;

    memcpy(&value, remote + offset, size);
    return value;
}

static void atomic_masks(void)
{
    static const int opcodes[] = {0, 1, 2, 3, 4, 5, 6, -1, 99};
    static const size_t sizes[] = {4, 8};
    static struct op op;
    uint64_t start = UINT64_C(0x00f0f0f0f0f0f0f1), operand;
    ucs_status_t status;
    char text[256];
    size_t i, k, o;

    open_all(UCP_FEATURE_AMO32 | UCP_FEATURE_AMO64 | UCP_FEATURE_RMA);
    for (o = 0; o < TWIN_COUNT(opcodes); o++) {
        for (i = 0; i < op_masks_count; i++) {
            for (k = 0; k < TWIN_COUNT(sizes); k++) {
                if ((opcodes[o] == 1 || opcodes[o] == 2) && !(op_masks[i] & UCP_OP_ATTR_FIELD_REPLY_BUFFER)) {
                    continue; /* undefined: AMO-11 */
                }
                operand = opcodes[o] == 2 ? start : 3;
                memcpy(remote, &start, sizeof(start));
                op_set(&op, &pair, op_masks[i], OP_SEND, memh[0]);
                op.param.op_attr_mask |= UCP_OP_ATTR_FIELD_DATATYPE;
                op.param.datatype = ucp_dt_make_contig(sizes[k]);
                op.reply = 77;
                op_begin(&op);
                op_posted(&op, ucp_atomic_op_nbx(pair.ep[0], (ucp_atomic_op_t)opcodes[o], &operand, 1,
                                                 (uintptr_t)remote, rkey, &op.param));
                status = op_end(&op, &pair);
                text[0] = '\0';
                op_odd(&op, text, sizeof(text));
                twin_print("opcode %d, %zu bytes, mask %#x: %s%s", opcodes[o], sizes[k], op_masks[i],
                          twin_status(status), text);
                status = flush();
                twin_print("opcode %d, %zu bytes, mask %#x: flush %s, now %#llx, before %#llx", opcodes[o], sizes[k],
                          op_masks[i], twin_status(status), (unsigned long long)at(0, 8), (unsigned long long)op.reply);
            }
        }
    }
    close_all();
}

static void atomic_limits(void)
{
    static const ucp_datatype_t types[] = {0,
                                           ucp_dt_make_contig(1),
                                           ucp_dt_make_contig(2),
                                           ucp_dt_make_contig(4),
                                           ucp_dt_make_contig(8),
                                           ucp_dt_make_contig(16),
                                           2};
    static const uint64_t features[] = {UCP_FEATURE_AMO32, UCP_FEATURE_AMO64, UCP_FEATURE_AMO32 | UCP_FEATURE_AMO64};
    ucp_request_param_t param;
    uint64_t operand = 1, reply = 5;
    size_t f, i, count, offset;
    int fetch;

    for (f = 0; f < TWIN_COUNT(features); f++) {
        open_all(features[f]);
        for (i = 0; i < TWIN_COUNT(types); i++) {
            for (count = 0; count < 3; count++) {
                for (offset = 0; offset < 9; offset += offset < 2 ? 1 : 2) {
                    for (fetch = 0; fetch < 2; fetch++) {
                        param.op_attr_mask = UCP_OP_ATTR_FIELD_DATATYPE | (fetch ? UCP_OP_ATTR_FIELD_REPLY_BUFFER : 0);
                        param.datatype = types[i];
                        param.reply_buffer = &reply;
                        twin_print("features %zu, type %#llx, count %zu, offset %zu, fetch %d: %s", f,
                                  (unsigned long long)types[i], count, offset, fetch,
                                  twin_status(
                                      twin_wait(&pair, ucp_atomic_op_nbx(pair.ep[0], UCP_ATOMIC_OP_ADD, &operand, count,
                                                                         (uintptr_t)remote + offset, rkey, &param))));
                    }
                }
            }
        }
        (void)flush();
        close_all();
    }
}

static void atomic_old(void)
{
    static const size_t sizes[] = {0, 1, 2, 4, 8, 16};
    uint64_t start = 100, result;
    ucs_status_t status;
    size_t k, offset;
    int opcode;

    open_all(UCP_FEATURE_AMO32 | UCP_FEATURE_AMO64);
    for (opcode = 0; opcode < 6; opcode++) {
        for (k = 0; k < TWIN_COUNT(sizes); k++) {
            for (offset = 0; offset < 9; offset += 4) {
                memcpy(remote, &start, sizeof(start));
                memcpy(remote + offset, &start, sizeof(start));
                if (opcode < 4) {
                    status = ucp_atomic_post(pair.ep[0], (ucp_atomic_post_op_t)opcode, 6, sizes[k],
                                             (uintptr_t)remote + offset, rkey);
                    twin_print("post %d, size %zu, offset %zu: %s, flush %s", opcode, sizes[k], offset,
                              twin_status(status), twin_status(flush()));
                    twin_print("now %llu", (unsigned long long)at(offset, 8));
                }
                memcpy(remote + offset, &start, sizeof(start));
                result = 9;
                status = twin_wait(&pair, ucp_atomic_fetch_nb(pair.ep[0], (ucp_atomic_fetch_op_t)opcode, 100, &result,
                                                              sizes[k], (uintptr_t)remote + offset, rkey, twin_done));
                twin_print("fetch %d, size %zu, offset %zu: %s, before %llu", opcode, sizes[k], offset,
                          twin_status(status), (unsigned long long)result);
                twin_print("now %llu", (unsigned long long)at(offset, 8));
            }
        }
    }
    close_all();
}

const struct twin_case twin_rma_cases[] = {{"rma.put", puts_masks},          {"rma.get", gets_masks},
                                           {"rma.datatypes", datatypes},     {"rma.old_calls", old_calls},
                                           {"atomic.masks", atomic_masks},   {"atomic.limits", atomic_limits},
                                           {"atomic.old_calls", atomic_old}, {NULL, NULL}};
