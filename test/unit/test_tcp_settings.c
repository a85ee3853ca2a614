/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the TCP transport makes of the settings about silent peers (VAR-40, VAR-72): the system's probes fit into
 * UCX_KEEPALIVE_INTERVAL, whatever the single numbers are, and inf turns them off.
 */
#include <limits.h>

#include "runner.h"
#include "config/config.h"
#include "config/value.h"
#include "transport/tcp/tcp.h"

#define S UINT64_C(1000000000)

static const struct keepalive_case {
    uint64_t interval_ns, idle_ns, probe_ns, count;
    uint64_t silence_ns;
    struct cw_net_keepalive expected;
} cases[] = {
    {20 * S, 10 * S, 2 * S, CW_ULUNITS_AUTO, 20 * S, {10, 2, 5}}, /* as it is by itself */
    {20 * S, CW_TIME_AUTO, CW_TIME_AUTO, CW_ULUNITS_AUTO, 20 * S, {10, 2, 5}},
    {60 * S, 10 * S, 2 * S, CW_ULUNITS_AUTO, 60 * S, {10, 2, 25}},
    {60 * S, CW_TIME_AUTO, CW_TIME_AUTO, CW_ULUNITS_AUTO, 60 * S, {30, 6, 5}},
    {20 * S, 60 * S, 60 * S, CW_ULUNITS_AUTO, 20 * S, {10, 2, 5}},
    {20 * S, 1, 1, 3, 20 * S, {1, 1, 3}},
    {20 * S, S * 3 / 2, S, CW_ULUNITS_AUTO, 20 * S, {2, 1, 18}},
    {1 * S, 10 * S, 2 * S, CW_ULUNITS_AUTO, 1 * S, {1, 1, 2}},
    {33, 10 * S, 2 * S, CW_ULUNITS_AUTO, 1 * S, {1, 1, 2}},
    {100000 * S, CW_TIME_AUTO, S, CW_ULUNITS_AUTO, 32767 * S, {16383, 1, 127}},
    {20 * S, CW_TIME_INF, 2 * S, CW_ULUNITS_AUTO, 20 * S, {0, 0, 0}},
    {CW_TIME_INF, 10 * S, 2 * S, 3, 0, {0, 0, 0}},
};

TEST(probes_fit_into_the_interval)
{
    struct cw_tcp_settings settings;
    struct cw_config config;
    size_t i;

    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        config = (struct cw_config){.connect_timeout_ns = 10 * S};
        config.keepalive_interval_ns = cases[i].interval_ns;
        config.tcp_keepidle_ns = cases[i].idle_ns;
        config.tcp_keepintvl_ns = cases[i].probe_ns;
        config.tcp_keepcnt = cases[i].count;
        cw_tcp_settings_load(&config, &settings);
        if (settings.silence_ns != cases[i].silence_ns ||
            settings.keepalive.idle_s != cases[i].expected.idle_s ||
            settings.keepalive.interval_s != cases[i].expected.interval_s ||
            settings.keepalive.count != cases[i].expected.count) {
            fail_msg("case %zu: %llu ns, probes after %u s, each %u s, %u of them", i,
                     (unsigned long long)settings.silence_ns, settings.keepalive.idle_s, settings.keepalive.interval_s,
                     settings.keepalive.count);
        }
    }
}

/* N23-73 */
TEST(test_n23_73_limits_for_unacknowledged_bytes)
{
    static const uint64_t values[][2] = {{CW_TIME_AUTO, 0}, {0, 0}, {1, 1}, {1000000, 1}, {1000001, 2}, {3 * S, 3000},
                                         {CW_TIME_INF, INT_MAX}, {UINT64_MAX - 2, INT_MAX}};
    struct cw_tcp_settings settings;
    struct cw_config config = {.connect_timeout_ns = 10 * S};
    size_t i;

    for (i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        config.tcp_user_timeout_ns = values[i][0];
        config.tcp_cm_user_timeout_ns = CW_TIME_AUTO;
        cw_tcp_settings_load(&config, &settings);
        assert_true(settings.socket.user_timeout_ms == values[i][1] && settings.cm_user_timeout_ms == 0);
        config.tcp_cm_user_timeout_ns = values[i][0];
        config.tcp_user_timeout_ns = CW_TIME_AUTO;
        cw_tcp_settings_load(&config, &settings);
        assert_true(settings.cm_user_timeout_ms == values[i][1] && settings.socket.user_timeout_ms == 0);
    }
}
