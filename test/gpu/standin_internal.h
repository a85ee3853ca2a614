/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the files of the stand-in share. One mutex guards everything; a function of the driver takes it by ENTER, which
 * counts the call and lets it fail if a test wants that.
 */
#ifndef CW_TEST_GPU_STANDIN_INTERNAL_H
#define CW_TEST_GPU_STANDIN_INTERNAL_H

#include "standin.h"

#include <pthread.h>
#include <time.h>

enum kind { DEVICE, POOL, MAPPED, OPENED, MANAGED, PINNED, REGISTERED };

struct range {
    struct range *next;
    enum kind kind;
    char *addresses; /* what the program knows */
    char *bytes;     /* where the bytes are */
    size_t length;
    int device;
    cuda_context context;
    unsigned long long id;
    struct shared *shared; /* DEVICE, OPENED: the page behind the bytes; else NULL */
    int fd;                /* DEVICE: of the bytes; else -1 */
    struct piece *piece;   /* MAPPED: what is mapped; else NULL */
    int is_accessible;     /* MAPPED: the program has allowed its device to access it */
};

/* Behind the bytes of an allocation that other processes may open. */
struct shared {
    unsigned long long magic;
    unsigned long long id; /* of the allocation, in its process, */
    int pid;               /* which is this one */
    int is_freed;
};

struct cuda_context {
    struct cuda_context *next;
    int device;
    int is_primary;
    int is_destroyed;
    unsigned long long id;
};

struct work;

struct cuda_stream {
    struct cuda_stream *next;
    cuda_context context;
    int is_destroyed;
    struct work *first, *last;
    unsigned long long put, done; /* works, ever */
};

extern struct standin {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    struct range *ranges;
    cuda_context contexts;
    cuda_stream streams;
    unsigned long long last_id;
    unsigned delay_ns, delay_ns_per_mib;
    size_t narrow;
} standin;

/* Counts, and checks whether the driver is usable here; CUDA_OK: locked. */
int standin_enter(const char *symbol);
#define ENTER()                                                                                                        \
    do {                                                                                                               \
        const int entered_ = standin_enter(__func__);                                                                  \
        if (entered_ != CUDA_OK) {                                                                                     \
            return entered_;                                                                                           \
        }                                                                                                              \
    } while (0)
/* Unlocks. */
int standin_leave(int result);

void standin_die(const char *sentence) __attribute__((noreturn));

/* Locked, all of them. */
struct range *standin_find(uintptr_t address);
struct range *standin_add(enum kind kind, char *addresses, char *bytes, size_t length, int device,
                          cuda_context context);
/* Waits until nothing uses the memory any more, as cuMemFree does, and forgets it. */
void standin_remove(struct range *range);
/* Frees what the range has of memory that processes share. */
void standin_unshare(struct range *range);
/* Ends the program if the range is memory that its process has freed. */
void standin_check_shared(const struct range *range);
/* Bytes of device memory as another process can open them; *fd and *shared belong to the range. NULL: none. */
char *standin_shared_bytes(size_t length, int *fd, struct shared **shared);
void standin_move(uintptr_t to, uintptr_t from, size_t length);
/* NULL: none. */
cuda_context standin_current(void);
/* Waits for all that is on the stream; NULL: on all of them. */
void standin_drain(cuda_stream stream);
/* What is on the streams of a context that ends is never carried out. */
void standin_drop_streams(cuda_context context);

/* Ends the program if the range is mapped and its device must not access it. */
void standin_check_mapped(const struct range *range);

/* Bytes that nothing else knows; addresses without access. */
char *standin_bytes(size_t length);
char *standin_addresses(size_t length);

#endif
