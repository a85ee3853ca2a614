/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Providers that deviate from their fi_info or from libfabric's manual, by name, since nothing else identifies them.
 * docs/reference/libfabric.md describes how each was observed.
 */
#include "transport/ofi/ofi_domain.h"

#include <string.h>

static const struct {
    const char *name; /* substring of the provider's name */
    unsigned quirks;
    uint32_t until; /* first provider version without the quirk; 0: none */
} table[] = {
    {"tcp;ofi_rxm", CW_OFI_FREES_TWICE, FI_VERSION(117, 10)},
    {"ofi_rxm", CW_OFI_DELIVERS_LATE | CW_OFI_SHARES_BREAK | CW_OFI_EAGER_16K, 0},
    {"ofi_rxd", CW_OFI_HIDES_REFUSALS | CW_OFI_SHORT_PACKETS | CW_OFI_NAMELESS_INJECT | CW_OFI_LOSES_EXCESS |
                    CW_OFI_MISNAMES_SOURCE, 0},
    {"shm", CW_OFI_HIDES_REFUSALS | CW_OFI_SHORT_PACKETS | CW_OFI_FEARS_THE_CLOSED | CW_OFI_LEAVES_RECEIVES |
                CW_OFI_MISNAMES_SOURCE, 0},
    {"sockets", CW_OFI_LOSES_UNPOSTED, 0},
};

unsigned cw_ofi_quirks(const struct fi_info *info)
{
    unsigned quirks = 0;
    size_t i;

    for (i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        if (strstr(info->fabric_attr->prov_name, table[i].name) != NULL &&
            (table[i].until == 0 || info->fabric_attr->prov_version < table[i].until)) {
            quirks |= table[i].quirks;
        }
    }
    return quirks;
}
