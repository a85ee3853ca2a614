/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory that another process allocated, reached by its key (core/mem.h, KEY-7, MEM-30..32): both see the same bytes,
 * the validity word shows when the owner unmapped, keys that do not agree with the memory are not believed, and nothing
 * of ours is left afterwards. The owner is a child that obeys one-letter commands.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runner.h"
#include "core/mem.h"
#include "core/rkey.h"
#include "os/memory.h"

enum { LENGTH = 3 * 4096 - 100, ROUNDED = 3 * 4096 };

struct report {
    uint8_t key[CW_KEY_MAX];
    uint8_t exported[CW_MEM_EXPORT_MAX];
};

static struct {
    pid_t pid;
    int to, from;
    struct report report;
    struct cw_key key;
} owner;
static ucp_context_h context;
static unsigned num_fds, num_maps;

static int allocations_left = -1; /* -1: no limit */

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);

static int has_memory(void)
{
    if (allocations_left > 0) {
        allocations_left--;
        return 1;
    }
    return allocations_left < 0;
}

void *__wrap_malloc(size_t size)
{
    return has_memory() ? __real_malloc(size) : NULL;
}

void *__wrap_calloc(size_t count, size_t size)
{
    return has_memory() ? __real_calloc(count, size) : NULL;
}

static ucp_context_h new_context(void)
{
    const ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES,
                                 .features = UCP_FEATURE_RMA | UCP_FEATURE_EXPORTED_MEMH};
    ucp_context_h made = NULL;

    (void)setenv("UCX_LOG_LEVEL", "fatal", 1);
    return (ucp_init(&params, NULL, &made) == UCS_OK) ? made : NULL;
}

static ucs_status_t allocate(ucp_context_h with, struct ucp_mem **mem_p)
{
    const ucp_mem_map_params_t params = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_LENGTH | UCP_MEM_MAP_PARAM_FIELD_FLAGS,
                                         .length = LENGTH,
                                         .flags = UCP_MEM_MAP_ALLOCATE};

    return cw_mem_map(with, &params, mem_p);
}

/* ---- the owner ---- */

static int obey(char command, ucp_context_h with, struct ucp_mem *mem, volatile char *bytes)
{
    switch (command) {
    case 'r': /* what the other side wrote */
        return bytes[1] == 'w' && bytes[ROUNDED - 1] == 'z';
    case 'w':
        bytes[2] = 'o';
        return 1;
    case 'u':
        return cw_mem_unmap(with, mem) == UCS_OK;
    default:
        return 0;
    }
}

static void own(int commands, int answers)
{
    ucp_context_h with = new_context();
    struct ucp_mem *mem;
    struct cw_key key;
    struct report report;
    size_t length;
    char command;

    if (with == NULL || allocate(with, &mem) != UCS_OK || cw_mem_export(mem, report.exported, &length) != UCS_OK) {
        _exit(1);
    }
    cw_mem_key(mem, &key);
    cw_key_encode(&key, NULL, report.key);
    memset((char *)(uintptr_t)key.address, 'a', ROUNDED);
    if (write(answers, &report, sizeof(report)) != (ssize_t)sizeof(report)) {
        _exit(1);
    }
    while (read(commands, &command, 1) == 1) {
        if (!obey(command, with, mem, (volatile char *)(uintptr_t)key.address) || write(answers, &command, 1) != 1) {
            _exit(1);
        }
    }
    _exit(0);
}

static void send_command(char command)
{
    char answer = 0;

    assert_int_equal(write(owner.to, &command, 1), 1);
    assert_int_equal(read(owner.from, &answer, 1), 1);
    assert_int_equal(answer, command);
}

static void kill_owner(void)
{
    if (owner.pid > 0) {
        kill(owner.pid, SIGKILL);
        waitpid(owner.pid, NULL, 0);
    }
    owner.pid = 0;
}

/* ---- what is left ---- */

static unsigned count_fds(void)
{
    DIR *directory = opendir("/proc/self/fd");
    unsigned count = 0;

    assert_non_null(directory);
    while (readdir(directory) != NULL) {
        count++;
    }
    closedir(directory);
    return count;
}

static unsigned count_maps(void)
{
    FILE *file = fopen("/proc/self/maps", "r");
    unsigned count = 0;
    char line[1000];

    assert_non_null(file);
    while (fgets(line, sizeof(line), file) != NULL) {
        count += (strstr(line, "memfd:causeway") != NULL);
    }
    fclose(file);
    return count;
}

