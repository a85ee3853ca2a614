/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The interface of the shared memory transport: listening socket, address, table of slots.
 *
 * Address: OFFSET 0 SIZE 8 place (host and namespace), 8/8 token (name of the socket; bit 0: cross-process copies are
 * allowed), 16/1 version of the handshake. Valid only on the same host, hence in host byte order.
 */
#include "transport/shm/shm.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/log.h"
#include "config/config.h"
#include "os/machine.h"
#include "os/random.h"
#include "os/segment.h"
#include "os/unix_socket.h"
#include "transport/shm/shm_pass.h"

#define ADDRESS_LENGTH 17u /* place, token, version; that of releases before version 9 has 16 bytes */

static uint32_t round_up_power(uint64_t value, uint32_t min, uint32_t max)
{
    uint32_t power = min;

    while (power < value && power < max) {
        power *= 2;
    }
    return power;
}

/* The cache lines of a message come from the sender's core. How long that takes depends on the caches that both cores
 * share, which is unknown and changes at run time. These values lie between those of cores that share all caches and of
 * cores that share only the last level, and are within a factor of two of both. */
#define SHM_DISTANCE_NS 35
#define SHM_LINE_NS     14

/* From this length on both processes copy by the kernel faster than through the ring. The caches of AMD move a large
 * ring so fast that 64 KiB take half the time there; longer messages would gain, too, but lose where they are
 * unexpected. */
#define SHM_COPIES_BREAK_EVEN     (64u << 10)
#define SHM_COPIES_BREAK_EVEN_AMD (80u << 10)

static size_t copies_break_even(const struct shm_iface *iface)
{
    return (cw_machine_is_amd() && iface->ring_bytes > iface->small_bytes) ? SHM_COPIES_BREAK_EVEN_AMD :
                                                                             SHM_COPIES_BREAK_EVEN;
}

/* A lap starts small, so that short packets stay in the first-level caches; a small ring has space for sixteen packets
 * of the maximum size; and it may become large where memory is allocated on first touch. */
static void set_sizes(struct shm_iface *iface, const struct cw_config *config)
{
    const size_t segment = cw_clamp(config->posix_seg_size, 256, SHM_MAX_BYTES / 8);

    iface->first_bytes = round_up_power((uint64_t)config->posix_fifo_size * SHM_LINE, SHM_MIN_BYTES, SHM_MAX_BYTES);
    iface->small_bytes = round_up_power(segment * 14, iface->first_bytes, SHM_MAX_BYTES);
    iface->ring_bytes = cw_segment_is_strict() ? iface->small_bytes :
                        round_up_power(iface->small_bytes, SHM_LARGE_BYTES, SHM_MAX_BYTES);
    iface->super.limits = (struct cw_limits){.max_short = segment - sizeof(uint64_t),
                                         .max_bcopy = segment,
                                         .copies_break_even = copies_break_even(iface),
                                         .latency_ns = 80,
                                         .distance_ns = SHM_DISTANCE_NS,
                                         .line_ns = SHM_LINE_NS,
                                         .bandwidth_bps = config->posix_bw_bps,
                                         .overhead_ns = 10};
}

static void shm_close(struct cw_iface *super)
{
    struct shm_iface *iface = cw_container_of(super, struct shm_iface, super);
    struct shm_conn *conn, *next;

    cw_list_for_each_safe(conn, next, &iface->others, struct shm_conn, link) {
        cw_shm_dispose(conn); /* connections without a handshake yet */
    }
    if (iface->listener.fd >= 0) {
        if (!iface->paused) {
            cw_poller_remove(iface->poller, &iface->listener);
        }
        cw_unix_close(iface->listener.fd);
        cw_unix_unlink(iface->directory, iface->token);
    }
    cw_poller_alarm_cancel(iface->poller, &iface->accept_again);
    cw_poller_alarm_cancel(iface->poller, &iface->dial_again);
    cw_poller_alarm_cancel(iface->poller, &iface->handshake_deadline);
    cw_poller_alarm_cancel(iface->poller, &iface->trim);
    cw_poller_alarm_cancel(iface->poller, &iface->cool);
    cw_shm_arrivals_end(iface);
    free(iface->open);
    free(iface->directory);
    free(iface);
}

