/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program of an older or newer API level on this library, unrebuilt (N22-3, N22-10 to N22-24, N22-16, N23-3, N23-20,
 * GEN-5). Its structures have the sizes of that level, each ending where a page begins that may not be touched, so that
 * a read behind what the level has ends the program; and it says "not known" of a memory type by the number that its
 * header has.
 * Usage: levels MAJOR MINOR. Status 0: all worked, and the log has exactly the warnings that it must.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <ucp/api/ucp.h>

#include "finish.h"

#define must(condition)                                                     \
    do {                                                                    \
        if (!(condition)) {                                                 \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
            exit(1);                                                        \
        }                                                                   \
    } while (0)

#define PAGE 4096u

/* What a header of that level and the following ones has, as compilers measured it. */
struct level {
    unsigned major, minor;
    unsigned unknown;
    size_t params, context_attr, request_param, ep_attr, map_params, worker_attr;
    int warns;
};

static const struct level levels[] = {
    {1, 5, 5, 80, 64, 72, 296, 40, 80, 0}, /* a constant in the program; its header may be any (N22-15) */
    {1, 10, 5, 80, 64, 72, 296, 40, 80, 0},
    {1, 13, 5, 80, 64, 72, 296, 40, 80, 0},
    {1, 16, 6, 80, 64, 72, 320, 48, 80, 0},
    {1, 19, 9, 80, 64, 72, 328, 48, 80, 0},
    {1, 20, 9, 88, 72, 72, 328, 48, 80, 0},
    {1, 21, 10, 88, 72, 72, 328, 48, 80, 0},
    {1, 22, 10, 88, 72, 96, 328, 48, 80, 0},
    {1, 23, 10, 88, 72, 96, 328, 48, 88, 0},
    {1, 24, 10, 88, 72, 96, 328, 48, 88, 1},
    {99, 99, 10, 88, 72, 96, 328, 48, 88, 1},
};

static const struct level *level;
static ucp_context_h context;
static ucp_worker_h worker;
static ucp_ep_h ep;
static char *fence; /* the first address that may not be touched */

/* Room of that size, filled with ones; the one before is given up. */
static void *at_fence(size_t size)
{
    memset(fence - PAGE, 0xff, PAGE);
    return fence - size;
}

static ucp_request_param_t *typed(unsigned number)
{
    ucp_request_param_t *param = at_fence(level->request_param);

    param->op_attr_mask = UCP_OP_ATTR_FIELD_MEMORY_TYPE;
    param->memory_type = (ucs_memory_type_t)number;
    return param;
}

/* A message to oneself out of memory of that type. */
static ucs_status_t exchange(unsigned number)
{
    uint64_t out = 7000 + number, in = 0;
    ucs_status_ptr_t receive, result;

    receive = ucp_tag_recv_nbx(worker, &in, sizeof(in), number, UINT64_MAX, typed(level->unknown));
    result = ucp_tag_send_nbx(ep, &out, sizeof(out), number, typed(number));
    if (UCS_PTR_IS_ERR(result)) {
        ucp_request_cancel(worker, receive);
        (void)finish(worker, receive);
        return UCS_PTR_STATUS(result);
    }
    must(finish(worker, result) == UCS_OK && finish(worker, receive) == UCS_OK && in == out);
    return UCS_OK;
}

static ucs_status_t map(unsigned number, void *address, unsigned flags, ucp_mem_h *memh)
{
    ucp_mem_map_params_t *params = at_fence(level->map_params);

    params->field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH |
                         UCP_MEM_MAP_PARAM_FIELD_FLAGS | UCP_MEM_MAP_PARAM_FIELD_MEMORY_TYPE;
    params->address = address;
    params->length = 64;
    params->flags = flags;
    params->memory_type = (ucs_memory_type_t)number;
    return ucp_mem_map(context, params, memh);
}

