/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The names of UCX_TLS (config/tls.h; VAR-1, VAR-2, VAR-3) as one table: entry, transport, whether the entry lets it be
 * used, whether ^entry takes it out, and whether the entry needs no warning though it selects nothing.
 */
#include <stdlib.h>
#include <string.h>

#include "runner.h"
#include "config/config.h"
#include "config/tls.h"
#include "core/context.h"

static const struct {
    const char *entry;
    const char *transport;
    int selects, excludes, covered;
} table[] = {
    /* plain names */
    {"tcp", "tcp", 1, 1, 0},
    {"tcp", "self", 0, 0, 0},
    {"tcp", "posix", 0, 0, 0},
    {"self", "self", 1, 1, 0},
    {"self", "tcp", 0, 0, 0},
    {"posix", "posix", 1, 1, 1},
    {"posix", "tcp", 0, 0, 0},
    {"sim", "sim", 1, 1, 0},

    /* names are compared whole and as they are written */
    {"tc", "tcp", 0, 0, 0},
    {"tcpx", "tcp", 0, 0, 0},
    {"TCP", "tcp", 0, 0, 0},
    {" tcp", "tcp", 0, 0, 0},
    {"", "tcp", 0, 0, 0},
    {"", "posix", 0, 0, 0},
    {"smx", "posix", 0, 0, 0},
    {"s", "posix", 0, 0, 0},

    /* aliases (VAR-2); a negated one removes all members (VAR-3) */
    {"sm", "posix", 1, 1, 0},
    {"shm", "posix", 1, 1, 0},
    {"mm", "posix", 1, 1, 0},
    {"sm", "tcp", 0, 0, 0},
    {"sm", "self", 0, 0, 0},
    {"mm", "tcp", 0, 0, 0},
    {"ib", "tcp", 0, 0, 0},
    {"ib", "posix", 0, 0, 0},
    {"dc_x", "tcp", 0, 0, 0},
    {"srd", "tcp", 0, 0, 0},

    /* all names for RDMA mean the transport for it; without the names of others than its own it stays */
    {"verbs", "verbs", 1, 1, 0},
    {"ib", "verbs", 1, 1, 0},
    {"rc", "verbs", 1, 1, 0},
    {"rc_v", "verbs", 1, 1, 0},
    {"rc_verbs", "verbs", 1, 1, 0},
    {"rc_x", "verbs", 1, 0, 0},
    {"rc_mlx5", "verbs", 1, 0, 0},
    {"ud", "verbs", 1, 0, 0},
    {"ud_v", "verbs", 1, 0, 0},
    {"ud_verbs", "verbs", 1, 0, 0},
    {"ud_x", "verbs", 1, 0, 0},
    {"ud_mlx5", "verbs", 1, 0, 0},
    {"dc", "verbs", 1, 0, 0},
    {"dc_x", "verbs", 1, 0, 0},
    {"dc_mlx5", "verbs", 1, 0, 0},
    {"srd", "verbs", 1, 0, 0},
    {"srd", "ofi", 1, 0, 0},
    {"gga_mlx5", "verbs", 0, 0, 1},
    {"rc_gda", "verbs", 0, 0, 1},
    {"\\rc", "verbs", 0, 0, 0},
    {"\\verbs", "verbs", 1, 1, 0},
    {"rc_", "verbs", 0, 0, 0},
    {"dc_verbs", "verbs", 0, 0, 0},
    {"cuda", "self", 0, 0, 0},
    {"cuda", "cuda_copy", 1, 1, 0},
    {"rocm", "rocm_copy", 1, 1, 0},
    {"rocm", "rocm_ipc", 1, 1, 0},
    {"rocm", "cuda_copy", 0, 0, 0},
    {"cuda", "rocm_copy", 0, 0, 0},
    {"rocm_gdr", "rocm_copy", 0, 0, 1},

    /* shared memory is one transport here: sysv asks for it, but ^sysv leaves posix */
    {"sysv", "posix", 1, 0, 1},
    {"sysv", "tcp", 0, 0, 0},
    {"\\sysv", "posix", 1, 0, 1},

    /* what the reference has beside shared memory: selects nothing, and no warning is due where posix is there */
    {"cma", "posix", 0, 0, 1},
    {"knem", "posix", 0, 0, 1},
    {"xpmem", "posix", 0, 0, 1},
    {"\\cma", "posix", 0, 0, 1},
    {"cma", "tcp", 0, 0, 0},

    /* copies between processes are allowed by their name and the aliases that hold it, and go with these */
    {"cma", "cma", 1, 1, 0},
    {"sm", "cma", 1, 1, 0},
    {"shm", "cma", 1, 1, 0},
    {"\\cma", "cma", 1, 1, 0},
    {"mm", "cma", 0, 0, 0},
    {"posix", "cma", 0, 0, 0},
    {"sysv", "cma", 0, 0, 0},
    {"tcp", "cma", 0, 0, 0},

    /* providers of libfabric select it; without one of them the others stay */
    {"ofi", "ofi", 1, 1, 0},
    {"efa", "ofi", 1, 0, 0},
    {"cxi", "ofi", 1, 0, 0},
    {"opx", "ofi", 1, 0, 0},
    {"psm3", "ofi", 1, 0, 0},
    {"\\efa", "ofi", 0, 0, 0},
    {"tcp", "ofi", 0, 0, 0},
    {"efa", "tcp", 0, 0, 0},
    {"\\sm", "cma", 0, 0, 0},

    /* a backslash makes a name literal (VAR-1) */
    {"\\tcp", "tcp", 1, 1, 0},
    {"\\posix", "posix", 1, 1, 1},
    {"\\sm", "posix", 0, 0, 0},
    {"\\shm", "posix", 0, 0, 0},
    {"\\mm", "posix", 0, 0, 0},
    {"\\\\tcp", "tcp", 0, 0, 0},
    {"\\", "tcp", 0, 0, 0},

    /* auxiliary only carries no messages (VAR-1) */
    {"tcp:aux", "tcp", 0, 0, 1},
    {"posix:aux", "posix", 0, 0, 1},
    {"sm:aux", "posix", 0, 0, 1},
    {"ud:aux", "tcp", 0, 0, 1},
    {"\\tcp:aux", "tcp", 0, 0, 1},
    {"tcp:auxiliary", "tcp", 0, 0, 0},
    {"tcp:", "tcp", 0, 0, 0},
    {"tcp:main", "tcp", 0, 0, 0},
};

