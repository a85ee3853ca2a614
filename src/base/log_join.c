/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The weak references from libucp to libucs (base/log_join.h). UCX's libucs has only the public one. All stay empty in
 * a statically linked program that uses none of the functions behind them: both logs then work independently.
 */
#include "base/log_join.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucs/debug/log_def.h>

#include "base/log.h"
#include "compat/ucs/share.h"

#pragma weak ucs_cw_log_offer
#pragma weak ucs_cw_log_tell
#pragma weak ucs_cw_log_tell_file
#pragma weak ucs_cw_options_changes
#pragma weak ucs_cw_option_since
#pragma weak ucs_log_dispatch

static int offer(const char *file, unsigned line, const char *function, enum cw_log_level level, const char *format,
                 va_list args)
{
    return ucs_cw_log_offer(file, line, function, (int)level, format, args);
}

/* UCX's libucs prints the record, too: two writers of one log file would overwrite each other's lines. It cuts long
 * texts and writes control characters as they are. */
static int give_ucx(const char *file, unsigned line, const char *function, enum cw_log_level level, const char *format,
                    va_list args)
{
    ucs_log_component_config_t component = {.log_level = UCS_LOG_LEVEL_LAST, .name = "UCX", .file_filter = "*"};
    char *text, *rest, *letter;

    if (vasprintf(&text, format, args) < 0) {
        return 0;
    }
    for (letter = text; *letter != '\0'; letter++) {
        if (((unsigned char)*letter < ' ' && *letter != '\n' && *letter != '\t') || *letter == 0x7f) {
            *letter = '?';
        }
    }
    rest = text;
    do {
        letter = strsep(&rest, "\n");
        ucs_log_dispatch(file, line, function, (ucs_log_level_t)level, &component, "%s", letter);
    } while (rest != NULL && *rest != '\0');
    free(text);
    return 1;
}

void cw_log_join(void)
{
    if (ucs_cw_log_offer != NULL) {
        cw_log_offer_interceptor(offer);
    } else if (ucs_log_dispatch != NULL) {
        cw_log_offer_interceptor(give_ucx);
    }
}

void cw_log_join_level(int level, const char *filter)
{
    if (ucs_cw_log_tell != NULL) {
        ucs_cw_log_tell(level, filter);
    }
}

void cw_log_join_file(const char *pattern, uint64_t max_size, unsigned rotate)
{
    if (ucs_cw_log_tell_file != NULL) {
        ucs_cw_log_tell_file(pattern, max_size, rotate);
    }
}

unsigned cw_log_join_changes(void)
{
    return (ucs_cw_options_changes != NULL) ? ucs_cw_options_changes() : 0;
}

char *cw_log_join_option(const char *name, unsigned since)
{
    return (ucs_cw_option_since != NULL) ? ucs_cw_option_since(name, since) : NULL;
}
