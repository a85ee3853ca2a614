/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * os/secret.h on files and getrandom(2).
 */
#include "os/secret.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"

/* Returns a descriptor, or -1 with the reason in the log. */
static int open_private(const char *setting, const char *path)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    struct stat st;

    if (fd < 0 || fstat(fd, &st) < 0) {
        cw_error("%s=%s cannot be read: %m", setting, path);
    } else if (!S_ISREG(st.st_mode)) {
        cw_error("%s=%s is not a regular file", setting, path);
    } else if (st.st_uid != geteuid() && st.st_uid != 0) {
        cw_error("%s=%s belongs to user %u; it must belong to this user (%u) or to root", setting, path,
                 (unsigned)st.st_uid, (unsigned)geteuid());
    } else if ((st.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
        cw_error("%s=%s holds a secret but other users can access it; fix with chmod 600 %s",
                 setting, path, path);
    } else {
        return fd;
    }
    if (fd >= 0) {
        close(fd);
    }
    return -1;
}

ucs_status_t cw_secret_read(const char *setting, const char *path, void *bytes, size_t min, size_t *length_p)
{
    const size_t max = *length_p;
    const int fd = open_private(setting, path);
    size_t length = 0;
    ssize_t got;
    char more;

    if (fd < 0) {
        return UCS_ERR_INVALID_PARAM;
    }
    do {
        got = read(fd, (length < max) ? (char *)bytes + length : &more, (length < max) ? max - length : 1);
        length += (got > 0) ? (size_t)got : 0;
    } while ((got > 0 && length <= max) || (got < 0 && errno == EINTR));
    close(fd);
    if (got < 0) {
        cw_error("%s=%s cannot be read: %s", setting, path, strerror(errno));
    } else if (length < min || length > max) {
        cw_error("%s=%s must hold %zu to %zu bytes; 32 random ones are best: head -c 32 /dev/urandom", setting, path,
                 min, max);
    } else {
        *length_p = length;
        return UCS_OK;
    }
    cw_secret_wipe(bytes, max);
    return UCS_ERR_INVALID_PARAM;
}

ucs_status_t cw_secret_check(const char *setting, const char *path)
{
    const int fd = open_private(setting, path);

    if (fd < 0) {
        return UCS_ERR_INVALID_PARAM;
    }
    close(fd);
    return UCS_OK;
}

void cw_secret_wipe(void *bytes, size_t length)
{
    explicit_bzero(bytes, length);
}

int cw_secret_equal(const void *left, const void *right, size_t length)
{
    const volatile uint8_t *a = left, *b = right;
    uint8_t differ = 0;
    size_t i;

    for (i = 0; i < length; i++) {
        differ |= a[i] ^ b[i];
    }
    return differ == 0;
}

int cw_secret_random(void *bytes, size_t length)
{
    return getrandom(bytes, length, GRND_NONBLOCK) == (ssize_t)length;
}
