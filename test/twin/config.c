/* SPDX-License-Identifier: BSD-3-Clause */
/* Library, version and configuration: LIB-*, CFG-*. Every value of a list for every name that the library prints. */
#define _GNU_SOURCE
#include "twin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void library(void)
{
    static const struct twin_field fields[] = {TWIN_FIELD(ucp_lib_attr_t, field_mask),
                                               TWIN_FIELD(ucp_lib_attr_t, max_thread_level)};
    static const uint64_t masks[] = {0, UCP_LIB_ATTR_FIELD_MAX_THREAD_LEVEL, ~UINT64_C(1), ~UINT64_C(0)};
    unsigned major = 99, minor = 99, release = 99, read[3] = {0};
    ucp_lib_attr_t attr;
    ucs_status_t status;
    char what[64];
    size_t i;

    for (i = 0; i < TWIN_COUNT(masks); i++) {
        memset(&attr, TWIN_FILL, sizeof(attr));
        attr.field_mask = masks[i];
        status = ucp_lib_query(&attr);
        snprintf(what, sizeof(what), "mask %#llx", (unsigned long long)masks[i]);
        twin_print("mask kept: %d", attr.field_mask == masks[i]);
        twin_print_filled(what, status, &attr, fields + 1, 1);
    }
    ucp_get_version(&major, &minor, &release);
    sscanf(ucp_get_version_string(), "%u.%u.%u", &read[0], &read[1], &read[2]);
    twin_print("version %u, text agrees: %d", major, read[0] == major && read[1] == minor && read[2] == release);
}

static char *printed(const ucp_config_t *config, ucs_config_print_flags_t flags, const char *title)
{
    char *text = NULL;
    size_t size;
    FILE *stream = open_memstream(&text, &size);

    ucp_config_print(config, stream, title, flags);
    fclose(stream);
    return text;
}

/* The line of `name`, without its end; NULL if there is none. */
static char *line_of(char *text, const char *name)
{
    size_t length = strlen(name);
    char *line;

    for (line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n")) {
        if (strncmp(line, "UCX_", 4) == 0 && strncmp(line + 4, name, length) == 0 && line[4 + length] == '=') {
            return line + 4 + length + 1;
        }
    }
    return NULL;
}

static void one_value(ucp_config_t *config, const char *name, const char *value)
{
    ucs_status_t status = ucp_config_modify(config, name, value);
    char *text = status == UCS_OK ? printed(config, UCS_CONFIG_PRINT_CONFIG, NULL) : NULL;

    twin_print("%s='%s': %s, prints %s", name, value, twin_status(status),
              text != NULL ? line_of(text, name) : "nothing");
    free(text);
}

/* For every setting; most fit few. */
static const char *const list[] = {"",
                                   "0",
                                   "1",
                                   "2",
                                   "-1",
                                   "007",
                                   "0x10",
                                   "1000",
                                   "65536",
                                   "8K",
                                   "8k",
                                   "8kb",
                                   "1Mb",
                                   "3g",
                                   "1.5",
                                   "1e3",
                                   "inf",
                                   "INF",
                                   "infinity",
                                   "auto",
                                   "Auto",
                                   "y",
                                   "Y",
                                   "yes",
                                   "YES",
                                   "Yes",
                                   "n",
                                   "no",
                                   "on",
                                   "On",
                                   "off",
                                   "try",
                                   "maybe",
                                   "true",
                                   "all",
                                   "^all",
                                   "10s",
                                   "10ms",
                                   "0.5us",
                                   "5m",
                                   "1ns",
                                   "10 s",
                                   "2200MBps",
                                   "2200MB/s",
                                   "1Gbps",
                                   "1GBs",
                                   "2200",
                                   "abc",
                                   "host:512K",
                                   "host:512K,cuda:4M",
                                   "cuda:1k",
                                   "host",
                                   "a,b",
                                   "a,,b",
                                   " 1",
                                   "1 ",
                                   "1k1",
                                   "--5",
                                   "99999999999999999999999",
                                   "warn",
                                   "info",
                                   "v1",
                                   "v2",
                                   "V2",
                                   "get_zcopy",
                                   "put_zcopy",
                                   "am",
                                   "strong",
                                   "weak",
                                   "guess",
                                   "cpu",
                                   "device",
                                   "host,cuda",
                                   "tcp,self",
                                   "^tcp"};

