/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The names of processors that conditions of ucx.conf are compared with (N23-74).
 */
#include <string.h>

#include "runner.h"
#include "os/machine.h"

TEST(test_n23_74_processors_x86)
{
    static const struct {
        const char *vendor;
        unsigned family, model;
        const char *names[2];
    } known[] = {{"GenuineIntel", 6, 0x3f, {"Intel", "Haswell"}},
                 {"GenuineIntel", 6, 0x4f, {"Intel", "Broadwell"}},
                 {"GenuineIntel", 6, 0x55, {"Intel", "Skylake"}},
                 {"GenuineIntel", 6, 0xcf, {"Intel", "Emerald Rapids"}},
                 {"GenuineIntel", 15, 0x3f, {"Intel", "unknown"}},
                 {"AuthenticAMD", 0x17, 0x01, {"AMD", "Naples"}},
                 {"AuthenticAMD", 0x17, 0x31, {"AMD", "Rome"}},
                 {"AuthenticAMD", 0x19, 0x01, {"AMD", "Milan"}},
                 {"AuthenticAMD", 0x19, 0x11, {"AMD", "Genoa"}},
                 {"AuthenticAMD", 0x1a, 0x02, {"AMD", "Turin"}},
                 {"AuthenticAMD", 0x1b, 0x02, {"AMD", "unknown"}},
                 {"  Shanghai  ", 7, 0x3b, {"Zhaoxin", "Lujiazui"}},
                 {"CentaurHauls", 7, 0x1b, {"Zhaoxin", "Wudaokou"}},
                 {"SomeoneElses", 6, 0x3f, {"unknown", "unknown"}}};
    struct cw_machine machine;
    size_t i;

    for (i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        cw_machine_name_x86(known[i].vendor, known[i].family, known[i].model, &machine);
        assert_string_equal(machine.cpu_vendor, known[i].names[0]);
        assert_string_equal(machine.cpu_model, known[i].names[1]);
    }
}

TEST(test_n23_74_processors_arm)
{
    static const struct {
        uint64_t midr;
        const char *names[2];
    } known[] = {{0x410fd4f0, {"Nvidia", "Grace"}},
                 {0x461f0010, {"Fujitsu ARM", "FUJITSU-A64FX"}},
                 {0x413fd0c1, {"Generic ARM", "ARM 64-bit"}},
                 {0, {"Generic ARM", "ARM 64-bit"}}};
    struct cw_machine machine;
    size_t i;

    for (i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        cw_machine_name_arm(known[i].midr, &machine);
        assert_string_equal(machine.cpu_vendor, known[i].names[0]);
        assert_string_equal(machine.cpu_model, known[i].names[1]);
    }
}

/* On any machine each is a name, the last word too, whose file may be missing or have no line. */
TEST(test_n23_74_this_machine)
{
    struct cw_machine machine;

    memset(&machine, 0, sizeof(machine));
    cw_machine_read(&machine);
    assert_true(strlen(machine.cpu_vendor) > 0 && strlen(machine.cpu_model) > 0 && strlen(machine.product) > 0);
    assert_null(strchr(machine.product, '\n'));
}
