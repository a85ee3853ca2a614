/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The functions of os/machine.h.
 */
#include "os/machine.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "os/env.h"

#define FILE_MAX ((size_t)1 << 20) /* sysfs files report one page as their size, of up to 64 KiB */

struct x86_model {
    uint16_t family;
    uint8_t first, last;
    const char *name;
};

static const struct x86_model intel_models[] = {
    {6, 0x1a, 0x1a, "Nehalem"},    {6, 0x1e, 0x1f, "Nehalem"},     {6, 0x2e, 0x2e, "Nehalem"},
    {6, 0x25, 0x25, "Westmere"},   {6, 0x2c, 0x2c, "Westmere"},    {6, 0x2f, 0x2f, "Westmere"},
    {6, 0x2a, 0x2a, "SandyBridge"}, {6, 0x2d, 0x2d, "SandyBridge"}, {6, 0x3a, 0x3a, "IvyBridge"},
    {6, 0x3e, 0x3e, "IvyBridge"},  {6, 0x3c, 0x3c, "Haswell"},     {6, 0x3f, 0x3f, "Haswell"},
    {6, 0x45, 0x46, "Haswell"},    {6, 0x3d, 0x3d, "Broadwell"},   {6, 0x47, 0x47, "Broadwell"},
    {6, 0x4f, 0x4f, "Broadwell"},  {6, 0x56, 0x56, "Broadwell"},   {6, 0x4e, 0x4e, "Skylake"},
    {6, 0x55, 0x55, "Skylake"},    {6, 0x5e, 0x5e, "Skylake"},     {6, 0x6a, 0x6a, "Icelake"},
    {6, 0x6c, 0x6c, "Icelake"},    {6, 0x7d, 0x7e, "Icelake"},     {6, 0xcf, 0xcf, "Emerald Rapids"},
    {0, 0, 0, NULL}};

static const struct x86_model amd_models[] = {{0x17, 0x00, 0x1f, "Naples"}, {0x17, 0x30, 0x3f, "Rome"},
                                              {0x19, 0x00, 0x0f, "Milan"},  {0x19, 0x10, 0x1f, "Genoa"},
                                              {0x1a, 0x00, 0x1f, "Turin"},  {0, 0, 0, NULL}};

static const struct x86_model zhaoxin_models[] = {
    {6, 0x19, 0x19, "Zhangjiang"}, {7, 0x1b, 0x1b, "Wudaokou"}, {7, 0x3b, 0x3b, "Lujiazui"}, {0, 0, 0, NULL}};

static const struct {
    char id[13];
    const char *name;
    const struct x86_model *models;
} x86_vendors[] = {{"GenuineIntel", "Intel", intel_models},
                   {"AuthenticAMD", "AMD", amd_models},
                   {"CentaurHauls", "Zhaoxin", zhaoxin_models},
                   {"  Shanghai  ", "Zhaoxin", zhaoxin_models}};

void cw_machine_name_x86(const char *vendor, unsigned family, unsigned model, struct cw_machine *machine)
{
    const struct x86_model *known;
    size_t i;

    machine->cpu_vendor = CW_MACHINE_UNKNOWN;
    machine->cpu_model = CW_MACHINE_UNKNOWN;
    for (i = 0; i < sizeof(x86_vendors) / sizeof(x86_vendors[0]); i++) {
        if (memcmp(vendor, x86_vendors[i].id, 12) != 0) {
            continue;
        }
        machine->cpu_vendor = x86_vendors[i].name;
        for (known = x86_vendors[i].models; known->name != NULL; known++) {
            if (family == known->family && model >= known->first && model <= known->last) {
                machine->cpu_model = known->name;
            }
        }
    }
}

void cw_machine_name_arm(uint64_t midr, struct cw_machine *machine)
{
    static const struct {
        uint8_t implementer;
        uint16_t part;
        const char *vendor, *model;
    } known[] = {{0x41, 0xd4f, "Nvidia", "Grace"},
                 {0x4e, 0x010, "Nvidia", "Vera"},
                 {0x46, 0x001, "Fujitsu ARM", "FUJITSU-A64FX"},
                 {0x46, 0x003, "Fujitsu ARM", "FUJITSU-MONAKA"}};
    size_t i;

    machine->cpu_vendor = "Generic ARM";
    machine->cpu_model = "ARM 64-bit";
    for (i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (((midr >> 24) & 0xff) == known[i].implementer && ((midr >> 4) & 0xfff) == known[i].part) {
            machine->cpu_vendor = known[i].vendor;
            machine->cpu_model = known[i].model;
        }
    }
}

/* The first line of a small file; "": there is none. */
static void read_line(const char *path, char *line, size_t size)
{
    size_t length;
    char *text;

    line[0] = '\0';
    if (cw_file_read(path, FILE_MAX, &text, &length) == UCS_OK) {
        text[strcspn(text, "\n")] = '\0';
        (void)snprintf(line, size, "%s", text);
        free(text);
    }
}

#if defined(__x86_64__)
static void read_vendor(char vendor[12])
{
    unsigned eax, ebx, ecx, edx;

    __cpuid(0, eax, ebx, ecx, edx);
    memcpy(vendor, &ebx, 4);
    memcpy(vendor + 4, &edx, 4);
    memcpy(vendor + 8, &ecx, 4);
}

static void name_cpu(struct cw_machine *machine)
{
    unsigned eax, ebx, ecx, edx, family, model;
    char vendor[12];

    read_vendor(vendor);
    if (__get_cpuid(1, &eax, &ebx, &ecx, &edx)) {
        family = (eax >> 8) & 0xf;
        model = (eax >> 4) & 0xf;
        model += (family == 6 || family == 7 || family == 15) ? ((eax >> 16) & 0xf) << 4 : 0;
        family += (family == 15) ? (eax >> 20) & 0xff : 0;
        cw_machine_name_x86(vendor, family, model, machine);
    }
}
#elif defined(__aarch64__)
static void name_cpu(struct cw_machine *machine)
{
    char line[64];

    read_line("/sys/devices/system/cpu/cpu0/regs/identification/midr_el1", line, sizeof(line));
    cw_machine_name_arm(strtoull(line, NULL, 16), machine);
}
#else
static void name_cpu(struct cw_machine *machine)
{
    (void)machine;
}
#endif

void cw_machine_read(struct cw_machine *machine)
{
    *machine = (struct cw_machine){.cpu_vendor = CW_MACHINE_UNKNOWN, .cpu_model = CW_MACHINE_UNKNOWN};
    name_cpu(machine);
    read_line("/sys/devices/virtual/dmi/id/product_name", machine->product, sizeof(machine->product));
    if (machine->product[0] == '\0') {
        (void)snprintf(machine->product, sizeof(machine->product), CW_MACHINE_UNKNOWN);
    }
}

/* A hypervisor emulates cpuid, which takes microseconds. */
bool cw_machine_is_amd(void)
{
#if defined(__x86_64__)
    static enum { UNKNOWN, NO, YES } is_amd;
    int known = __atomic_load_n(&is_amd, __ATOMIC_RELAXED);
    char vendor[12];

    if (known == UNKNOWN) {
        read_vendor(vendor);
        known = (memcmp(vendor, "AuthenticAMD", sizeof(vendor)) == 0) ? YES : NO;
        __atomic_store_n(&is_amd, known, __ATOMIC_RELAXED);
    }
    return known == YES;
#else
    return false;
#endif
}
