/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * os/host.h on procfs. Where procfs is missing the host name stands in for the boot and all namespaces count as one.
 */
#include "os/host.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"

static uint64_t hash_text(const char *text, size_t length)
{
    uint64_t hash = 0xcbf29ce484222325u;
    size_t i;

    for (i = 0; i < length; i++) {
        hash = (hash ^ (unsigned char)text[i]) * 0x100000001b3u;
    }
    return cw_hash_mix(hash);
}

/* Threads that meet here compute the same value. */
uint64_t cw_host_boot_id(void)
{
    static _Atomic uint64_t known;
    uint64_t hash = atomic_load_explicit(&known, memory_order_relaxed);
    char text[256];
    ssize_t length = -1;
    int fd;

    if (hash != 0) {
        return hash;
    }
    fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        length = read(fd, text, sizeof(text));
        close(fd);
    }
    if (length <= 0) {
        length = (gethostname(text, sizeof(text)) == 0) ? (ssize_t)sizeof(text) : 0;
        for (ssize_t i = 0; i < length; i++) {
            if (text[i] == '\0') {
                length = i;
            }
        }
    }
    hash = hash_text(text, (size_t)length) | 1u;
    atomic_store_explicit(&known, hash, memory_order_relaxed);
    return hash;
}

static uint64_t namespace_id(const char *of_thread, const char *of_process)
{
    struct stat ns;
    uint64_t id;

    if (stat(of_thread, &ns) < 0 && stat(of_process, &ns) < 0) {
        ns.st_dev = 0;
        ns.st_ino = 0;
    }
    id = cw_hash_mix(cw_host_boot_id() ^ cw_hash_mix((uint64_t)ns.st_ino + ((uint64_t)ns.st_dev << 40)));
    return (id != 0) ? id : 1;
}

uint64_t cw_host_netns_id(void)
{
    return namespace_id("/proc/thread-self/ns/net", "/proc/self/ns/net");
}

uint64_t cw_host_pidns_id(void)
{
    return namespace_id("/proc/thread-self/ns/pid", "/proc/self/ns/pid");
}
