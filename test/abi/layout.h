/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Compile-time comparison of the public headers with layout.def, for C and for C++.
 * Callers: layout_c.c and layout_cxx.cc, which are compiled and never run.
 */
#include <ucp/api/device/ucp_host.h>
#include <ucp/api/ucp.h>

#ifdef __cplusplus
#include <type_traits>
#define HOLDS(condition, text)  static_assert(condition, text)
#define ALIGNMENT(type)         alignof(type)
#define SAME_TYPE(what, type)   std::is_same<decltype(what), type>::value
#else
#define HOLDS(condition, text)  _Static_assert(condition, text)
#define ALIGNMENT(type)         _Alignof(type)
#define SAME_TYPE(what, type)   __builtin_types_compatible_p(__typeof__(what), type)
#endif

#define VALUE(name, value)                HOLDS((long long)(name) == (value), #name);
#define SIZE(type, bytes, alignment)      HOLDS(sizeof(type) == (bytes) && ALIGNMENT(type) == (alignment), #type);
#define FIELD(type, member, offset, bytes) \
    HOLDS(__builtin_offsetof(type, member) == (offset) && sizeof(((type *)0)->member) == (bytes), #type "." #member);
/* the result apart from the parameters, for a function type cannot be put together in one macro argument */
#define FUNCTION(name, result, parameters) HOLDS(SAME_TYPE(name, result parameters), #name);

#include "layout.def"
