/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Worker addresses in files. What is read may be any bytes: it is judged by the library's own decoder, in memory of the
 * greatest size that an address can have.
 *
 * Callers: main.c, why.c.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "os/env.h"
#include "say.h"
#include "show.h"
#include "why.h"

ucp_address_t *cw_address_file_read(const char *path, struct cw_address *address)
{
    char *bytes = NULL, *blob = calloc(1, CW_ADDRESS_MAX);
    ucs_status_t status;
    size_t length = 0;

    status = (blob == NULL) ? UCS_ERR_NO_MEMORY : cw_file_read(path, CW_ADDRESS_MAX, &bytes, &length);
    if (status == UCS_OK) {
        memcpy(blob, bytes, length);
        free(bytes);
        status = (length < CW_ADDRESS_HEADER) ? UCS_ERR_INVALID_PARAM : cw_address_decode(blob, address);
        if (status == UCS_OK && address->length == length) {
            return (ucp_address_t *)blob;
        }
        cw_say_error((status == UCS_ERR_UNREACHABLE) ?
                     "--to: '%s' holds no worker address of this library, or one of another version" :
                     "--to: '%s' holds no sound worker address: it is damaged, cut off or something else", path);
    } else if (status == UCS_ERR_EXCEEDS_LIMIT) {
        cw_say_error("--to: '%s' has more than the %u bytes of the longest worker address", path, CW_ADDRESS_MAX);
    } else {
        cw_say_error("--to: cannot read '%s'", path);
    }
    free(blob);
    return NULL;
}

static int write_file(const char *path, const void *bytes, size_t length)
{
    /* Non-blocking, so that a FIFO of that name cannot hold the tool up. */
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NONBLOCK, 0644);
    ssize_t written;
    int problem;

    if (fd < 0) {
        return errno;
    }
    written = write(fd, bytes, length);
    problem = (written < 0) ? errno : 0;
    if (written >= 0 && (size_t)written < length) {
        problem = ENOSPC;
    }
    return (close(fd) == 0 || problem != 0) ? problem : errno;
}

int cw_show_address(const struct cw_info_options *options)
{
    const uint64_t features = (options->features != 0) ? options->features : cw_side_features(options->op);
    struct cw_info_side side;
    ucp_address_t *address;
    int problem = 0;
    size_t length;

    if (cw_side_open(&side, options, features, options->only) != UCS_OK || cw_side_add_worker(&side) != UCS_OK) {
        cw_side_close(&side);
        return CW_INFO_FAILED;
    }
    if (ucp_worker_get_address(side.worker, &address, &length) == UCS_OK) {
        problem = write_file(options->address_file, address, length);
        ucp_worker_release_address(side.worker, address);
    } else {
        problem = ENOMEM;
    }
    cw_side_close(&side);
    if (problem != 0) {
        cw_say_error("--address: '%s' cannot be written: %s", options->address_file, strerror(problem));
        return CW_INFO_FAILED;
    }
    printf("# %s holds the address of a worker of this machine, %zu bytes, for --to\n", options->address_file, length);
    return CW_INFO_OK;
}