static void try_number(unsigned number, ucs_status_t expected, ucs_status_t expected_allocated)
{
    char memory[64];
    ucp_mem_h memh;
    ucs_status_t status;

    must(exchange(number) == expected);
    status = map(number, memory, 0, &memh);
    must(status == expected);
    must(status != UCS_OK || ucp_mem_unmap(context, memh) == UCS_OK);
    status = map(number, NULL, UCP_MEM_MAP_ALLOCATE, &memh);
    must(status == expected_allocated);
    must(status != UCS_OK || ucp_mem_unmap(context, memh) == UCS_OK);
}

/* Every number that any level has, and one more. */
static void try_numbers(void)
{
    const int vague = level->minor < 10;
    unsigned number;

    for (number = 0; number <= UCS_MEMORY_TYPE_LAST; number++) {
        if (number == UCS_MEMORY_TYPE_HOST || number == UCS_MEMORY_TYPE_LAST || number == level->unknown || vague) {
            try_number(number, UCS_OK, UCS_OK);
        } else {
            try_number(number, UCS_ERR_UNSUPPORTED, UCS_ERR_NO_MEMORY);
        }
    }
    try_number(UCS_MEMORY_TYPE_LAST + 1, UCS_ERR_INVALID_PARAM, UCS_ERR_INVALID_PARAM);
}

static ucs_status_t on_am(void *arg, const void *header, size_t header_length, void *data, size_t length,
                          const ucp_am_recv_param_t *param)
{
    (void)header;
    (void)header_length;
    (void)data;
    (void)param;
    *(size_t *)arg += length;
    return UCS_OK;
}

/* All kinds of operations, with parameters that end at the fence. */
static void operate(void)
{
    static uint64_t words[1024], from[1024];
    ucp_am_handler_param_t handler = {.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                                                    UCP_AM_HANDLER_PARAM_FIELD_ARG,
                                      .cb = on_am};
    ucp_request_param_t *param;
    size_t came = 0, size;
    ucp_rkey_h rkey;
    ucp_mem_h memh;
    void *packed;

    must(map(level->unknown, words, 0, &memh) == UCS_OK); /* 64 bytes of it */
    must(ucp_rkey_pack(context, memh, &packed, &size) == UCS_OK);
    must(ucp_ep_rkey_unpack(ep, packed, &rkey) == UCS_OK);
    ucp_rkey_buffer_release(packed);
    from[0] = 5;
    must(finish(worker, ucp_put_nbx(ep, from, 64, (uintptr_t)words, rkey, typed(level->unknown))) == UCS_OK);
    must(finish(worker, ucp_get_nbx(ep, from + 8, 64, (uintptr_t)words, rkey, typed(level->unknown))) == UCS_OK);
    param = typed(level->unknown);
    param->op_attr_mask |= UCP_OP_ATTR_FIELD_DATATYPE | UCP_OP_ATTR_FIELD_REPLY_BUFFER;
    param->datatype = ucp_dt_make_contig(8);
    param->reply_buffer = &from[20];
    must(finish(worker, ucp_atomic_op_nbx(ep, UCP_ATOMIC_OP_ADD, from, 1, (uintptr_t)words, rkey, param)) == UCS_OK);
    must(from[8] == 5 && from[20] == 5 && words[0] == 10);
    param = typed(level->unknown);
    param->op_attr_mask |= 0xfe00; /* bits that no level before 1.22 knows, and which that one ignores for puts */
    must(finish(worker, ucp_put_nbx(ep, from, 8, (uintptr_t)words, rkey, param)) == UCS_OK);
    if (level->request_param < sizeof(*param)) {
        param = typed(level->unknown);
        param->op_attr_mask |= 0xfe00;
        must(finish(worker, ucp_get_nbx(ep, from, 8, (uintptr_t)words, rkey, param)) == UCS_OK);
    }
    handler.arg = &came;
    must(ucp_worker_set_am_recv_handler(worker, &handler) == UCS_OK);
    param = typed(level->unknown);
    param->op_attr_mask |= UCP_OP_ATTR_FIELD_MEMH;
    param->memh = memh;
    must(finish(worker, ucp_am_send_nbx(ep, 0, NULL, 0, words, 64, param)) == UCS_OK);
    while (came < 64) {
        ucp_worker_progress(worker);
    }
    param = at_fence(level->request_param);
    param->op_attr_mask = 0;
    must(finish(worker, ucp_ep_flush_nbx(ep, param)) == UCS_OK);
    ucp_rkey_destroy(rkey);
    must(ucp_mem_unmap(context, memh) == UCS_OK);
}

