/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Settings and their values (INF-5), by group, as the printer of the library writes them.
 *
 * Callers: main.c.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>

#include "config/config.h"
#include "config/global.h"
#include "say.h"
#include "show.h"

static const struct {
    enum cw_config_group group;
    const char *title;
} groups[] = {
    {CW_GROUP_GLOBAL, "Global configuration"},
    {CW_GROUP_CONTEXT, "UCP context configuration"},
    {CW_GROUP_SELF, "self transport configuration"},
    {CW_GROUP_POSIX, "posix transport configuration"},
    {CW_GROUP_SYSV, "sysv transport configuration"},
    {CW_GROUP_CMA, "cma configuration"},
    {CW_GROUP_TCP, "tcp transport configuration"},
    {CW_GROUP_IB, "verbs transport configuration"},
    {CW_GROUP_RC, "verbs transport's connections"},
};

_Static_assert(sizeof(groups) / sizeof(groups[0]) == CW_GROUP_COUNT, "every group has its place");

/* A heading only above settings, of which a filter may leave none. */
static void print_group(const struct cw_config *config, size_t index, unsigned flags, const char *filter)
{
    char *text = NULL;
    size_t size;
    FILE *stream;

    stream = open_memstream(&text, &size);
    if (stream == NULL) {
        return;
    }
    cw_config_print_part(config, stream, NULL, (ucs_config_print_flags_t)(flags & ~UCS_CONFIG_PRINT_HEADER),
                         1u << groups[index].group, filter);
    fclose(stream);
    if (size > 0 && (flags & UCS_CONFIG_PRINT_HEADER)) {
        cw_config_print_part(config, stdout, groups[index].title, UCS_CONFIG_PRINT_HEADER, 0, NULL);
    }
    fputs(text, stdout);
    free(text);
}

int cw_show_config(const struct cw_info_options *options)
{
    struct cw_config *config;
    size_t i;

    if (cw_config_global_init() != UCS_OK || cw_config_read(NULL, NULL, &config) != UCS_OK) {
        cw_say_error("cannot read the settings; see the preceding log lines");
        return CW_INFO_FAILED;
    }
    if (options->config_flags & UCS_CONFIG_PRINT_DOC) {
        cw_config_print_intro(stdout);
    }
    for (i = 0; i < sizeof(groups) / sizeof(groups[0]); i++) {
        print_group(config, i, options->config_flags, options->config_filter);
    }
    cw_config_free(config);
    return CW_INFO_OK;
}
