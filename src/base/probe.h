/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * USDT probes (docs/reference/observing.md): trace points for bpftrace, perf and the like. Each is one nop while nobody
 * traces; built without <sys/sdt.h> there are none.
 */
#ifndef CW_BASE_PROBE_H
#define CW_BASE_PROBE_H

#if defined(__has_include)
#if __has_include(<sys/sdt.h>)
#include <sys/sdt.h>
#define CW_PROBE(name, a, b, c) DTRACE_PROBE3(causeway, name, a, b, c)
#endif
#endif
#ifndef CW_PROBE
#define CW_PROBE(name, a, b, c) ((void)(a), (void)(b), (void)(c))
#endif

#endif
