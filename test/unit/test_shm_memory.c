/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Why there is no shared memory: what the system said is what the log says, with what helps against that and nothing
 * else, and the status is no other reason's.
 */
#include <errno.h>
#include <string.h>

#include "runner.h"
#include "os/segment.h"
#include "test_log_lines.h"

int __real_memfd_create(const char *name, unsigned flags);
int __wrap_memfd_create(const char *name, unsigned flags);

static int error; /* of the system; 0: none */

int __wrap_memfd_create(const char *name, unsigned flags)
{
    if (error != 0) {
        errno = error;
        return -1;
    }
    return __real_memfd_create(name, flags);
}

TEST(test_memfd_create)
{
    static const struct {
        int error;
        ucs_status_t status;
        const char *helps;
    } cases[] = {{ENOSYS, UCS_ERR_UNSUPPORTED, "allow this system call"},
                 {EPERM, UCS_ERR_UNSUPPORTED, "allow this system call"},
                 {EMFILE, UCS_ERR_NO_RESOURCE, "ulimit -n"},
                 {ENFILE, UCS_ERR_NO_RESOURCE, "ulimit -n"},
                 {ENOMEM, UCS_ERR_NO_MEMORY, ""}};
    void *ptr;
    size_t i;
    int fd;

    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        error = cases[i].error;
        log_count_begin();
        assert_int_equal(cw_segment_create(4096, 4096, &fd, &ptr), cases[i].status);
        log_count_end();
        assert_int_equal(log_lines, 1);
        assert_non_null(strstr(log_text, "memfd_create"));
        assert_non_null(strstr(log_text, strerror(error)));
        assert_non_null(strstr(log_text, cases[i].helps));
        assert_int_equal(strstr(log_text, "ulimit -n") != NULL, error == EMFILE || error == ENFILE);
    }
    error = 0;
}
