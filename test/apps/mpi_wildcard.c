/* SPDX-License-Identifier: BSD-3-Clause */
/* MPI_ANY_SOURCE and MPI_ANY_TAG: messages of one sender never overtake each other, whatever their sizes and however
 * the receives are written; nothing is lost or doubled. */
#include "mpi_check.h"

enum { MESSAGES = 150, WORDS = 30000 };

struct seen {
    int next[16];
};

static int words_of(int sender, int number)
{
    static const int words[] = {2, 5, 40, 300, 2100, 3000, 20000, 2};

    return words[(sender * 5 + number * 3 + number / 7) % 8];
}

static void fill_message(int *message, int sender, int number)
{
    int words = words_of(sender, number);

    message[0] = sender;
    message[1] = number;
    for (int i = 2; i < words; i++) {
        message[i] = sender * 100000 + number * 31 + i;
    }
}

static void check_message(const int *message, const MPI_Status *status, int number)
{
    int sender = status->MPI_SOURCE, words = words_of(sender, number), count;

    MPI_Get_count(status, MPI_INT, &count);
    CHECK(message[0] == sender && message[1] == number);
    CHECK(count == words);
    for (int i = 2; i < words; i++) {
        CHECK(message[i] == sender * 100000 + number * 31 + i);
    }
}

static void send_all(int to, int tag_step)
{
    MPI_Request requests[MESSAGES];
    int *parts[MESSAGES];

    for (int i = 0; i < MESSAGES; i++) {
        parts[i] = allocate(words_of(rank, i) * sizeof(int));
        fill_message(parts[i], rank, i);
        if (i % 11 == 5) {
            MPI_Issend(parts[i], words_of(rank, i), MPI_INT, to, 10 + i * tag_step, MPI_COMM_WORLD, &requests[i]);
        } else {
            MPI_Isend(parts[i], words_of(rank, i), MPI_INT, to, 10 + i * tag_step, MPI_COMM_WORLD, &requests[i]);
        }
    }
    MPI_Waitall(MESSAGES, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < MESSAGES; i++) {
        free(parts[i]);
    }
}

/* Receives alternate between both wildcards, one, and none; each sender's messages come in their order. */
static void receive_in_order(int tag_step)
{
    int *message = allocate(WORDS * sizeof(int));
    struct seen seen = {{0}};
    MPI_Status status;

    for (int i = 0; i < MESSAGES * (ranks - 1); i++) {
        int source = MPI_ANY_SOURCE, tag = MPI_ANY_TAG, sender = i % (ranks - 1) + 1;

        if (i % 3 == 1 && seen.next[sender] < MESSAGES) {
            source = sender;
        } else if (i % 3 == 2 && seen.next[sender] < MESSAGES) {
            source = sender;
            tag = 10 + seen.next[sender] * tag_step;
        }
        MPI_Recv(message, WORDS, MPI_INT, source, tag, MPI_COMM_WORLD, &status);
        CHECK(status.MPI_SOURCE >= 1 && status.MPI_SOURCE < ranks);
        CHECK(status.MPI_TAG == 10 + seen.next[status.MPI_SOURCE] * tag_step);
        check_message(message, &status, seen.next[status.MPI_SOURCE]++);
    }
    for (int sender = 1; sender < ranks; sender++) {
        CHECK(seen.next[sender] == MESSAGES);
    }
    free(message);
}

/* All receives are posted before anything is sent. */
static void receive_posted(void)
{
    int all = MESSAGES * (ranks - 1), **parts = allocate(all * sizeof(*parts));
    MPI_Request *requests = allocate(all * sizeof(*requests));
    MPI_Status *statuses = allocate(all * sizeof(*statuses));
    struct seen seen = {{0}};

    for (int i = 0; i < all; i++) {
        parts[i] = allocate(WORDS * sizeof(int));
        MPI_Irecv(parts[i], WORDS, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &requests[i]);
    }
    for (int to = 1; to < ranks; to++) {
        MPI_Send(NULL, 0, MPI_BYTE, to, 1, MPI_COMM_WORLD);
    }
    MPI_Waitall(all, requests, statuses);
    for (int i = 0; i < all; i++) {
        check_message(parts[i], &statuses[i], seen.next[statuses[i].MPI_SOURCE]++);
        free(parts[i]);
    }
    free(parts);
    free(requests);
    free(statuses);
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv, MPI_THREAD_SINGLE);
    CHECK(ranks >= 2 && ranks <= 16);
    for (int tag_step = 0; tag_step < 2; tag_step++) {
        if (rank == 0) {
            receive_in_order(tag_step);
        } else {
            send_all(0, tag_step);
        }
        MPI_Barrier(MPI_COMM_WORLD);
    }
    if (rank == 0) {
        receive_posted();
    } else {
        MPI_Recv(NULL, 0, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        send_all(0, 1);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    return check_end("mpi_wildcard");
}
