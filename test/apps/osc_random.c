/* SPDX-License-Identifier: BSD-3-Clause */
/* Random epochs over several windows at once: every rank knows from the same numbers what all of them do, keeps a model
 * of all the windows, and compares its own and what it gets byte by byte. Arguments: seed and number of epochs. */
#include "osc_check.h"

#define WINDOWS 4
#define SIZE    6000
#define OPS     120
#define RANKS   8

enum {
    FREE,
    READ,
    WRITTEN,
    SUMMED
};

struct op {
    int window, origin, target, kind;
    size_t at, length;
    unsigned seed;
};

static unsigned char *base[WINDOWS], *model[WINDOWS][RANKS], *claims[WINDOWS][RANKS];
static MPI_Win windows[WINDOWS];

/* Bytes may be read by many, summed by many, or written by one in an epoch. */
static int claim(const struct op *op)
{
    unsigned char *bytes = claims[op->window][op->target] + op->at;

    for (size_t i = 0; i < op->length; i++) {
        if (bytes[i] != FREE && (bytes[i] != op->kind || op->kind == WRITTEN)) {
            return 0;
        }
    }
    memset(bytes, op->kind, op->length);
    return 1;
}

static int draw(struct op *op, uint32_t *random)
{
    op->window = (int)(next_random(random) % WINDOWS);
    op->origin = (int)(next_random(random) % (unsigned)ranks);
    op->target = (int)(next_random(random) % (unsigned)ranks);
    op->kind = READ + (int)(next_random(random) % 3);
    op->length = next_random(random) % ((next_random(random) % 10 == 0) ? 3000 : 200);
    op->at = next_random(random) % (SIZE - op->length);
    op->seed = next_random(random) % 1000;
    if (op->kind == SUMMED) {
        op->at &= ~(size_t)3;
        op->length &= ~(size_t)3;
    }
    return op->length > 0 && claim(op);
}

static void issue(const struct op *op, unsigned char *bytes)
{
    int count = (int)op->length;

    if (op->kind == READ) {
        memset(bytes, 0, op->length);
        MPI_Get(bytes, count, MPI_BYTE, op->target, (MPI_Aint)op->at, count, MPI_BYTE, windows[op->window]);
        return;
    }
    fill(bytes, op->length, op->seed);
    if (op->kind == WRITTEN) {
        MPI_Put(bytes, count, MPI_BYTE, op->target, (MPI_Aint)op->at, count, MPI_BYTE, windows[op->window]);
    } else {
        MPI_Accumulate(bytes, count / 4, MPI_UINT32_T, op->target, (MPI_Aint)op->at, count / 4, MPI_UINT32_T, MPI_SUM,
                       windows[op->window]);
    }
}

static void apply(const struct op *op, unsigned char *bytes)
{
    unsigned char *to = model[op->window][op->target] + op->at;

    if (op->kind == READ) {
        CHECK(op->origin != rank || memcmp(bytes, to, op->length) == 0);
        return;
    }
    fill(bytes, op->length, op->seed);
    if (op->kind == WRITTEN) {
        memcpy(to, bytes, op->length);
    }
    for (size_t i = 0; op->kind == SUMMED && i < op->length; i += 4) {
        uint32_t a, b;

        memcpy(&a, to + i, 4);
        memcpy(&b, bytes + i, 4);
        a += b;
        memcpy(to + i, &a, 4);
    }
}

static void open_epoch(int fences)
{
    for (int i = 0; i < WINDOWS; i++) {
        if (fences) {
            MPI_Win_fence(0, windows[i]);
        } else {
            MPI_Win_lock_all(0, windows[i]);
        }
    }
}

static void close_epoch(int fences)
{
    for (int i = 0; i < WINDOWS; i++) {
        if (fences) {
            MPI_Win_fence(MPI_MODE_NOSUCCEED, windows[i]);
        } else {
            MPI_Win_unlock_all(windows[i]);
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

static void compare(int epoch)
{
    for (int i = 0; i < WINDOWS; i++) {
        for (size_t at = 0; at < SIZE; at++) {
            if (base[i][at] != model[i][rank][at]) {
                fprintf(stderr, "rank %d: epoch %d, window %d, byte %zu is 0x%02x instead of 0x%02x (claimed as %d)\n",
                        rank, epoch, i, at, base[i][at], model[i][rank][at], claims[i][rank][at]);
                CHECK(!"the window is as its model");
            }
        }
        checks += SIZE;
    }
}

static void run_epoch(int epoch, uint32_t *random)
{
    struct op ops[OPS];
    unsigned char *buffers[OPS], *scratch = allocate(SIZE);
    int count = 0, fences = epoch % 2;

    for (int i = 0; i < WINDOWS; i++) {
        for (int k = 0; k < ranks; k++) {
            memset(claims[i][k], FREE, SIZE);
        }
    }
    while (count < OPS) {
        count += draw(&ops[count], random);
    }
    open_epoch(fences);
    for (int i = 0; i < OPS; i++) {
        buffers[i] = NULL;
        if (ops[i].origin == rank) {
            buffers[i] = allocate(ops[i].length);
            issue(&ops[i], buffers[i]);
        }
    }
    close_epoch(fences);
    for (int i = 0; i < OPS; i++) {
        apply(&ops[i], (buffers[i] != NULL) ? buffers[i] : scratch);
        free(buffers[i]);
    }
    compare(epoch);
    free(scratch);
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    uint32_t random = (argc > 1) ? (uint32_t)atoi(argv[1]) : 20;
    int epochs = (argc > 2) ? atoi(argv[2]) : 24;

    osc_begin(&argc, &argv);
    CHECK(ranks <= RANKS);
    for (int i = 0; i < WINDOWS; i++) {
        windows[i] = window_new(i % WINDOW_KINDS, SIZE, 1, &base[i]);
        for (int k = 0; k < ranks; k++) {
            model[i][k] = calloc(SIZE, 1);
            claims[i][k] = calloc(SIZE, 1);
            CHECK(model[i][k] != NULL && claims[i][k] != NULL);
        }
    }
    for (int epoch = 0; epoch < epochs; epoch++) {
        run_epoch(epoch, &random);
    }
    for (int i = 0; i < WINDOWS; i++) {
        window_free(i % WINDOW_KINDS, &windows[i], base[i]);
    }
    return osc_end("osc_random", OSC_PUT | OSC_GET);
}
