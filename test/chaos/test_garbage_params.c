/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a program may hand in: structures full of 0xff with only some members valid (GEN-2), unknown bits in every mask
 * and flag, worker addresses that were damaged, transports and values that do not exist. Members whose bit is clear are
 * neither read nor written; the rest gets a status and a sentence, and never ends the process (ABU-1).
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "chaos.h"
#include "wire/address.h"

#define UNKNOWN_64 (~UINT64_C(0) << 24)
#define UNKNOWN_32 (~0u << 24)

enum { MUTATIONS = 20000 };

static int all_ff(const void *from, size_t length)
{
    const unsigned char *bytes = from;
    size_t i;

    for (i = 0; i < length; i++) {
        if (bytes[i] != 0xff) {
            return 0;
        }
    }
    return 1;
}

#define FILL(object) memset(&(object), 0xff, sizeof(object))

/* Behind the mask everything is as it was. */
#define UNTOUCHED(object) all_ff((char *)&(object) + sizeof(uint64_t), sizeof(object) - sizeof(uint64_t))

CHILD_TEST(test_attributes)
{
    ucp_ep_evaluate_perf_attr_t perf;
    ucp_ep_evaluate_perf_param_t perf_param;
    ucp_worker_address_attr_t address_attr;
    ucp_context_attr_t context_attr;
    ucp_datatype_attr_t type_attr;
    ucp_worker_attr_t worker_attr;
    ucp_lib_attr_t lib_attr;
    struct cw_party party;
    ucp_ep_attr_t ep_attr;
    char address[1024];

    cw_party_open(&party, UCP_FEATURE_TAG);
    cw_party_connect(&party, &party);
    (void)cw_party_address(&party, address);
    FILL(lib_attr);
    lib_attr.field_mask = UNKNOWN_64;
    cw_check(ucp_lib_query(&lib_attr) == UCS_OK && UNTOUCHED(lib_attr));
    FILL(context_attr);
    context_attr.field_mask = UNKNOWN_64;
    cw_check(ucp_context_query(party.context, &context_attr) == UCS_OK && UNTOUCHED(context_attr));
    FILL(worker_attr);
    worker_attr.field_mask = UNKNOWN_64;
    cw_check(ucp_worker_query(party.worker, &worker_attr) == UCS_OK && UNTOUCHED(worker_attr));
    FILL(worker_attr); /* flags that do not count, and then such as do not exist */
    worker_attr.field_mask = UNKNOWN_64 | UCP_WORKER_ATTR_FIELD_ADDRESS;
    cw_check(ucp_worker_query(party.worker, &worker_attr) == UCS_OK && worker_attr.address_length <= 1024);
    ucp_worker_release_address(party.worker, worker_attr.address);
    worker_attr.field_mask |= UCP_WORKER_ATTR_FIELD_ADDRESS_FLAGS;
    worker_attr.address_flags = UNKNOWN_32;
    cw_check(ucp_worker_query(party.worker, &worker_attr) == UCS_OK && worker_attr.address_length <= 1024);
    ucp_worker_release_address(party.worker, worker_attr.address);
    FILL(address_attr);
    address_attr.field_mask = UNKNOWN_64;
    cw_check(ucp_worker_address_query((ucp_address_t *)address, &address_attr) == UCS_OK && UNTOUCHED(address_attr));
    FILL(ep_attr);
    ep_attr.field_mask = UNKNOWN_64;
    cw_check(ucp_ep_query(party.ep, &ep_attr) == UCS_OK && UNTOUCHED(ep_attr));
    FILL(type_attr);
    type_attr.field_mask = UNKNOWN_64;
    cw_check(ucp_dt_query(ucp_dt_make_contig(4), &type_attr) == UCS_OK && UNTOUCHED(type_attr));
    type_attr.field_mask = UNKNOWN_64 | UCP_DATATYPE_ATTR_FIELD_PACKED_SIZE;
    cw_check(ucp_dt_query(ucp_dt_make_contig(4), &type_attr) == UCS_OK && type_attr.packed_size == 4);
    FILL(perf);
    FILL(perf_param);
    perf.field_mask = perf_param.field_mask = UNKNOWN_64;
    cw_check(ucp_ep_evaluate_perf(party.ep, &perf_param, &perf) == UCS_ERR_INVALID_PARAM && UNTOUCHED(perf));
    cw_party_close(&party);
}

