/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program that is not position independent has copies of the variables of libc that it names, and loads the library
 * with RTLD_DEEPBIND, so that the library finds libc's own ones by name. It must act on the program's (N23-96). Usage:
 * deepbind LIBRARY [plain]; linked with libc alone. Status 77: this program has no copies.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <ucp/api/ucp.h>

#include "must.h"

#ifndef RTLD_DEEPBIND
#define RTLD_DEEPBIND 0 /* musl has no such thing */
#endif

extern char **environ;

static void *library;

static void *find(const char *name)
{
    void *symbol = dlsym(library, name);

    must(symbol != NULL);
    return symbol;
}

#define call(name) (*(__typeof__(&name))find(#name))

/* Whether the variables are this program's own, and not those that libc has inside. */
static bool has_copies(void)
{
    void *libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
    const bool copies =
        libc != NULL && dlsym(libc, "environ") != (void *)&environ && dlsym(libc, "stdout") != (void *)&stdout &&
        dlsym(libc, "stderr") != (void *)&stderr &&
        dlsym(libc, "program_invocation_short_name") != (void *)&program_invocation_short_name;

    return copies;
}

static bool holds(FILE *file, const char *text)
{
    static char bytes[1 << 16];
    size_t length;

    rewind(file);
    length = fread(bytes, 1, sizeof(bytes) - 1, file);
    bytes[length] = '\0';
    return strstr(bytes, text) != NULL;
}

static void read_environment(FILE *output)
{
    ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES, .features = UCP_FEATURE_TAG};
    ucp_worker_params_t nothing = {0};
    FILE *printed = tmpfile();
    ucp_context_h context;
    ucp_worker_h worker;
    ucp_config_t *config;

    must(printed != NULL && call(ucp_config_read)(NULL, NULL, &config) == UCS_OK);
    call(ucp_config_print)(config, printed, NULL, UCS_CONFIG_PRINT_CONFIG);
    must(holds(printed, "\nUCX_SEG_SIZE=3k\n"));
    must(call(ucp_init_version)(UCP_API_MAJOR, UCP_API_MINOR, &params, config, &context) == UCS_OK);
    must(call(ucp_worker_create)(context, &nothing, &worker) == UCS_OK);
    must(holds(output, "unused environment variable: UCX_NO_SUCH_THING\n"));
    call(ucp_worker_destroy)(worker);
    call(ucp_cleanup)(context);
    call(ucp_config_release)(config);
    (void)fclose(printed);
}

int main(int argc, char **argv)
{
    const int mode = (argc > 2) ? 0 : RTLD_DEEPBIND;
    FILE *const before = stdout;
    char log[64];
    FILE *output;

    must(argc > 1);
    if (!has_copies()) {
        return 77;
    }
    (void)setenv("UCX_SEG_SIZE", "3k", 1);
    (void)setenv("UCX_NO_SUCH_THING", "1", 1);
    if (getenv("DEEPBIND_STREAM") == NULL) { /* the name of the program */
        program_invocation_short_name = (char[]){"another"};
        (void)snprintf(log, sizeof(log), "deepbind.%d.another.log", (int)getpid());
        (void)setenv("UCX_LOG_FILE", "deepbind.%p.%e.log", 1);
        output = fopen(log, "w+");
    } else {
        (void)setenv("UCX_LOG_FILE", getenv("DEEPBIND_STREAM"), 1);
        output = tmpfile();
        log[0] = '\0';
    }
    must(output != NULL);
    stdout = (strcmp(getenv("UCX_LOG_FILE"), "stdout") == 0) ? output : before;
    stderr = (strcmp(getenv("UCX_LOG_FILE"), "stderr") == 0) ? output : stderr;
    library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL | mode);
    must(library != NULL);
    read_environment(output);
    stdout = before;
    (void)remove(log);
    return 0;
}