static void values(void)
{
    ucp_config_t *config;
    char *text, *line, *end, *rest;
    pid_t child;
    size_t i;
    int how;

    twin_need(ucp_config_read(NULL, NULL, &config) == UCS_OK, "ucp_config_read");
    text = printed(config, UCS_CONFIG_PRINT_CONFIG, NULL);
    for (line = strtok_r(text, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest)) {
        end = strchr(line, '=');
        twin_need(end != NULL && strncmp(line, "UCX_", 4) == 0, "lines of NAME=VALUE");
        *end = '\0';
        child = fork(); /* a library that ends the process over one setting reports the others */
        if (child == 0) {
            for (i = 0; i < TWIN_COUNT(list); i++) {
                one_value(config, line + 4, list[i]);
            }
            _exit(0);
        }
        twin_need(child > 0 && waitpid(child, &how, 0) == child, "a process");
        if (WIFSIGNALED(how)) {
            twin_print("%s='' and so on: died of signal %d", line + 4, WTERMSIG(how));
        }
    }
    free(text);
    ucp_config_release(config);
}

static void defaults(void)
{
    ucp_config_t *config;
    char *text, *line, *value, *rest;

    twin_need(ucp_config_read(NULL, NULL, &config) == UCS_OK, "ucp_config_read");
    text = printed(config, UCS_CONFIG_PRINT_CONFIG, NULL);
    for (line = strtok_r(text, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest)) {
        value = strchr(line, '=');
        twin_need(value != NULL, "lines of NAME=VALUE");
        *value = '\0';
        twin_print("%s: %s", line, value + 1);
    }
    free(text);
    ucp_config_release(config);
}

static void print_flags(void)
{
    static const char *const titles[] = {"a title", NULL};
    ucp_config_t *config;
    unsigned flags, i;
    char *text;

    twin_need(ucp_config_read(NULL, NULL, &config) == UCS_OK, "ucp_config_read");
    for (flags = 0; flags < 32; flags++) {
        for (i = 0; i < TWIN_COUNT(titles); i++) {
            if (titles[i] == NULL && (flags & UCS_CONFIG_PRINT_HEADER) != 0) {
                continue;
            }
            text = printed(config, (ucs_config_print_flags_t)flags, titles[i]);
            twin_print("flags %u, title %d: empty %d, title %d, syntax %d, starts '%.*s'", flags, titles[i] != NULL,
                      text[0] == '\0', twin_has_word(text, "# a title"), twin_has_word(text, "# syntax:"),
                      (int)strcspn(text, "\n") < 12 ? (int)strcspn(text, "\n") : 12, text);
            free(text);
        }
    }
    ucp_config_release(config);
}

static void reading(void)
{
    static const char *const prefixes[] = {NULL, "", "TWIN", "UCX", "a b", "TWIN_"};
    static const char *const files[] = {NULL, "", "/nowhere/ucx.conf"};
    ucp_config_t *config;
    ucs_status_t status;
    size_t i, k;
    char *text;

    setenv("TWIN_UCX_RNDV_THRESH", "12345", 1);
    setenv("TWIN__UCX_RNDV_THRESH", "23456", 1);
    for (i = 0; i < TWIN_COUNT(prefixes); i++) {
        for (k = 0; k < TWIN_COUNT(files); k++) {
            status = ucp_config_read(prefixes[i], files[k], &config);
            twin_print("prefix %s, file %s: %s", prefixes[i], files[k], twin_status(status));
            if (status == UCS_OK) {
                text = printed(config, UCS_CONFIG_PRINT_CONFIG, NULL);
                twin_print("threshold %s", line_of(text, "RNDV_THRESH"));
                free(text);
                ucp_config_release(config);
            }
        }
    }
}