CHILD_TEST(test_creation)
{
    ucp_worker_params_t worker_params;
    ucp_worker_h worker = NULL;
    ucp_context_h context;
    ucp_params_t params;
    unsigned bit;

    FILL(params);
    params.field_mask = UNKNOWN_64;
    cw_check(ucp_init(&params, NULL, &context) == UCS_OK); /* no features, with a warning (CTX-4) */
    ucp_cleanup(context);
    params.field_mask = UNKNOWN_64 | UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_ESTIMATED_NUM_EPS |
                        UCP_PARAM_FIELD_ESTIMATED_NUM_PPN | UCP_PARAM_FIELD_TAG_SENDER_MASK;
    params.features = UNKNOWN_64 | UCP_FEATURE_TAG;
    cw_check(ucp_init(&params, NULL, &context) == UCS_OK);
    FILL(worker_params);
    worker_params.field_mask = UNKNOWN_64 | UCP_WORKER_PARAM_FIELD_CPU_MASK | UCP_WORKER_PARAM_FIELD_FLAGS |
                               UCP_WORKER_PARAM_FIELD_CLIENT_ID | UCP_WORKER_PARAM_FIELD_EVENTS;
    cw_check(ucp_worker_create(context, &worker_params, &worker) == UCS_OK);
    ucp_worker_destroy(worker);
    worker = NULL;
    FILL(worker_params);
    worker_params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE; /* there is no such mode */
    cw_check(ucp_worker_create(context, &worker_params, &worker) == UCS_ERR_INVALID_PARAM && worker == NULL);
    worker_params.field_mask = UCP_WORKER_PARAM_FIELD_AM_ALIGNMENT;
    cw_check(ucp_worker_create(context, &worker_params, &worker) == UCS_ERR_INVALID_PARAM && worker == NULL);
    for (bit = 0; bit < 2; bit++) { /* no descriptor, and one of another kind */
        FILL(worker_params);
        worker_params.field_mask = UCP_WORKER_PARAM_FIELD_EVENT_FD;
        worker_params.event_fd = (bit == 0) ? 9999 : 2;
        cw_check(ucp_worker_create(context, &worker_params, &worker) < 0 && worker == NULL);
    }
    cw_check(ucp_mem_unmap(context, NULL) == UCS_ERR_INVALID_PARAM); /* as Open MPI's dynamic windows do */
    ucp_cleanup(context);
    FILL(params);
    params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_REQUEST_SIZE;
    params.features = UCP_FEATURE_TAG;
    params.request_size = SIZE_MAX / 2; /* more than any request can be given */
    if (ucp_init(&params, NULL, &context) == UCS_OK) {
        worker_params.field_mask = 0;
        cw_check(ucp_worker_create(context, &worker_params, &worker) == UCS_OK);
        params.field_mask = 0;
        cw_check(UCS_PTR_STATUS(ucp_tag_recv_nbx(worker, &bit, 1, 1, 1, &(ucp_request_param_t){.op_attr_mask = 0})) ==
                 UCS_ERR_NO_MEMORY);
        ucp_worker_destroy(worker);
        ucp_cleanup(context);
    }
}

CHILD_TEST(test_operations)
{
    ucp_request_param_t param;
    ucp_ep_params_t ep_params;
    struct cw_party party;
    char in[16], address[1024];
    ucs_status_ptr_t receive;
    ucp_ep_h ep = NULL;
    uint32_t flags;
    int i;

    cw_party_open(&party, UCP_FEATURE_TAG);
    cw_party_connect(&party, &party);
    (void)cw_party_address(&party, address);
    for (i = 0; i < 2; i++) {
        FILL(param);
        param.op_attr_mask = UNKNOWN_32;
        flags = (i == 0) ? 0 : UCP_OP_ATTR_FIELD_FLAGS; /* of flags that mean nothing here */
        param.op_attr_mask |= flags;
        receive = ucp_tag_recv_nbx(party.worker, in, sizeof(in), 5, UINT64_MAX, &param);
        cw_check(UCS_PTR_IS_PTR(receive));
        cw_check(cw_party_wait(&party, NULL, ucp_tag_send_nbx(party.ep, "0123456789abcdef", 16, 5, &param)) == UCS_OK);
        cw_check(cw_party_wait(&party, NULL, receive) == UCS_OK && memcmp(in, "0123456789abcdef", 16) == 0);
        cw_check(cw_party_wait(&party, NULL, ucp_worker_flush_nbx(party.worker, &param)) == UCS_OK);
        cw_check(cw_party_wait(&party, NULL, ucp_ep_flush_nbx(party.ep, &param)) == UCS_OK);
    }
    FILL(param);
    param.op_attr_mask = UCP_OP_ATTR_FIELD_DATATYPE;
    param.datatype = 5; /* of no class */
    cw_check(UCS_PTR_STATUS(ucp_tag_send_nbx(party.ep, in, 1, 1, &param)) == UCS_ERR_INVALID_PARAM);
    cw_check(UCS_PTR_STATUS(ucp_tag_recv_nbx(party.worker, in, 1, 1, 1, &param)) == UCS_ERR_INVALID_PARAM);
    param.op_attr_mask = UCP_OP_ATTR_FIELD_MEMORY_TYPE;
    cw_check(UCS_PTR_STATUS(ucp_tag_send_nbx(party.ep, in, 1, 1, &param)) == UCS_ERR_INVALID_PARAM);
    param.op_attr_mask = UCP_OP_ATTR_FLAG_FAST_CMPL | UCP_OP_ATTR_FLAG_MULTI_SEND;
    cw_check(UCS_PTR_STATUS(ucp_tag_send_nbx(party.ep, in, 1, 1, &param)) == UCS_ERR_INVALID_PARAM);
    FILL(ep_params);
    ep_params.field_mask = UNKNOWN_64; /* no address */
    cw_check(ucp_ep_create(party.worker, &ep_params, &ep) == UCS_ERR_INVALID_PARAM && ep == NULL);
    ep_params.field_mask = UNKNOWN_64 | UCP_EP_PARAM_FIELD_FLAGS | UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
    ep_params.flags = UNKNOWN_32;
    ep_params.address = (const ucp_address_t *)address;
    cw_check(ucp_ep_create(party.worker, &ep_params, &ep) == UCS_OK);
    FILL(param);
    param.op_attr_mask = UNKNOWN_32;
    (void)cw_party_wait(&party, NULL, ucp_ep_close_nbx(ep, &param));
    cw_party_close(&party);
}

