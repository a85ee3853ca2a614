/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ports of this machine, the selection of those in use, and the settings.
 */
#include "transport/verbs/verbs.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/string.h"
#include "config/config.h"
#include "mem/md.h"

#define MAX_PORTS       64u
#define HEADER_SPACE     64u
#define PKEY_FULL       0x8000u
#define PKEY_MASK       0x7fffu
#define DEFAULT_ROCE_TC 106u
#define MOST_RETRIES    7u
#define VENDOR_RXE      0xffffffu
#define RXE_PUT_PACKETS 16u

void cw_verbs_gid_text(const uint8_t gid[16], char text[CW_VERBS_GID_TEXT])
{
    size_t length = 0;
    unsigned i;

    if (cw_verbs_gid_is_ipv4(gid)) {
        snprintf(text, CW_VERBS_GID_TEXT, "%u.%u.%u.%u", gid[12], gid[13], gid[14], gid[15]);
        return;
    }
    for (i = 0; i < 16; i += 2) {
        length += (size_t)snprintf(text + length, CW_VERBS_GID_TEXT - length, "%s%x", (i > 0) ? ":" : "",
                                   ((unsigned)gid[i] << 8) | gid[i + 1]);
    }
}

static uint64_t clamp(uint64_t value, uint64_t low, uint64_t high)
{
    if (value < low) {
        return low;
    }
    return (value > high) ? high : value;
}

/* The exponent n, 1 to 31, of a timeout of 4.096 us * 2^n. */
static uint8_t ack_timeout(uint64_t timeout_ns)
{
    uint8_t exponent = 1;

    while (exponent < 31 && (UINT64_C(4096) << exponent) < timeout_ns) {
        exponent++;
    }
    return exponent;
}

/* The shortest time in the table of the InfiniBand specification that is long enough, in units of 10 us. */
static uint8_t rnr_timer(uint64_t timeout_ns)
{
    static const uint32_t times[31] = {1,    2,    3,    4,    6,     8,     12,    16,    24,   32,   48,
                                       64,   96,   128,  192,  256,   384,   512,   768,   1024, 1536, 2048,
                                       3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152};
    uint8_t i = 0;

    while (i < 30 && (uint64_t)times[i] * 10000 < timeout_ns) {
        i++;
    }
    return (uint8_t)(i + 1);
}

static uint64_t number_or_auto(uint64_t value, uint64_t otherwise)
{
    return (value == CW_ULUNITS_AUTO) ? otherwise : value;
}

void cw_verbs_settings_load(const struct cw_config *config, struct cw_verbs_settings *settings)
{
    char *end = NULL;
    unsigned long pkey;

    *settings = (struct cw_verbs_settings){0};
    settings->gid_index = number_or_auto(config->ib_gid_index, CW_VERBS_NOT_SET);
    settings->pkey = CW_VERBS_NOT_SET;
    pkey = strtoul(config->ib_pkey, &end, 0);
    if (end != config->ib_pkey && *end == '\0') {
        settings->pkey = pkey & PKEY_MASK;
    } else if (strcmp(config->ib_pkey, "auto") != 0) {
        cw_warn("invalid UCX_IB_PKEY=%s, expected a number or auto; using auto", config->ib_pkey);
    }
    settings->sl = (uint8_t)clamp(number_or_auto(config->ib_sl, 0), 0, 15);
    settings->traffic_class = (uint8_t)clamp(number_or_auto(config->ib_traffic_class, DEFAULT_ROCE_TC), 0, 255);
    settings->traffic_class_chosen = config->ib_traffic_class == CW_ULUNITS_AUTO;
    settings->hop_limit = (uint8_t)clamp(config->ib_hop_limit, 1, 255);
    settings->timeout = ack_timeout(config->rc_timeout_ns);
    settings->retries = (uint8_t)clamp(config->rc_retry_count, 0, MOST_RETRIES);
    settings->rnr_timer = rnr_timer(config->rc_rnr_timeout_ns);
    settings->rnr_retries = (uint8_t)clamp(config->rc_rnr_retry_count, 0, 7);
    settings->reads = (uint8_t)clamp(number_or_auto(config->rc_max_rd_atomic, 16), 1, 128);
    settings->sends = (unsigned)clamp(config->rc_tx_queue_len, 16, 4096);
    settings->receives = (unsigned)clamp(config->rc_rx_queue_len, 32, 32768);
    settings->most_live = (config->rc_max_num_eps > 1) ? config->rc_max_num_eps : 1;
    settings->inlined = (unsigned)clamp(config->rc_tx_min_inline, 8, 512);
    /* A piece of this many bytes of a message, and the header before it. */
    settings->segment = ((size_t)clamp(config->ib_seg_size, 2048, 1u << 20) & ~(size_t)63) + HEADER_SPACE;
    settings->most_segments = clamp(number_or_auto(config->ib_max_segments, 8192), settings->receives + 64, 1u << 20);
    settings->connect_timeout_ns = config->ud_timeout_ns;
    settings->first_retry_ns = 20000000;
    settings->keepalive_ns = config->keepalive_interval_ns;
    settings->pages_on_demand = (config->reg_nonblock_mem_types & CW_MEMORY_BIT(UCS_MEMORY_TYPE_HOST)) != 0;
    settings->guarded = (config->auth_key_file != NULL && config->auth_key_file[0] != '\0') || config->auth_tls != 0;
}

