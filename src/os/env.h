/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The process and its environment: variables, host, user, program, library file; and plain files, as the log and the
 * configuration need them. Thread safe unless stated otherwise; no call blocks except on the disk. errno is only
 * meaningful where a contract says so.
 */
#ifndef CW_OS_ENV_H
#define CW_OS_ENV_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "ucs/type/status.h"

/* Whether the program has privileges that the user who started it lacks (set-user-id, set-group-id, file capabilities).
 * Its environment, HOME and current directory are then untrusted. */
bool cw_env_is_secure(void);

/* As getenv: NULL when unset, and in a secure program. The string is borrowed, and a setenv of the program may change
 * it. */
const char *cw_env_get(const char *name);
/* The "NAME=value" strings, NULL-terminated; NULL when there is no environment, and in a secure program. A setenv of
 * the program may change them. */
char *const *cw_env_all(void);

/* The program's stdout and stderr, however this library was loaded. */
FILE *cw_env_stdout(void);
FILE *cw_env_stderr(void);

int cw_env_pid(void);
/* 0 for the first thread that calls, then 1, 2 ...; stable for the life of a thread. */
unsigned cw_env_thread_number(void);
int cw_env_cpu(void);
uint64_t cw_env_wall_time_us(void);

/* Each writes a NUL-terminated text, truncated to fit, or "?" when unknown. size > 0. */
void cw_env_host(char *text, size_t size);
void cw_env_user(char *text, size_t size);
void cw_env_program(char *text, size_t size);

/* The file from which this library was loaded (or the program, when linked in). UCS_ERR_NO_ELEM when unknown or too
 * long. */
ucs_status_t cw_env_library_path(char *path, size_t size);
/* For a statically linked program that stands for another file: cw_env_library_path returns this path from now on. The
 * string is borrowed and must live for ever. Call it before any other function. */
void cw_env_library_set(const char *path);
/* The user who owns that file, and can change what the library does; 0 (root) when unknown. */
unsigned cw_env_library_owner(void);

/* The whole of a regular file, NUL-terminated, in *text_p, which the caller frees. UCS_ERR_NO_ELEM: missing, unreadable
 * or no regular file; UCS_ERR_EXCEEDS_LIMIT: longer than `max`; UCS_ERR_NO_MEMORY. */
ucs_status_t cw_file_read(const char *path, size_t max, char **text_p, size_t *length_p);

/*
 * Like cw_file_read, for a file that may control this process: one that belongs to the effective user, to root or to
 * the user `other`, with no other user able to write it. The creator of a symbolic link that leads there counts as an
 * owner. In a secure program the effective user counts only if it differs from the real one. UCS_ERR_NO_ELEM: there is
 * none, or its directory is closed to this user; UCS_ERR_REJECTED: there is one that is not used, for the reason that
 * is written to `why`, a clause about "it"; UCS_ERR_NO_MEMORY.
 */
ucs_status_t cw_file_read_trusted(const char *path, size_t max, unsigned other, char **text_p, size_t *length_p,
                                  char *why, size_t size);
/* 0: names can be looked up in this directory; otherwise errno. */
int cw_directory_check(const char *path);

/* Two paths with equal numbers lead to one file. cw_file_id_get returns 0 for a path that leads to none. */
struct cw_file_id {
    uint64_t device;
    uint64_t number;
};
int cw_file_id_get(const char *path, struct cw_file_id *id);

/* Descriptor for appending, close-on-exec, created when missing, with its present size; -1 and errno. In a secure
 * program this call and cw_file_create fail with EPERM. */
int cw_file_open_append(const char *path, uint64_t *size_p);
/* cw_file_write_all calls write(2) until all bytes are written, also after EINTR. 0, or -1 and errno. */
/* Also -1, with errno, for a name that exists already. No other user of this machine may read the file. */
int cw_file_create(const char *path);
int cw_file_write_all(int fd, const void *data, size_t length);
int cw_file_truncate(int fd);
int cw_file_rename(const char *from, const char *to);
void cw_file_close(int fd);

/* Between the two calls a write of this thread fails with an error where it would otherwise kill the process: a write
 * to a pipe without reader (EPIPE), or beyond the limit of file sizes (EFBIG). */
struct cw_write_signals {
    sigset_t old_mask;
    sigset_t pending;
};
void cw_write_signals_hold(struct cw_write_signals *signals);
void cw_write_signals_release(const struct cw_write_signals *signals);

#endif
