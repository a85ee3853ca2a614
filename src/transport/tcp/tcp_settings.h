/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The settings of the TCP transport in its own terms. Read once, when an iface is opened.
 */
#ifndef CW_TRANSPORT_TCP_TCP_SETTINGS_H
#define CW_TRANSPORT_TCP_TCP_SETTINGS_H

#include "os/net.h"
#include "transport/transport.h"

struct cw_tcp_settings {
    size_t tx_seg_size;
    size_t rx_seg_size;
    unsigned max_iov;
    unsigned max_poll;
    int lanes_on_loopback;        /* on loopback further lanes bring no gain, so they are made only if more than the
                                   * default number is set */
    unsigned port_first;          /* 0: any */
    unsigned port_last;
    int use_ipv4;
    int use_ipv6;
    int ipv6_first;
    int use_bridges;
    int prefer_default;
    int failure_level;            /* enum cw_log_level */
    uint64_t connect_timeout_ns;  /* for all candidates; CW_TIME_INF */
    double bandwidth_bps;
    uint64_t silence_ns;          /* a watched peer that is silent for this time is dead; 0: no peer is watched */
    struct cw_net_keepalive keepalive; /* of watched connections; other connections have socket.keepalive */
    const struct cw_name_list *only_devices; /* of the configuration; NULL: all may be used */
    struct cw_net_options socket;
};

void cw_tcp_settings_load(const struct cw_config *config, struct cw_tcp_settings *settings);

#endif
