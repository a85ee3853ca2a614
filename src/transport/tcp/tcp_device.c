/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The network interfaces that the transport uses: its devices, and their addresses.
 */
#include "transport/tcp/tcp.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/string.h"
#include "config/config.h"
#include "os/host.h"

#define MAX_INTERFACES 256u

/* All interfaces of the families that the settings allow, in the system's order, to be freed. NULL: none is known. A
 * thread with a small stack has no room for them. */
static struct cw_net_interface *list_interfaces(const struct cw_tcp_settings *settings, unsigned *num_p)
{
    struct cw_net_interface *list = malloc(MAX_INTERFACES * sizeof(*list));
    const int all                 = (list == NULL) ? -ENOMEM : cw_net_interfaces(list, MAX_INTERFACES);
    unsigned count                = 0;
    int i;

    if (all < 0) {
        cw_error("cannot list the network interfaces: %s", strerror(-all));
    }
    for (i = 0; i < all; i++) {
        if ((list[i].address.family == CW_NET_IPV4) ? !settings->use_ipv4 : !settings->use_ipv6) {
            continue;
        }
        list[count++] = list[i];
    }
    *num_p = count;
    return list;
}

/* Whether an earlier entry has that name and that family (CW_NET_NONE: any family). */
static int seen_before(const struct cw_net_interface *list, unsigned index, enum cw_net_family family)
{
    unsigned i;

    for (i = 0; i < index; i++) {
        if (strcmp(list[i].name, list[index].name) == 0 &&
            (family == CW_NET_NONE || list[i].address.family == family)) {
            return 1;
        }
    }
    return 0;
}

/* Whether the device leads only to containers and virtual machines of this host. */
static int leads_nowhere(const struct cw_tcp_settings *settings, const struct cw_net_interface *interface)
{
    return !settings->use_bridges && !interface->loopback && cw_net_is_bridge(interface->name) &&
           !cw_net_has_default_route(interface->name);
}

/* Keeps one entry for each device: the first one of its name. Returns how many of them are not loopback. */
static unsigned keep_devices(const struct cw_tcp_settings *settings, struct cw_net_interface *list, unsigned *num_p)
{
    unsigned count = 0, out = 0, i;

    for (i = 0; i < *num_p; i++) {
        list[count] = list[i];
        if (!seen_before(list, count, CW_NET_NONE) && !leads_nowhere(settings, &list[count])) {
            out += !list[count].loopback;
            count++;
        }
    }
    *num_p = count;
    return out;
}

unsigned cw_tcp_query_devices(const struct cw_config *config, struct cw_device *devices, unsigned max)
{
    char preferred[CW_NET_NAME_MAX] = "";
    struct cw_tcp_settings settings;
    struct cw_net_interface *list;
    unsigned num, count = 0, round, i;
    int rank;

    cw_tcp_settings_load(config, &settings);
    list = list_interfaces(&settings, &num);
    if (keep_devices(&settings, list, &num) > 1 && settings.prefer_default) {
        cw_net_default_interface(preferred);
    }
    for (round = 0; round < 3; round++) {
        for (i = 0; i < num; i++) {
            rank = list[i].loopback ? 2 : (strcmp(list[i].name, preferred) == 0) ? 0 : 1;
            if (rank != (int)round) {
                continue;
            }
            if (count < max) {
                cw_string_copy(devices[count].name, sizeof(devices[count].name), list[i].name);
                devices[count].is_local = list[i].loopback;
            }
            count++;
        }
    }
    free(list);
    return count;
}

void cw_tcp_local_load(const struct cw_tcp_settings *settings, const struct cw_device *devices, unsigned num_devices,
                       struct cw_tcp_local *local)
{
    unsigned num, round, device, i;
    struct cw_net_interface *const list = list_interfaces(settings, &num);

    *local            = (struct cw_tcp_local){0};
    local->netns      = cw_host_netns_id();
    local->ipv6_first = settings->ipv6_first;
    for (round = 0; round < 2; round++) { /* first one address of each family of each device, then further ones */
        for (device = 0; device < num_devices; device++) {
            for (i = 0; i < num; i++) {
                if (strcmp(devices[device].name, list[i].name) != 0 ||
                    seen_before(list, i, list[i].address.family) != (int)round) {
                    continue;
                }
                if (list[i].loopback) {
                    local->loopback |=
                        (list[i].address.family == CW_NET_IPV4) ? CW_TCP_LISTENS_IPV4 : CW_TCP_LISTENS_IPV6;
                } else if (local->num_hosts < CW_TCP_ADDRESS_MAX_HOSTS) {
                    local->hosts[local->num_hosts++] = list[i];
                }
            }
        }
    }
    free(list);
}

void cw_tcp_routes_find(const struct cw_tcp_settings *settings, const struct cw_tcp_address *peer,
                        struct cw_route routes[CW_TCP_ADDRESS_MAX_HOSTS])
{
    unsigned i;

    cw_routes_find(peer->hosts, peer->num_hosts, routes);
    for (i = 0; settings->only_devices != NULL && i < peer->num_hosts; i++) {
        if ((routes[i].kind == CW_ROUTE_DIRECT || routes[i].kind == CW_ROUTE_GATEWAY) && routes[i].device[0] != '\0' &&
            !cw_name_list_has(settings->only_devices, routes[i].device)) {
            routes[i].kind = CW_ROUTE_EXCLUDED;
        }
    }
}

int cw_tcp_allows(const struct cw_tcp_settings *settings, const struct cw_net_address *local)
{
    const struct cw_name_list *only     = settings->only_devices;
    struct cw_net_interface *const list = (only == NULL) ? NULL : malloc(MAX_INTERFACES * sizeof(*list));
    const int loopback                  = cw_net_is_loopback(local);
    int num                             = (list == NULL) ? 0 : cw_net_interfaces(list, MAX_INTERFACES);
    int known = 0, allowed = 0, i;

    for (i = 0; i < num && !allowed; i++) {
        if (loopback ? !list[i].loopback : (list[i].address.family != local->family ||
                                            memcmp(list[i].address.bytes, local->bytes, sizeof(local->bytes)) != 0)) {
            continue;
        }
        known   = 1;
        allowed = cw_name_list_has(only, list[i].name);
    }
    free(list);
    return allowed || !known;
}
