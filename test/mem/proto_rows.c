/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Implementation of test_proto.h.
 */
#include "test_proto.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/worker.h"

#define PATH(name) (1u << CW_TRACE_##name)

/* ---- rows ---- */

/* The next row behind `at`; NULL: the table ends. */
static const char *next_row(const char *at, unsigned long long *first, unsigned long long *last)
{
    int used = 0;

    for (at = strchr(at, '\n') + 1; strncmp(at, "# +", 3) == 0; at = strchr(at, '\n') + 1) {
    }
    if (sscanf(at, "# | %llu..%n", first, &used) != 1 || used == 0) {
        return NULL;
    }
    *last = UINT64_MAX;
    (void)sscanf(at + used, "%llu", last);
    return at;
}

int cw_proto_row(const char *text, const char *title, size_t length, char *path, size_t size)
{
    unsigned long long first, last;
    const char *row = strstr(text, title);

    while (row != NULL && (row = next_row(row, &first, &last)) != NULL) {
        if (length >= first && length <= last) {
            row = strchr(strchr(row, '|') + 1, '|') + 2;
            snprintf(path, size, "%.*s", (int)strcspn(row, "|"), row);
            return 1;
        }
    }
    return 0;
}

size_t cw_proto_border(const char *text, const char *title, unsigned n)
{
    const char *table = strstr(text, title), *row = table;
    unsigned long long first = 0, last;

    for (n++; table != NULL && n > 0; n--) {
        row = next_row(row, &first, &last);
        if (row == NULL) {
            row = next_row(table, &first, &last);
        }
    }
    return (size_t)first + (table != NULL && first == 0);
}

unsigned cw_proto_paths(const char *words, enum cw_proto_operation operation)
{
    static const struct {
        const char *words;
        unsigned paths;
    } rows[] = {{"short", CW_PROTO_NO_REQUEST},
                {"eager copy", PATH(COPIED)},
                {"eager zero copy", PATH(WITHOUT_COPY)},
                {"eager fragments", PATH(PIECES)},
                {"rendezvous", PATH(ANNOUNCED)},
                {"store", PATH(MAPPED)},
                {"load", PATH(MAPPED)},
                {"this CPU", PATH(MAPPED)},
                {"packet to the target", PATH(COPIED)},
                {"write by the device", PATH(DEVICE)},
                {"read by the device", PATH(DEVICE)},
                {"the target's device", PATH(DEVICE)},
                {"request to the target", PATH(ASKED)},
                {"copy between processes", PATH(SYSTEM)}};

    if (operation >= CW_PROTO_PUT && strncmp(words, "short", 5) == 0) {
        return PATH(COPIED); /* these operations ask for a request */
    }
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (strncmp(words, rows[i].words, strlen(rows[i].words)) == 0) {
            /* a stream is cut without a copy, too; an eager copy of a message may need no request */
            return rows[i].paths |
                   (operation == CW_PROTO_STREAM && rows[i].paths == PATH(WITHOUT_COPY) ? PATH(PIECES) : 0);
        }
    }
    fail_msg("There is no path '%s'", words);
    return 0;
}

/* ---- traces ---- */

void cw_proto_rings_open(struct cw_proto_rings *rings, const struct cw_pair *pair)
{
    for (int i = 0; i < pair->count; i++) {
        const struct cw_counters_page *page = pair->sides[i].worker->observed.page;

        assert_non_null(page);
        assert_true(page->trace_offset != 0);
        rings->rings[rings->count++] = (const void *)((const char *)page + page->trace_offset);
    }
}

void cw_proto_rings_skip(struct cw_proto_rings *rings)
{
    for (unsigned i = 0; i < rings->count; i++) {
        rings->seen[i] = rings->rings[i]->next;
    }
}

unsigned cw_proto_rings_used(struct cw_proto_rings *rings, enum cw_proto_operation operation, size_t length)
{
    static const unsigned counters[CW_PROTO_OPERATIONS] = {
        [CW_PROTO_TAG] = CW_COUNT_TAG_SENT,       [CW_PROTO_AM] = CW_COUNT_AM_SENT,
        [CW_PROTO_STREAM] = CW_COUNT_STREAM_SENT, [CW_PROTO_PUT] = CW_COUNT_PUT_SENT,
        [CW_PROTO_GET] = CW_COUNT_GET_RECEIVED,   [CW_PROTO_AMO_POST] = CW_COUNT_AMO_SENT,
        [CW_PROTO_AMO_FETCH] = CW_COUNT_AMO_SENT};
    unsigned used = CW_PROTO_NO_REQUEST;

    for (unsigned i = 0; i < rings->count; i++) {
        const struct cw_trace_ring *ring = rings->rings[i];
        uint64_t request = 0;

        assert_true(ring->next - rings->seen[i] <= ring->num_events); /* nothing is forgotten */
        for (uint64_t n = rings->seen[i]; n < ring->next; n++) {
            const struct cw_trace_event *event = &ring->events[n % ring->num_events];

            if (event->kind == CW_TRACE_BEGIN && event->id == counters[operation] && event->length == length) {
                request = event->request;
            } else if (event->kind == CW_TRACE_PATH && request != 0 && event->request == request) {
                used = 1u << event->id;
            }
        }
    }
    rings->paths |= used;
    return used;
}

/* ---- a datatype ---- */

struct packed {
    char *bytes;
    size_t length;
};

static void *start_pack(void *context, const void *buffer, size_t count)
{
    struct packed *packed = malloc(sizeof(*packed));

    (void)context;
    assert_non_null(packed);
    *packed = (struct packed){.bytes = (char *)(uintptr_t)buffer, .length = count};
    return packed;
}

static void *start_unpack(void *context, void *buffer, size_t count)
{
    return start_pack(context, buffer, count);
}

static size_t packed_size(void *state)
{
    return ((struct packed *)state)->length;
}

static size_t pack(void *state, size_t offset, void *to, size_t max)
{
    struct packed *packed = state;
    const size_t length = packed->length - offset < max ? packed->length - offset : max;

    memcpy(to, packed->bytes + offset, length);
    return length;
}

static ucs_status_t unpack(void *state, size_t offset, const void *from, size_t length)
{
    memcpy(((struct packed *)state)->bytes + offset, from, length);
    return UCS_OK;
}

ucp_datatype_t cw_proto_generic(void)
{
    static const ucp_generic_dt_ops_t ops = {start_pack, start_unpack, packed_size, pack, unpack, free};
    ucp_datatype_t datatype;

    assert_int_equal(ucp_dt_create_generic(&ops, NULL, &datatype), UCS_OK);
    return datatype;
}
