/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * os/neighbour.h on rtnetlink, which answers before the call returns. An empty datagram makes the kernel resolve a
 * neighbour.
 */
#include "os/neighbour.h"

#include <errno.h>
#include <linux/neighbour.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#ifndef SO_BINDTOIFINDEX
#define SO_BINDTOIFINDEX 62 /* since Linux 5.0 */
#endif

#define DISCARD_PORT 9u
#define KNOWN        (NUD_REACHABLE | NUD_STALE | NUD_DELAY | NUD_PROBE | NUD_PERMANENT | NUD_NOARP)

union message {
    struct nlmsghdr header;
    char bytes[4096];
};

static unsigned length_of(const struct cw_net_address *address)
{
    return (address->family == CW_NET_IPV4) ? 4 : 16;
}

static unsigned char family_of(const struct cw_net_address *address)
{
    return (address->family == CW_NET_IPV4) ? AF_INET : AF_INET6;
}

static void add(union message *message, unsigned short type, const void *data, unsigned length)
{
    struct rtattr *attribute = (void *)(message->bytes + NLMSG_ALIGN(message->header.nlmsg_len));

    attribute->rta_type = type;
    attribute->rta_len = (unsigned short)RTA_LENGTH(length);
    memcpy(RTA_DATA(attribute), data, length);
    message->header.nlmsg_len = NLMSG_ALIGN(message->header.nlmsg_len) + RTA_ALIGN(attribute->rta_len);
}

/* Replaces the request by the answer. Returns its type; NLMSG_ERROR with *error, also when there is none. */
static unsigned ask(int fd, union message *message, int *error)
{
    const ssize_t sent = send(fd, message, message->header.nlmsg_len, 0);
    const ssize_t got = (sent > 0) ? recv(fd, message, sizeof(*message), MSG_DONTWAIT) : -1;
    struct nlmsgerr failure;

    *error = EIO;
    if (got < (ssize_t)sizeof(message->header) || message->header.nlmsg_len > (size_t)got) {
        return NLMSG_ERROR;
    }
    if (message->header.nlmsg_type == NLMSG_ERROR && message->header.nlmsg_len >= NLMSG_LENGTH(sizeof(failure))) {
        memcpy(&failure, NLMSG_DATA(&message->header), sizeof(failure));
        *error = -failure.error;
    }
    return message->header.nlmsg_type;
}

/* The next hop of packets to the address. 0: none, or unknown. */
static int find_hop(int fd, const struct cw_net_address *to, unsigned device, struct cw_net_address *hop)
{
    union message message = {.header = {.nlmsg_len = NLMSG_LENGTH(sizeof(struct rtmsg)),
                                      .nlmsg_type = RTM_GETROUTE,
                                      .nlmsg_flags = NLM_F_REQUEST}};
    struct rtmsg *route = NLMSG_DATA(&message.header);
    const struct rtattr *attribute;
    int error, length;

    route->rtm_family = family_of(to);
    route->rtm_dst_len = (unsigned char)(8 * length_of(to));
    add(&message, RTA_DST, to->bytes, length_of(to));
    add(&message, RTA_OIF, &device, sizeof(device));
    if (ask(fd, &message, &error) != RTM_NEWROUTE || route->rtm_type != RTN_UNICAST) {
        return 0;
    }
    *hop = *to;
    length = (int)message.header.nlmsg_len - (int)NLMSG_LENGTH(sizeof(*route));
    for (attribute = RTM_RTA(route); RTA_OK(attribute, length); attribute = RTA_NEXT(attribute, length)) {
        if (attribute->rta_type == RTA_GATEWAY && RTA_PAYLOAD(attribute) == length_of(to)) {
            memcpy(hop->bytes, RTA_DATA(attribute), length_of(to));
        }
    }
    return 1;
}

/* The state of a neighbour, NUD_NONE: no entry; -1: unknown. */
static int find_state(int fd, const struct cw_net_address *hop, unsigned device)
{
    union message message = {.header = {.nlmsg_len = NLMSG_LENGTH(sizeof(struct ndmsg)),
                                      .nlmsg_type = RTM_GETNEIGH,
                                      .nlmsg_flags = NLM_F_REQUEST}};
    struct ndmsg *neighbour = NLMSG_DATA(&message.header);
    int error;

    neighbour->ndm_family = family_of(hop);
    neighbour->ndm_ifindex = (int)device;
    add(&message, NDA_DST, hop->bytes, length_of(hop));
    if (ask(fd, &message, &error) == RTM_NEWNEIGH) {
        return neighbour->ndm_state;
    }
    return (error == ENOENT) ? NUD_NONE : -1;
}

static void ask_for(const struct cw_net_address *to, unsigned device)
{
    struct cw_net_address discard = *to;
    struct sockaddr_storage address;
    int fd = socket(family_of(to), SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0) {
        return;
    }
    discard.port = DISCARD_PORT;
    cw_net_to_sockaddr(&discard, &address);
    if (setsockopt(fd, SOL_SOCKET, SO_BINDTOIFINDEX, &device, sizeof(device)) == 0) {
        (void)sendto(fd, "", 0, MSG_DONTWAIT | MSG_NOSIGNAL, (const struct sockaddr *)&address,
                     (to->family == CW_NET_IPV4) ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6));
    }
    close(fd);
}

unsigned cw_neighbour_device(const char *name)
{
    return (name[0] != '\0') ? if_nametoindex(name) : 0;
}

bool cw_neighbour_is_known(const struct cw_net_address *to, unsigned device)
{
    struct cw_net_address hop;
    int fd, state = -1;

    fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
    if (fd < 0) {
        return true;
    }
    if (find_hop(fd, to, device, &hop)) {
        state = find_state(fd, &hop, device);
    }
    close(fd);
    if (state < 0 || (state & KNOWN)) {
        return true;
    }
    if (!(state & NUD_INCOMPLETE)) {
        ask_for(to, device);
    }
    return false;
}
