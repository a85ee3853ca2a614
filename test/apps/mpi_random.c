/* SPDX-License-Identifier: BSD-3-Clause */
/* Random traffic: every rank draws the same list of messages and has all of them in flight at once, in ways that mix:
 * exact receives with few tags, receives of anything, matched and plain probes, receives that are cancelled and written
 * anew, persistent requests; sizes, modes and layouts on either side are drawn, too. Each thread has a list and
 * communicators of its own. Arguments: seed, epochs, threads. */
#include "mpi_check.h"

#include <pthread.h>
#include <stdint.h>

enum { MESSAGES = 160, THREADS = 4, TAGS = 3, REPEATS = 4, LONGEST = 300000, GUARD = 0xEE, NOT_YET = -1 };

enum kind { EXACT, ANYTHING, PROBED, CANCELLED, PERSISTENT, KINDS };

enum layout { PLAIN, STRIDED, BLOCKS, LAYOUTS };

struct message {
    int from, to, tag, size, synchronous, left[2];
    enum kind kind;
    enum layout layout[2]; /* of the sender and of the receiver */
    unsigned seed;
};

/* One request and what it belongs to. Of a receive of anything only the status says which message it is. */
struct flight {
    MPI_Request request;
    unsigned char *memory;
    int number, sends;
};

struct lane {
    MPI_Comm comms[KINDS];
    struct message list[MESSAGES];
    struct flight flights[2 * MESSAGES];
    int flying, probes, last[64];
    int matched[MESSAGES], written; /* what the receives of anything got, in the order in which they were written */
    uint32_t shared, own;           /* random numbers that all ranks have, and such of this rank alone */
    long checks;
};

static struct lane lanes[THREADS];
static int epochs = 6, threads = 3;
static uint32_t first_seed = 1;

