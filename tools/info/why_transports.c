/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which transports were considered for a peer, which one was chosen, and what the others lack. What the settings leave
 * out is seen by comparing what a transport finds on this machine with what the context has kept of it.
 *
 * Callers: why.c.
 */
#include "why.h"

#include <stdio.h>
#include <string.h>

#include "connect/choose.h"
#include "transport/registry.h"

#define MAX_DEVICES 64u
#define MB          1048576.0

/* The setting that filters devices of a class. */
static enum cw_setting_id device_setting(enum cw_device_class class_id)
{
    if (class_id == CW_DEVICE_NET) {
        return CW_SETTING_net_devices;
    }
    return (class_id == CW_DEVICE_SHM) ? CW_SETTING_shm_devices : CW_SETTING_self_devices;
}

static int is_retained(const struct cw_why *why, const struct cw_transport *transport, const char *device)
{
    const struct ucp_context *context = why->side.context;
    unsigned i;

    for (i = 0; i < context->num_resources; i++) {
        if (context->resources[i].transport == transport && strcmp(context->resources[i].device.name, device) == 0) {
            return 1;
        }
    }
    return 0;
}

/* The devices that were kept, or those that were not, as "eth0, lo"; returns how many. */
static unsigned list_devices(const struct cw_why *why, const struct cw_transport *transport, int retained, char *text,
                             size_t size)
{
    struct cw_device devices[MAX_DEVICES];
    unsigned count = cw_transport_devices(transport, why->side.context->config, devices, MAX_DEVICES), listed = 0, i;
    size_t length = 0;

    text[0] = '\0';
    for (i = 0; i < count && i < MAX_DEVICES; i++) {
        if (is_retained(why, transport, devices[i].name) == retained) {
            if (length + strlen(devices[i].name) + 3 < size) {
                length += (size_t)snprintf(text + length, size - length, "%s%s", (listed == 0) ? "" : ", ",
                                           devices[i].name);
            }
            listed++;
        }
    }
    return listed;
}

/* The interface of a transport that comes behind `after` (NULL: the first), or NULL. */
static struct cw_iface *find_iface(const struct cw_why *why, const struct cw_transport *transport,
                                   const struct cw_iface *after)
{
    const struct ucp_worker *worker = why->side.worker;
    unsigned i = 0;

    for (; after != NULL && worker->ifaces[i] != after; i++) {
    }
    for (i += (after != NULL); i < worker->num_ifaces; i++) {
        if (cw_iface_wire_id(worker->ifaces[i]) == transport->wire_id) {
            return worker->ifaces[i];
        }
    }
    return NULL;
}

/* The place of an interface in the order in which the peer would be dialled; 0: the first. */
static unsigned turn_of(const struct cw_why *why, const struct cw_iface *iface)
{
    struct cw_path path = {.number = 0};
    unsigned turn = 0;

    while (cw_path_next(why->side.worker, &why->address, path.number, NULL, &path) && path.iface != iface) {
        turn++;
    }
    return turn;
}

static struct cw_plan_candidate candidate(const struct cw_iface *iface)
{
    return (struct cw_plan_candidate){
        .latency_ns = iface->limits.latency_ns, .bandwidth_bps = iface->limits.bandwidth_bps};
}

/* Reachable, and another one is better. */
static void print_passed_over(const struct cw_why *why, const struct cw_iface *iface)
{
    const struct cw_plan_candidate best = candidate(why->chosen), other = candidate(iface);
    const char *name = why->chosen->transport->name;
    enum cw_plan_number by;

    (void)cw_plan_is_better(&best, &other, &by);
    printf("not chosen\n#       It reaches the peer, but ");
    switch (by) {
    case CW_PLAN_LATENCY:
        printf("its latency is %.0f ns, that of %s %.0f ns.", other.latency_ns, name, best.latency_ns);
        break;
    case CW_PLAN_BANDWIDTH:
        printf("with the same latency its bandwidth is %.2f MB/s, that of %s %.2f MB/s.", other.bandwidth_bps / MB,
               name, best.bandwidth_bps / MB);
        break;
    default:
        printf("it is no better than %s, which comes first in the list.", name);
    }
    printf("\n#       It is number %u in the order in which the peer is dialled, should others fail.\n",
           turn_of(why, iface) + 1);
}

static void print_chosen(const struct cw_why *why, const struct cw_iface *iface)
{
    struct ucp_worker *worker = why->side.worker;
    unsigned i, reaching = 0;
    const char *reason;

    for (i = 0; i < worker->num_ifaces; i++) {
        reaching += cw_path_exists(worker->ifaces[i], &why->address, &reason) != 0;
    }
    printf("CHOSEN\n#       It reaches the peer, and %s (latency %.0f ns, bandwidth %.2f MB/s).\n",
           (reaching == 1) ? "nothing else does" : "of all that do it is the best one", iface->limits.latency_ns,
           iface->limits.bandwidth_bps / MB);
}

