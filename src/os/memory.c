/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * os/memory.h on memfd_create(2), file seals and /proc/PID/fd.
 */
#include "os/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "base/log.h"

#define NAME      "causeway-memory"
#define NAME_PATH "/memfd:" NAME
#define SEALS     (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)
#define HUGE_PAGE ((size_t)2 << 20)

size_t cw_memory_page(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

uint32_t cw_memory_process(void)
{
    return (uint32_t)getpid();
}

/* The rounded length leaves space for the trailer within an off_t. */
static int round_up(size_t length, size_t page, size_t *rounded_p)
{
    if (length > (size_t)INT64_MAX - 2 * page) {
        return 0;
    }
    *rounded_p = (length + page - 1) / page * page;
    return 1;
}

static void *map_anywhere(size_t length, int fd, size_t offset)
{
    return mmap(NULL, length, PROT_READ | PROT_WRITE, (fd < 0) ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED, fd,
                (off_t)offset);
}

/* Maps at a multiple of the size of huge pages, by cutting that part out of a larger address range. */
static void *map_aligned(size_t length, int fd)
{
    char *range = mmap(NULL, length + HUGE_PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    size_t head;
    void *ptr;

    if (range == MAP_FAILED) {
        return map_anywhere(length, fd, 0);
    }
    head = (HUGE_PAGE - (uintptr_t)range % HUGE_PAGE) % HUGE_PAGE;
    ptr = mmap(range + head, length, PROT_READ | PROT_WRITE,
               ((fd < 0) ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED) | MAP_FIXED, fd, 0);
    if (ptr == MAP_FAILED) {
        (void)munmap(range, length + HUGE_PAGE);
        return MAP_FAILED;
    }
    if (head > 0) {
        (void)munmap(range, head);
    }
    if (head < HUGE_PAGE) {
        (void)munmap(range + head + length, HUGE_PAGE - head);
    }
    return ptr;
}

static ucs_status_t map_data(const struct cw_memory_spec *spec, struct cw_memory *memory)
{
    const int huge = (spec->huge == CW_MEMORY_RESERVED) ? MAP_HUGETLB : 0;
    const int shared = (memory->fd < 0) ? MAP_PRIVATE | MAP_ANONYMOUS | huge : MAP_SHARED;
    const int joined = spec->huge == CW_MEMORY_TRANSPARENT && memory->length >= HUGE_PAGE;
    void *ptr;

    if (spec->address != NULL || spec->fixed) {
        ptr = mmap(spec->address, memory->length, PROT_READ | PROT_WRITE, shared | (spec->fixed ? MAP_FIXED : 0),
                   memory->fd, 0);
    } else if (joined) {
        ptr = map_aligned(memory->length, memory->fd);
    } else {
        ptr = mmap(NULL, memory->length, PROT_READ | PROT_WRITE, shared, memory->fd, 0);
    }
    if (ptr == MAP_FAILED) {
        cw_debug("cannot map %zu bytes at %p: %m", memory->length, spec->address);
        return UCS_ERR_NO_MEMORY;
    }
    if (joined) {
        (void)madvise(ptr, memory->length, MADV_HUGEPAGE);
    }
    memory->ptr = ptr;
    return UCS_OK;
}

/* Without this check the kernel would accept a length that no machine has, and would kill the process when it touches
 * the pages. */
static bool machine_has(size_t length)
{
    struct sysinfo info;

    return sysinfo(&info) != 0 || length / info.mem_unit <= (size_t)info.totalram + info.totalswap;
}

/* A sealed file of the data and the trailer; -1, with errno. */
static int make_file(const struct cw_memory *memory, enum cw_memory_huge huge)
{
    const size_t size = memory->length + memory->page;
    struct rlimit limit;
    int fd, error;

    if (!machine_has(size)) {
        errno = ENOMEM;
        return -1;
    }
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && size > limit.rlim_cur) {
        errno = EFBIG; /* without this check the kernel would kill the process with SIGXFSZ */
        return -1;
    }
    fd = memfd_create(NAME, MFD_CLOEXEC | MFD_ALLOW_SEALING | ((huge == CW_MEMORY_RESERVED) ? MFD_HUGETLB : 0));
    if (fd < 0) {
        return -1;
    }
    error = (ftruncate(fd, (off_t)size) < 0) ? errno :
            posix_fallocate(fd, (off_t)memory->length, (off_t)memory->page);
    if (error == 0 && fcntl(fd, F_ADD_SEALS, SEALS) < 0) {
        error = errno;
    }
    if (error != 0) {
        close(fd);
        errno = error;
        return -1;
    }
    return fd;
}

static ucs_status_t allocate_shareable(const struct cw_memory_spec *spec, struct cw_memory *memory)
{
    void *trailer;

    memory->fd = make_file(memory, spec->huge);
    if (memory->fd < 0) {
        cw_debug("cannot create shareable memory of %zu bytes: %m", memory->length);
        return UCS_ERR_NO_MEMORY;
    }
    if (map_data(spec, memory) != UCS_OK) {
        close(memory->fd);
        return UCS_ERR_NO_MEMORY;
    }
    trailer = map_anywhere(memory->page, memory->fd, memory->length); /* mapped after the data, whose addresses may be
                                                                         fixed */
    if (trailer == MAP_FAILED) {
        cw_debug("cannot map the page after %zu bytes of shareable memory: %m", memory->length);
        cw_memory_release(memory);
        return UCS_ERR_NO_MEMORY;
    }
    memory->trailer = trailer;
    return UCS_OK;
}

ucs_status_t cw_memory_allocate(const struct cw_memory_spec *spec, struct cw_memory *memory)
{
    *memory = (struct cw_memory){.page = (spec->huge == CW_MEMORY_RESERVED) ? HUGE_PAGE : cw_memory_page(), .fd = -1};
    if (!round_up(spec->length, memory->page, &memory->length)) {
        return UCS_ERR_NO_MEMORY;
    }
    if (spec->shareable) {
        return allocate_shareable(spec, memory);
    }
    return map_data(spec, memory);
}

/* The id of the mount of a descriptor's file; -1: unknown. */
static long mount_of(int fd)
{
    static const char field[] = "\nmnt_id:";
    char text[256];
    const char *found;
    ssize_t length;
    int info;

    snprintf(text, sizeof(text), "/proc/self/fdinfo/%d", fd);
    info = open(text, O_RDONLY | O_CLOEXEC);
    if (info < 0) {
        return -1;
    }
    length = read(info, text, sizeof(text) - 1);
    close(info);
    text[(length > 0) ? length : 0] = '\0';
    found = strstr(text, field);
    return (found != NULL) ? strtol(found + sizeof(field) - 1, NULL, 10) : -1;
}

/* Whether the file lies where the kernel keeps such memory, of small pages or of reserved huge pages. The file system
 * itself is not queried: a peer may provide it (FUSE) and delay its answers without limit. */
static int lies_with_memory(int path_fd)
{
    const unsigned flags[] = {MFD_CLOEXEC, MFD_CLOEXEC | MFD_HUGETLB};
    const long mount = mount_of(path_fd);
    int fd, same = 0;
    unsigned i;

    for (i = 0; i < sizeof(flags) / sizeof(flags[0]) && mount >= 0 && !same; i++) {
        fd = memfd_create(NAME, flags[i]);
        if (fd >= 0) {
            same = mount_of(fd) == mount;
            close(fd);
        }
    }
    return same;
}

/*
 * Opens a descriptor that only names the file (O_PATH): this does nothing to the file, and the name still refers to
 * this file when it is opened for use. -1: it is not memory of this library.
 */
static int open_path(uint32_t pid, uint32_t fd)
{
    char path[64], name[sizeof(NAME_PATH) - 1];
    int path_fd;

    if (pid == cw_memory_process()) {
        snprintf(path, sizeof(path), "/proc/self/fd/%u", fd);
    } else {
        snprintf(path, sizeof(path), "/proc/%u/fd/%u", pid, fd);
    }
    path_fd = open(path, O_PATH | O_CLOEXEC);
    if (path_fd < 0) {
        cw_debug("cannot open %s: %m", path);
        return -1;
    }
    snprintf(path, sizeof(path), "/proc/self/fd/%d", path_fd);
    if (readlink(path, name, sizeof(name)) != (ssize_t)sizeof(name) || memcmp(name, NAME_PATH, sizeof(name)) != 0 ||
        !lies_with_memory(path_fd)) {
        cw_debug("descriptor %u of process %u is not memory of this library", fd, pid);
        close(path_fd);
        return -1;
    }
    return path_fd;
}

static int open_file(uint32_t pid, uint32_t fd)
{
    char path[64];
    int path_fd = open_path(pid, fd), opened;

    if (path_fd < 0) {
        return -1;
    }
    snprintf(path, sizeof(path), "/proc/self/fd/%d", path_fd);
    opened = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
    if (opened < 0) {
        cw_debug("cannot open the memory of process %u: %m", pid);
    }
    close(path_fd);
    return opened;
}

ucs_status_t cw_memory_open_fd(int fd, uint64_t length, struct cw_memory *memory)
{
    struct stat st;
    int seals = fcntl(fd, F_GET_SEALS);
    void *data, *trailer;
    size_t page;

    if (seals < 0 || (seals & SEALS) != SEALS || (seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE)) || fstat(fd, &st) < 0) {
        cw_debug("memory of another process is not sealed");
        return UCS_ERR_UNREACHABLE;
    }
    page = ((uint64_t)st.st_size - length == HUGE_PAGE) ? HUGE_PAGE : cw_memory_page();
    if (length == 0 || !machine_has(length) || length % page != 0 || length > INT64_MAX ||
        (uint64_t)st.st_size != length + page) {
        cw_debug("memory of another process does not have the length in its key");
        return UCS_ERR_UNREACHABLE;
    }
    trailer = map_anywhere(page, fd, length);
    if (trailer == MAP_FAILED) {
        cw_debug("cannot map memory of another process: %m");
        return UCS_ERR_UNREACHABLE;
    }
    data = (length >= HUGE_PAGE) ? map_aligned(length, fd) : map_anywhere(length, fd, 0);
    if (data == MAP_FAILED) {
        cw_debug("cannot map memory of another process: %m");
        (void)munmap(trailer, page);
        return UCS_ERR_UNREACHABLE;
    }
    *memory = (struct cw_memory){.ptr = data, .length = length, .page = page, .trailer = trailer, .fd = -1};
    return UCS_OK;
}