void cw_verbs_settings_fit(struct cw_verbs_settings *settings, const struct cw_verbs_port *port)
{
    settings->reads = (settings->reads > port->max_reads) ? (uint8_t)port->max_reads : settings->reads;
    settings->retries = (settings->retries > port->max_retries) ? (uint8_t)port->max_retries : settings->retries;
    settings->sends = (settings->sends > port->max_sends) ? port->max_sends : settings->sends;
    while ((settings->sends & (settings->sends - 1)) != 0) {
        settings->sends &= settings->sends - 1; /* request numbers wrap from 2^32 - 1 to entry 0: a power of two */
    }
    settings->receives = (settings->receives > port->max_receives) ? port->max_receives : settings->receives;
    if (settings->receives > port->max_completions - CW_VERBS_UD_RECEIVES) {
        settings->receives = port->max_completions - CW_VERBS_UD_RECEIVES;
    }
    if (!port->address.ethernet && settings->traffic_class_chosen) {
        settings->traffic_class = 0;
    }
}

_Static_assert(sizeof(struct cw_verbs_conn) + 128 * sizeof(struct cw_verbs_segment *) <= 2048,
               "a parked connection of the default length takes at most 2 KiB");

/* Host memory of a connection, without the device's. */
static size_t conn_bytes(const struct cw_verbs_settings *settings)
{
    return sizeof(struct cw_verbs_conn) +
           settings->sends * (sizeof(struct cw_verbs_segment *) + cw_verbs_request_size(settings));
}

static void set_rate(struct cw_verbs_port *port, const struct ibv_port_attr *attr)
{
    static const struct {
        uint8_t code;
        double gigabits;
    } speeds[] = {{1, 2.5}, {2, 5}, {4, 10}, {8, 10.3}, {16, 14}, {32, 25}, {64, 50}, {128, 100}};
    static const struct {
        uint8_t code;
        unsigned lanes;
    } widths[] = {{1, 1}, {2, 4}, {4, 8}, {8, 12}, {16, 2}};
    double speed = 2.5;
    unsigned lanes = 1;
    size_t i;

    for (i = 0; i < sizeof(speeds) / sizeof(speeds[0]); i++) {
        speed = (attr->active_speed == speeds[i].code) ? speeds[i].gigabits : speed;
    }
    for (i = 0; i < sizeof(widths) / sizeof(widths[0]); i++) {
        lanes = (attr->active_width == widths[i].code) ? widths[i].lanes : lanes;
    }
    port->bandwidth_bps = speed * lanes * 1e9 / 8;
}

static void breaks(struct cw_verbs_port *port, const char *step, int error)
{
    snprintf(port->why, sizeof(port->why), "%s: %s", step, strerror((error > 0) ? error : EIO));
    port->is_broken = 1;
}

static void add_gid(struct cw_verbs_port *port, unsigned index, const struct ibv_gid_entry *entry)
{
    struct cw_verbs_address *address = &port->address;

    if (address->num_gids < CW_VERBS_MAX_GIDS) {
        port->gid_indices[address->num_gids] = (uint8_t)index;
        port->net_devices[address->num_gids] = entry->ndev_ifindex;
        memcpy(address->gids[address->num_gids++], entry->gid.raw, sizeof(entry->gid.raw));
    }
}

