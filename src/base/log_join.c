/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The weak references from libucp to libucs (base/log_join.h). They stay empty beside another libucs, and in a program
 * that is linked statically and uses none of the functions behind them: both logs then work alone.
 */
#include "base/log_join.h"

#include <stddef.h>

#include "base/log.h"
#include "ucs/share.h"

#pragma weak ucs_cw_log_offer
#pragma weak ucs_cw_log_tell
#pragma weak ucs_cw_log_tell_file
#pragma weak ucs_cw_options_changes
#pragma weak ucs_cw_option_since

static int offer(const char *file, unsigned line, const char *function, enum cw_log_level level, const char *format,
                 va_list args)
{
    return ucs_cw_log_offer(file, line, function, (int)level, format, args);
}

void cw_log_join(void)
{
    if (ucs_cw_log_offer != NULL) {
        cw_log_offer_interceptor(offer);
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