ucs_status_t cw_memory_open(uint32_t pid, uint32_t fd, uint64_t length, struct cw_memory *memory)
{
    int opened = open_file(pid, fd);
    ucs_status_t status;

    if (opened < 0) {
        return UCS_ERR_UNREACHABLE;
    }
    status = cw_memory_open_fd(opened, length, memory);
    close(opened);
    return status;
}

size_t cw_memory_lock_limit(void)
{
    struct rlimit limit;

    return (getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) ? SIZE_MAX
                                                                                        : (size_t)limit.rlim_cur;
}

void cw_memory_release(struct cw_memory *memory)
{
    if (memory->trailer != NULL) {
        (void)munmap(memory->trailer, memory->page);
    }
    if (memory->fd >= 0) {
        close(memory->fd);
    }
    (void)munmap(memory->ptr, memory->length);
}

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ  22
#define MADV_POPULATE_WRITE 23
#endif

void cw_memory_populate(void *ptr, size_t length)
{
    const size_t skew = (uintptr_t)ptr % cw_memory_page();
    char *start = (char *)ptr - skew;

    /* A kernel refuses this advice for pages that may not be written, and then they are read instead; an older kernel
     * knows neither advice and is asked to read ahead. */
    if (madvise(start, length + skew, MADV_POPULATE_WRITE) != 0 &&
        madvise(start, length + skew, MADV_POPULATE_READ) != 0) {
        cw_memory_will_need(ptr, length);
    }
}