/* What the transport says of that device, in lines that begin with its name. */
static void print_device(const struct cw_why *why, const struct cw_transport *transport, const char *device)
{
    const size_t length = strlen(device);
    struct cw_text text = {0};
    const char *line, *end;

    if (transport->explain == NULL || transport->spans_devices) {
        return;
    }
    transport->explain(why->side.context->config, &text);
    for (line = cw_text_get(&text); (end = strchr(line, '\n')) != NULL; line = end + 1) {
        if (strncmp(line, device, length) == 0 && line[length] == ':') {
            printf("#       %.*s\n", (int)(end - line), line);
        }
    }
    cw_text_free(&text);
}

static void print_judged(const struct cw_why *why, struct cw_iface *iface)
{
    const char *reason = "";
    size_t length;

    if (iface == why->chosen) {
        print_chosen(why, iface);
    } else if (cw_path_exists(iface, &why->address, &reason)) {
        print_passed_over(why, iface);
    } else {
        printf("cannot\n#       It does not reach the peer: %s.\n", reason);
        if (cw_address_find(&why->address, iface->transport->wire_id, &length) == NULL) {
            printf("#       There its settings leave it out, or it found no device of it, or could not open one.\n");
        }
    }
    print_device(why, iface->transport, cw_iface_device(iface));
}

/* No device of it is there. */
static void print_absent(const struct cw_why *why, const struct cw_transport *transport)
{
    struct cw_text text = {0};
    const char *line, *end;

    printf("#   %s: cannot\n", transport->name);
    if (transport->explain != NULL) {
        transport->explain(why->side.context->config, &text);
    }
    line = cw_text_get(&text);
    if (strchr(line, '\n') == NULL) {
        printf("#       This machine has no device for it.\n");
    }
    for (; (end = strchr(line, '\n')) != NULL; line = end + 1) {
        printf("#       %.*s\n", (int)(end - line), line);
    }
    cw_text_free(&text);
}

static void print_transport(const struct cw_why *why, const struct cw_transport *transport)
{
    char setting[CW_WHY_SETTING_MAX], retained[256], dropped[256];
    const unsigned num_retained = list_devices(why, transport, 1, retained, sizeof(retained));
    const unsigned num_dropped = list_devices(why, transport, 0, dropped, sizeof(dropped));
    struct cw_iface *iface;

    if (num_retained + num_dropped == 0) {
        print_absent(why, transport);
        return;
    }
    iface = (num_retained > 0) ? find_iface(why, transport, NULL) : NULL;
    if (iface != NULL && !transport->spans_devices && num_retained > 1) {
        for (; iface != NULL; iface = find_iface(why, transport, iface)) {
            printf("#   %s (%s): ", transport->name, cw_iface_device(iface));
            print_judged(why, iface);
        }
        return;
    }
    printf("#   %s (%s): ", transport->name, (num_retained > 0) ? retained : dropped);
    if (!cw_context_allows(why->side.context, transport->name)) {
        printf("left out\n#       %s does not allow it.\n", cw_why_setting(why, CW_SETTING_tls, setting));
        return;
    }
    if (num_retained == 0) {
        printf("left out\n#       %s leaves no device of it.\n",
               cw_why_setting(why, device_setting(transport->device_class), setting));
        return;
    }
    if (iface == NULL) {
        printf("cannot\n#       It could not be opened for this worker; see the log above.\n");
    } else {
        print_judged(why, iface);
    }
    if (num_dropped > 0) {
        printf("#       Left out by %s: %s.\n",
               cw_why_setting(why, device_setting(transport->device_class), setting), dropped);
    }
}

/* What the peer offers and we have never heard of. */
static void print_strange(const struct cw_why *why)
{
    unsigned id, i;
    size_t length;

    if (why->address.bytes == NULL) {
        return;
    }
    for (id = 0; id <= UINT8_MAX; id++) {
        for (i = 0; i < cw_num_transports && cw_transports[i]->wire_id != id; i++) {
        }
        if (i == cw_num_transports && cw_address_find(&why->address, (uint8_t)id, &length) != NULL) {
            printf("#   number %u of the wire: cannot\n#       The peer offers it, this version does not have it.\n",
                   id);
        }
    }
}

void cw_why_transports(const struct cw_why *why)
{
    unsigned i;

    printf("# Transports\n#\n");
    for (i = 0; i < cw_num_transports; i++) {
        print_transport(why, cw_transports[i]);
    }
    print_strange(why);
    printf("#\n");
}
