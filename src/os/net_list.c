/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which interfaces exist (os/net.h). Addresses come from rtnetlink; names and flags of the few devices that have one
 * are queried one by one: the list of all links, with all their counters, is more expensive (docs/why/scale.md). Any
 * socket serves for the queries; one of the Unix family exists everywhere.
 */
#include "os/net.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <linux/ethtool.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define ANSWER_SIZE 8192u
#define MAX_TRIES   4 /* reads of a list that changes while it is read */

struct listing {
    struct cw_net_interface *list;
    unsigned max;
    unsigned count;
    int device_fd;
    int index;                    /* the device described by the next two members; 0: none */
    unsigned flags;
    char name[CW_NET_NAME_MAX];
};

static int device_socket(void)
{
    return socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
}

/* Reads name and flags of a device; a device that has gone meanwhile has no flags. */
static void read_device(struct listing *listing, int index)
{
    struct ifreq request = {.ifr_ifindex = index};

    if (listing->index == index) {
        return;
    }
    listing->index = index;
    listing->flags = 0;
    listing->name[0] = '\0';
    if (ioctl(listing->device_fd, SIOCGIFNAME, &request) == 0) {
        memcpy(listing->name, request.ifr_name, sizeof(listing->name));
        if (ioctl(listing->device_fd, SIOCGIFFLAGS, &request) == 0) {
            listing->flags = (unsigned short)request.ifr_flags;
        }
    }
}

static bool is_link_local(const uint8_t *address)
{
    return address[0] == 0xfe && (address[1] & 0xc0) == 0x80;
}

/* On a line between two hosts IFA_ADDRESS is the address of the other end, and IFA_LOCAL that of this host. */
static void take_address(struct listing *listing, const struct nlmsghdr *header)
{
    const struct ifaddrmsg *message = NLMSG_DATA(header);
    const unsigned usable = IFF_UP | IFF_RUNNING;
    const unsigned size = (message->ifa_family == AF_INET) ? 4 : 16;
    const void *bytes = NULL, *local = NULL;
    struct cw_net_interface entry = {.prefix_bits = message->ifa_prefixlen};
    const struct rtattr *attribute = IFA_RTA(message);
    int length = (int)header->nlmsg_len - (int)NLMSG_LENGTH(sizeof(*message));

    if (length < 0 || (message->ifa_family != AF_INET && message->ifa_family != AF_INET6)) {
        return;
    }
    read_device(listing, (int)message->ifa_index);
    memcpy(entry.name, listing->name, sizeof(entry.name));
    for (; RTA_OK(attribute, length); attribute = RTA_NEXT(attribute, length)) {
        if (attribute->rta_type == IFA_LABEL) { /* the name of one of several addresses: eth0:1 */
            snprintf(entry.name, sizeof(entry.name), "%.*s", (int)RTA_PAYLOAD(attribute),
                     (const char *)RTA_DATA(attribute));
        } else if (attribute->rta_type == IFA_ADDRESS && RTA_PAYLOAD(attribute) == size) {
            bytes = RTA_DATA(attribute);
        } else if (attribute->rta_type == IFA_LOCAL && RTA_PAYLOAD(attribute) == size) {
            local = RTA_DATA(attribute);
        }
    }
    bytes = (local != NULL) ? local : bytes;
    if ((listing->flags & usable) != usable || bytes == NULL || (size == 16 && is_link_local(bytes)) ||
        listing->count >= listing->max) {
        return;
    }
    entry.loopback = (listing->flags & IFF_LOOPBACK) != 0;
    entry.address.family = (size == 4) ? CW_NET_IPV4 : CW_NET_IPV6;
    memcpy(entry.address.bytes, bytes, size);
    listing->list[listing->count++] = entry;
}

/* 0: more follows, 1: the end, or -errno; -EAGAIN when the list changed while it was read. */
static int take_answers(struct listing *listing, const void *buffer, size_t length)
{
    const struct nlmsghdr *header = buffer;
    int changed = 0;

    for (; NLMSG_OK(header, length); header = NLMSG_NEXT(header, length)) {
        changed |= header->nlmsg_flags & NLM_F_DUMP_INTR;
        if (header->nlmsg_type == NLMSG_DONE) {
            return changed ? -EAGAIN : 1;
        }
        if (header->nlmsg_type == NLMSG_ERROR) {
            return (header->nlmsg_len < NLMSG_LENGTH(sizeof(struct nlmsgerr))) ? -EIO :
                   ((const struct nlmsgerr *)NLMSG_DATA(header))->error;
        }
        if (header->nlmsg_type == RTM_NEWADDR) {
            take_address(listing, header);
        }
    }
    return changed ? -EAGAIN : 0;
}

