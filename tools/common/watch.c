/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finding workers through /proc/PID/fd, and reading them. The kernel decides whom we may read.
 *
 * Callers: tools/top, tools/trace.
 */
#define _GNU_SOURCE
#include "watch.h"

#include "say.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define WORKER_LINK "/memfd:" CW_COUNTERS_NAME " (deleted)"
#define QUEUES_LINK "/memfd:" CW_QUEUES_NAME " (deleted)"
#define ATTEMPTS    100 /* to find the worker not writing */

/* Of this and of later versions of the library. */
union bytes {
    struct cw_counters_page page;
    char room[offsetof(struct cw_counters_page, values) + CW_COUNTERS_MAX * sizeof(uint64_t)];
};

const struct cw_watch_counter cw_watch_counters[CW_COUNT_LAST] = {
#define C false
#define G true
#define CW_COUNTER(id, label, kind, words) {.name = label, .text = words, .is_gauge = kind},
    CW_COUNTERS(CW_COUNTER)
#undef CW_COUNTER
#undef C
#undef G
};

/* Only what every terminal prints as it is. */
static void clean_text(char *dest, size_t size, const char *source, size_t length)
{
    size_t at = 0;

    while (at + 1 < size && at < length && source[at] != '\0') {
        dest[at] = (source[at] >= ' ' && source[at] <= '~') ? source[at] : '?';
        at++;
    }
    dest[at] = '\0';
}

const char *cw_watch_decode(const void *bytes, size_t length, struct cw_watch_worker *worker)
{
    struct cw_counters_page page;
    const size_t head = offsetof(struct cw_counters_page, values);

    if (length < head) {
        return "it is too short";
    }
    memset(&page, 0, sizeof(page));
    memcpy(&page, bytes, length < sizeof(page) ? length : sizeof(page));
    if (page.magic == 0) {
        return "";
    }
    if (page.magic != CW_COUNTERS_MAGIC) {
        return "its header is invalid";
    }
    if (page.version != CW_COUNTERS_VERSION) {
        return "its version is not supported by this tool";
    }
    if (page.num_values > CW_COUNTERS_MAX || page.num_values > (length - head) / sizeof(uint64_t) ||
        page.num_transports > CW_COUNTERS_TRANSPORTS) {
        return "it claims to hold more than it can";
    }
    worker->uid = page.uid;
    worker->started_ns = page.started_ns;
    worker->num_transports = (unsigned)page.num_transports;
    worker->trace_offset = page.trace_offset;
    worker->trace_length = page.trace_length;
    clean_text(worker->name, sizeof(worker->name), page.name, sizeof(page.name));
    for (unsigned i = 0; i < worker->num_transports; i++) {
        const struct cw_counters_transport *from = &page.transports[i];
        struct cw_watch_transport *to = &worker->transports[i];
        clean_text(to->name, sizeof(to->name), from->name, sizeof(from->name));
        to->open = from->open;
        to->opened = from->opened;
    }
    for (unsigned i = 0; i < CW_COUNT_LAST; i++) {
        worker->values[i] = i < page.num_values ? page.values[i] : 0;
    }
    return NULL;
}

/* ---- reading ---- */

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static ssize_t read_at(int fd, void *bytes, size_t size, off_t offset)
{
    ssize_t length;

    do {
        length = pread(fd, bytes, size, offset);
    } while (length < 0 && errno == EINTR);
    return length;
}

static bool read_sequence(int fd, uint64_t *sequence)
{
    return read_at(fd, sequence, sizeof(*sequence), offsetof(struct cw_counters_page, sequence)) == sizeof(*sequence);
}

/* The bytes as they were at one moment, if the worker lets us: its sequence is even and the same before and after. One
 * that writes all the time, or was killed while it wrote, is taken as it is. */
static ssize_t read_page(int fd, union bytes *bytes)
{
    const struct cw_counters_page *page = &bytes->page;
    uint64_t before, after;
    ssize_t length = 0;

    for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
        before = after = 0;
        (void)read_sequence(fd, &before); /* the system copies the page in no certain order */
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        length = read_at(fd, bytes, sizeof(*bytes), 0);
        __atomic_thread_fence(__ATOMIC_ACQUIRE); /* both pair with the writer's, in cw_counters_write */
        if (length < (ssize_t)offsetof(struct cw_counters_page, values) || !read_sequence(fd, &after) ||
            (before == page->sequence && after == before && after % 2 == 0)) {
            break;
        }
    }
    return length;
}

/* The number of a process as it knows itself: the innermost of its names. 0: gone. */
static unsigned inner_pid(unsigned pid)
{
    char path[64], line[512];
    unsigned inner = pid;

    snprintf(path, sizeof(path), "/proc/%u/status", pid);
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return 0;
    }
    while (fgets(line, sizeof(line), file) != NULL) {
        if (strncmp(line, "NSpid:", 6) == 0) {
            const char *last = strrchr(line, '\t');
            inner = last == NULL ? pid : (unsigned)strtoul(last, NULL, 10);
        }
    }
    fclose(file);
    return inner;
}