/* Chooses GIDs. For RoCE: version 2, IPv4 before IPv6, no link-local address, unless the setting names one. */
static void find_gids(const struct cw_verbs_library *lib, struct ibv_context *context,
                      const struct cw_verbs_settings *settings, int entries, struct cw_verbs_port *port)
{
    static const uint8_t empty[16];
    struct ibv_gid_entry entry;
    char step[48];
    unsigned round;
    int i, error, local = 0;

    if (settings->gid_index != CW_VERBS_NOT_SET || !port->address.ethernet) {
        i = (settings->gid_index != CW_VERBS_NOT_SET) ? (int)clamp(settings->gid_index, 0, 255) : 0;
        error = lib->query_gid_ex(context, port->number, (uint32_t)i, &entry, 0, sizeof(entry));
        if (error == 0 && port->address.ethernet && memcmp(entry.gid.raw, empty, sizeof(empty)) == 0) {
            snprintf(port->why, sizeof(port->why), "its GID of index %d (UCX_IB_GID_INDEX) is empty", i);
        } else if (error == 0) {
            add_gid(port, (unsigned)i, &entry);
        } else {
            snprintf(step, sizeof(step), "querying its GID of index %d", i);
            breaks(port, step, error);
        }
        return;
    }
    for (round = 0; round < 2; round++) {
        for (i = 0; i < entries && i < 256; i++) {
            if (lib->query_gid_ex(context, port->number, (uint32_t)i, &entry, 0, sizeof(entry)) != 0 ||
                entry.gid_type != IBV_GID_TYPE_ROCE_V2 || memcmp(entry.gid.raw, empty, sizeof(empty)) == 0) {
                continue; /* an unused entry may be reported as zeros */
            }
            if (cw_verbs_gid_is_local(entry.gid.raw)) {
                local++;
            } else if (cw_verbs_gid_is_ipv4(entry.gid.raw) == (round == 0)) {
                add_gid(port, (unsigned)i, &entry);
            }
        }
    }
    if (port->address.num_gids == 0) {
        snprintf(port->why, sizeof(port->why), "%s",
                 (local > 0) ? "its GIDs of RoCE v2 are link-local; give its interface an address, or set "
                               "UCX_IB_GID_INDEX"
                             : "it has no GID of RoCE v2; set UCX_IB_GID_INDEX");
    }
}

static void find_pkey(const struct cw_verbs_library *lib, struct ibv_context *context,
                      const struct cw_verbs_settings *settings, int entries, struct cw_verbs_port *port)
{
    int i, found = -1;
    __be16 raw;
    uint16_t pkey;

    for (i = 0; i < entries; i++) {
        if (lib->query_pkey(context, port->number, i, &raw) != 0) {
            breaks(port, "querying its partitions", errno);
            break;
        }
        pkey = be16toh(raw);
        if ((pkey & PKEY_MASK) == 0 || (settings->pkey != CW_VERBS_NOT_SET && (pkey & PKEY_MASK) != settings->pkey)) {
            continue;
        }
        if (found < 0 || ((pkey & PKEY_FULL) && !(port->address.pkey & PKEY_FULL))) {
            found = i;
            port->address.pkey = pkey;
            port->pkey_index = (uint16_t)i;
        }
    }
    if (found >= 0) {
        port->is_broken = 0;
        port->why[0] = '\0';
    } else if (!port->is_broken) {
        snprintf(port->why, sizeof(port->why), "it is in no partition that UCX_IB_PKEY allows");
    }
}

static const char *state_text(enum ibv_port_state state)
{
    switch (state) {
    case IBV_PORT_DOWN:
        return "it is down";
    case IBV_PORT_INIT:
        return "no subnet manager has set it up";
    default:
        return "it is not active yet";
    }
}

