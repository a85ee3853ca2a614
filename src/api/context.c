/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Library version, library query and context calls.
 */
#include <string.h>

#include "api/call.h"
#include "config/global.h"
#include "core/context.h"
#include "msg/datatype.h"
#include "ucp/api/ucp_version.h"

#define RELEASE_NUMBER 0
#define TEXT_OF(x)     #x
#define TEXT(x)        TEXT_OF(x)

void ucp_get_version(unsigned *major_version, unsigned *minor_version, unsigned *release_number)
{
    *major_version = UCP_API_MAJOR;
    *minor_version = UCP_API_MINOR;
    *release_number = RELEASE_NUMBER;
}

const char *ucp_get_version_string(void)
{
    return TEXT(UCP_API_MAJOR) "." TEXT(UCP_API_MINOR) "." TEXT(RELEASE_NUMBER);
}

ucs_status_t ucp_lib_query(ucp_lib_attr_t *attr)
{
    if (attr->field_mask & UCP_LIB_ATTR_FIELD_MAX_THREAD_LEVEL) {
        attr->max_thread_level = UCS_THREAD_MODE_MULTI;
    }
    return UCS_OK;
}

ucs_status_t ucp_init_version(unsigned api_major_version, unsigned api_minor_version, const ucp_params_t *params,
                              const ucp_config_t *config, ucp_context_h *context_p)
{
    ucs_status_t status;

    cw_config_global_init(); /* the log level of ucx.conf must apply to the next line */
    if (api_major_version != UCP_API_MAJOR || api_minor_version > UCP_API_MINOR) {
        cw_warn("UCP API version is incompatible: required >= %u.%u, actual %s", api_major_version, api_minor_version,
                ucp_get_version_string());
    } else {
        cw_info("version %s of the UCP API serves a program built for %u.%u", ucp_get_version_string(),
                api_major_version, api_minor_version);
    }
    status = cw_context_new(params, (config == NULL) ? NULL : &config->settings, context_p);
    if (status == UCS_OK) {
        (*context_p)->api = cw_api_level_of(api_major_version, api_minor_version);
    }
    return status;
}

void ucp_cleanup(ucp_context_h context)
{
    CW_CALL_RETURN_IF_NULL(context, "context", );
    if (!cw_call_is_inherited(context, __func__)) {
        cw_context_end(context);
    }
}

ucs_status_t ucp_context_query(ucp_context_h context, ucp_context_attr_t *attr)
{
    CW_CALL_RETURN_IF_NULL(context, "context", UCS_ERR_INVALID_PARAM);
    if (attr->field_mask & UCP_ATTR_FIELD_REQUEST_SIZE) {
        attr->request_size = CW_REQUEST_SIZE;
    }
    if (attr->field_mask & UCP_ATTR_FIELD_THREAD_MODE) {
        attr->thread_mode = context->mt_workers_shared ? UCS_THREAD_MODE_MULTI : UCS_THREAD_MODE_SINGLE;
    }
    if (attr->field_mask & UCP_ATTR_FIELD_MEMORY_TYPES) {
        attr->memory_types = cw_context_memory_types(context);
    }
    if (attr->field_mask & UCP_ATTR_FIELD_NAME) {
        memcpy(attr->name, context->name, sizeof(attr->name));
    }
    if (attr->field_mask & UCP_ATTR_FIELD_DEVICE_COUNTER_SIZE) {
        attr->device_counter_size = CW_CALL_COUNTER_SIZE;
    }
    return UCS_OK;
}

void ucp_context_print_info(const ucp_context_h context, FILE *stream)
{
    CW_CALL_RETURN_IF_NULL(context, "context", );
    cw_context_print(context, stream);
}

ucs_status_t ucp_dt_create_generic(const ucp_generic_dt_ops_t *ops, void *context, ucp_datatype_t *datatype_p)
{
    return cw_dt_create_generic(ops, context, datatype_p);
}

void ucp_dt_destroy(ucp_datatype_t datatype)
{
    cw_dt_destroy(datatype);
}

ucs_status_t ucp_dt_query(ucp_datatype_t datatype, ucp_datatype_attr_t *attr)
{
    const void *buffer = (attr->field_mask & UCP_DATATYPE_ATTR_FIELD_BUFFER) ? attr->buffer : NULL;
    size_t count = (attr->field_mask & UCP_DATATYPE_ATTR_FIELD_COUNT) ? attr->count : 1;

    if (!(attr->field_mask & UCP_DATATYPE_ATTR_FIELD_PACKED_SIZE)) {
        return UCS_OK;
    }
    return cw_dt_packed_size(datatype, buffer, count, &attr->packed_size);
}
