/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The names of this machine's processors and product, as in UCX: conditions in ucx.conf are compared with them.
 */
#ifndef CW_OS_MACHINE_H
#define CW_OS_MACHINE_H

#include <stdbool.h>
#include <stdint.h>

#define CW_MACHINE_UNKNOWN "unknown"

struct cw_machine {
    const char *cpu_vendor;
    const char *cpu_model;
    char product[128];
};

/* Each name is CW_MACHINE_UNKNOWN if it cannot be determined. Reads files. */
void cw_machine_read(struct cw_machine *machine);

/* Whether the processor is of the x86 vendor AMD. Any thread. */
bool cw_machine_is_amd(void);

/* The names of a processor by its identification, `vendor` in 12 letters (x86). Pure. */
void cw_machine_name_x86(const char *vendor, unsigned family, unsigned model, struct cw_machine *machine);

/* The same by the register MIDR_EL1 (AArch64). Pure. */
void cw_machine_name_arm(uint64_t midr, struct cw_machine *machine);

#endif
