/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One side of the pair: connects to the other, moves the file in pieces through tag messages, then measures.
 *
 * Callers: demo.c starts this program again with --side.
 * The receiving side writes pieces where they belong; the coordinator checks the file afterwards, so neither side
 * judges its own work.
 */
#define _GNU_SOURCE
#include "demo.h"

#include "say.h"
#include "ticks.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#define PIECE     (UINT64_C(256) * 1024)
#define WINDOW    8
#define TAG_SIZE  UINT64_C(0x1)
#define TAG_PIECE UINT64_C(0x1000000)

void demo_report(const struct demo_side *side, enum demo_event event, const char *format, ...)
{
    char line[512];
    va_list arguments;
    int length = snprintf(line, sizeof(line), "%c ", event);

    va_start(arguments, format);
    length += vsnprintf(line + length, sizeof(line) - 1 - (size_t)length, format, arguments);
    va_end(arguments);
    if (length > (int)sizeof(line) - 2) {
        length = (int)sizeof(line) - 2;
    }
    line[length++] = '\n';
    ssize_t written = write(side->events, line, (size_t)length);
    (void)written;
}

/* ---- single messages ---- */

static void on_sent(void *request, ucs_status_t status, void *user_data)
{
    struct demo_op *op = user_data;

    op->done = true;
    if (status != UCS_OK) {
        cw_link_fail(&op->side->link, "a send failed: %s", ucs_status_string(status));
    }
    ucp_request_free(request);
}

static void on_received(void *request, ucs_status_t status, const ucp_tag_recv_info_t *info, void *user_data)
{
    struct demo_op *op = user_data;

    op->done = true;
    if (status != UCS_OK) {
        cw_link_fail(&op->side->link, "a receive failed: %s", ucs_status_string(status));
    } else {
        op->length = info->length;
    }
    ucp_request_free(request);
}

int demo_send(struct demo_side *side, struct demo_op *op, const void *data, size_t length, uint64_t tag)
{
    ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
        .cb.send = on_sent,
        .user_data = op,
    };

    *op = (struct demo_op){.side = side};
    void *request = ucp_tag_send_nbx(side->link.ep, data, length, tag, &param);
    if (UCS_PTR_IS_ERR(request)) {
        return cw_link_fail(&side->link, "ucp_tag_send_nbx failed: %s", ucs_status_string(UCS_PTR_STATUS(request)));
    }
    if (request == NULL) {
        op->done = true;
    }
    return 0;
}

int demo_recv(struct demo_side *side, struct demo_op *op, void *data, size_t length, uint64_t tag)
{
    /* Always through the callback: not every library stores the length when a receive completes at once. */
    ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FLAG_NO_IMM_CMPL,
        .cb.recv = on_received,
        .user_data = op,
    };

    *op = (struct demo_op){.side = side};
    void *request = ucp_tag_recv_nbx(side->link.worker, data, length, tag, UINT64_MAX, &param);
    if (UCS_PTR_IS_ERR(request)) {
        return cw_link_fail(&side->link, "ucp_tag_recv_nbx failed: %s", ucs_status_string(UCS_PTR_STATUS(request)));
    }
    return 0;
}

int demo_wait(struct demo_side *side, const struct demo_op *op)
{
    while (!op->done) {
        if (cw_link_progress(&side->link) != 0) {
            return -1;
        }
    }
    side->link.moved++;
    return side->link.failed ? -1 : 0;
}

/* ---- the file ---- */

struct transfer {
    struct demo_side *side;
    int from;
    int to;
    uint64_t size;
    uint64_t pieces;
    char *out; /* WINDOW pieces */
    char *in;
    struct demo_op sends[WINDOW];
    struct demo_op recvs[WINDOW];
};

static size_t piece_length(const struct transfer *t, uint64_t piece)
{
    uint64_t left = t->size - piece * PIECE;

    return left < PIECE ? (size_t)left : PIECE;
}

