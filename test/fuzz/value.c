/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Values of settings: two bytes choose the setting, the rest is the text. What is accepted can be printed and copied.
 */
#include "fuzz.h"

#include <stdio.h>

#include "config/config.h"

#define CW_SETTING(member, ctype, name, type, words, text, group, flags, description) name,
#define CW_NAME(name, text, group, flags) #name,
static const char *const names[] = {
#include "config/config.def"
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static FILE *nowhere;
    struct cw_config *config, *clone;
    char text[300];

    if (size < 2 || size - 2 >= sizeof(text)) {
        return 0;
    }
    cw_log_set_interceptor(fuzz_swallow);
    if (nowhere == NULL) {
        nowhere = fopen("/dev/null", "w");
        fuzz_check(nowhere != NULL);
    }
    memcpy(text, data + 2, size - 2);
    text[size - 2] = '\0';
    fuzz_check(cw_config_read(NULL, NULL, &config) == UCS_OK);
    if (cw_config_modify(config, names[(data[0] | (data[1] << 8)) % (sizeof(names) / sizeof(names[0]))], text) ==
        UCS_OK) {
        (void)cw_config_validate(config);
        cw_config_print_groups(config, nowhere, "fuzz", UCS_CONFIG_PRINT_CONFIG, CW_GROUPS_ALL);
        fuzz_check(cw_config_clone(config, &clone) == UCS_OK);
        cw_config_free(clone);
    }
    cw_config_free(config);
    return 0;
}