static void read_command(unsigned pid, char *dest, size_t size)
{
    char path[64], text[64] = "";

    snprintf(path, sizeof(path), "/proc/%u/comm", pid);
    FILE *file = fopen(path, "re");
    if (file != NULL) {
        if (fgets(text, sizeof(text), file) != NULL) {
            text[strcspn(text, "\n")] = '\0';
        }
        fclose(file);
    }
    clean_text(dest, size, text, sizeof(text));
}

/* Only what has bytes at places: nothing that answers, blocks or never ends. */
static int open_regular(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct stat st;

    if (fd >= 0 && (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))) {
        close(fd);
        errno = EINVAL;
        fd = -1;
    }
    return fd;
}

/* Opens a descriptor of a process that is a link to such memory. */
static int open_link(unsigned pid, unsigned fd, const char *link)
{
    char path[64], text[sizeof(WORKER_LINK) + 1];

    snprintf(path, sizeof(path), "/proc/%u/fd/%u", pid, fd);
    ssize_t length = readlink(path, text, sizeof(text));
    if (length != (ssize_t)strlen(link) || memcmp(text, link, (size_t)length) != 0) {
        return -1;
    }
    return open_regular(path);
}

int cw_watch_open(const struct cw_watch_worker *worker)
{
    return worker->file != NULL ? open_regular(worker->file) : open_link(worker->pid, worker->fd, WORKER_LINK);
}

/* Says a sentence about a descriptor once, not each second. */
static void complain(const struct cw_watch_worker *worker, const char *problem)
{
    static struct {
        unsigned pid;
        unsigned fd;
    } said[64];
    static unsigned count;

    for (unsigned i = 0; i < count; i++) {
        if (said[i].pid == worker->pid && said[i].fd == worker->fd) {
            return;
        }
    }
    if (count < sizeof(said) / sizeof(said[0])) {
        said[count].pid = worker->pid;
        said[count++].fd = worker->fd;
        cw_say_error("descriptor %u of process %u is called a worker's, but cannot be read as one: %s", worker->fd,
                     worker->pid, problem);
    }
}

/* ---- finding ---- */

static bool add(struct cw_watch_list *list, const struct cw_watch_worker *worker)
{
    if (list->count == list->size) {
        size_t size = list->size == 0 ? 16 : list->size * 2;
        void *more = realloc(list->workers, size * sizeof(*worker));
        if (more == NULL) {
            cw_say_error("out of memory for the list of workers");
            return false;
        }
        list->workers = more;
        list->size = size;
    }
    list->workers[list->count++] = *worker;
    return true;
}

static bool read_worker(struct cw_watch_worker *worker, unsigned inner, struct cw_watch_list *list)
{
    union bytes bytes;
    int fd = cw_watch_open(worker);

    if (fd < 0) {
        return true;
    }
    ssize_t length = read_page(fd, &bytes);
    close(fd);
    worker->read_ns = now_ns();
    const char *problem = cw_watch_decode(&bytes, length < 0 ? 0 : (size_t)length, worker);
    if (problem != NULL) {
        if (problem[0] != '\0') {
            complain(worker, problem);
        }
        return true;
    }
    return bytes.page.pid != inner || add(list, worker); /* another one is the parent's */
}

/* A number that is a whole name. */
static bool parse_number(const char *text, unsigned *number)
{
    char *end;

    if (!isdigit((unsigned char)text[0])) {
        return false;
    }
    errno = 0;
    unsigned long value = strtoul(text, &end, 10);
    *number = (unsigned)value;
    return *end == '\0' && errno == 0 && value <= INT32_MAX;
}

/* 1: checked; 0: not ours to read, or gone, with errno; -1: no memory. */
static int scan_process(unsigned pid, struct cw_watch_list *list)
{
    struct cw_watch_worker worker = {.pid = pid};
    unsigned inner = inner_pid(pid);
    const struct dirent *entry;
    char path[64];
    bool sound = true;

    snprintf(path, sizeof(path), "/proc/%u/fd", pid);
    DIR *directory = inner == 0 ? NULL : opendir(path);
    if (directory == NULL) {
        return 0;
    }
    read_command(pid, worker.command, sizeof(worker.command));
    while (sound && list->count < CW_WATCH_MAX_WORKERS && (entry = readdir(directory)) != NULL) {
        if (parse_number(entry->d_name, &worker.fd)) {
            sound = read_worker(&worker, inner, list);
        }
    }
    closedir(directory);
    return sound ? 1 : -1;
}

static int compare(const void *a, const void *b)
{
    const struct cw_watch_worker *left = a, *right = b;

    return left->pid != right->pid ? (left->pid > right->pid) - (left->pid < right->pid) :
           (left->fd > right->fd) - (left->fd < right->fd);
}