static ucs_status_t shm_open(const struct cw_iface_params *params, struct cw_iface **iface_p)
{
    const char *directory = (params->config->posix_dir == NULL) ? "" : params->config->posix_dir;
    struct shm_iface *iface = calloc(1, sizeof(*iface));
    ucs_status_t status = UCS_ERR_NO_MEMORY;

    if (iface == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    iface->super.transport = &cw_shm_transport;
    iface->super.upcalls = params->upcalls;
    iface->super.owner = params->owner;
    iface->poller = params->poller;
    iface->wakeup = params->wakeup;
    iface->peer_memory = params->peer_memory;
    iface->nt_copies = cw_tuning_follows(&params->config->tuning, CW_TUNING_NT_COPY);
    iface->quiet_conn = (struct cw_conn){.iface = &iface->super};
    iface->quiet = (struct cw_rx){.line = &iface->quiet_line, .most = CW_LINE_MOST,
                                        .conn = &iface->quiet_conn,
                                        .answers = &cw_no_tx};
    cw_shm_inbox(iface);
    iface->listener.fd = -1;
    iface->listener.ready = cw_shm_accept_ready;
    iface->accept_again = (struct cw_alarm){.fire = cw_shm_accept_again};
    iface->dial_again = (struct cw_alarm){.fire = cw_shm_dial_waiting};
    iface->handshake_deadline = (struct cw_alarm){.fire = cw_shm_drop_silent};
    iface->trim = (struct cw_alarm){.fire = cw_shm_trim};
    iface->cool = (struct cw_alarm){.fire = cw_shm_cool};
    iface->directory = strdup(directory);
    cw_list_init(&iface->others);
    if (iface->directory == NULL) {
        goto fail;
    }
    set_sizes(iface, params->config);
    iface->token = (cw_random_u64() & ~SHM_TOKEN_COPIES) | (iface->peer_memory ? SHM_TOKEN_COPIES : 0);
    iface->place_id = cw_unix_directory_id(directory);
    if (iface->place_id == 0) {
        status = UCS_ERR_NO_DEVICE;
        goto fail;
    }
    cw_unix_sweep(directory);
    status = cw_unix_listen(directory, iface->token, &iface->listener.fd);
    if (status != UCS_OK) {
        goto fail;
    }
    status = cw_poller_add(params->poller, &iface->listener, CW_POLL_READ);
    if (status != UCS_OK) {
        iface->paused = 1; /* the listener is not registered */
        cw_warn("shared memory is left out: its socket cannot be polled: %s", ucs_status_string(status));
        goto fail;
    }
    *iface_p = &iface->super;
    return UCS_OK;

fail:
    shm_close(&iface->super);
    return status;
}

static size_t shm_address(struct cw_iface *super, void *buffer, size_t max)
{
    struct shm_iface *iface = cw_container_of(super, struct shm_iface, super);

    if (max < ADDRESS_LENGTH) {
        return 0;
    }
    memcpy(buffer, &iface->place_id, sizeof(iface->place_id));
    memcpy((char *)buffer + sizeof(iface->place_id), &iface->token, sizeof(iface->token));
    ((uint8_t *)buffer)[ADDRESS_LENGTH - 1] = SHM_VERSION;
    return ADDRESS_LENGTH;
}

static int shm_reachable(struct cw_iface *super, const void *address, size_t length, const char **why)
{
    struct shm_iface *iface = cw_container_of(super, struct shm_iface, super);
    uint64_t place_id;

    if (length != ADDRESS_LENGTH || ((const uint8_t *)address)[ADDRESS_LENGTH - 1] != SHM_VERSION) {
        *why = "the peer's address is of another version";
        return 0;
    }
    memcpy(&place_id, address, sizeof(place_id));
    if (place_id == iface->place_id) {
        return 1;
    }
    *why = cw_unix_why_apart(iface->directory, iface->place_id, place_id);
    if (*why == NULL) {
        *why = "it is on another machine, or in a network name space or directory of its own (UCX_POSIX_DIR)";
    }
    return 0;
}

static const struct cw_transport_connect shm_connect = {
    .dial = cw_shm_dial,
    .is_there = cw_shm_is_there,
    .close_conn = cw_shm_close_conn,
};

static const struct cw_transport_packets shm_packets = {
    .send_short = cw_shm_send_short,
    .send_bcopy = cw_shm_send_bcopy,
};

static const struct cw_transport_copies shm_copies = {
    .ready = cw_shm_peer_ready,
    .read = cw_shm_peer_read,
    .write = cw_shm_peer_write,
    .revoked = cw_shm_revoked,
    .pair = cw_shm_pair,
    .process = cw_shm_peer_process,
    .pass = cw_shm_pass,
    .take_fd = cw_shm_take_fd,
};

static const struct cw_transport_fastpath shm_fastpath = {
    .tx = cw_shm_tx,
};

const struct cw_transport cw_shm_transport = {
    .name = "posix",
    .wire_id = SHM_WIRE_ID,
    .device_class = CW_DEVICE_SHM,
    .connect = &shm_connect,
    .packets = &shm_packets,
    .copies = &shm_copies,
    .fastpath = &shm_fastpath,
    .open = shm_open,
    .close = shm_close,
    .address = shm_address,
    .reachable = shm_reachable,
    .progress = cw_shm_progress,
    .arm = cw_shm_arm,
};