bool cw_memory_is_there(void *ptr, size_t length, int for_writing)
{
    const size_t skew = (uintptr_t)ptr % cw_memory_page();
    char *start = (char *)ptr - skew;

    if (madvise(start, length + skew, for_writing ? MADV_POPULATE_WRITE : MADV_POPULATE_READ) == 0) {
        return true;
    }
    /* EINVAL: the pages may not be written, or the kernel is older than this advice */
    return errno == EINVAL && !(for_writing && madvise(start, length + skew, MADV_POPULATE_READ) == 0);
}

void cw_memory_will_need(void *ptr, size_t length)
{
    const size_t skew = (uintptr_t)ptr % cw_memory_page();

    (void)madvise((char *)ptr - skew, length + skew, MADV_WILLNEED);
}

/* ---- classification by address ---- */

#define HEAP_FIELD 47 /* start_brk in /proc/self/stat, proc(5) */

static __thread uintptr_t stack_end; /* 0: not queried; 1: unknown */
static __thread uintptr_t stack_start;
static uintptr_t heap_start; /* atomic; 0: not queried; UINTPTR_MAX: unknown */

static void find_stack(void)
{
    pthread_attr_t attr;
    void *start = NULL;
    size_t length = 0;

    stack_end = 1;
    if (pthread_getattr_np(pthread_self(), &attr) == 0) {
        if (pthread_attr_getstack(&attr, &start, &length) == 0) {
            stack_start = (uintptr_t)start;
            stack_end = stack_start + length;
        }
        (void)pthread_attr_destroy(&attr);
    }
}

/* The name of the program is in parentheses and may contain any characters, so it ends at the last parenthesis. */
static uintptr_t find_heap(void)
{
    char text[1024];
    const char *at;
    ssize_t length;
    unsigned field;
    int fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);

    if (fd < 0) {
        return UINTPTR_MAX;
    }
    length = read(fd, text, sizeof(text) - 1);
    (void)close(fd);
    text[(length > 0) ? length : 0] = '\0';
    at = strrchr(text, ')');
    for (field = 2; at != NULL && field < HEAP_FIELD; field++) {
        at = strchr(at + 1, ' ');
    }
    return (at != NULL && strtoull(at, NULL, 10) > 0) ? (uintptr_t)strtoull(at, NULL, 10) : UINTPTR_MAX;
}

/* The stack of the main thread grows downwards, and a fiber has a stack of its own. So an address counts as one of the
 * thread's stack only if it lies between the frame of the caller and the end of that stack. */
bool cw_memory_is_plain(const void *ptr)
{
    const uintptr_t address = (uintptr_t)ptr, here = (uintptr_t)__builtin_frame_address(0);
    uintptr_t start = __atomic_load_n(&heap_start, __ATOMIC_RELAXED);

    if (stack_end == 0) {
        find_stack();
    }
    if (address >= here && address < stack_end && here >= stack_start) {
        return true;
    }
    if (start == 0) {
        start = find_heap();
        __atomic_store_n(&heap_start, start, __ATOMIC_RELAXED);
    }
    return address >= start && address < (uintptr_t)sbrk(0);
}
