/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Implementation of rndv/ipc.h. An alarm of the worker polls the copy, so that a sleeping program wakes up for it.
 */
#include "rndv/ipc.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "config/config.h"
#include "core/ep_round.h"
#include "core/lane_copies.h"
#include "core/worker.h"
#include "mem/registry.h"
#include "msg/op_ep.h"
#include "msg/send.h"
#include "os/clock.h"
#include "os/unix_socket.h"
#include "rndv/bounce.h"

#define POLL_NS UINT64_C(20000) /* poll interval of the copy */

struct cw_ipc {
    struct cw_alarm alarm;
    struct ucp_worker *worker;
    const struct cw_md *md;
    struct cw_md_window window;
    struct cw_md_copy copy;
    int is_busy; /* the copy is in flight */
    ucs_status_t status;
    void (*ended)(void *arg, ucs_status_t status);
    void *arg;
};

/* Sent in place of a handle if the memory has descriptors. */
struct passed {
    uint64_t number; /* under which they were passed */
    uint32_t count;
    uint32_t reserved;
};

static bool is_of_a_device(const struct cw_dt_cursor *cursor)
{
    return cursor->class_id == CW_DT_DEVICE && cursor->layout == UCP_DATATYPE_CONTIG;
}

/* Whether the settings allow a copy by the receiver. */
static bool scheme_allows(const struct ucp_context *context)
{
    const int scheme = context->config->rndv_scheme;

    return scheme == CW_RNDV_AUTO || scheme == CW_RNDV_GET_ZCOPY || scheme == CW_RNDV_RKEY_PTR;
}

bool cw_ipc_is_possible(struct ucp_ep *ep, const struct cw_dt_cursor *cursor, size_t length)
{
    const struct ucp_context *context = ep->worker->context;
    const struct cw_md *md;
    uint32_t peer;

    if (!is_of_a_device(cursor) || length < CW_IPC_LEAST || ep->state != CW_EP_OPEN || !scheme_allows(context)) {
        return false;
    }
    md = cw_md_of_type((ucs_memory_type_t)cursor->memory_type);
    if (md == NULL || md->open == NULL) {
        return false;
    }
    peer = cw_lane_process(ep->conn);
    return peer != 0 && (peer == cw_memory_process() || cw_context_allows(context, md->peer_tls));
}

/* ---- the receiver ---- */

static void close_fds(struct cw_md_name *name)
{
    while (name->num_fds > 0) {
        cw_unix_discard(&name->fds[--name->num_fds]);
    }
}

/* All descriptors or none: the domain opens nothing without them. */
static void take_fds(struct ucp_ep *ep, uint64_t number, unsigned count, struct cw_md_name *name)
{
    for (; name->num_fds < count; name->num_fds++) {
        name->fds[name->num_fds] = cw_lane_take_fd(ep->conn, number);
        if (name->fds[name->num_fds] < 0) {
            close_fds(name);
            break;
        }
    }
}

static bool is_possible(const struct cw_md_name *name, size_t length)
{
    return name->form >= CW_MD_HERE && name->form <= CW_MD_PASSED && name->type < UCS_MEMORY_TYPE_LAST &&
           name->start <= UINT64_MAX - name->size && name->address >= name->start &&
           name->address - name->start <= name->size && length <= name->size - (name->address - name->start);
}

ucs_status_t cw_ipc_decode(struct ucp_ep *ep, const struct cw_wire_rndv_name *packet, size_t length,
                           struct cw_md_name *name)
{
    struct passed passed;
    unsigned count;

    *name = (struct cw_md_name){.form = packet->form,
                             .type = packet->type,
                             .process = le64toh(packet->process),
                             .buffer = le64toh(packet->buffer),
                             .start = le64toh(packet->start),
                             .size = le64toh(packet->size),
                             .address = le64toh(packet->address)};
    if (!is_possible(name, length)) {
        return UCS_ERR_IO_ERROR;
    }
    if (name->form == CW_MD_PASSED) {
        memcpy(&passed, packet->handle, sizeof(passed));
        count = le32toh(passed.count);
        if (count == 0 || count > CW_MD_MOST_PIECES || name->size % count != 0) {
            return UCS_ERR_IO_ERROR;
        }
        take_fds(ep, le64toh(passed.number), count, name);
    } else {
        memcpy(name->handle, packet->handle, sizeof(name->handle));
    }
    return UCS_OK;
}

static void poll_later(struct cw_ipc *ipc)
{
    cw_poller_alarm_set(ipc->worker->poller, &ipc->alarm, cw_clock_ns() + POLL_NS);
}

static unsigned fire(struct cw_alarm *alarm)
{
    struct cw_ipc *ipc = cw_container_of(alarm, struct cw_ipc, alarm);

    if (ipc->is_busy) {
        ipc->status = ipc->md->poll(ipc->md, &ipc->copy);
        if (ipc->status == UCS_INPROGRESS) {
            poll_later(ipc);
            return 0;
        }
        ipc->is_busy = 0;
    }
    ipc->ended(ipc->arg, ipc->status);
    return 1;
}