static void check_port(const struct cw_verbs_library *lib, struct ibv_context *context, const char *device,
                       uint8_t number, const struct cw_verbs_settings *settings, struct cw_verbs_port *port)
{
    struct ibv_device_attr limits;
    struct ibv_port_attr attr = {0};
    int error;

    *port = (struct cw_verbs_port){.number = number};
    cw_string_copy(port->device, sizeof(port->device), device);
    snprintf(port->name, sizeof(port->name), "%.27s:%u", device, number);
    error = lib->query_device(context, &limits);
    error = (error == 0) ? lib->query_port_compat(context, number, (struct _compat_ibv_port_attr *)(void *)&attr)
                         : error;
    if (error != 0) {
        breaks(port, "querying its attributes", error);
        return;
    }
    port->max_qps = (unsigned)clamp((uint64_t)limits.max_qp, 4, INT32_MAX);
    port->max_reads = (limits.max_qp_rd_atom > 0) ? (unsigned)limits.max_qp_rd_atom : 1;
    /* Soft RoCE (rxe) takes 7 as infinite, which only the RNR retries may be. */
    port->max_retries = (limits.vendor_id == VENDOR_RXE) ? MOST_RETRIES - 1 : MOST_RETRIES;
    port->max_sends = (unsigned)limits.max_qp_wr;
    port->max_receives = (unsigned)limits.max_srq_wr;
    port->max_completions = (unsigned)clamp((uint64_t)limits.max_cqe, 2 * CW_VERBS_UD_RECEIVES, INT32_MAX);
    port->max_iov = (unsigned)clamp((uint64_t)limits.max_sge, 2, CW_VERBS_MAX_IOV);
    port->max_message = (size_t)clamp(attr.max_msg_sz, 4096, 1u << 30);
    port->max_put = port->max_message;
    /* rxe counts each lost packet as a retry until the peer acknowledges one, and that is the last of a request. */
    if (limits.vendor_id == VENDOR_RXE) {
        port->max_put = clamp((uint64_t)RXE_PUT_PACKETS * (128u << attr.active_mtu), 4096, port->max_message);
    }
    port->has_atomics = limits.atomic_cap != IBV_ATOMIC_NONE;
    port->breaks_unseen = limits.vendor_id == VENDOR_RXE;
    port->address.ethernet = attr.link_layer == IBV_LINK_LAYER_ETHERNET;
    port->address.mtu = (unsigned)attr.active_mtu;
    port->address.lid = attr.lid;
    set_rate(port, &attr);
    find_pkey(lib, context, settings, attr.pkey_tbl_len, port);
    find_gids(lib, context, settings, attr.gid_tbl_len, port);
    if (attr.state != IBV_PORT_ACTIVE) {
        port->is_broken = 0;
        snprintf(port->why, sizeof(port->why), "%s", state_text(attr.state));
    } else if (settings->guarded) {
        snprintf(port->why, sizeof(port->why), "it does not support the protection that UCX_AUTH_KEY_FILE or "
                                               "UCX_AUTH_TLS requires");
    } else if (limits.max_srq == 0) {
        snprintf(port->why, sizeof(port->why), "the device has no shared receive queues");
    }
}

/* The process may have no permission for a listed device, as in a container: not an error. */
static bool is_withheld(int error)
{
    return error == ENOENT || error == EACCES || error == EPERM;
}

static void cannot_open(struct cw_verbs_port *port, const char *device, int error)
{
    *port = (struct cw_verbs_port){.number = 1};
    snprintf(port->name, sizeof(port->name), "%.27s:1", device);
    breaks(port, "it cannot be opened (is its driver's library installed, and may this user open /dev/infiniband?)",
           error);
    port->is_broken = !is_withheld(error);
}

/* Lists all ports, including unused ones. */
static unsigned list_ports(const struct cw_verbs_settings *settings, struct cw_verbs_port *ports, const char **why)
{
    const struct cw_verbs_library *lib = cw_verbs_library(why);
    struct ibv_device **list;
    struct ibv_device_attr limits;
    struct ibv_context *context;
    unsigned count = 0;
    int num = 0, error, i;
    uint8_t number;

    list = (lib != NULL) ? lib->get_device_list(&num) : NULL;
    for (i = 0; list != NULL && i < num; i++) {
        context = lib->open_device(list[i]);
        error = (context == NULL) ? errno : lib->query_device(context, &limits);
        if (context == NULL || error != 0) {
            limits.phys_port_cnt = 0;
            if (count < MAX_PORTS) {
                cannot_open(&ports[count++], lib->get_device_name(list[i]), error);
            }
        }
        for (number = 1; context != NULL && number <= limits.phys_port_cnt && count < MAX_PORTS; number++) {
            check_port(lib, context, lib->get_device_name(list[i]), number, settings, &ports[count++]);
        }
        if (context != NULL) {
            lib->close_device(context);
        }
    }
    if (list != NULL) {
        lib->free_device_list(list);
    }
    if (lib != NULL && list == NULL) {
        cw_warn("RDMA devices are left out: libibverbs cannot list them: %s", strerror(errno));
        *why = "libibverbs cannot list its devices.";
    } else if (lib != NULL && num == 0) {
        *why = "libibverbs has no driver for the devices of this machine; install ibverbs-providers or rdma-core.";
    }
    return count;
}

