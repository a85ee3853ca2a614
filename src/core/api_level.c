/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table from numbers to meanings, by API level.
 */
#include "core/api_level.h"

#include "mem/md.h"
#include "ucp/api/ucp_version.h"

struct cw_api_level cw_api_level_of(unsigned major, unsigned minor)
{
    struct cw_api_level level = {.unknown = UCS_MEMORY_TYPE_UNKNOWN};

    if (major > UCP_API_MAJOR || (major == UCP_API_MAJOR && minor >= 21)) {
        level.has_remote = (major > UCP_API_MAJOR || minor >= 22);
        level.has_device = (major > UCP_API_MAJOR || minor >= 23);
        return level;
    }
    if (major < UCP_API_MAJOR || minor < 10) {
        level.is_vague = 1;
    } else if (minor < 16) {
        level.unknown = UCS_MEMORY_TYPE_RDMA;
    } else if (minor < 17) {
        level.unknown = UCS_MEMORY_TYPE_ZE_HOST;
    } else {
        level.unknown = UCS_MEMORY_TYPE_GAUDI;
    }
    return level;
}

ucs_memory_type_t cw_api_memory_type(const struct cw_api_level *level, unsigned number, uint64_t present)
{
    if (number == level->unknown) {
        return UCS_MEMORY_TYPE_UNKNOWN;
    }
    if (level->is_vague && number < UCS_MEMORY_TYPE_LAST && !(present & CW_MEMORY_BIT(number))) {
        return UCS_MEMORY_TYPE_UNKNOWN;
    }
    return (ucs_memory_type_t)number;
}