/* Threads must not count into the common counter. */
#define EXPECT(condition) \
    do { \
        lane->checks++; \
        if (!(condition)) { \
            check_failed(__FILE__, __LINE__, #condition); \
        } \
    } while (0)

static void expect_status(struct lane *lane, const MPI_Status *status, int source, int tag, int size)
{
    int got = -1;

    MPI_Get_count(status, MPI_BYTE, &got);
    EXPECT(status->MPI_SOURCE == source && status->MPI_TAG == tag && got == size);
}

static unsigned draw(uint32_t *state, unsigned below)
{
    *state = *state * 1664525u + 1013904223u;
    return (unsigned)(((uint64_t)(*state >> 4) * below) >> 28);
}

static size_t place(enum layout layout, size_t at)
{
    size_t block = at / 8;

    switch (layout) {
    case STRIDED:
        return at / 3 * 5 + at % 3;
    case BLOCKS:
        return block * 24 + block * 7 % 13 + at % 8;
    default:
        return at;
    }
}

static size_t extent(const struct message *message, int sends)
{
    return message->size == 0 ? 1 : place(message->layout[sends], message->size - 1) + 1;
}

/* The caller frees it; MPI keeps what a request needs of it. */
static MPI_Datatype datatype(enum layout layout, int size, int *count)
{
    MPI_Datatype type = MPI_BYTE;

    *count = 1;
    if (layout == STRIDED) {
        MPI_Type_vector(size / 3, 3, 5, MPI_BYTE, &type);
    } else if (layout == BLOCKS) {
        MPI_Aint *places = malloc((size / 8 + 1) * sizeof(*places));

        for (int i = 0; i < size / 8; i++) {
            places[i] = (MPI_Aint)place(BLOCKS, (size_t)i * 8);
        }
        MPI_Type_create_hindexed_block(size / 8, 8, places, MPI_BYTE, &type);
        free(places);
    } else {
        *count = size;
        MPI_Type_dup(MPI_BYTE, &type);
    }
    MPI_Type_commit(&type);
    return type;
}

static void draw_message(struct lane *lane, int number)
{
    static const unsigned below[] = {2, 33, 200, 1100, 9000, 20000, 70000, LONGEST};
    struct message *message = &lane->list[number];
    uint32_t *random = &lane->shared;

    message->from = (int)draw(random, (unsigned)ranks);
    message->to = (int)draw(random, (unsigned)ranks);
    message->kind = (enum kind)draw(random, KINDS);
    message->size = (int)draw(random, below[draw(random, 8) * draw(random, 8) / 7]);
    message->seed = draw(random, 100000);
    message->synchronous = draw(random, 5) == 0;
    message->tag = number;
    if (message->kind == EXACT || message->kind == CANCELLED) {
        message->tag = (int)draw(random, TAGS);
    }
    for (int sends = 0; sends < 2; sends++) {
        message->layout[sends] = message->kind == ANYTHING && !sends ? PLAIN : (enum layout)draw(random, LAYOUTS);
        message->left[sends] = message->kind == PERSISTENT ? REPEATS : 1;
    }
    if (message->layout[0] != PLAIN || message->layout[1] != PLAIN) {
        message->size = message->size / 24 * 24;
    }
    if (message->size == 0) {
        message->layout[0] = message->layout[1] = PLAIN;
    }
}

/* Repeated messages differ from one time to the next. */
static unsigned seed_of(const struct message *message, int sends)
{
    return message->seed + (unsigned)message->left[sends] * 17;
}

static void fill_flight(struct lane *lane, const struct flight *flight)
{
    const struct message *message = &lane->list[flight->number];
    unsigned seed = seed_of(message, 1);

    memset(flight->memory, GUARD, extent(message, 1));
    for (size_t at = 0; at < (size_t)message->size; at++) {
        flight->memory[place(message->layout[1], at)] = pattern(seed, at);
    }
}

static void check_flight(struct lane *lane, const struct message *message, const unsigned char *memory)
{
    unsigned seed = seed_of(message, 0);
    size_t next = 0;

    for (size_t at = 0; at < (size_t)message->size; at++) {
        size_t there = place(message->layout[0], at);

        for (; next < there; next++) {
            EXPECT(memory[next] == GUARD);
        }
        if (memory[there] != pattern(seed, at)) {
            fprintf(stderr, "rank %d: byte %zu of %d of a message from %d, kind %d, is 0x%02x not 0x%02x\n", rank, at,
                    message->size, message->from, (int)message->kind, memory[there], pattern(seed, at));
        }
        EXPECT(memory[there] == pattern(seed, at));
        next = there + 1;
    }
}

static struct flight *take_off(struct lane *lane, int number, int sends)
{
    struct flight *flight = &lane->flights[lane->flying++];
    const struct message *message = &lane->list[number];
    size_t size = message->kind == ANYTHING && !sends ? LONGEST : extent(message, sends);

    *flight = (struct flight){.request = MPI_REQUEST_NULL, .memory = malloc(size), .number = number, .sends = sends};
    EXPECT(flight->memory != NULL);
    if (sends) {
        fill_flight(lane, flight);
    } else if (message->kind != ANYTHING) {
        memset(flight->memory, GUARD, size);
    }
    return flight;
}

static void start_send(struct lane *lane, int number)
{
    struct flight *flight = take_off(lane, number, 1);
    const struct message *message = &lane->list[number];
    MPI_Comm comm = lane->comms[message->kind];
    int count;
    MPI_Datatype type = datatype(message->layout[1], message->size, &count);

    if (message->kind == PERSISTENT) {
        MPI_Send_init(flight->memory, count, type, message->to, message->tag, comm, &flight->request);
        MPI_Start(&flight->request);
    } else if (message->synchronous) {
        MPI_Issend(flight->memory, count, type, message->to, message->tag, comm, &flight->request);
    } else {
        MPI_Isend(flight->memory, count, type, message->to, message->tag, comm, &flight->request);
    }
    MPI_Type_free(&type);
}

static void write_receive(struct lane *lane, struct flight *flight)
{
    const struct message *message = &lane->list[flight->number];
    MPI_Comm comm = lane->comms[message->kind];
    int count;
    MPI_Datatype type = datatype(message->layout[0], message->size, &count);

    switch (message->kind) {
    case ANYTHING:
        lane->matched[lane->written] = NOT_YET;
        flight->number = lane->written++;
        MPI_Irecv(flight->memory, LONGEST, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &flight->request);
        break;
    case PERSISTENT:
        MPI_Recv_init(flight->memory, count, type, message->from, message->tag, comm, &flight->request);
        MPI_Start(&flight->request);
        break;
    case CANCELLED:
        MPI_Irecv(flight->memory, count, type, message->from, message->tag, comm, &flight->request);
        MPI_Cancel(&flight->request);
        break;
    default:
        MPI_Irecv(flight->memory, count, type, message->from, message->tag, comm, &flight->request);
        break;
    }
    MPI_Type_free(&type);
}

/* A receive that was cancelled at once either got its message or has to be written again. Receives of one sender and
 * tag take its messages in the order in which they were written, so these come one after the other. */
static void receive_cancelled(struct lane *lane, int number)
{
    const struct message *message = &lane->list[number];
    struct flight *flight = take_off(lane, number, 0);
    MPI_Status status;
    int cancelled, count;

    write_receive(lane, flight);
    MPI_Wait(&flight->request, &status);
    MPI_Test_cancelled(&status, &cancelled);
    lane->flying--;
    if (cancelled) {
        MPI_Datatype type = datatype(message->layout[0], message->size, &count);

        EXPECT(flight->memory[0] == GUARD);
        MPI_Recv(flight->memory, count, type, message->from, message->tag, lane->comms[CANCELLED], &status);
        MPI_Type_free(&type);
    }
    expect_status(lane, &status, message->from, message->tag, message->size);
    check_flight(lane, message, flight->memory);
    free(flight->memory);
}

/* What a probe finds is received with the layout that its message has here; a sender's messages are found in order. */
static void probe_one(struct lane *lane)
{
    MPI_Comm comm = lane->comms[PROBED];
    MPI_Message found;
    MPI_Status status;
    MPI_Datatype type;
    int flag, count, matched = (int)draw(&lane->own, 2);
    struct message *message;
    unsigned char *memory;

    if (matched) {
        MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &flag, &found, &status);
    } else {
        MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &flag, &status);
    }
    if (!flag) {
        return;
    }
    EXPECT(status.MPI_TAG >= 0 && status.MPI_TAG < MESSAGES);
    message = &lane->list[status.MPI_TAG];
    EXPECT(message->kind == PROBED && message->to == rank && message->left[0] == 1);
    expect_status(lane, &status, message->from, message->tag, message->size);
    EXPECT(lane->last[message->from] < message->tag);
    lane->last[message->from] = message->tag;
    memory = malloc(extent(message, 0));
    memset(memory, GUARD, extent(message, 0));
    type = datatype(message->layout[0], message->size, &count);
    if (matched) {
        MPI_Mrecv(memory, count, type, &found, &status);
    } else {
        MPI_Recv(memory, count, type, message->from, message->tag, comm, &status);
    }
    expect_status(lane, &status, message->from, message->tag, message->size);
    check_flight(lane, message, memory);
    message->left[0] = 0;
    lane->probes--;
    MPI_Type_free(&type);
    free(memory);
}

