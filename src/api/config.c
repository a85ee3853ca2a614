/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The configuration calls: a program's struct ucp_config is a struct cw_config.
 */
#include "api/call.h"
#include "base/list.h"
#include "base/log.h"
#include "config/config.h"

ucs_status_t ucp_config_read(const char *env_prefix, const char *filename, ucp_config_t **config_p)
{
    struct cw_config *config;
    ucs_status_t status;

    status = cw_config_read(env_prefix, filename, &config);
    if (status == UCS_OK) {
        *config_p = cw_container_of(config, struct ucp_config, settings);
    }
    return status;
}

void ucp_config_release(ucp_config_t *config)
{
    if (config != NULL) {
        cw_config_free(&config->settings);
    }
}

ucs_status_t ucp_config_modify(ucp_config_t *config, const char *name, const char *value)
{
    if (config == NULL) {
        cw_error("ucp_config_modify: the configuration is NULL");
        return UCS_ERR_INVALID_PARAM;
    }
    return cw_config_modify(&config->settings, name, value);
}

void ucp_config_print(const ucp_config_t *config, FILE *stream, const char *title,
                      ucs_config_print_flags_t print_flags)
{
    if (config == NULL || stream == NULL) {
        cw_error("ucp_config_print: the %s is NULL", (config == NULL) ? "configuration" : "stream");
        return;
    }
    cw_config_print(&config->settings, stream, title, print_flags);
}
