/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * os/route.h on rtnetlink. All requests are sent in one message; the kernel answers each before the call returns, so no
 * receive blocks.
 */
#include "os/route.h"

#include <errno.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define MAX_QUESTIONS 16u
#define ANSWER_SIZE   8192u

struct question {
    struct nlmsghdr header;
    struct rtmsg message;
    struct rtattr attribute;
    uint8_t address[16];
};

/* The kernel requires the length of the address without the unused end of an IPv4 address. */
static void ask(const struct cw_net_address *to, uint32_t number, struct question *question)
{
    const unsigned bytes = (to->family == CW_NET_IPV4) ? 4 : 16;

    *question = (struct question){
        .header = {.nlmsg_len = sizeof(*question), .nlmsg_type = RTM_GETROUTE, .nlmsg_flags = NLM_F_REQUEST,
                   .nlmsg_seq = number},
        .message = {.rtm_family = (to->family == CW_NET_IPV4) ? AF_INET : AF_INET6,
                   .rtm_dst_len = (unsigned char)(8 * bytes), .rtm_flags = RTM_F_FIB_MATCH},
        .attribute = {.rta_len = (unsigned short)RTA_LENGTH(bytes), .rta_type = RTA_DST}};
    question->header.nlmsg_len = (uint32_t)(NLMSG_LENGTH(sizeof(struct rtmsg)) + RTA_LENGTH(bytes));
    memcpy(question->address, to->bytes, bytes);
}

static void take_error(int error, struct cw_route *route)
{
    switch (error) {
    case -ENETUNREACH:
    case -EHOSTUNREACH:
    case -EACCES:
    case -ENETDOWN:
        route->kind = CW_ROUTE_NONE;
        break;
    default:
        break;
    }
}

static void take_route(const struct nlmsghdr *header, struct cw_route *route)
{
    const struct rtmsg *message = NLMSG_DATA(header);
    int length = (int)header->nlmsg_len - (int)NLMSG_LENGTH(sizeof(*message));
    const struct rtattr *attribute = RTM_RTA(message);
    char name[IF_NAMESIZE] = "";
    int index;

    if (length < 0) {
        return;
    }
    route->prefix_bits = message->rtm_dst_len;
    route->kind = (message->rtm_type == RTN_UNICAST) ? CW_ROUTE_DIRECT : CW_ROUTE_NONE;
    if (message->rtm_type == RTN_LOCAL) {
        route->kind = CW_ROUTE_OWN;
    }
    for (; RTA_OK(attribute, length); attribute = RTA_NEXT(attribute, length)) {
        if (attribute->rta_type == RTA_OIF && RTA_PAYLOAD(attribute) == sizeof(index)) {
            memcpy(&index, RTA_DATA(attribute), sizeof(index));
            if (if_indextoname((unsigned)index, name) != NULL) {
                memcpy(route->device, name, sizeof(route->device));
            }
        } else if (route->kind == CW_ROUTE_DIRECT &&
                   (attribute->rta_type == RTA_GATEWAY || attribute->rta_type == RTA_VIA ||
                    attribute->rta_type == RTA_MULTIPATH)) {
            route->kind = CW_ROUTE_GATEWAY;
        }
    }
    if (message->rtm_flags & (RTNH_F_DEAD | RTNH_F_LINKDOWN)) {
        route->kind = CW_ROUTE_DOWN;
    }
}

static void take_answers(const void *buffer, size_t length, unsigned count, struct cw_route *routes)
{
    const struct nlmsghdr *header = buffer;
    struct cw_route *route;

    for (; NLMSG_OK(header, length); header = NLMSG_NEXT(header, length)) {
        if (header->nlmsg_seq >= count) {
            continue;
        }
        route = &routes[header->nlmsg_seq];
        if (header->nlmsg_type == NLMSG_ERROR && header->nlmsg_len >= NLMSG_LENGTH(sizeof(struct nlmsgerr))) {
            take_error(((const struct nlmsgerr *)NLMSG_DATA(header))->error, route);
        } else if (header->nlmsg_type == RTM_NEWROUTE) {
            take_route(header, route);
        }
    }
}

void cw_routes_find(const struct cw_net_address *to, unsigned count, struct cw_route *routes)
{
    char *const bytes = malloc(ANSWER_SIZE); /* a thread with a small stack cannot hold it */
    struct question question;
    size_t length = 0;
    ssize_t got;
    unsigned i;
    int fd;

    memset(routes, 0, count * sizeof(*routes));
    count = (count < MAX_QUESTIONS) ? count : MAX_QUESTIONS;
    if (bytes == NULL) {
        return;
    }
    for (i = 0; i < count; i++) {
        ask(&to[i], i, &question);
        memcpy(bytes + length, &question, sizeof(question));
        length += NLMSG_ALIGN(question.header.nlmsg_len);
    }
    fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
    if (fd >= 0 && count > 0 && send(fd, bytes, length, 0) == (ssize_t)length) {
        while ((got = recv(fd, bytes, ANSWER_SIZE, MSG_DONTWAIT)) > 0) {
            take_answers(bytes, (size_t)got, count, routes);
        }
    }
    if (fd >= 0) {
        close(fd);
    }
    free(bytes);
}