static void compare(size_t row, const char *what, int expected, int found)
{
    if (!expected != !found) {
        fail_msg("'%s' %s '%s': %d instead of %d", table[row].entry, what, table[row].transport, found, expected);
    }
}

TEST(the_table_holds)
{
    size_t i;

    for (i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        compare(i, "selects", table[i].selects, cw_plan_tls_selects(table[i].entry, table[i].transport));
        compare(i, "excludes", table[i].excludes, cw_plan_tls_excludes(table[i].entry, table[i].transport));
        compare(i, "covers", table[i].covered, cw_plan_tls_covered(table[i].entry, table[i].transport));
    }
}

/* A warning advises these names: each must help. */
TEST(the_aliases_of_a_warning_select)
{
    static const char *const transports[] = {"posix", "tcp", "self", "sim", "verbs", "ofi"};
    char text[64], *name, *rest;
    unsigned names = 0;
    size_t i;

    for (i = 0; i < sizeof(transports) / sizeof(transports[0]); i++) {
        assert_true(strlen(cw_plan_tls_aliases(transports[i])) < sizeof(text));
        strcpy(text, cw_plan_tls_aliases(transports[i]));
        assert_non_null(strstr(text, transports[i]));
        for (name = strtok_r(text, ", ", &rest); name != NULL; name = strtok_r(NULL, ", ", &rest)) {
            assert_true(cw_plan_tls_selects(name, transports[i]));
            names++;
        }
    }
    assert_int_equal(names, 18);
}

/* Whether shared memory may copy between processes. */
TEST(copies_between_processes_follow_the_list)
{
    static const struct {
        const char *tls;
        int allowed;
    } lists[] = {{"all", 1}, {"shm", 1}, {"sm,self", 1}, {"posix,cma", 1}, {"self,tcp,posix", 0}, {"mm", 0},
                 {"^cma", 0}, {"^tcp", 1}, {"^knem,xpmem", 1}};
    const ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES, .features = UCP_FEATURE_TAG};
    struct ucp_context *context;
    struct cw_config *config;
    size_t i;

    for (i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        assert_int_equal(cw_config_read(NULL, NULL, &config), UCS_OK);
        assert_int_equal(cw_config_modify(config, "TLS", lists[i].tls), UCS_OK);
        assert_int_equal(cw_context_new(&params, config, &context), UCS_OK);
        if (cw_context_allows(context, "cma") != lists[i].allowed) {
            fail_msg("UCX_TLS=%s allows copies, or should do so", lists[i].tls);
        }
        cw_context_end(context);
        cw_config_free(config);
    }
}