/* The number of bytes goes first; with transport self this process is both sides. */
static int exchange_size(struct transfer *t)
{
    struct demo_side *side = t->side;
    struct demo_op sent = {.done = true}, got = {.done = true};
    uint64_t size = t->size;

    if (side->sends && demo_send(side, &sent, &size, sizeof(size), TAG_SIZE) != 0) {
        return -1;
    }
    if (side->receives && demo_recv(side, &got, &t->size, sizeof(t->size), TAG_SIZE) != 0) {
        return -1;
    }
    if (demo_wait(side, &got) != 0 || demo_wait(side, &sent) != 0) {
        return -1;
    }
    t->pieces = (t->size + PIECE - 1) / PIECE;
    return 0;
}

static int send_piece(struct transfer *t, uint64_t piece)
{
    struct demo_op *op = &t->sends[piece % WINDOW];
    char *buffer = t->out + (piece % WINDOW) * PIECE;
    size_t length = piece_length(t, piece), have = 0;

    if (demo_wait(t->side, op) != 0) {
        return -1;
    }
    while (have < length) {
        ssize_t got = pread(t->from, buffer + have, length - have, (off_t)(piece * PIECE + have));
        if (got <= 0) {
            return cw_link_fail(&t->side->link, "reading the file failed: %s", got < 0 ? strerror(errno) : "it shrank");
        }
        have += (size_t)got;
    }
    return demo_send(t->side, op, buffer, length, TAG_PIECE + piece);
}

/* Waits for a piece and writes it where it belongs. */
static int store_piece(struct transfer *t, uint64_t piece)
{
    struct demo_op *op = &t->recvs[piece % WINDOW];
    const char *buffer = t->in + (piece % WINDOW) * PIECE;
    size_t length = piece_length(t, piece), stored = 0;

    if (demo_wait(t->side, op) != 0) {
        return -1;
    }
    if (op->length != length) {
        return cw_link_fail(&t->side->link, "piece %llu came with %zu bytes instead of %zu", (unsigned long long)piece,
                            op->length, length);
    }
    while (stored < length) {
        ssize_t put = pwrite(t->to, buffer + stored, length - stored, (off_t)(piece * PIECE + stored));
        if (put < 0) {
            return cw_link_fail(&t->side->link, "writing the received file failed: %s", strerror(errno));
        }
        stored += (size_t)put;
    }
    return 0;
}

static int post_piece(struct transfer *t, uint64_t piece)
{
    struct demo_op *op = &t->recvs[piece % WINDOW];

    return demo_recv(t->side, op, t->in + (piece % WINDOW) * PIECE, piece_length(t, piece), TAG_PIECE + piece);
}

/* Receives run WINDOW pieces ahead of what is stored. */
static int move_pieces(struct transfer *t)
{
    struct demo_side *side = t->side;
    uint64_t ahead = t->pieces < WINDOW ? t->pieces : WINDOW;

    for (uint64_t piece = 0; piece < ahead && side->receives; piece++) {
        if (post_piece(t, piece) != 0) {
            return -1;
        }
    }
    for (uint64_t piece = 0; piece < t->pieces; piece++) {
        if (side->sends && send_piece(t, piece) != 0) {
            return -1;
        }
        if (side->receives) {
            if (store_piece(t, piece) != 0 || (piece + ahead < t->pieces && post_piece(t, piece + ahead) != 0)) {
                return -1;
            }
            demo_report(side, DEMO_PROGRESS, "%.4f the file, piece %llu of %llu",
                        (double)piece / (double)t->pieces / (2.0 * demo_size_count + 1),
                        (unsigned long long)piece + 1, (unsigned long long)t->pieces);
        }
    }
    for (int i = 0; i < WINDOW && side->sends; i++) {
        if (demo_wait(side, &t->sends[i]) != 0) {
            return -1;
        }
    }
    return 0;
}