static int setup(void **state)
{
    int commands[2], answers[2];

    (void)state;
    if (pipe(commands) != 0 || pipe(answers) != 0 || (owner.pid = fork()) < 0) {
        return -1;
    }
    if (owner.pid == 0) {
        close(commands[1]);
        close(answers[0]);
        own(commands[0], answers[1]);
    }
    close(commands[0]);
    close(answers[1]);
    owner.to = commands[1];
    owner.from = answers[0];
    if (read(owner.from, &owner.report, sizeof(owner.report)) != (ssize_t)sizeof(owner.report) ||
        cw_key_decode(owner.report.key, &owner.key, NULL) != UCS_OK) {
        return -1;
    }
    context = new_context();
    num_fds = count_fds();
    num_maps = count_maps();
    return (context != NULL) ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    assert_int_equal(count_fds(), num_fds);
    assert_int_equal(count_maps(), num_maps);
    ucp_cleanup(context);
    close(owner.to);
    close(owner.from);
    kill_owner();
    unsetenv("UCX_TLS");
    unsetenv("UCX_POSIX_USE_PROC_LINK");
    return 0;
}

static struct ucp_rkey *unpack(const struct cw_key *key)
{
    uint8_t bytes[CW_KEY_MAX];
    struct ucp_rkey *rkey = NULL;

    cw_key_encode(key, NULL, bytes);
    assert_int_equal(cw_rkey_unpack(context, bytes, 0, &rkey), UCS_OK);
    return rkey;
}

static int reaches(const struct cw_key *key)
{
    struct ucp_rkey *rkey = unpack(key);
    const int result = cw_rkey_direct(rkey, key->address, 0) != NULL;

    cw_rkey_release(rkey);
    return result;
}

TEST_WITH(both_see_the_same_bytes, setup, teardown)
{
    const uint64_t address = owner.key.address;
    struct ucp_rkey *rkey = unpack(&owner.key);
    volatile char *bytes;
    void *ptr;

    assert_int_equal(cw_rkey_ptr(rkey, address, &ptr), UCS_OK);
    bytes = ptr;
    assert_int_equal(cw_rkey_ptr(rkey, address + ROUNDED - 1, &ptr), UCS_OK);
    assert_ptr_equal(ptr, (void *)(uintptr_t)(bytes + ROUNDED - 1));
    assert_int_equal(cw_rkey_ptr(rkey, address + ROUNDED, &ptr), UCS_ERR_INVALID_ADDR);
    assert_int_equal(cw_rkey_ptr(rkey, address - 1, &ptr), UCS_ERR_INVALID_ADDR);
    assert_true(bytes[0] == 'a' && bytes[ROUNDED - 1] == 'a');
    bytes[1] = 'w';
    bytes[ROUNDED - 1] = 'z';
    send_command('r');
    send_command('w');
    assert_int_equal(bytes[2], 'o');
    cw_rkey_release(rkey);
}

/* The mapping stays as long as a key does, but nothing goes there any more. */
TEST_WITH(unmapping_is_seen, setup, teardown)
{
    struct ucp_rkey *rkey = unpack(&owner.key);
    volatile char *bytes = cw_rkey_direct(rkey, owner.key.address, CW_KEY_READ | CW_KEY_WRITE);
    void *ptr;

    assert_non_null((void *)(uintptr_t)bytes);
    send_command('u');
    assert_null(cw_rkey_direct(rkey, owner.key.address, CW_KEY_READ));
    assert_int_equal(cw_rkey_ptr(rkey, owner.key.address, &ptr), UCS_ERR_UNREACHABLE);
    bytes[0] = 1;
    kill_owner();
    bytes[1] = 1;
    assert_false(reaches(&owner.key));
    cw_rkey_release(rkey);
    assert_false(reaches(&owner.key));
}

TEST_WITH(keys_share_one_mapping, setup, teardown)
{
    struct ucp_rkey *first = unpack(&owner.key);
    const unsigned maps = count_maps();
    struct ucp_rkey *second = unpack(&owner.key);

    assert_true(maps > num_maps);
    assert_ptr_equal(first->local, second->local);
    assert_int_equal(cw_rkey_compare(first, second), 0);
    assert_int_equal(count_maps(), maps);
    assert_int_equal(count_fds(), num_fds);
    cw_rkey_release(first);
    assert_int_equal(*cw_rkey_direct(second, owner.key.address, 0), 'a');
    cw_rkey_release(second);
    assert_int_equal(count_maps(), num_maps);
}

