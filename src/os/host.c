/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * os/host.h on procfs. Where procfs is missing the host name stands in for the boot and all namespaces count as one.
 */
#include "os/host.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/log.h"

static uint64_t hash_text(const char *text, size_t length)
{
    uint64_t hash = 0xcbf29ce484222325u;
    size_t i;

    for (i = 0; i < length; i++) {
        hash = (hash ^ (unsigned char)text[i]) * 0x100000001b3u;
    }
    return cw_hash_mix(hash);
}

/* Several threads may compute this at once: they all store equal values. */
uint64_t cw_host_boot_by_name(void)
{
    static _Atomic uint64_t known;
    uint64_t hash = atomic_load_explicit(&known, memory_order_relaxed);
    char text[256] = "";

    if (hash != 0) {
        return hash;
    }
    if (gethostname(text, sizeof(text)) < 0) {
        text[0] = '\0';
    }
    hash = hash_text(text, strnlen(text, sizeof(text))) | 1u;
    atomic_store_explicit(&known, hash, memory_order_relaxed);
    return hash;
}

uint64_t cw_host_boot_id(void)
{
    static _Atomic uint64_t known;
    uint64_t hash = atomic_load_explicit(&known, memory_order_relaxed);
    ssize_t length = -1;
    char text[256];
    int fd;

    if (hash != 0) {
        return hash;
    }
    fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        length = read(fd, text, sizeof(text));
        close(fd);
    }
    hash = (length > 0) ? hash_text(text, (size_t)length) | 1u : cw_host_boot_by_name();
    atomic_store_explicit(&known, hash, memory_order_relaxed);
    return hash;
}

static uint64_t namespace_within(uint64_t boot, const struct stat *ns)
{
    const uint64_t id = cw_hash_mix(boot ^ cw_hash_mix((uint64_t)ns->st_ino + ((uint64_t)ns->st_dev << 40)));

    return (id != 0) ? id : 1;
}

static uint64_t namespace_id(const char *of_thread, const char *of_process)
{
    struct stat ns;

    if (stat(of_thread, &ns) < 0 && stat(of_process, &ns) < 0) {
        ns.st_dev = 0;
        ns.st_ino = 0;
    }
    return namespace_within(cw_host_boot_id(), &ns);
}

uint64_t cw_host_netns_id(void)
{
    return namespace_id("/proc/thread-self/ns/net", "/proc/self/ns/net");
}

static const char without_here[] =
    "this process sees no /proc, which identifies processes of one machine: mount it here";
static const char without_there[] = "it is on this machine but sees no /proc, which identifies processes of one "
                                    "machine: mount it there";

/* Whether the number stands for all namespaces, because the kernel does not distinguish them. */
static bool is_vague(uint64_t id)
{
    static const struct stat all = {.st_ino = 0};

    return id == namespace_within(cw_host_boot_by_name(), &all) || id == namespace_within(cw_host_boot_id(), &all);
}

/* Without this line the consequence looks like a fault of the network, or is merely slow. */
static const char *logged_once(const char *why)
{
    static _Atomic int logged[2];

    if (atomic_exchange(&logged[why == without_there], 1) == 0) {
        cw_warn("shared memory and loopback are disabled for a peer: %s", why);
    }
    return why;
}

const char *cw_host_why_apart(uint64_t ours, uint64_t theirs)
{
    if (cw_host_boot_id() == cw_host_boot_by_name() || is_vague(ours)) {
        return logged_once(without_here);
    }
    return is_vague(theirs) ? logged_once(without_there) : NULL;
}

const char *cw_host_why_other_boot(uint64_t theirs, uint64_t by_name)
{
    if (cw_host_boot_id() == cw_host_boot_by_name()) {
        return logged_once(without_here);
    }
    return (theirs == by_name) ? logged_once(without_there) : NULL;
}

uint64_t cw_host_pidns_id(void)
{
    return namespace_id("/proc/thread-self/ns/pid", "/proc/self/ns/pid");
}
