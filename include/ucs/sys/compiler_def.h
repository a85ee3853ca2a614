/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Compiler helpers that programs take from the public headers.
 * Callers: the other public headers and programs compiled against them; the library itself uses its own.
 * Everything here works in C (gnu89 and later) and C++ (98 and later) with gcc and clang unless a line says "C only".
 * The set of names is fixed by the API level; add nothing here for the library's own comfort.
 */
#ifndef UCS_COMPILER_DEF_H
#define UCS_COMPILER_DEF_H

#include <stddef.h>
#include <stdint.h>

/* Frame of a header's declarations: C linkage when a C++ compiler reads them, nothing in C. */
#ifdef __cplusplus
#  define BEGIN_C_DECLS extern "C" {
#  define END_C_DECLS   }
#else
#  define BEGIN_C_DECLS
#  define END_C_DECLS
#endif

/* ---- bits; both are of an unsigned 64-bit type and usable in #if ---- */

/** One bit: the value 2 to the power of @a i, 0 <= i <= 63. */
#define UCS_BIT(i) (1ul << (i))

/** The @a i low bits set, 0 <= i <= 64. */
#define UCS_MASK(i) (((i) < 64) ? ((1ul << ((i) & 63)) - 1ul) : ~0ul)

/** Bit number @a i of @a value: 0 or 1. */
#define UCS_BIT_GET(value, i) (((value) >> (i)) & 1)

/* ---- attributes of functions (F), structures (S) and variables (V) ---- */

#define UCS_F_PURE          __attribute__((pure))
#define UCS_F_NORETURN      __attribute__((noreturn))
#define UCS_F_NOINLINE      __attribute__((noinline))
#define UCS_F_ALWAYS_INLINE inline __attribute__((always_inline))
#define UCS_F_CTOR          __attribute__((constructor))
#define UCS_F_DTOR          __attribute__((destructor))
#define UCS_F_MAYBE_UNUSED  __attribute__((unused))
#define UCS_F_NON_NULL      __attribute__((nonnull))

/** printf-like function: @a format_arg and @a first_arg are argument positions counted from 1. */
#define UCS_F_PRINTF(format_arg, first_arg) __attribute__((format(printf, format_arg, first_arg)))

/** The address sanitizer leaves the function alone. Nothing in C. */
#ifdef __cplusplus
#  define UCS_F_NO_SANITIZE_ADDRESS __attribute__((no_sanitize_address))
#else
#  define UCS_F_NO_SANITIZE_ADDRESS
#endif

#define UCS_S_PACKED    __attribute__((packed))
#define UCS_S_MAY_ALIAS __attribute__((may_alias))

#define UCS_V_UNUSED        __attribute__((unused))
#define UCS_V_ALIGNED(size) __attribute__((aligned(size)))

/** Give @a v the value zero so that no compiler takes it for uninitialised. */
#define UCS_V_INITIALIZED(v) ((void)__builtin_memset(&(v), 0, sizeof(v)))

/* ---- statements ---- */

/** Compile-time check inside a function; a statement by itself, with or without a semicolon behind it. */
#define UCS_STATIC_ASSERT(condition) \
    { \
        struct ucs_static_assert_ { \
            int holds : ((condition) ? 1 : -1); \
        }; \
    }

/** A statement that does nothing. */
#define UCS_EMPTY_STATEMENT \
    { \
    }

/** Largest number of bytes that these headers' conventions allow to take from the stack by alloca(). */
#define UCS_ALLOCA_MAX_SIZE 1200

/* Head of a function without arguments that runs when its library or program is loaded or unloaded; the body follows in
 * braces. Causeway itself has none. The line number makes the name unique within a file. */
#define UCS_STATIC_INIT         UCS_STATIC_HOOK_(UCS_F_CTOR, ucs_static_init_, __LINE__)
#define UCS_STATIC_CLEANUP      UCS_STATIC_HOOK_(UCS_F_DTOR, ucs_static_cleanup_, __LINE__)
#define UCS_STATIC_HOOK_(a, n, l)  UCS_STATIC_HOOK2_(a, n, l)
#define UCS_STATIC_HOOK2_(a, n, l) static void a n##l(void)

/* ---- pointers, structures, arrays ---- */

/** @a ptr moved by @a offset bytes (may be negative), as void pointer. */
#define UCS_PTR_BYTE_OFFSET(ptr, offset) ((void *)((intptr_t)(ptr) + (intptr_t)(offset)))

/** The address just behind an object of @a type that starts at @a ptr, as void pointer. */
#define UCS_PTR_TYPE_OFFSET(ptr, type) ((void *)((intptr_t)(ptr) + (intptr_t)sizeof(type)))

/** Number of bytes from @a start to @a end, negative when @a end lies below. */
#define UCS_PTR_BYTE_DIFF(start, end) ((ptrdiff_t)((uintptr_t)(end) - (uintptr_t)(start)))

/** Number of elements of an array (not of a pointer). */
#define ucs_static_array_size(array) (sizeof(array) / sizeof((array)[0]))

#define ucs_offsetof(type, member) __builtin_offsetof(type, member)

/** Pointer to the structure of @a type whose @a member is at @a ptr. */
#define ucs_container_of(ptr, type, member) ((type *)((char *)(ptr)-ucs_offsetof(type, member)))

/** Pointer to the structure of @a type whose member `super` is at @a ptr. */
#define ucs_derived_of(ptr, type) ucs_container_of(ptr, type, super)

#define ucs_typeof(expression)         __typeof__(expression)
#define ucs_field_sizeof(type, member) sizeof(((type *)0)->member)
#define ucs_field_type(type, member)   __typeof__(((type *)0)->member)

/** 1 if the two types are the same apart from qualifiers, else 0. C only. */
#define ucs_same_type(type1, type2) __builtin_types_compatible_p(type1, type2)

/** 1 if the arithmetic type has no negative values, else 0. */
#define ucs_is_unsigned_type(type) ((type)0 < (type)-1)

/** @a ptr as a pointer of @a type, which may lack qualifiers that it has. */
#define ucs_const_cast(type, ptr) ((type)(uintptr_t)(ptr))

/** Loop head: @a elem points in turn at each of the @a count elements of @a array. */
#define ucs_carray_for_each(elem, array, count) for ((elem) = (array); (elem) < ((array) + (count)); ++(elem))

/** Exchange what two pointers of one type point at. */
#define ucs_swap(ptr1, ptr2) \
    do { \
        __typeof__(*(ptr1)) ucs_swap_value_ = *(ptr1); \
        *(ptr1)                             = *(ptr2); \
        *(ptr2)                             = ucs_swap_value_; \
    } while (0)

/* ---- hints to the compiler ---- */

/** The compiler moves no memory access across this point. No instruction; says nothing to the processor. */
#define ucs_compiler_fence() __asm__ __volatile__("" ::: "memory")

/* Into the caches, to be read or written; nt: it will not be used again. */
#define ucs_read_prefetch(ptr)     __builtin_prefetch((ptr), 0, 3)
#define ucs_write_prefetch(ptr)    __builtin_prefetch((ptr), 1, 3)
#define ucs_nt_read_prefetch(ptr)  __builtin_prefetch((ptr), 0, 0)
#define ucs_nt_write_prefetch(ptr) __builtin_prefetch((ptr), 1, 0)

#define ucs_likely(x)         __builtin_expect(!!(x), 1)
#define ucs_unlikely(x)       __builtin_expect(!!(x), 0)
#define ucs_is_constant(expr) __builtin_constant_p(expr)

#endif
