/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Devices and transports with their limits (INF-6 to INF-9). Each device is opened by the contract of transports
 * (transport/transport.h) for a moment, for a worker that does not exist, and asked. UCX_TLS and the lists of devices
 * do not count: this is what the machine has.
 *
 * Callers: main.c.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "base/string.h"
#include "config/config.h"
#include "core/lane.h"
#include "os/random.h"
#include "say.h"
#include "show.h"
#include "transport/registry.h"
#include "wire/address.h"
#include "wire/key.h"

#define MAX_DEVICES 64u
#define MB          1048576.0

static const char *class_name(enum cw_device_class class_id)
{
    if (class_id == CW_DEVICE_NET) {
        return "network";
    }
    return (class_id == CW_DEVICE_SHM) ? "intra-node" : "loopback";
}

static void print_line(const char *key, const char *text)
{
    printf("# %20s: %s\n", key, text);
}

static void print_bytes(const char *key, size_t bytes, unsigned max_iov)
{
    char text[64], size[32];

    if (bytes == SIZE_MAX) {
        snprintf(size, sizeof(size), "unlimited");
    } else if (bytes % 1024 == 0) {
        snprintf(size, sizeof(size), "<= %zuK", bytes / 1024);
    } else {
        snprintf(size, sizeof(size), "<= %zu", bytes);
    }
    if (max_iov > 0) {
        snprintf(text, sizeof(text), "%s, up to %u iov", size, max_iov);
    }
    if (bytes > 0) {
        print_line(key, (max_iov > 0) ? text : size);
    }
}

static void print_limits(const struct cw_transport *transport, const struct cw_limits *limits)
{
    char text[64];

    snprintf(text, sizeof(text), "0.00/ppn + %.2f MB/sec", limits->bandwidth_bps / MB);
    print_line("bandwidth", text);
    snprintf(text, sizeof(text), "%.0f nsec", limits->latency_ns);
    print_line("latency", text);
    snprintf(text, sizeof(text), "%.0f nsec", limits->overhead_ns);
    print_line("overhead", text);
    if (transport->copies != NULL) {
        print_line("peer memory", "read and written by the system, where it allows that");
    }
    print_bytes("am_short", (transport->packets->send_short == NULL) ? 0 : limits->max_short, 0);
    print_bytes("am_bcopy", (transport->packets->send_bcopy == NULL) ? 0 : limits->max_bcopy, 0);
    print_bytes("am_zcopy", (transport->packets->send_zcopy == NULL) ? 0 : limits->max_zcopy, limits->max_iov);
    print_bytes("am_placed", (transport->packets->send_placed == NULL) ? 0 : limits->max_placed, limits->max_iov);
    print_line("connection", (transport->cm == NULL) ? "to iface" : "to iface, to sockaddr");
}

static void no_space(struct cw_conn *conn)
{
    (void)conn;
}

/* Opens the device alone and asks it. Nobody gets its address, so the upcalls of connections are never made. */
static void print_open_device(const struct cw_config *config, const struct cw_transport *transport,
                              const struct cw_device *device, unsigned priority)
{
    static const struct cw_upcalls upcalls = {.space = no_space};
    struct cw_iface_params params = {.config = config,
                                .upcalls = &upcalls,
                                .devices = device,
                                .num_devices = 1,
                                .worker_uid = cw_random_u64()};
    uint8_t address[CW_ADDRESS_ENTRY_MAX];
    struct cw_iface *iface;
    ucs_status_t status;

    status = cw_poller_new(0, &params.poller);
    if (status == UCS_OK) {
        status = cw_iface_open(transport, &params, &iface);
        if (status == UCS_OK) {
            printf("#      capabilities:\n");
            print_limits(transport, &iface->limits);
            printf("#      device priority: %u\n#     device num paths: 1\n#              max eps: inf\n", priority);
            printf("#       device address: 0 bytes\n#        iface address: %zu bytes\n",
                   cw_iface_address(iface, address, sizeof(address)));
            printf("#       error handling: peer failure\n#\n");
            cw_iface_close(iface);
        }
        cw_poller_free(params.poller);
    }
    if (status != UCS_OK) {
        printf("#   < failed to open the device: %s >\n#\n", ucs_status_string(status));
    }
}

static void print_transport(const struct cw_config *config, const struct cw_transport *transport,
                            const struct cw_device *devices, unsigned count)
{
    unsigned i;

    printf("#\n# Memory domain: %s\n#     Component: %s\n", transport->name, transport->name);
    printf("#             register: unlimited, cost: 0 nsec\n#           remote key: %u bytes\n", CW_KEY_SHARED_LENGTH);
    if (transport->device_class != CW_DEVICE_NET) {
        printf("#           rkey_ptr is supported\n");
    }
    printf("#\n");
    for (i = 0; i < count; i++) {
        printf("#      Transport: %s\n#         Device: %s\n#           Type: %s\n#  System device: <unknown>\n#\n",
               transport->name, devices[i].name, class_name(transport->device_class));
        print_open_device(config, transport, &devices[i], count - 1 - i); /* the list begins with the best */
    }
    if (transport->cm != NULL) {
        printf("# Connection manager: %s\n#      max_conn_priv: %u bytes\n#\n", transport->name, CW_HELLO_MAX);
    }
}