/* ---- addresses ---- */

static void sum_up(uint8_t *bytes, size_t length)
{
    uint32_t hash = 2166136261u;
    size_t i;

    for (i = 0; i < length; i++) {
        hash = (hash ^ ((i >= 16 && i < CW_ADDRESS_HEADER) ? 0 : bytes[i])) * 16777619u;
    }
    for (i = 0; i < 4; i++) {
        bytes[16 + i] = (uint8_t)(hash >> (8 * i));
    }
}

/* Changes the address in one of several ways; the sum is right again in half of the cases. */
static void damage(uint8_t *bytes, size_t length, uint64_t *seed)
{
    uint64_t how = cw_random(seed) % 6, count = 1 + cw_random(seed) % 4;
    size_t at;

    while (count-- > 0) {
        at = cw_random(seed) % length;
        switch (how) {
        case 0:
            bytes[at] ^= (uint8_t)(1u << (cw_random(seed) % 8));
            break;
        case 1:
            memset(bytes + at, (int)(cw_random(seed) & 0xff), length - at); /* cut off */
            break;
        case 2:
            bytes[at] = (uint8_t)cw_random(seed);
            break;
        case 3:
            bytes[CW_ADDRESS_AT_LENGTH] = (uint8_t)cw_random(seed); /* another length */
        bytes[CW_ADDRESS_AT_LENGTH + 1] = (uint8_t)(cw_random(seed) % 5);
            break;
        case 4:
            bytes[CW_ADDRESS_AT_ENTRIES] = (uint8_t)cw_random(seed); /* another number of entries */
            break;
        default:
            for (at = (cw_random(seed) % 2) ? 0 : CW_ADDRESS_HEADER; at < length; at++) {
                bytes[at] = (uint8_t)cw_random(seed);
            }
        }
    }
    if (cw_random(seed) % 2) {
        length = bytes[CW_ADDRESS_AT_LENGTH] | ((size_t)bytes[CW_ADDRESS_AT_LENGTH + 1] << 8);
        length = (length < CW_ADDRESS_HEADER) ? CW_ADDRESS_HEADER : length;
        sum_up(bytes, (length > CW_ADDRESS_MAX) ? CW_ADDRESS_MAX : length);
    }
}