/* Is the flight over? A persistent one starts again, some times. */
static int landed(struct lane *lane, struct flight *flight, const MPI_Status *status, int anything)
{
    struct message *message = &lane->list[flight->number];

    if (anything) {
        EXPECT(status->MPI_TAG >= 0 && status->MPI_TAG < MESSAGES);
        message = &lane->list[status->MPI_TAG];
        lane->matched[flight->number] = status->MPI_TAG;
        EXPECT(message->kind == ANYTHING && message->to == rank);
    }
    if (!flight->sends) {
        expect_status(lane, status, message->from, message->tag, message->size);
        check_flight(lane, message, flight->memory);
    }
    message->left[flight->sends]--;
    EXPECT(message->left[flight->sends] >= 0);
    if (message->left[flight->sends] == 0) {
        return 1;
    }
    if (flight->sends) {
        fill_flight(lane, flight);
    } else {
        memset(flight->memory, GUARD, extent(message, 0));
    }
    MPI_Start(&flight->request);
    return 0;
}

static void land_all(struct lane *lane, const char *anything)
{
    int open = lane->flying;

    while (open > 0 || lane->probes > 0) {
        if (lane->probes > 0) {
            probe_one(lane);
        }
        for (int i = 0; i < lane->flying; i++) {
            struct flight *flight = &lane->flights[i];
            MPI_Status status;
            int done;

            if (flight->memory == NULL || draw(&lane->own, 3) == 0) {
                continue;
            }
            MPI_Test(&flight->request, &done, &status);
            if (done && landed(lane, flight, &status, anything[i])) {
                if (flight->request != MPI_REQUEST_NULL) {
                    MPI_Request_free(&flight->request);
                }
                free(flight->memory);
                flight->memory = NULL;
                open--;
            }
        }
    }
}

