/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A set of processors, independent of the C library's own.
 * Callers: users of ucp_worker_params_t::cpu_mask. CPU numbers outside 0 .. UCS_CPU_SETSIZE - 1 are ignored.
 */
#ifndef UCS_TYPE_CPU_SET_H
#define UCS_TYPE_CPU_SET_H

#include <ucs/sys/compiler_def.h>

BEGIN_C_DECLS

/** One word of the set. */
typedef unsigned long ucs_cpu_mask_t;

/** Number of processors that a set can name. */
#define UCS_CPU_SETSIZE 1024

/** Number of processors in one word of the set. */
#define UCS_NCPUBITS (8 * sizeof(ucs_cpu_mask_t))

/** Index of the word that holds @a cpu, and the bit of @a cpu in that word. */
#define UCS_CPUELT(cpu)  ((cpu) / UCS_NCPUBITS)
#define UCS_CPUMASK(cpu) ((ucs_cpu_mask_t)1 << ((cpu) % UCS_NCPUBITS))

/** The set; bit (n mod 64) of word (n / 64) stands for processor n. */
typedef struct {
    ucs_cpu_mask_t ucs_bits[UCS_CPU_SETSIZE / (8 * sizeof(ucs_cpu_mask_t))];
} ucs_cpu_set_t;

/** Make the set empty. */
#define UCS_CPU_ZERO(cpusetp) ((void)__builtin_memset((cpusetp)->ucs_bits, 0, sizeof((cpusetp)->ucs_bits)))

/** Add @a cpu to the set. @a cpu is evaluated more than once. */
#define UCS_CPU_SET(cpu, cpusetp) \
    ((void)(((size_t)(cpu) < UCS_CPU_SETSIZE) && ((cpusetp)->ucs_bits[UCS_CPUELT((size_t)(cpu))] |= UCS_CPUMASK(cpu))))

/** Take @a cpu out of the set. @a cpu is evaluated more than once. */
#define UCS_CPU_CLR(cpu, cpusetp) \
    ((void)(((size_t)(cpu) < UCS_CPU_SETSIZE) && ((cpusetp)->ucs_bits[UCS_CPUELT((size_t)(cpu))] &= ~UCS_CPUMASK(cpu))))

/** 1 if @a cpu is in the set, else 0. */
static inline int ucs_cpu_is_set(int cpu, const ucs_cpu_set_t *cpusetp)
{
    if ((cpu < 0) || (cpu >= UCS_CPU_SETSIZE)) {
        return 0;
    }
    return (cpusetp->ucs_bits[UCS_CPUELT(cpu)] & UCS_CPUMASK(cpu)) != 0;
}

/** The lowest processor of the set; 0 if the set is empty. */
static inline int ucs_cpu_set_find_lcs(const ucs_cpu_set_t *cpu_mask)
{
    int cpu;

    for (cpu = 0; cpu < UCS_CPU_SETSIZE; ++cpu) {
        if (ucs_cpu_is_set(cpu, cpu_mask)) {
            return cpu;
        }
    }
    return 0;
}

/** 1 if no processor is in the set, else 0. */
static inline int ucs_cpu_set_is_empty(const ucs_cpu_set_t *cpusetp)
{
    size_t i;

    for (i = 0; i < sizeof(cpusetp->ucs_bits) / sizeof(cpusetp->ucs_bits[0]); ++i) {
        if (cpusetp->ucs_bits[i] != 0) {
            return 0;
        }
    }
    return 1;
}

END_C_DECLS

#endif