static int read_addresses(struct listing *listing)
{
    struct {
        struct nlmsghdr header;
        struct ifaddrmsg message;
    } question = {.header = {.nlmsg_len = sizeof(question), .nlmsg_type = RTM_GETADDR,
                             .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP, .nlmsg_seq = 1}};
    char *const buffer = malloc(ANSWER_SIZE); /* a thread with a small stack cannot hold it */
    const int fd = (buffer == NULL) ? -1 : socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
    int status = (fd < 0 || send(fd, &question, sizeof(question), 0) < 0) ? -errno : 0;
    ssize_t got;

    while (status == 0) { /* the kernel answers at once, so this loop does not wait */
        got = recv(fd, buffer, ANSWER_SIZE, MSG_TRUNC);
        if (got <= 0 || (size_t)got > ANSWER_SIZE) {
            status = (got < 0) ? -errno : -EIO;
            status = (status == -EINTR) ? 0 : status;
        } else {
            status = take_answers(listing, buffer, (size_t)got);
        }
    }
    if (fd >= 0) {
        close(fd);
    }
    free(buffer);
    return status;
}

int cw_net_interfaces(struct cw_net_interface *list, unsigned max)
{
    struct listing listing = {.list = list, .max = max, .device_fd = device_socket()};
    int status = (listing.device_fd < 0) ? -errno : -EAGAIN, tries;

    for (tries = 0; tries < MAX_TRIES && status == -EAGAIN; tries++) {
        listing.count = 0;
        listing.index = 0;
        status = read_addresses(&listing);
    }
    if (listing.device_fd >= 0) {
        close(listing.device_fd);
    }
    return (status < 0 && status != -EAGAIN) ? status : (int)listing.count; /* an incomplete list is better than none */
}

unsigned cw_net_names(char (*names)[CW_NET_NAME_MAX], unsigned max)
{
    struct if_nameindex *const all = if_nameindex();
    unsigned count = 0;

    while (all != NULL && count < max && all[count].if_index != 0) {
        snprintf(names[count], CW_NET_NAME_MAX, "%s", all[count].if_name);
        count++;
    }
    if (all != NULL) {
        if_freenameindex(all);
    }
    return count;
}

const char *cw_net_why_unlisted(const char *interface_name)
{
    struct ifreq request = {.ifr_flags = 0};
    const int fd = device_socket();
    unsigned flags = 0;

    snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", interface_name);
    if (fd >= 0 && ioctl(fd, SIOCGIFFLAGS, &request) == 0) {
        flags = (unsigned short)request.ifr_flags;
    }
    if (fd >= 0) {
        close(fd);
    }
    if (!(flags & IFF_UP)) {
        return "the interface is down";
    }
    return (flags & IFF_RUNNING) ? "the interface has no address of a family of UCX_TCP_AF_PRIO"
                                 : "the interface has no carrier";
}

bool cw_net_is_bridge(const char *interface_name)
{
    struct ethtool_drvinfo driver = {.cmd = ETHTOOL_GDRVINFO};
    struct ifreq request = {.ifr_data = (void *)&driver};
    const int fd = device_socket();
    int answered;

    snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", interface_name);
    answered = fd >= 0 && ioctl(fd, SIOCETHTOOL, &request) == 0;
    if (fd >= 0) {
        close(fd);
    }
    return answered && strcmp(driver.driver, "bridge") == 0;
}

static int ipv6_default_route(const char *interface_name)
{
    char line[256], destination[33], device[CW_NET_NAME_MAX];
    FILE *file = fopen("/proc/net/ipv6_route", "re");
    unsigned prefix_bits;
    int found = 0;

    while (file != NULL && !found && fgets(line, sizeof(line), file) != NULL) {
        /* destination, its length, source, its length, next hop, metric, references, use, flags, name */
        found = sscanf(line, "%32s %x %*s %*s %*s %*s %*s %*s %*s %15s", destination, &prefix_bits, device) == 3 &&
                prefix_bits == 0 && strcmp(device, interface_name) == 0;
    }
    if (file != NULL) {
        fclose(file);
    }
    return found;
}

bool cw_net_has_default_route(const char *interface_name)
{
    char name[CW_NET_NAME_MAX];

    cw_net_default_interface(name);
    return strcmp(name, interface_name) == 0 || ipv6_default_route(interface_name);
}

void cw_net_default_interface(char name[CW_NET_NAME_MAX])
{
    unsigned destination, mask, metric, best = UINT_MAX;
    char line[256], device[CW_NET_NAME_MAX];
    FILE *file = fopen("/proc/net/route", "re");

    name[0] = '\0';
    if (file == NULL) {
        return;
    }
    while (fgets(line, sizeof(line), file) != NULL) {
        /* name, destination, gateway, flags, references, use, metric, mask */
        if (sscanf(line, "%15s %x %*x %*x %*d %*d %u %x", device, &destination, &metric, &mask) == 4 &&
            destination == 0 && mask == 0 && metric < best) {
            best = metric;
            memcpy(name, device, sizeof(device));
        }
    }
    fclose(file);
}
