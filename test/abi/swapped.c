/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program that was built for UCX and pushes a log handler onto UCX's libucs, with our libucp in the place of UCX's.
 * Usage: swapped DIRECTORY, from which libucp must come. Run with UCX_TLS naming a transport `nonsense`, so that
 * libucp warns: the handler sees the record and keeps it.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucp/api/ucp.h>
#include <ucs/debug/log_def.h>

#include "must.h"

static int seen;

static ucs_log_func_rc_t handler(const char *file, unsigned line, const char *function, ucs_log_level_t level,
                                 const ucs_log_component_config_t *component, const char *message, va_list args)
{
    char text[1024];

    (void)file;
    (void)line;
    (void)function;
    must(strcmp(component->name, "UCX") == 0 && level <= UCS_LOG_LEVEL_WARN);
    vsnprintf(text, sizeof(text), message, args);
    seen += strstr(text, "'nonsense' is not available") != NULL;
    return UCS_LOG_FUNC_RC_STOP;
}

static int is_below(const void *function, const char *directory)
{
    Dl_info info;

    must(dladdr(function, &info) != 0);
    return strncmp(info.dli_fname, directory, strlen(directory)) == 0;
}

int main(int argc, char **argv)
{
    const ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES, .features = UCP_FEATURE_TAG};
    ucp_context_h context;
    ucp_config_t *config;

    must(argc == 2);
    must(is_below((void *)ucp_init_version, argv[1]));
    must(!is_below((void *)ucs_log_push_handler, argv[1]));
    must(strcmp(ucs_status_string(UCS_ERR_NO_ELEM), "No such element") == 0);
    ucs_log_push_handler(handler);
    must(ucp_config_read(NULL, NULL, &config) == UCS_OK);
    must(ucp_config_modify(config, "RNDV_THRESH", "64k") == UCS_OK);
    must(ucp_init(&params, config, &context) == UCS_OK);
    ucp_config_release(config);
    must(seen == 1);
    ucp_cleanup(context);
    ucs_log_pop_handler();
    return 0;
}