TEST_WITH(keys_that_do_not_agree_are_not_believed, setup, teardown)
{
    struct cw_key key;

#define WRONG(change)      \
    key = owner.key;       \
    key.change;            \
    assert_false(reaches(&key))
    WRONG(token ^= 1);
    WRONG(address += 4096);
    WRONG(length -= 4096);
    WRONG(length += 4096);
    WRONG(length = LENGTH);
    WRONG(length = UINT64_MAX - key.address);
    WRONG(rights = CW_KEY_READ);
    WRONG(flags = 0);
    WRONG(system ^= 1);
    WRONG(pid = 0);
    WRONG(pid = UINT32_MAX);
    WRONG(pid = (uint32_t)getpid());
    WRONG(fd = UINT32_MAX);
    for (uint32_t fd = 0; fd < owner.key.fd + 20; fd++) { /* files, sockets and pipes of the owner */
        if (fd != owner.key.fd) {
            WRONG(fd = fd);
        }
    }
#undef WRONG
    assert_true(reaches(&owner.key));
}

/* Everything is right but for the seals, or for the name. */
TEST_WITH(only_sealed_memory_of_ours_is_mapped, setup, teardown)
{
    static const struct {
        const char *name;
        int seals, reached;
    } cases[] = {{"causeway-memory", F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL, 1},
                 {"causeway-memory", F_SEAL_GROW | F_SEAL_SEAL, 0},
                 {"causeway-memory", F_SEAL_SHRINK | F_SEAL_SEAL, 0},
                 {"causeway-memory", F_SEAL_SHRINK | F_SEAL_GROW, 0},
                 {"causeway-memory", F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL | F_SEAL_WRITE, 0},
                 {"causewaymemory", F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL, 0}};
    struct cw_key key = owner.key;
    uint64_t trailer[3];

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const int fd = memfd_create(cases[i].name, MFD_CLOEXEC | MFD_ALLOW_SEALING);

        key.token = 0x1234567 + i;
        key.pid = (uint32_t)getpid();
        key.fd = (uint32_t)fd;
        trailer[0] = key.token;
        trailer[1] = key.address;
        trailer[2] = key.rights;
        assert_int_equal(ftruncate(fd, ROUNDED + 4096), 0);
        assert_int_equal(pwrite(fd, trailer, sizeof(trailer), ROUNDED), sizeof(trailer));
        assert_int_equal(fcntl(fd, F_ADD_SEALS, cases[i].seals), 0);
        assert_int_equal(reaches(&key), cases[i].reached);
        close(fd);
    }
}

/* Opening a pipe would wait for its other end, and show it that somebody reads. */
TEST_WITH(other_files_are_left_alone, setup, teardown)
{
    char path[] = "/tmp/causeway-test-XXXXXX", name[100];
    struct cw_key key = owner.key;
    int fd;

    assert_non_null(mkdtemp(path));
    snprintf(name, sizeof(name), "%s/memfd:causeway-memory", path);
    assert_int_equal(mkfifo(name, 0600), 0);
    fd = open(name, O_PATH | O_CLOEXEC);
    assert_true(fd >= 0);
    key.pid = (uint32_t)getpid();
    key.fd = (uint32_t)fd;
    assert_false(reaches(&key));
    close(fd);
    unlink(name);
    rmdir(path);
}

/* In name spaces of its own, where it may mount: 0: the file was not opened, 1: it was, 2: mounting is not allowed. */
static int open_a_foreign_file(void)
{
    char dir[] = "/tmp/causeway-test-XXXXXX", name[100], event[400];
    struct cw_memory memory;
    int fd, watch, opened;

    if (mkdtemp(dir) == NULL) {
        return 3;
    }
    snprintf(name, sizeof(name), "%s/memfd:causeway-memory", dir);
    opened = (unshare(CLONE_NEWNS) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) ||
             mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 || mount("none", dir, "tmpfs", 0, NULL) != 0;
    if (opened) {
        rmdir(dir);
        return 2;
    }
    fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    watch = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (fd < 0 || ftruncate(fd, ROUNDED + 4096) != 0 || inotify_add_watch(watch, name, IN_OPEN) < 0 ||
        umount2(dir, MNT_DETACH) != 0 || rmdir(dir) != 0) { /* its path begins at its own root from now on */
        return 3;
    }
    if (cw_memory_open((uint32_t)getpid(), (uint32_t)fd, ROUNDED, &memory) != UCS_ERR_UNREACHABLE) {
        return 3;
    }
    return read(watch, event, sizeof(event)) > 0;
}

/* A file of a file system that a peer made (FUSE) lets who opens it, or asks for its size, wait as long as the peer
 * likes, and can have any name. */