static void query(void)
{
    ucp_context_attr_t *attr = at_fence(level->context_attr);
    ucp_worker_attr_t *worker_attr;
    ucp_ep_attr_t *ep_attr;

    attr->field_mask = UCP_ATTR_FIELD_REQUEST_SIZE | UCP_ATTR_FIELD_MEMORY_TYPES | UCP_ATTR_FIELD_NAME;
    must(ucp_context_query(context, attr) == UCS_OK);
    must((attr->memory_types & 1) && strncmp(attr->name, "ucp_context_", 12) == 0);
    worker_attr = at_fence(level->worker_attr);
    worker_attr->field_mask = UINT64_MAX; /* also the bit of a member that the level does not have (N23-3) */
    if (level->worker_attr == sizeof(*worker_attr)) {
        worker_attr->address_device_name = NULL;
    }
    must(ucp_worker_query(worker, worker_attr) == UCS_OK);
    ucp_worker_release_address(worker, worker_attr->address);
    ep_attr = at_fence(level->ep_attr);
    ep_attr->field_mask = UCP_EP_ATTR_FIELD_NAME;
    must(ucp_ep_query(ep, ep_attr) == UCS_OK);
}

static void run(void)
{
    ucp_worker_params_t worker_params = {.field_mask = 0};
    ucp_ep_params_t ep_params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS};
    ucp_params_t *params = at_fence(level->params);
    ucp_address_t *address;
    size_t length;

    params->field_mask = UCP_PARAM_FIELD_FEATURES;
    params->features = UCP_FEATURE_TAG | UCP_FEATURE_RMA | UCP_FEATURE_AMO64 | UCP_FEATURE_AM;
    must(ucp_init_version(level->major, level->minor, params, NULL, &context) == UCS_OK);
    must(ucp_worker_create(context, &worker_params, &worker) == UCS_OK);
    must(ucp_worker_get_address(worker, &address, &length) == UCS_OK);
    ep_params.address = address;
    must(ucp_ep_create(worker, &ep_params, &ep) == UCS_OK);
    ucp_worker_release_address(worker, address);
    query();
    operate();
}

static void leave(void)
{
    ucp_request_param_t *param = at_fence(level->request_param);

    param->op_attr_mask = 0;
    must(finish(worker, ucp_ep_close_nbx(ep, param)) == UCS_OK);
    ucp_worker_destroy(worker);
    ucp_cleanup(context);
}

/* The lines of the log so far that warn or report errors. */
static int complaints(FILE *log)
{
    char line[1024];
    int count = 0;

    rewind(log);
    while (fgets(line, sizeof(line), log) != NULL) {
        if (strstr(line, " WARN ") != NULL || strstr(line, " ERROR ") != NULL) {
            count++;
            if (!level->warns) {
                fputs(line, stderr);
            }
        }
    }
    return count;
}

int main(int argc, char **argv)
{
    const int out = dup(STDOUT_FILENO);
    FILE *log = tmpfile();
    size_t i;

    must(argc == 3 && out >= 0 && log != NULL);
    for (i = 0; i < sizeof(levels) / sizeof(levels[0]); i++) {
        if (levels[i].major == (unsigned)atoi(argv[1]) && levels[i].minor == (unsigned)atoi(argv[2])) {
            level = &levels[i];
        }
    }
    must(level != NULL);
    fence = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    must(fence != MAP_FAILED);
    fence += PAGE;
    must(mprotect(fence, PAGE, PROT_NONE) == 0);
    must(dup2(fileno(log), STDOUT_FILENO) >= 0); /* where the library writes */
    run();
    fflush(stdout);
    must(complaints(log) == level->warns); /* N22-11, N22-12, N22-14 */
    try_numbers();                         /* which complains of those that it refuses */
    leave();
    must(dup2(out, STDOUT_FILENO) >= 0);
    return 0;
}