static int open_files(struct transfer *t)
{
    struct demo_side *side = t->side;
    struct stat info;

    if (side->sends) {
        t->from = open(side->file, O_RDONLY | O_CLOEXEC);
        if (t->from < 0 || fstat(t->from, &info) != 0) {
            return cw_link_fail(&side->link, "cannot read '%s': %s", side->file, strerror(errno));
        }
        t->size = (uint64_t)info.st_size;
    }
    if (side->receives) {
        t->to = open(side->received, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        if (t->to < 0) {
            return cw_link_fail(&side->link, "cannot write '%s': %s", side->received, strerror(errno));
        }
    }
    t->out = malloc((size_t)WINDOW * PIECE);
    t->in = malloc((size_t)WINDOW * PIECE);
    return t->out != NULL && t->in != NULL ? 0 : cw_link_fail(&side->link, "out of memory for the pieces");
}

static int move_file(struct demo_side *side)
{
    struct transfer t = {.side = side, .from = -1, .to = -1};
    int result = open_files(&t);

    for (int i = 0; i < WINDOW; i++) {
        t.sends[i].done = t.recvs[i].done = true;
    }
    if (result == 0) {
        result = exchange_size(&t);
    }
    uint64_t start_ns = cw_clock_ns();
    if (result == 0) {
        result = move_pieces(&t);
    }
    if (t.to >= 0 && close(t.to) != 0 && result == 0) {
        result = cw_link_fail(&side->link, "writing the received file failed: %s", strerror(errno));
    }
    if (t.from >= 0) {
        close(t.from);
    }
    if (result != 0) {
        /* The operations in `t` may still be in flight: this process must not go on. */
        demo_report(side, DEMO_ERROR, "%s", side->link.error);
        _exit(1);
    }
    if (side->receives) {
        demo_report(side, DEMO_FILE, "%llu %llu %llu", (unsigned long long)t.size, (unsigned long long)t.pieces,
                    (unsigned long long)((cw_clock_ns() - start_ns) / 1000));
    }
    free(t.out);
    free(t.in);
    return 0;
}

/* ---- the process ---- */

/* Arguments: --side ROLE FILE RECEIVED EVENTS LINK CPU SECONDS; LINK is -1 with transport self, CPU -1 unbound. */
int demo_side_main(int argc, char **argv)
{
    if (argc != 9) {
        cw_say_error("--side is for the program itself");
        return 1;
    }
    const char *role = argv[2];
    int cpu = atoi(argv[7]);
    struct demo_side side = {
        .sends = strcmp(role, "receive") != 0,
        .receives = strcmp(role, "send") != 0,
        .file = argv[3],
        .received = argv[4],
        .events = atoi(argv[5]),
        .seconds = atof(argv[8]),
    };
    struct cw_oob oob = {.fd = atoi(argv[6]), .timeout_ms = 20000};
    struct cw_link_config config = {
        .features = UCP_FEATURE_TAG,
        .thread_mode = UCS_THREAD_MODE_SINGLE,
        .share_cpu = cw_cpu_count() < 2,
        .timeout_s = 20,
    };

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGPIPE, SIG_IGN);
    fcntl(side.events, F_SETFD, FD_CLOEXEC);
    cw_watchdog_start(25, 1);
    cw_ticks_start();
    if (cpu >= 0) {
        cw_cpu_bind_nth((unsigned)cpu);
    }
    int result = cw_link_open(&side.link, &config, oob.fd >= 0 ? &oob : NULL);
    if (result == 0) {
        result = cw_link_barrier(&side.link);
    }
    if (result == 0) {
        result = move_file(&side);
    }
    if (result == 0) {
        result = demo_measure(&side);
    }
    if (result != 0) {
        demo_report(&side, DEMO_ERROR, "%s", side.link.error);
        return 1;
    }
    if (cw_link_barrier(&side.link) != 0 || cw_link_close(&side.link) != 0) {
        demo_report(&side, DEMO_ERROR, "%s", side.link.error);
        return 1;
    }
    return 0;
}