static void run_epoch(struct lane *lane)
{
    char anything[2 * MESSAGES] = {0};

    lane->flying = lane->probes = lane->written = 0;
    memset(lane->last, 0xff, sizeof(lane->last));
    for (int i = 0; i < MESSAGES; i++) {
        draw_message(lane, i);
    }
    /* The order of the two loops, and where it is changed, is each rank's own affair. */
    for (int turn = 0, sends = (int)draw(&lane->own, 2); turn < 2; turn++, sends = !sends) {
        for (int i = 0; i < MESSAGES; i++) {
            const struct message *message = &lane->list[i];

            if (sends && message->from == rank) {
                start_send(lane, i);
            } else if (!sends && message->to == rank && message->kind == PROBED) {
                lane->probes++;
            } else if (!sends && message->to == rank && message->kind != CANCELLED) {
                anything[lane->flying] = message->kind == ANYTHING;
                write_receive(lane, take_off(lane, i, 0));
            }
        }
    }
    /* Once everybody's sends are under way, these may wait. */
    for (int i = 0; i < MESSAGES; i++) {
        if (lane->list[i].kind == CANCELLED && lane->list[i].to == rank) {
            receive_cancelled(lane, i);
        }
    }
    land_all(lane, anything);
    for (int i = 0; i < lane->written; i++) {
        for (int next = i + 1; next < lane->written; next++) {
            EXPECT(lane->list[lane->matched[i]].from != lane->list[lane->matched[next]].from ||
                   lane->matched[i] < lane->matched[next]);
        }
    }
}

static void *run(void *argument)
{
    struct lane *lane = argument;

    for (int epoch = 0; epoch < epochs; epoch++) {
        long mine = epoch, all = 0;

        run_epoch(lane);
        MPI_Allreduce(&mine, &all, 1, MPI_LONG, MPI_SUM, lane->comms[EXACT]);
        EXPECT(all == (long)epoch * ranks);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t ids[THREADS];

    first_seed = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 0) : first_seed;
    epochs = argc > 2 ? atoi(argv[2]) : epochs;
    threads = argc > 3 ? atoi(argv[3]) : threads;
    check_begin(&argc, &argv, threads > 1 ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE);
    CHECK(threads >= 1 && threads <= THREADS && ranks <= 64);
    for (int i = 0; i < threads; i++) {
        lanes[i].shared = first_seed * 977 + (uint32_t)i;
        lanes[i].own = first_seed * 31 + (uint32_t)(rank * THREADS + i);
        for (int kind = 0; kind < KINDS; kind++) {
            MPI_Comm_dup(MPI_COMM_WORLD, &lanes[i].comms[kind]);
        }
    }
    for (int i = 1; i < threads; i++) {
        CHECK(pthread_create(&ids[i], NULL, run, &lanes[i]) == 0);
    }
    run(&lanes[0]);
    for (int i = 0; i < threads; i++) {
        if (i > 0) {
            pthread_join(ids[i], NULL);
        }
        checks += lanes[i].checks;
        for (int kind = 0; kind < KINDS; kind++) {
            MPI_Comm_free(&lanes[i].comms[kind]);
        }
    }
    return check_end("mpi_random");
}
