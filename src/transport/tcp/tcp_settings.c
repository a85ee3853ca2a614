/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The only place where the TCP transport reads the configuration (VAR-70 .. VAR-72).
 */
#include "transport/tcp/tcp.h"

#include <string.h>

#include "base/string.h"
#include "config/config.h"

#define MIN_SEG_SIZE 1024u
#define NS_PER_S     UINT64_C(1000000000)

static size_t clamp(size_t value, size_t low, size_t high)
{
    return (value < low) ? low : (value > high) ? high : value;
}

/* 0 for auto and inf: the system chooses the size. */
static size_t buffer_size(size_t value)
{
    return (value == CW_MEMUNITS_AUTO || value == CW_MEMUNITS_INF) ? 0 : value;
}

/* Times of the system's probes, which are whole seconds. auto: the given part of the whole time; otherwise at most
 * that. */
static unsigned seconds(uint64_t value_ns, uint64_t whole_ns, unsigned part)
{
    const uint64_t most_s = clamp(whole_ns / part / NS_PER_S, 1, 32767);

    return (unsigned)((value_ns == CW_TIME_AUTO) ? most_s : clamp((value_ns + NS_PER_S - 1) / NS_PER_S, 1, most_s));
}

static unsigned count(uint64_t value, unsigned max)
{
    return (value == CW_ULUNITS_AUTO) ? 0 : (unsigned)clamp(value, 1, max);
}

/* Limits for connections that are not watched and have nothing in progress: they are given up as late as the system
 * gives up others. */
#define KEEPALIVE_IDLE_S     300u
#define KEEPALIVE_INTERVAL_S 60u
#define KEEPALIVE_COUNT      10u

/* A peer must be known to be dead after it was silent for the interval: half of it passes before the first probe. */
static void load_keepalive(const struct cw_config *config, struct cw_tcp_settings *settings)
{
    struct cw_net_keepalive *keepalive = &settings->keepalive;
    const uint64_t interval_ns         = clamp(config->keepalive_interval_ns, NS_PER_S, 32767 * NS_PER_S);
    uint64_t probing_s;

    if (config->keepalive_interval_ns == CW_TIME_INF) {
        return;
    }
    settings->silence_ns = interval_ns;
    if (config->tcp_keepidle_ns == CW_TIME_INF) {
        return;
    }
    settings->socket.keepalive = (struct cw_net_keepalive){KEEPALIVE_IDLE_S, KEEPALIVE_INTERVAL_S, KEEPALIVE_COUNT};
    keepalive->idle_s     = seconds(config->tcp_keepidle_ns, interval_ns, 2);
    keepalive->interval_s = seconds(config->tcp_keepintvl_ns, interval_ns, 10);
    probing_s             = interval_ns / NS_PER_S - clamp(keepalive->idle_s, 0, interval_ns / NS_PER_S);
    keepalive->count      = (config->tcp_keepcnt != CW_ULUNITS_AUTO) ? count(config->tcp_keepcnt, 127) :
                            (unsigned)clamp(probing_s / keepalive->interval_s, 2, 127);
}

void cw_tcp_settings_load(const struct cw_config *config, struct cw_tcp_settings *settings)
{
    const struct cw_name_list *families = &config->tcp_af_prio;
    struct cw_net_options *socket       = &settings->socket;
    unsigned i;

    *settings                = (struct cw_tcp_settings){0};
    settings->tx_seg_size    = clamp(config->tcp_tx_seg_size, MIN_SEG_SIZE, CW_TCP_PACKET_MAX);
    settings->rx_seg_size    = clamp(config->tcp_rx_seg_size, CW_TCP_PACKET_MAX, 16u << 20);
    settings->max_iov        = (unsigned)clamp(config->tcp_max_iov, 1, CW_TCP_MAX_IOV);
    settings->max_poll       = (unsigned)clamp(config->tcp_max_poll, 1, 1024);
    settings->lanes_on_loopback = config->max_rndv_rails > 2 || config->max_rma_rails > 2;
    settings->port_first     = (unsigned)clamp(config->tcp_port_range.first, 0, UINT16_MAX);
    settings->port_last      = (unsigned)clamp(config->tcp_port_range.last, 0, UINT16_MAX);
    settings->use_bridges    = config->tcp_bridge_enable;
    settings->prefer_default = config->tcp_prefer_default;
    settings->failure_level  = config->tcp_failure;
    settings->bandwidth_bps  = (config->tcp_max_bw_bps > 0) ? config->tcp_max_bw_bps : 2.2e9;
    settings->only_devices   = &config->net_devices;
    for (i = 0; i < config->net_devices.count; i++) {
        if (strcmp(config->net_devices.names[i], "all") == 0) {
            settings->only_devices = NULL;
        }
    }
    for (i = 0; i < families->count; i++) {
        settings->ipv6_first |= !settings->use_ipv4 && cw_string_equal_nocase(families->names[i], "inet6");
        settings->use_ipv4 |= cw_string_equal_nocase(families->names[i], "inet");
        settings->use_ipv6 |= cw_string_equal_nocase(families->names[i], "inet6");
    }
    if (!settings->use_ipv4 && !settings->use_ipv6) {
        settings->use_ipv4 = settings->use_ipv6 = 1;
    }
    socket->nodelay              = config->tcp_nodelay;
    socket->sndbuf               = buffer_size(config->tcp_sndbuf);
    socket->rcvbuf               = buffer_size(config->tcp_rcvbuf);
    socket->syn_retries          = count(config->tcp_syn_cnt, 127);
    settings->connect_timeout_ns = config->connect_timeout_ns;
    load_keepalive(config, settings);
}
