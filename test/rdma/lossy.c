/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two processes, one on each end of the wire, that exchange messages of many lengths in both directions, and put and
 * get memory of each other; all bytes are checked. It uses nothing that UCX 1.13 lacks, so that LD_LIBRARY_PATH decides
 * whose libucp.so.0 it runs on (loss.sh). Status 0: everything arrived.
 *
 * Usage: lossy [ROUNDS [LONGEST]], 3 rounds with at most 256 KiB without
 */
#define _GNU_SOURCE
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <ucp/api/ucp.h>

enum { MOST = 1 << 20, HANG_S = 120, BLOB = 4000, LEVEL = 13 };

struct blob {
    size_t length;
    char bytes[BLOB];
};

static const size_t lengths[] = {8, 100, 2000, 9000, 70000, 150000, 1 << 18, MOST};
static size_t longest = 1 << 18;

static const char *name; /* of this side, for messages */
static int other; /* socket to the other side */
static ucp_context_h context;
static ucp_worker_h worker;
static ucp_ep_h ep;
static ucp_rkey_h key;
static uint64_t remote;
static char *out, *in, *exposed, *fetched;
static ucs_status_t failure = UCS_OK;

static void must(bool is_so, const char *what)
{
    if (!is_so) {
        printf("%s: %s%s%s\n", name, what, (failure != UCS_OK) ? ": " : "",
               (failure != UCS_OK) ? ucs_status_string(failure) : "");
        fflush(stdout);
        _exit(1);
    }
}

static void failed(void *arg, ucp_ep_h of, ucs_status_t status)
{
    (void)arg;
    (void)of;
    failure = status;
}

/* A request of either kind, which has to end well in time. */
static void finish(ucs_status_ptr_t request, const char *what)
{
    const time_t end = time(NULL) + HANG_S;
    ucs_status_t status = UCS_PTR_STATUS(request);

    if (UCS_PTR_IS_PTR(request)) {
        while ((status = ucp_request_check_status(request)) == UCS_INPROGRESS) {
            ucp_worker_progress(worker);
            must(time(NULL) < end, what);
        }
        ucp_request_free(request);
    }
    if (status != UCS_OK && failure == UCS_OK) {
        failure = status;
    }
    must(status == UCS_OK, what);
}

static void tell(const struct blob *blob)
{
    must(write(other, blob, sizeof(*blob)) == sizeof(*blob), "cannot write to the other side");
}

/* Progresses meanwhile, as the other side may need it. */
static void hear(struct blob *blob)
{
    const time_t end = time(NULL) + HANG_S;
    ssize_t got;

    while ((got = recv(other, blob, sizeof(*blob), MSG_DONTWAIT)) < 0) {
        ucp_worker_progress(worker);
        must(time(NULL) < end, "the other side is silent");
    }
    must(got == sizeof(*blob), "the other side has ended");
}

/* Both sides have come so far. */
static void meet(void)
{
    struct blob blob = {0};

    tell(&blob);
    hear(&blob);
}

static void fill(char *bytes, size_t length, unsigned seed)
{
    for (size_t i = 0; i < length; i++) {
        bytes[i] = (char)(seed * 131 + i * 7 + i / 251);
    }
}

static void check(const char *bytes, size_t length, unsigned seed, const char *what)
{
    for (size_t i = 0; i < length; i++) {
        must(bytes[i] == (char)(seed * 131 + i * 7 + i / 251), what);
    }
}