TEST_WITH(files_of_strange_file_systems_are_left_alone, setup, teardown)
{
    pid_t pid = fork();
    int status = -1;

    if (pid == 0) {
        _exit(open_a_foreign_file());
    }
    assert_true(pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status));
    if (WEXITSTATUS(status) == 2) {
        print_message("Skipped: the system does not let a process mount anything\n");
        skip();
    }
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* Such lengths would use up our addresses. */
TEST_WITH(memory_that_no_machine_has_is_not_mapped, setup, teardown)
{
    const int fd = memfd_create("causeway-memory", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    struct cw_key key = owner.key;
    uint64_t trailer[3];

    key.length = UINT64_C(1) << 45;
    key.pid = (uint32_t)getpid();
    key.fd = (uint32_t)fd;
    key.token ^= 1;
    trailer[0] = key.token;
    trailer[1] = key.address;
    trailer[2] = key.rights;
    assert_int_equal(ftruncate(fd, (off_t)key.length + 4096), 0);
    assert_int_equal(pwrite(fd, trailer, sizeof(trailer), (off_t)key.length), sizeof(trailer));
    assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
    assert_false(reaches(&key));
    close(fd);
}

TEST_WITH(a_dead_owner_is_out_of_reach, setup, teardown)
{
    kill_owner();
    assert_false(reaches(&owner.key));
}

static void again_with(const char *name, const char *value)
{
    ucp_cleanup(context);
    assert_int_equal(setenv(name, value, 1), 0);
    context = new_context();
    assert_non_null(context);
    num_fds = count_fds();
}

TEST_WITH(settings_are_obeyed, setup, teardown)
{
    const ucp_mem_map_params_t imports = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_EXPORTED_MEMH_BUFFER,
                                .exported_memh_buffer = owner.report.exported};
    struct ucp_mem *mem;
    struct cw_key key;

    again_with("UCX_POSIX_USE_PROC_LINK", "n");
    assert_false(reaches(&owner.key));
    again_with("UCX_POSIX_USE_PROC_LINK", "y");
    again_with("UCX_TLS", "tcp,self");
    assert_false(reaches(&owner.key));
    assert_int_equal(cw_mem_map(context, &imports, &mem), UCS_ERR_UNREACHABLE);
    assert_int_equal(allocate(context, &mem), UCS_OK);
    cw_mem_key(mem, &key);
    assert_int_equal(key.flags, 0);
    assert_true(reaches(&key));
    assert_int_equal(cw_mem_unmap(context, mem), UCS_OK);
    again_with("UCX_TLS", "tcp");
    assert_int_equal(allocate(context, &mem), UCS_OK);
    cw_mem_key(mem, &key);
    assert_false(reaches(&key));
    assert_int_equal(cw_mem_unmap(context, mem), UCS_OK);
    again_with("UCX_TLS", "sm");
    assert_true(reaches(&owner.key));
}

/* Our own region: no other mapping of it, and no way around its rights. */
TEST_WITH(our_own_memory_is_where_it_is, setup, teardown)
{
    struct ucp_context *other = new_context();
    struct ucp_rkey *rkey;
    struct ucp_mem *mem;
    struct cw_key key;

    assert_int_equal(allocate(context, &mem), UCS_OK);
    cw_mem_key(mem, &key);
    rkey = unpack(&key);
    assert_ptr_equal(cw_rkey_direct(rkey, key.address + 5, CW_KEY_WRITE), (char *)(uintptr_t)key.address + 5);
    assert_null(rkey->mapping);
    key.rights = CW_KEY_WRITE;
    assert_false(reaches(&key));
    assert_int_equal(cw_mem_unmap(context, mem), UCS_OK);
    assert_null(cw_rkey_direct(rkey, key.address, CW_KEY_WRITE));
    cw_rkey_release(rkey);
    assert_int_equal(allocate(other, &mem), UCS_OK); /* of another context, in the same process */
    cw_mem_key(mem, &key);
    rkey = unpack(&key);
    assert_non_null(rkey->local);
    *(char *)(uintptr_t)key.address = 'x';
    assert_int_equal(*rkey->local, 'x');
    cw_rkey_release(rkey);
    ucp_cleanup(other);
}

