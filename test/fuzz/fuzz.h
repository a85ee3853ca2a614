/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the fuzz targets share. Each is a libFuzzer program: any bytes may come, and nothing may crash, leak or hang.
 */
#ifndef CW_FUZZ_H
#define CW_FUZZ_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <ucp/api/ucp.h>

#include "base/log.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define fuzz_check(condition)  \
    do {                       \
        if (!(condition)) {    \
            __builtin_trap();  \
        }                      \
    } while (0)

static inline int fuzz_swallow(const char *file, unsigned line, const char *function, enum cw_log_level level,
                               const char *format, va_list args)
{
    char text[1024];

    (void)file;
    (void)line;
    (void)function;
    (void)level;
    (void)vsnprintf(text, sizeof(text), format, args); /* the arguments are looked at, too */
    return 1;
}

/* One worker for the whole run. */
static inline ucp_worker_h fuzz_worker(const char *transports)
{
    static ucp_worker_h worker;
    ucp_params_t params               = {.field_mask = UCP_PARAM_FIELD_FEATURES, .features = UCP_FEATURE_TAG};
    ucp_worker_params_t worker_params = {.field_mask = 0};
    static ucp_context_h context;

    if (worker == NULL) {
        cw_log_set_interceptor(fuzz_swallow);
        fuzz_check(setenv("UCX_TLS", transports, 1) == 0);
        fuzz_check(ucp_init(&params, NULL, &context) == UCS_OK);
        fuzz_check(ucp_worker_create(context, &worker_params, &worker) == UCS_OK);
    }
    return worker;
}

#endif