static void body_addresses(void *argument)
{
    ucp_request_param_t close_param = {.op_attr_mask = 0};
    uint8_t good[1024], *bytes = malloc(CW_ADDRESS_MAX);
    ucp_worker_address_attr_t attr;
    ucp_ep_params_t params;
    struct cw_party party;
    uint64_t seed = *(uint64_t *)argument;
    unsigned accepted = 0, refused = 0;
    ucs_status_t status;
    size_t length;
    ucp_ep_h ep;
    int i;

    cw_check(bytes != NULL);
    cw_party_open(&party, UCP_FEATURE_TAG);
    length = cw_party_address(&party, good);
    for (i = 0; i < MUTATIONS; i++) {
        memset(bytes, 0xee, CW_ADDRESS_MAX);
        memcpy(bytes, good, length);
        damage(bytes, length, &seed);
        attr.field_mask = UCP_WORKER_ADDRESS_ATTR_FIELD_UID;
        status = ucp_worker_address_query((ucp_address_t *)bytes, &attr);
        cw_check(status == UCS_OK || status == UCS_ERR_INVALID_PARAM || status == UCS_ERR_UNREACHABLE);
        FILL(params);
        params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
        params.address = (const ucp_address_t *)bytes;
        ep = NULL;
        status = ucp_ep_create(party.worker, &params, &ep);
        cw_check((status == UCS_OK) == (ep != NULL));
        if (status == UCS_OK) {
            accepted++;
            (void)cw_party_wait(&party, NULL, ucp_ep_close_nbx(ep, &close_param));
            (void)ucp_worker_progress(party.worker);
        } else {
            refused++;
            cw_check(status == UCS_ERR_INVALID_PARAM || status == UCS_ERR_UNREACHABLE ||
                     status == UCS_ERR_EXCEEDS_LIMIT); /* of addresses of one worker */
        }
    }
    cw_check(accepted > MUTATIONS / 100 && refused > MUTATIONS / 2); /* both ways were walked */
    cw_check(cw_log_lines() >= refused);
    free(bytes);
    cw_party_connect(&party, &party);
    cw_party_talk(&party, &party, 1000);
    cw_party_close(&party);
}

/* ---- configuration ---- */

CHILD_TEST(test_values)
{
    static const char *const transports[] = {"nosuch", "", "^all", "all,self", "^", ",", "ib,rc,cuda", "^self,^tcp"};
    static const char *const values[][2] = {
        {"UCX_TCP_NODELAY", "perhaps"}, {"UCX_TCP_TX_SEG_SIZE", "8q"}, {"UCX_TCP_TX_SEG_SIZE", "-1"},
        {"UCX_TCP_KEEPIDLE", "soon"}, {"UCX_TCP_PORT_RANGE", "9-"}, {"UCX_TCP_PORT_RANGE", "x"},
        {"UCX_POSIX_FIFO_SIZE", "99999999999999999999"}, {"UCX_TCP_AF_PRIO", ",,"}, {"UCX_RNDV_SCHEME", "magic"},
        {"UCX_TCP_MAX_IOV", "0x"}, {"UCX_TCP_SYN_CNT", "many"}, {"UCX_POSIX_BW", "fast"},
        {"UCX_SELF_NUM_DEVICES", "\n"},
    };
    ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES, .features = UCP_FEATURE_TAG};
    ucp_context_h context = NULL;
    ucp_config_t *config;
    unsigned lines;
    size_t i;

    for (i = 0; i < sizeof(transports) / sizeof(transports[0]); i++) {
        lines = cw_log_lines();
        cw_check(setenv("UCX_TLS", transports[i], 1) == 0);
        if (ucp_init(&params, NULL, &context) != UCS_OK) {
            cw_check(context == NULL && cw_log_lines() > lines);
        } else {
            ucp_cleanup(context);
            context = NULL;
        }
    }
    cw_check(setenv("UCX_TLS", "nosuch", 1) == 0);
    cw_check(ucp_init(&params, NULL, &context) == UCS_ERR_NO_DEVICE);
    cw_check(setenv("UCX_TLS", "self", 1) == 0);
    for (i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        lines = cw_log_lines();
        cw_check(setenv(values[i][0], values[i][1], 1) == 0);
        if (ucp_config_read(NULL, NULL, &config) == UCS_OK) {
            ucp_config_release(config);
        } else {
            cw_check(cw_log_lines() > lines && ucp_init(&params, NULL, &context) < 0 && context == NULL);
        }
        cw_check(unsetenv(values[i][0]) == 0);
        cw_check(ucp_config_read(NULL, NULL, &config) == UCS_OK);
        (void)ucp_config_modify(config, values[i][0] + 4, values[i][1]);
        cw_check(ucp_config_modify(config, "TCP_NODELAY", "perhaps") == UCS_ERR_INVALID_PARAM);
        cw_check(ucp_init(&params, config, &context) == UCS_OK);
        ucp_cleanup(context);
        context = NULL;
        ucp_config_release(config);
    }
}

/* OPA-1. */
TEST(test_addresses)
{
    uint64_t seed;

    for (seed = 1; seed <= 3; seed++) {
        cw_child_must_pass(body_addresses, &seed, "damaged addresses");
    }
}

int main(void)
{
    cw_log_watch();
    return cw_tests_run(NULL, NULL);
}