/* MEM-12: a child that unmaps what it has of its parent takes nothing away from the parent's peers. */
TEST_WITH(a_forked_child_revokes_nothing, setup, teardown)
{
    ucp_context_h other = new_context();
    uint8_t bytes[CW_KEY_MAX];
    struct ucp_rkey *rkey;
    struct ucp_mem *mem;
    struct cw_key key;
    int status = -1;
    pid_t pid;

    assert_int_equal(allocate(context, &mem), UCS_OK);
    cw_mem_key(mem, &key);
    pid = fork();
    if (pid == 0) {
        *(char *)(uintptr_t)key.address = 'c';
        _exit(cw_mem_unmap(context, mem) != UCS_OK);
    }
    assert_true(pid > 0 && waitpid(pid, &status, 0) == pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_int_equal(*(char *)(uintptr_t)key.address, 'c');
    cw_key_encode(&key, NULL, bytes);
    assert_int_equal(cw_rkey_unpack(other, bytes, 0, &rkey), UCS_OK);
    assert_non_null(cw_rkey_direct(rkey, key.address, 0));
    assert_int_equal(cw_mem_unmap(context, mem), UCS_OK);
    assert_null(cw_rkey_direct(rkey, key.address, 0));
    cw_rkey_release(rkey);
    ucp_cleanup(other);
}

TEST_WITH(exported_memory_is_imported, setup, teardown)
{
    ucp_mem_map_params_t params = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_EXPORTED_MEMH_BUFFER,
                         .exported_memh_buffer = owner.report.exported};
    struct ucp_mem *mem, *none = NULL;
    uint8_t wrong[CW_MEM_EXPORT_MAX];
    volatile char *bytes;
    struct cw_key key;
    size_t length;

    assert_int_equal(cw_mem_map(context, &params, &mem), UCS_OK);
    cw_mem_key(mem, &key);
    assert_true(key.length == ROUNDED && key.token != owner.key.token);
    bytes = (volatile char *)(uintptr_t)key.address;
    assert_int_equal(bytes[0], 'a');
    bytes[1] = 'w';
    bytes[ROUNDED - 1] = 'z';
    send_command('r');
    assert_true(reaches(&key));
    send_command('u'); /* the importer still has the pages */
    bytes[1] = 'y';
    assert_true(reaches(&key));
    assert_int_equal(cw_mem_export(mem, wrong, &length), UCS_ERR_UNSUPPORTED);
    assert_int_equal(cw_mem_unmap(context, mem), UCS_OK);
    assert_int_equal(cw_mem_map(context, &params, &none), UCS_ERR_UNREACHABLE);
    memcpy(wrong, owner.report.exported, sizeof(wrong));
    wrong[0] ^= 1;
    params.exported_memh_buffer = wrong;
    assert_int_equal(cw_mem_map(context, &params, &none), UCS_ERR_INVALID_PARAM);
    params.exported_memh_buffer = owner.report.key;
    assert_int_equal(cw_mem_map(context, &params, &none), UCS_ERR_INVALID_PARAM);
    params.exported_memh_buffer = owner.report.exported;
    params.field_mask |= UCP_MEM_MAP_PARAM_FIELD_FLAGS;
    params.flags = UCP_MEM_MAP_ALLOCATE;
    assert_int_equal(cw_mem_map(context, &params, &none), UCS_ERR_INVALID_PARAM);
    assert_null(none);
}

/* Everything that a context does for the first time, with that many allocations. Returns how much of it was done. */
static int do_all(void)
{
    const ucp_mem_map_params_t imports = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_EXPORTED_MEMH_BUFFER,
                                .exported_memh_buffer = owner.report.exported};
    struct ucp_mem *mem = NULL, *imported = NULL;
    struct ucp_rkey *rkey = NULL;
    int done;

    done = allocate(context, &mem) == UCS_OK;
    done += cw_rkey_unpack(context, owner.report.key, 0, &rkey) == UCS_OK && rkey->local != NULL;
    done += cw_mem_map(context, &imports, &imported) == UCS_OK;
    allocations_left = -1;
    if (mem != NULL) {
        assert_int_equal(cw_mem_unmap(context, mem), UCS_OK);
    }
    if (rkey != NULL) {
        cw_rkey_release(rkey);
    }
    if (imported != NULL) {
        assert_int_equal(cw_mem_unmap(context, imported), UCS_OK);
    }
    return done;
}

TEST_WITH(no_memory_leaves_nothing, setup, teardown)
{
    int done, limit;

    for (done = limit = 0; done < 3; limit++) {
        assert_in_range(limit, 0, 20);
        again_with("UCX_TLS", "sm");
        allocations_left = limit;
        done = do_all();
        assert_true(limit > 0 || done == 0);
        assert_int_equal(count_fds(), num_fds);
        assert_int_equal(count_maps(), num_maps);
    }
}