struct cw_ipc *cw_ipc_begin(struct ucp_ep *ep, struct cw_md_name *name, const struct cw_dt_cursor *cursor,
                            size_t length, void (*ended)(void *arg, ucs_status_t status), void *arg)
{
    const struct cw_md *md = cw_md_of_type((ucs_memory_type_t)cursor->memory_type);
    const uint32_t peer = cw_lane_process(ep->conn);
    struct cw_ipc *ipc = (md == NULL || md->open == NULL || peer == 0) ? NULL : calloc(1, sizeof(*ipc));
    ucs_status_t status;

    if (ipc == NULL) {
        close_fds(name);
        return NULL;
    }
    *ipc = (struct cw_ipc){
        .alarm = {.fire = fire}, .worker = ep->worker, .md = md, .status = UCS_OK, .ended = ended, .arg = arg};
    status = md->open(md, name, peer, cursor->contig, length, &ipc->window);
    close_fds(name);
    if (status != UCS_OK) {
        free(ipc);
        return NULL;
    }
    cw_op_ep(ep)->ipc_process = peer;
    ipc->status = md->start(md, cursor->contig, ipc->window.ptr, length, &ipc->copy);
    ipc->is_busy = ipc->status == UCS_INPROGRESS;
    poll_later(ipc);
    return ipc;
}

void cw_ipc_end(struct cw_ipc *ipc)
{
    cw_poller_alarm_cancel(ipc->worker->poller, &ipc->alarm);
    if (ipc->is_busy) {
        (void)ipc->md->wait(ipc->md, &ipc->copy);
    }
    ipc->md->shut(ipc->md, &ipc->window);
    free(ipc);
}

void cw_ipc_ep_ended(struct ucp_ep *ep)
{
    const uint32_t peer = cw_op_ep(ep)->ipc_process;
    unsigned i;

    if (peer != 0) {
        for (i = 0; cw_mds[i] != NULL; i++) {
            if (cw_mds[i]->forget != NULL) {
                cw_mds[i]->forget(cw_mds[i], peer);
            }
        }
        cw_op_ep(ep)->ipc_process = 0;
    }
}

/* ---- the sender ---- */

uint64_t cw_ipc_next_number(void)
{
    static uint64_t last;

    return __atomic_add_fetch(&last, 1, __ATOMIC_RELAXED);
}

/* Passes the descriptors and closes them. If one cannot be passed, the message uses another protocol. */
static int pass_fds(struct ucp_ep *ep, struct cw_md_name *name)
{
    struct passed passed = {.number = htole64(cw_ipc_next_number()), .count = htole32(name->num_fds)};
    int is_passed = 1;
    unsigned i;

    if (name->num_fds == 0) {
        return 1;
    }
    for (i = 0; i < name->num_fds; i++) {
        is_passed = is_passed && cw_lane_pass(ep->conn, le64toh(passed.number), name->fds[i]);
    }
    close_fds(name);
    memcpy(name->handle, &passed, sizeof(passed));
    return is_passed;
}

static struct cw_wire_rndv_name packet_of(const struct cw_send *send, const struct cw_md_name *name)
{
    struct cw_wire_rndv_name packet = {.receive_id = htole64(send->receive_id),
                                       .send_id = htole64(send->id),
                                       .form = name->form,
                                       .type = name->type,
                                       .process = htole64(name->process),
                                       .buffer = htole64(name->buffer),
                                       .start = htole64(name->start),
                                       .size = htole64(name->size),
                                       .address = htole64(name->address)};

    memcpy(packet.handle, name->handle, sizeof(packet.handle));
    return packet;
}

ucs_status_t cw_ipc_send_name(struct cw_request *request)
{
    struct cw_send *send = cw_request_state(request);
    const struct cw_md *md = cw_md_of_type((ucs_memory_type_t)send->cursor.memory_type);
    const uint32_t peer = cw_lane_process(request->ep->conn);
    struct cw_md_name name = {0};
    struct cw_wire_rndv_name packet;
    ucs_status_t status;

    if (cw_ep_must_pause(request->ep)) {
        return CW_AGAIN;
    }
    if (md == NULL || md->give_name == NULL || peer == 0 ||
        !md->give_name(md, send->cursor.contig, send->cursor.length, peer, &name) || !pass_fds(request->ep, &name)) {
        return cw_bounce_or_data(request);
    }
    packet = packet_of(send, &name);
    status = cw_lane_send_packet(request->ep->conn, CW_PACKET_RNDV_NAME, &packet, sizeof(packet));
    if (status != UCS_OK) {
        return status;
    }
    send->phase = CW_SEND_ANNOUNCED;
    cw_trace_note(request, CW_TRACE_PATH, CW_TRACE_DEVICE, 0, send->cursor.length);
    return UCS_INPROGRESS;
}
