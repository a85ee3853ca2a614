/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Branch hints, the pause of a spin loop, and the size of a cache line. The only place for such attributes.
 */
#ifndef CW_BASE_COMPILER_H
#define CW_BASE_COMPILER_H

#define cw_likely(x)   __builtin_expect(!!(x), 1)
#define cw_unlikely(x) __builtin_expect(!!(x), 0)

/* The compiler forgets what it knows of a pointer or an integer: later accesses use this one register and reload what
 * the pointer points to. */
#define CW_FORGET(value) __asm__("" : "+r"(value))

/* A parameter that a function has only because its function type requires it. */
#define CW_UNUSED __attribute__((unused))

/* For functions that are inlined at several places: a constant argument removes most of the code. */
#define CW_INLINE inline __attribute__((always_inline))

/* Kept out of line, so that callers do not pay for its registers and stack; COLD: also rarely executed. The signature
 * is kept as declared, so that a caller that only passes its arguments on moves none of them. */
#if defined(__clang__)
#define CW_NOINLINE __attribute__((noinline))
#else
#define CW_NOINLINE __attribute__((noinline, noclone))
#endif
#define CW_COLD  __attribute__((noinline, cold))

/* For a function that reads a word without the lock under which others write it, where either value is right. */
#if defined(__SANITIZE_THREAD__)
#define CW_READS_UNLOCKED __attribute__((noinline, no_sanitize("thread")))
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define CW_READS_UNLOCKED __attribute__((noinline, no_sanitize("thread")))
#endif
#endif
#ifndef CW_READS_UNLOCKED
#define CW_READS_UNLOCKED CW_INLINE
#endif

#define CW_CACHE_LINE 64

static inline void cw_cpu_relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("yield");
#endif
}

/* Prefetches a cache line for writing. */
static inline void cw_prefetch_write(const void *address)
{
#if defined(__x86_64__)
    __asm__ __volatile__("prefetchw %0" : : "m"(*(const char *)address)); /* without effect where it is not known */
#else
    __builtin_prefetch(address, 1);
#endif
}

#endif