static bool scan_all(struct cw_watch_list *list)
{
    const struct dirent *entry;
    bool sound = true;
    unsigned pid;

    DIR *directory = opendir("/proc");
    if (directory == NULL) {
        cw_say_error("cannot find workers: /proc cannot be read: %s", strerror(errno));
        return false;
    }
    while (sound && (entry = readdir(directory)) != NULL) {
        if (parse_number(entry->d_name, &pid) && pid != 0) {
            sound = scan_process(pid, list) >= 0;
        }
    }
    closedir(directory);
    return sound;
}

bool cw_watch_find(unsigned pid, struct cw_watch_list *list)
{
    list->count = 0;
    if (pid == 0) {
        if (!scan_all(list)) {
            return false;
        }
    } else {
        int found = scan_process(pid, list);
        if (found == 0) {
            cw_say_error("cannot inspect process %u: %s", pid,
                         errno == ENOENT ? "no such process" : "it belongs to somebody else");
        }
        if (found <= 0) {
            return false;
        }
    }
    if (list->count > 0) {
        qsort(list->workers, list->count, sizeof(list->workers[0]), compare);
    }
    return true;
}

/* ---- queues ---- */

const char *cw_watch_decode_queues(const void *bytes, size_t length, struct cw_watch_queues *queues)
{
    struct cw_queues head;

    if (length < sizeof(head)) {
        return "it is too short";
    }
    memcpy(&head, bytes, sizeof(head));
    if (head.magic == 0) {
        return "";
    }
    if (head.magic != CW_QUEUES_MAGIC || head.version != CW_QUEUES_VERSION) {
        return "its version is not supported by this tool";
    }
    if (head.listed_posted > CW_QUEUES_MOST || head.listed_unexpected > CW_QUEUES_MOST ||
        head.listed_posted + head.listed_unexpected > (length - sizeof(head)) / sizeof(queues->items[0])) {
        return "it claims to hold more than it can";
    }
    queues->uid = head.uid;
    queues->pid = head.pid;
    queues->written_ns = head.written_ns;
    queues->num_posted = head.num_posted;
    queues->num_unexpected = head.num_unexpected;
    queues->listed_posted = (size_t)head.listed_posted;
    queues->listed_unexpected = (size_t)head.listed_unexpected;
    memcpy(queues->items, (const char *)bytes + sizeof(head),
           (queues->listed_posted + queues->listed_unexpected) * sizeof(queues->items[0]));
    return NULL;
}

int cw_watch_ask(const struct cw_watch_worker *worker)
{
    struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET};
    int fd = cw_watch_open(worker);

    if (fd >= 0 && fcntl(fd, F_OFD_SETLK, &lock) != 0) {
        close(fd);
        fd = -1;
    }
    return fd;
}

bool cw_watch_read_queues(const struct cw_watch_worker *worker, struct cw_watch_queues *queues)
{
    static union {
        struct cw_queues head;
        char room[sizeof(struct cw_queues) + 2 * CW_QUEUES_MOST * sizeof(struct cw_queues_item)];
    } bytes;
    const struct dirent *entry;
    char path[64];
    bool found = false;
    unsigned number;

    snprintf(path, sizeof(path), "/proc/%u/fd", worker->pid);
    DIR *directory = opendir(path);
    while (directory != NULL && !found && (entry = readdir(directory)) != NULL) {
        int fd = parse_number(entry->d_name, &number) ? open_link(worker->pid, number, QUEUES_LINK) : -1;
        if (fd < 0) {
            continue;
        }
        ssize_t length = read_at(fd, &bytes, sizeof(bytes), 0);
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        found = cw_watch_decode_queues(&bytes, length < 0 ? 0 : (size_t)length, queues) == NULL &&
                queues->uid == worker->uid && queues->pid == inner_pid(worker->pid);
        close(fd);
    }
    if (directory != NULL) {
        closedir(directory);
    }
    return found;
}

bool cw_watch_read_file(const char *path, struct cw_watch_list *list)
{
    struct cw_watch_worker worker = {.file = path};
    union bytes bytes;
    int fd = open_regular(path);

    list->count = 0;
    if (fd < 0) {
        cw_say_error("cannot read %s: %s", path, strerror(errno));
        return false;
    }
    ssize_t length = read_page(fd, &bytes);
    const char *problem = cw_watch_decode(&bytes, length < 0 ? 0 : (size_t)length, &worker);
    close(fd);
    if (problem != NULL) {
        cw_say_error("%s is not what a worker writes: %s", path,
                     problem[0] == '\0' ? "it was never finished" : problem);
        return false;
    }
    worker.pid = (unsigned)bytes.page.pid;
    worker.read_ns = now_ns();
    return add(list, &worker);
}

void cw_watch_free(struct cw_watch_list *list)
{
    free(list->workers);
    *list = (struct cw_watch_list){.workers = NULL};
}
