/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The alias table of UCX_TLS.
 */
#include "config/tls.h"

#include <string.h>

/* Only aliases with a member that exists here. All names of UCX for RDMA, for connections (rc), datagrams (ud), or
 * vendor-specific ones (dc, srd, and names in mlx5 and _x), select the transport verbs. */
static const struct {
    const char *alias;
    const char *members[6];
} aliases[] = {
    {"ib", {"verbs", NULL}},
    {"rc", {"verbs", NULL}},
    {"rc_v", {"verbs", NULL}},
    {"rc_verbs", {"verbs", NULL}},
    {"rc_x", {"verbs", NULL}},
    {"rc_mlx5", {"verbs", NULL}},
    {"ud", {"verbs", NULL}},
    {"ud_v", {"verbs", NULL}},
    {"ud_verbs", {"verbs", NULL}},
    {"ud_x", {"verbs", NULL}},
    {"ud_mlx5", {"verbs", NULL}},
    {"dc", {"verbs", NULL}},
    {"dc_x", {"verbs", NULL}},
    {"dc_mlx5", {"verbs", NULL}},
    {"srd", {"verbs", "ofi", NULL}},
    {"sm", {"posix", "sysv", "xpmem", "knem", "cma", NULL}},
    {"shm", {"posix", "sysv", "xpmem", "knem", "cma", NULL}},
    {"mm", {"posix", "sysv", "xpmem", NULL}},
    {"efa", {"ofi", NULL}},
    {"cxi", {"ofi", NULL}},
    {"opx", {"ofi", NULL}},
    {"psm3", {"ofi", NULL}},
    {"cuda", {"cuda_copy", "cuda_ipc", "gdr_copy", NULL}},
    {"rocm", {"rocm_copy", "rocm_ipc", "rocm_gdr", NULL}},
};

static const char *const memory_family[] = {"posix", "sysv", "xpmem", "knem", "cma", NULL};
static const char *const rdma_family[] = {"gga_mlx5", "rc_gda", NULL};
/* If one of the other RDMA names is excluded, UCX still has its connections by verbs. */
static const char *const connections[] = {"verbs", "ib", "rc", "rc_v", "rc_verbs", NULL};
static const char *const cuda_family[] = {"cuda_copy", "cuda_ipc", "gdr_copy", NULL};
static const char *const rocm_family[] = {"rocm_copy", "rocm_ipc", "rocm_gdr", NULL};

static int listed(const char *name, const char *const *list)
{
    for (; *list != NULL; list++) {
        if (strcmp(name, *list) == 0) {
            return 1;
        }
    }
    return 0;
}

/* A leading backslash keeps a name from being an alias. An entry that is only auxiliary selects no transport for
 * messages. */
static int stands_for(const char *entry, const char *transport)
{
    size_t i;

    if (entry[0] == '\\') {
        return strcmp(entry + 1, transport) == 0;
    }
    for (i = 0; i < sizeof(aliases) / sizeof(aliases[0]); i++) {
        if (strcmp(entry, aliases[i].alias) == 0 && listed(transport, aliases[i].members)) {
            return 1;
        }
    }
    return strcmp(entry, transport) == 0;
}

int cw_plan_tls_selects(const char *entry, const char *transport)
{
    return stands_for(entry, transport) || (strcmp(transport, "posix") == 0 && stands_for(entry, "sysv"));
}

/* ofi without one of its providers still has the others, so it reads the list itself. */
int cw_plan_tls_excludes(const char *entry, const char *transport)
{
    if (strcmp(transport, "verbs") == 0 && !listed(entry + (entry[0] == '\\'), connections)) {
        return 0;
    }
    return (strcmp(transport, "ofi") == 0) ? strcmp(entry + (entry[0] == '\\'), transport) == 0
                                           : stands_for(entry, transport);
}

int cw_plan_tls_covered(const char *entry, const char *transport)
{
    const char *suffix = strchr(entry, ':');

    return (suffix != NULL && strcmp(suffix, ":aux") == 0) ||
           (strcmp(transport, "posix") == 0 && listed(entry + (entry[0] == '\\'), memory_family)) ||
           (strcmp(transport, "verbs") == 0 && listed(entry + (entry[0] == '\\'), rdma_family)) ||
           (strcmp(transport, "cuda_copy") == 0 && listed(entry + (entry[0] == '\\'), cuda_family)) ||
           (strcmp(transport, "rocm_copy") == 0 && listed(entry + (entry[0] == '\\'), rocm_family));
}

bool cw_plan_tls_asks_otherwise(const char *entry)
{
    static const char *const others[] = {"ud", "ud_v", "ud_verbs", "ud_x", "ud_mlx5",
                                         "dc", "dc_x", "dc_mlx5",  "srd",  NULL};

    return listed(entry, others);
}

const char *cw_plan_tls_aliases(const char *transport)
{
    if (strcmp(transport, "ofi") == 0) {
        return "ofi, efa, cxi, opx, psm3";
    }
    if (strcmp(transport, "verbs") == 0) {
        return "dc, ib, rc, srd, ud, verbs";
    }
    return (strcmp(transport, "posix") == 0) ? "mm, posix, shm, sm" : transport;
}