unsigned cw_verbs_query_devices(const struct cw_config *config, struct cw_device *devices, unsigned max)
{
    struct cw_verbs_port *const ports = malloc(MAX_PORTS * sizeof(*ports)); /* too large for a small stack */
    struct cw_verbs_settings settings;
    unsigned num, count = 0, i;
    const char *why;

    cw_verbs_settings_load(config, &settings);
    num = (ports == NULL) ? 0 : list_ports(&settings, ports, &why);
    for (i = 0; i < num; i++) {
        if (ports[i].why[0] != '\0' && !ports[i].is_broken) { /* a broken port is reported when it is opened */
            cw_debug("verbs: %s is not used: %s", ports[i].name, ports[i].why);
            continue;
        }
        if (count < max) {
            cw_string_copy(devices[count].name, sizeof(devices[count].name), ports[i].name);
        }
        count++;
    }
    free(ports);
    return count;
}

void cw_verbs_explain(const struct cw_config *config, struct cw_text *text)
{
    struct cw_verbs_port *const ports = malloc(MAX_PORTS * sizeof(*ports));
    struct cw_verbs_settings settings;
    struct cw_verbs_settings fitted;
    const char *why = "Out of memory.";
    char gid[CW_VERBS_GID_TEXT];
    unsigned num, i, j;

    cw_verbs_settings_load(config, &settings);
    num = (ports == NULL) ? 0 : list_ports(&settings, ports, &why);
    if (num == 0) {
        cw_text_addf(text, "%s\n", why);
    } else {
        cw_text_addf(text, "Messages use reliable connections (RC), whichever of rc, ud, dc and srd UCX_TLS names.\n");
    }
    for (i = 0; i < num; i++) {
        if (ports[i].address.mtu != 0) {
            cw_text_addf(text, "%s: %s, MTU %u, LID %u, P_Key 0x%04x, %.1f Gbit/s\n", ports[i].name,
                         ports[i].address.ethernet ? "RoCE" : "InfiniBand", 128u << ports[i].address.mtu,
                         ports[i].address.lid, ports[i].address.pkey, ports[i].bandwidth_bps * 8e-9);
        }
        for (j = 0; j < ports[i].address.num_gids; j++) {
            cw_verbs_gid_text(ports[i].address.gids[j], gid);
            cw_text_addf(text, "%s: GID %u: %s\n", ports[i].name, ports[i].gid_indices[j], gid);
        }
        if (ports[i].why[0] != '\0') {
            cw_text_addf(text, "%s is not used: %s\n", ports[i].name, ports[i].why);
            continue;
        }
        fitted = settings;
        cw_verbs_settings_fit(&fitted, &ports[i]);
        cw_text_addf(text,
                     "%s: a connection has a send queue of %u (UCX_RC_TX_QUEUE_LEN) and takes %zu bytes beside the "
                     "device's; a worker has %u receives of %zu bytes (UCX_RC_RX_QUEUE_LEN, UCX_IB_SEG_SIZE); beyond "
                     "%u connections (UCX_RC_MAX_NUM_EPS) idle ones are parked\n",
                     ports[i].name, fitted.sends, conn_bytes(&fitted), fitted.receives, fitted.segment,
                     fitted.most_live);
    }
    free(ports);
}

struct ibv_context *cw_verbs_device_open(const struct cw_verbs_library *lib, const struct cw_verbs_settings *settings,
                                         const char *name, struct cw_verbs_port *port)
{
    struct ibv_context *context = NULL;
    const char *colon = strrchr(name, ':');
    const size_t length = (colon != NULL) ? (size_t)(colon - name) : strlen(name);
    const uint8_t number = (colon != NULL) ? (uint8_t)strtoul(colon + 1, NULL, 10) : 1;
    struct ibv_device **list;
    const char *device;
    int num = 0, i;

    *port = (struct cw_verbs_port){.why = "the device is gone"};
    list = lib->get_device_list(&num);
    if (list == NULL) {
        breaks(port, "listing the devices", errno);
    }
    for (i = 0; list != NULL && i < num && context == NULL; i++) {
        device = lib->get_device_name(list[i]);
        if (strlen(device) == length && memcmp(device, name, length) == 0) {
            context = lib->open_device(list[i]);
            if (context == NULL) {
                cannot_open(port, device, errno);
                break;
            } else {
                check_port(lib, context, device, number, settings, port);
            }
        }
    }
    if (list != NULL) {
        lib->free_device_list(list);
    }
    if (context != NULL && port->why[0] != '\0') {
        lib->close_device(context);
        context = NULL;
    }
    return context;
}
