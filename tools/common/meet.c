/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How processes of a job find each other.
 *
 * Callers: group.c of the performance tool.
 * A card is words with blanks between them: token (32 hexadecimal digits), identity of the running system, name of the
 * machine, port, addresses. An address may lead elsewhere than to the process (private networks have the same addresses
 * everywhere): the token decides.
 */
#define _GNU_SOURCE
#include "meet.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

/* Any address of several may be one that nobody answers at. */
#define TRY_MS 3000

struct card {
    char token[33];
    char system[64];
    char host[128];
    unsigned port;
    int rest; /* where the addresses begin */
};

static void read_system(char text[64])
{
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");

    if (file == NULL || fscanf(file, "%63s", text) != 1) {
        snprintf(text, 64, "unknown");
    }
    if (file != NULL) {
        fclose(file);
    }
}

/* Addresses by which others may reach this machine: not its loopback, none that hold on one link alone. */
static const char *address_text(const struct ifaddrs *item, char text[INET6_ADDRSTRLEN])
{
    if (item->ifa_addr == NULL || (item->ifa_flags & IFF_UP) == 0 || (item->ifa_flags & IFF_LOOPBACK) != 0) {
        return NULL;
    }
    if (item->ifa_addr->sa_family == AF_INET) {
        return inet_ntop(AF_INET, &((struct sockaddr_in *)item->ifa_addr)->sin_addr, text, INET6_ADDRSTRLEN);
    }
    if (item->ifa_addr->sa_family == AF_INET6) {
        const struct in6_addr *address = &((struct sockaddr_in6 *)item->ifa_addr)->sin6_addr;
        return IN6_IS_ADDR_LINKLOCAL(address) ? NULL : inet_ntop(AF_INET6, address, text, INET6_ADDRSTRLEN);
    }
    return NULL;
}

static void write_card(struct cw_meet *meet)
{
    char system[64], host[128] = "unknown", text[INET6_ADDRSTRLEN];
    struct ifaddrs *items = NULL;
    int length = 0;

    read_system(system);
    gethostname(host, sizeof(host) - 1);
    host[strcspn(host, " \t")] = '\0';
    for (size_t i = 0; i < sizeof(meet->token); i++) {
        length += snprintf(meet->card + length, 3, "%02x", meet->token[i]);
    }
    length += snprintf(meet->card + length, sizeof(meet->card) - (size_t)length, " %s %s %u", system,
                       *host != '\0' ? host : "unknown", cw_oob_port(meet->listener));
    if (getifaddrs(&items) != 0) {
        return;
    }
    for (const struct ifaddrs *item = items; item != NULL; item = item->ifa_next) {
        const char *address = address_text(item, text);
        if (address != NULL && (size_t)length + strlen(address) + 2 < sizeof(meet->card)) {
            length += snprintf(meet->card + length, sizeof(meet->card) - (size_t)length, " %s", address);
        }
    }
    freeifaddrs(items);
}

int cw_meet_open(struct cw_meet *meet)
{
    *meet = (struct cw_meet){.listener = cw_oob_listen(AF_INET6, 0)};
    if (meet->listener < 0) {
        meet->listener = cw_oob_listen(AF_INET, 0);
    }
    if (meet->listener < 0) {
        return -1;
    }
    if (getrandom(meet->token, sizeof(meet->token), 0) != sizeof(meet->token)) {
        int error = errno;
        cw_meet_close(meet);
        return cw_oob_fail("no random numbers: %s", strerror(error));
    }
    write_card(meet);
    return 0;
}

int cw_meet_accept(struct cw_meet *meet, struct cw_oob *oob, int timeout_ms)
{
    *oob = (struct cw_oob){.fd = -1};
    memcpy(oob->token, meet->token, sizeof(oob->token));
    return cw_oob_accept_at(oob, meet->listener, timeout_ms, timeout_ms, false);
}

static int read_card(const char *text, struct card *card)
{
    if (sscanf(text, "%32s %63s %127s %u%n", card->token, card->system, card->host, &card->port, &card->rest) != 4 ||
        card->port == 0 || card->port > 65535 || strspn(card->token, "0123456789abcdef") != 32) {
        return cw_oob_fail("the address file of another process is invalid");
    }
    return 0;
}

void cw_meet_host(const char *text, char *host, size_t room)
{
    struct card card;

    snprintf(host, room, "%s", read_card(text, &card) == 0 ? card.host : "unknown");
}

static int try_address(const struct card *card, struct cw_oob *oob, const char *address, int timeout_ms)
{
    *oob = (struct cw_oob){.fd = -1};
    for (size_t i = 0; i < sizeof(oob->token); i++) {
        unsigned byte;
        sscanf(card->token + 2 * i, "%2x", &byte);
        oob->token[i] = (uint8_t)byte;
    }
    return cw_oob_connect(oob, strchr(address, ':') != NULL ? AF_INET6 : AF_INET, address, card->port,
                          timeout_ms < TRY_MS ? timeout_ms : TRY_MS);
}

int cw_meet_connect(const char *text, struct cw_oob *oob, int timeout_ms)
{
    struct card card;
    char system[64], rest[CW_MEET_CARD], tried[256];
    char *at = rest, *address;

    if (read_card(text, &card) != 0) {
        return -1;
    }
    read_system(system);
    if (strcmp(system, card.system) == 0 && try_address(&card, oob, "127.0.0.1", timeout_ms) == 0) {
        return 0;
    }
    cw_oob_fail("it has only loopback addresses");
    snprintf(rest, sizeof(rest), "%s", text + card.rest);
    while ((address = strsep(&at, " ")) != NULL) {
        if (*address != '\0' && try_address(&card, oob, address, timeout_ms) == 0) {
            return 0;
        }
    }
    snprintf(tried, sizeof(tried), "%s", cw_oob_error());
    return cw_oob_fail("the process on %s cannot be reached at any of its addresses (%s): %s", card.host,
                       text + card.rest, tried);
}

void cw_meet_close(struct cw_meet *meet)
{
    if (meet->listener >= 0) {
        close(meet->listener);
    }
    meet->listener = -1;
}