static void open_side(const char *device)
{
    const ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES,
                                 .features = UCP_FEATURE_TAG | UCP_FEATURE_RMA};
    const ucp_worker_params_t worker_params = {.field_mask = 0};
    const ucp_mem_map_params_t map = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH,
                                      .address = exposed,
                                      .length = MOST};
    ucp_ep_params_t ep_params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLER |
                                               UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE,
                                 .err_mode = UCP_ERR_HANDLING_MODE_PEER,
                                 .err_handler = {.cb = failed}};
    struct blob blob = {0};
    ucp_address_t *address;
    ucp_config_t *config;
    ucp_mem_h memh;
    void *packed;

    must(ucp_config_read(NULL, NULL, &config) == UCS_OK, "no settings");
    must(ucp_config_modify(config, "NET_DEVICES", device) == UCS_OK, "no devices");
    must(ucp_init_version(1, LEVEL, &params, config, &context) == UCS_OK, "no context");
    ucp_config_release(config);
    must(ucp_worker_create(context, &worker_params, &worker) == UCS_OK, "no worker");
    must(ucp_mem_map(context, &map, &memh) == UCS_OK, "no memory is mapped");
    must(ucp_worker_get_address(worker, &address, &blob.length) == UCS_OK && blob.length <= BLOB, "no address");
    memcpy(blob.bytes, address, blob.length);
    tell(&blob);
    hear(&blob);
    ep_params.address = (const ucp_address_t *)blob.bytes;
    must(ucp_ep_create(worker, &ep_params, &ep) == UCS_OK, "no endpoint");
    must(ucp_rkey_pack(context, memh, &packed, &blob.length) == UCS_OK && blob.length <= BLOB - 8, "no key");
    remote = (uintptr_t)exposed;
    memcpy(blob.bytes, &remote, 8);
    memcpy(blob.bytes + 8, packed, blob.length);
    ucp_rkey_buffer_release(packed);
    tell(&blob);
    hear(&blob);
    memcpy(&remote, blob.bytes, 8);
    must(ucp_ep_rkey_unpack(ep, blob.bytes + 8, &key) == UCS_OK, "the key is refused");
}

static void exchange(size_t length, unsigned seed)
{
    const ucp_request_param_t param = {.op_attr_mask = 0};
    ucs_status_ptr_t receive;

    fill(out, length, seed);
    memset(in, 0, length);
    receive = ucp_tag_recv_nbx(worker, in, MOST, 1, UINT64_MAX, &param);
    finish(ucp_tag_send_nbx(ep, out, length, 1, &param), "a message is not sent");
    finish(receive, "a message does not arrive");
    check(in, length, seed, "a message is damaged");
}

static void reach(size_t length, unsigned seed)
{
    const ucp_request_param_t param = {.op_attr_mask = 0};

    fill(out, length, seed);
    finish(ucp_put_nbx(ep, out, length, remote, key, &param), "a put fails");
    finish(ucp_ep_flush_nbx(ep, &param), "a flush fails");
    meet();
    check(exposed, length, seed, "a put is damaged");
    memset(fetched, 0, length);
    finish(ucp_get_nbx(ep, fetched, length, remote, key, &param), "a get fails");
    check(fetched, length, seed, "a get is damaged");
    meet();
}

static void run(const char *device, int fd, unsigned rounds)
{
    name = device;
    other = fd;
    out = malloc(MOST);
    in = malloc(MOST);
    exposed = malloc(MOST);
    fetched = malloc(MOST);
    must(out != NULL && in != NULL && exposed != NULL && fetched != NULL, "no memory");
    open_side(device);
    for (unsigned round = 0; round < rounds; round++) {
        for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]) && lengths[i] <= longest; i++) {
            exchange(lengths[i], round + (unsigned)i);
            reach(lengths[i], round + (unsigned)i + 1);
        }
    }
    meet();
    _exit(0);
}

int main(int argc, char **argv)
{
    const unsigned rounds = (argc > 1) ? (unsigned)strtoul(argv[1], NULL, 10) : 3;
    int fds[2], status = 1, last = 1;
    pid_t child;

    longest = (argc > 2) ? strtoul(argv[2], NULL, 10) : longest;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fds) != 0 || (child = fork()) < 0) {
        return 1;
    }
    if (child == 0) {
        close(fds[0]);
        run("rxe0:1", fds[1], rounds);
    }
    if (fork() == 0) {
        close(fds[1]);
        run("rxe1:1", fds[0], rounds);
    }
    close(fds[0]);
    close(fds[1]);
    while (wait(&last) > 0) {
        status = (last == 0) ? status - 1 : 100;
    }
    return (status == -1) ? 0 : 1;
}
