/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Version and build configuration (INF-3, INF-4).
 *
 * Callers: main.c.
 */
#include <stdio.h>

#include "build.h"
#include "library.h"
#include "revision.h"
#include "show.h"
#include "ucp/api/ucp.h"
#include "ucp/api/ucp_version.h"

void cw_show_version(void)
{
    struct cw_info_library library;

    cw_info_library_find(&library);
    printf("# Library version: %s\n", ucp_get_version_string());
    printf("# Library path: %s\n", library.found ? library.path : "<no libucp.so.0 is found by the loader>");
    printf("# API headers version: %d.%d.0\n", UCP_API_MAJOR, UCP_API_MINOR);
    printf("# Git branch '%s', revision %s\n", CW_INFO_BRANCH, CW_INFO_REVISION);
    printf("# Configured with: %s\n", CW_BUILD_CONFIGURED_WITH);
    printf("# Causeway %s, linked into this tool; the library path is that of the file which programs load here.\n",
           CW_BUILD_RELEASE);
    if (library.found && !library.is_ours) {
        printf("# NOTE: that file is version %s of another implementation; this output does not describe it.\n",
               library.version);
    }
}

static void define_number(const char *name, int value)
{
    printf("#define %-25s %d\n", name, value);
}

static void define_text(const char *name, const char *value)
{
    printf("#define %-25s \"%s\"\n", name, value);
}

void cw_show_build(void)
{
#if defined(NDEBUG)
    const int asserts = 0;
#else
    const int asserts = 1;
#endif

    define_text("CW_VERSION", ucp_get_version_string());
    define_text("CW_RELEASE", CW_BUILD_RELEASE);
    define_text("CW_REVISION", CW_INFO_REVISION);
    define_text("CW_BUILD_TYPE", CW_BUILD_TYPE);
    define_text("CW_COMPILER", CW_BUILD_COMPILER);
    define_text("CW_SYSTEM", CW_BUILD_SYSTEM);
    define_text("CW_SYSCONFDIR", CW_BUILD_SYSCONFDIR);
    define_text("CW_SANITIZE", CW_BUILD_SANITIZE);
    define_text("CW_TRANSPORTS", CW_BUILD_TRANSPORTS);
    define_number("CW_ASSERT", CW_ASSERT);
    define_number("CW_COVERAGE", CW_COVERAGE);
    define_number("CW_WERROR", CW_WERROR);
    /* Names of the reference that scripts look for, with what is true here. */
    define_number("ENABLE_ASSERT", asserts);
    define_number("ENABLE_MT", 1);
    define_number("ENABLE_PARAMS_CHECK", 1);
    define_number("ENABLE_DEBUG_DATA", 0);
    define_number("ENABLE_STATS", 0);
    define_number("HAVE_CMA", 1);
}