/* What the transport has to say of devices, also of those that it does not use. */
static void print_explanation(const struct cw_config *config, const struct cw_transport *transport)
{
    struct cw_text text = {0};
    const char *line, *end;

    transport->explain(config, &text);
    line = cw_text_get(&text);
    if (line[0] != '\0') {
        printf("#\n# Devices of %s:\n", transport->name);
    }
    for (; (end = strchr(line, '\n')) != NULL; line = end + 1) {
        printf("#   %.*s\n", (int)(end - line), line);
    }
    if (text.data != NULL) {
        printf("#\n");
    }
    cw_text_free(&text);
}

/* The system's copies between processes are no transport here, but have a name in UCX_TLS. */
static void print_copies(void)
{
    printf("#\n# Memory domain: cma\n#     Component: cma\n#             register: unlimited, cost: 0 nsec\n"
           "#   < no transport of its own: posix uses it for long messages and the memory of others >\n#\n");
}

/* ---- GPUs ---- */

/* A maker's driver, and the names of its functions, which are of equal form. */
struct maker {
    const char *domain;
    const char *files[5];
    const char *init, *count, *name, *memory;
};

static const struct maker makers[] = {
    {"cuda", {"libcuda.so.1"}, "cuInit", "cuDeviceGetCount", "cuDeviceGetName", "cuDeviceTotalMem_v2"},
    {"rocm",
     {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so"},
     "hipInit",
     "hipGetDeviceCount",
     "hipDeviceGetName",
     "hipDeviceTotalMem"},
};

struct driver {
    int (*init)(unsigned flags);
    int (*count)(int *count);
    int (*name)(char *name, int length, int device);
    int (*memory)(size_t *bytes, int device);
};

static int find(void *library, const char *name, void *function)
{
    void *address = dlsym(library, name);

    memcpy(function, &address, sizeof(address));
    return address != NULL;
}

/* Asking for devices loads the driver, as the user of this tool wants to know what is there. Returns how many memory
 * domains were shown. */
static unsigned print_gpus(const struct maker *maker)
{
    void *library = NULL;
    struct driver driver;
    char name[128];
    size_t bytes;
    int count, i;

    for (i = 0; library == NULL && maker->files[i] != NULL; i++) {
        library = dlopen(maker->files[i], RTLD_NOW | RTLD_GLOBAL);
    }
    if (library == NULL || !find(library, maker->init, &driver.init) || !find(library, maker->count, &driver.count) ||
        !find(library, maker->name, &driver.name) || !find(library, maker->memory, &driver.memory) ||
        driver.init(0) != 0 || driver.count(&count) != 0 || count <= 0) {
        return 0;
    }
    printf("#\n# Memory domain: %s\n#     Component: %s\n#             register: unlimited, cost: 0 nsec\n"
           "#         memory types: %s (alloc,reg), %s-managed (alloc,reg)\n#\n",
           maker->domain, maker->domain, maker->domain, maker->domain);
    for (i = 0; i < count; i++) {
        if (driver.name(name, sizeof(name), i) == 0 && driver.memory(&bytes, i) == 0) {
            printf("#         Device: GPU%d\n#           Type: accelerator\n#           name: %s\n"
                   "#         memory: %zu MB\n#\n",
                   i, name, bytes >> 20);
        }
    }
    printf("#   < no transport of its own: self and posix use %s_ipc where both ends are memory of GPUs, and every\n"
           "#     transport uses %s_copy >\n#\n",
           maker->domain, maker->domain);
    return 1;
}

int cw_show_devices(const struct cw_info_options *options)
{
    const char *only = options->transport;
    struct cw_device devices[MAX_DEVICES];
    struct cw_config *config;
    unsigned i, count, shown = 0;

    if (cw_config_read(NULL, NULL, &config) != UCS_OK) {
        cw_say_error("cannot read the settings; see the preceding log lines");
        return CW_INFO_FAILED;
    }
    for (i = 0; i < cw_num_transports; i++) {
        if (only != NULL && strcmp(only, cw_transports[i]->name) != 0) {
            continue;
        }
        count = cw_transport_devices(cw_transports[i], config, devices, MAX_DEVICES);
        if (count > 0) {
            print_transport(config, cw_transports[i], devices, (count < MAX_DEVICES) ? count : MAX_DEVICES);
            shown++;
        }
        if (cw_transports[i]->explain != NULL) {
            print_explanation(config, cw_transports[i]);
            shown++;
        }
    }
    if (only == NULL || strcmp(only, "cma") == 0) {
        print_copies();
        shown++;
    }
    for (i = 0; i < sizeof(makers) / sizeof(makers[0]); i++) {
        if (only == NULL || strncmp(only, makers[i].domain, 4) == 0) {
            shown += print_gpus(&makers[i]);
        }
    }
    if (shown == 0) {
        cw_say_note("no transport '%s' here; omit -t to show all", only);
    }
    cw_config_free(config);
    return CW_INFO_OK;
}
