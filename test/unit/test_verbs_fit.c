/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The settings of the verbs transport, fitted to a port.
 */
#include "runner.h"
#include "config/config.h"
#include "transport/verbs/verbs_device.h"

/* The place of a request is the remainder of its number, which has 32 bits: the place behind that of number 2^32 - 1 is
 * place 0, whatever is asked for and whatever the device has. */
TEST(test_places_divide_the_numbers)
{
    static const unsigned most[] = {16, 17, 100, 128, 255, 1000, 4096, 16351, 32768};
    struct cw_verbs_settings settings;
    struct cw_verbs_port port;

    for (unsigned asked = 16; asked <= 4096; asked++) {
        for (size_t i = 0; i < sizeof(most) / sizeof(most[0]); i++) {
            settings = (struct cw_verbs_settings){.sends = asked};
            port = (struct cw_verbs_port){.max_sends = most[i], .max_completions = 1 << 20};
            cw_verbs_settings_fit(&settings, &port);
            assert_in_range(settings.sends, 16, (asked < most[i]) ? asked : most[i]);
            assert_true(2 * settings.sends > ((asked < most[i]) ? asked : most[i]));
            assert_int_equal((UINT32_MAX % settings.sends + 1) % settings.sends, 0);
        }
    }
}