static void environment(void)
{
    static const char *const bad[][2] = {{"UCX_RNDV_THRESH", "much"},
                                         {"UCX_KEEPALIVE_INTERVAL", "never"},
                                         {"UCX_LOG_LEVEL", "loud"},
                                         {"UCX_NO_SUCH_THING", "1"},
                                         {"UCX_PROTO_ENABLE", "perhaps"},
                                         {"UCX_TCP_TX_SEG_SIZE", "much"},
                                         {"UCX_SELF_SEG_SIZE", ""},
                                         {"UCX_TLS", ""},
                                         {"UCX_TLS", "nothing"},
                                         {"UCX_TLS", "all,tcp"},
                                         {"UCX_TLS", "^tcp,^self"},
                                         {"UCX_TLS", "tcp, self"},
                                         {"UCX_TLS", "^nothing"},
                                         {"UCX_TLS", "sm,self"},
                                         {"UCX_TLS", "posix,self"},
                                         {"UCX_NET_DEVICES", ""},
                                         {"UCX_NET_DEVICES", "nothing"},
                                         {"UCX_NET_DEVICES", "lo"},
                                         {"UCX_KEEPALIVE_INTERVAL", "0"},
                                         {"UCX_KEEPALIVE_NUM_EPS", "0"},
                                         {"UCX_KEEPALIVE_INTERVAL", "inf"},
                                         {"UCX_ALLOC_PRIO", "nothing"},
                                         {"UCX_ALLOC_PRIO", "heap"},
                                         {"UCX_ALLOC_PRIO", ""},
                                         {"UCX_ALLOC_PRIO", "md:sysv,mmap"},
                                         {"UCX_SOCKADDR_TLS_PRIORITY", "nothing"},
                                         {"UCX_SEG_SIZE", "0"},
                                         {"UCX_PROTOS", "nothing"},
                                         {"UCX_NUM_EPS", "1000"},
                                         {"UCX_SELF_NUM_DEVICES", "2"}};
    ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES, .features = TWIN_ALL_FEATURES};
    ucs_status_t read, init, worker_status;
    ucp_worker_params_t worker_params = {0};
    ucp_context_h context;
    ucp_config_t *config;
    ucp_worker_h worker;
    size_t i;

    for (i = 0; i < TWIN_COUNT(bad); i++) {
        char *old = getenv(bad[i][0]), *kept = old != NULL ? strdup(old) : NULL;

        setenv(bad[i][0], bad[i][1], 1);
        config = NULL;
        worker_status = UCS_ERR_LAST;
        read = ucp_config_read(NULL, NULL, &config);
        init = read == UCS_OK ? ucp_init(&params, config, &context) : UCS_ERR_LAST;
        if (init == UCS_OK) {
            worker_status = ucp_worker_create(context, &worker_params, &worker);
            if (worker_status == UCS_OK) {
                ucp_worker_destroy(worker);
            }
            ucp_cleanup(context);
        }
        if (read == UCS_OK) {
            ucp_config_release(config);
        }
        twin_print("%s=%s: read %s", bad[i][0], bad[i][1], twin_status(read));
        twin_print("%s=%s: init %s", bad[i][0], bad[i][1], twin_status(init));
        twin_print("%s=%s: worker %s", bad[i][0], bad[i][1], twin_status(worker_status));
        if (kept != NULL) {
            setenv(bad[i][0], kept, 1);
        } else {
            unsetenv(bad[i][0]);
        }
    }
}

static void modify(void)
{
    static const char *const pairs[][2] = {{"NO_SUCH_THING", "1"},
                                           {"UCX_TLS", "tcp"},
                                           {"TX_SEG_SIZE", "16K"},
                                           {"TCP_TX_SEG_SIZE", "16K"},
                                           {"IB_SEG_SIZE", "8K"},
                                           {"LOG_LEVEL", "error"},
                                           {"LOG_LEVEL", "loud"},
                                           {"LOG_FILE", "/dev/null"},
                                           {"HANDLE_ERRORS", "none"},
                                           {"HANDLE_ERRORS", "loud"},
                                           {"WARN_UNUSED_ENV_VARS", "n"},
                                           {"tls", "tcp"},
                                           {"", "1"},
                                           {"MAX_EAGER_LANES", "2"},
                                           {"MAX_RNDV_LANES", "2"},
                                           {"CM_REUSEADDR", "y"},
                                           {"IB_PCI_RELAXED_ORDERING", "on"},
                                           {"MEMTYPE_CACHE", "n"},
                                           {"MEMTYPE_CACHE", "perhaps"},
                                           {"ERROR_SIGNALS", ""},
                                           {"RCACHE_CHECK_PFN", "1"},
                                           {"MODULES", "all"},
                                           {"VFS_ENABLE", "n"},
                                           {"TM_SW_RNDV", "y"},
                                           {"AF_PRIO", "inet6"}};
    ucp_config_t *config;
    size_t i;

    twin_need(ucp_config_read(NULL, NULL, &config) == UCS_OK, "ucp_config_read");
    for (i = 0; i < TWIN_COUNT(pairs); i++) {
        twin_print("%s=%s: %s", pairs[i][0], pairs[i][1],
                  twin_status(ucp_config_modify(config, pairs[i][0], pairs[i][1])));
    }
    ucp_config_release(config);
}

const struct twin_case twin_config_cases[] = {{"library", library},
                                              {"config.reading", reading},
                                              {"config.modify", modify},
                                              {"config.print", print_flags},
                                              {"config.defaults", defaults},
                                              {"config.values", values},
                                              {"config.environment", environment},
                                              {NULL, NULL}};
