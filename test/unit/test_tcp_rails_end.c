/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ends of the sockets of a TCP connection: a further one that dies is done without, and what was lost on it is sent
 * again; the first takes all with it; closing; what a peer may tell of all that.
 */
#include "test_tcp_rails.h"

/* The first socket ends: the connection as a whole does, once, at both ends, and no place is written to afterwards. */
static void test_first_dies(void **state)
{
    struct link *dialled, *accepted, *ends[2];
    static uint8_t copy[LARGE];
    unsigned round, i;

    (void)state;
    for (round = 0; round < 8; round++) {
        dialled = open_joined(3, &accepted);
        ends[0] = dialled;
        ends[1] = accepted;
        block(dialled, 1);
        DRIVE_UNTIL(&left, &right, num_asked >= 2);
        if (round & 2) { /* a moment after another one */
            kill_socket(any_rail(ends[round & 1]), round & 4);
            step(&left);
        }
        kill_socket(tcp_conn(ends[round & 1]), round & 4);
        DRIVE_UNTIL(&left, &right,
                    dialled->closed_status != UCS_INPROGRESS && accepted->closed_status != UCS_INPROGRESS);
        assert_int_equal(dialled->closed_status, UCS_ERR_CONNECTION_RESET);
        assert_int_equal(accepted->closed_status, UCS_ERR_CONNECTION_RESET);
        assert_int_equal(joined(dialled) + joined(accepted), 0);
        assert_int_equal(tcp->packets->send_short(dialled->conn, 1, 0, NULL, 0), UCS_ERR_CONNECTION_RESET);
        for (i = 0; i < num_parcels; i++) {
            assert_true(!parcels[i].taken || parcels[i].wait.status != UCS_INPROGRESS);
            memset(parcels[i].to, 0x5a, parcels[i].length);
        }
        drive_for_ms(&left, &right, 5);
        memset(copy, 0x5a, sizeof(copy));
        for (i = 0; i < num_parcels; i++) {
            assert_memory_equal(parcels[i].to, copy, parcels[i].length);
        }
        close_pair();
    }
}

/* A further socket on which nothing was under way is done without, and so is the last of them. */
static void test_one_dies_idle(void **state)
{
    struct link *dialled, *accepted, *killer;
    unsigned round, left_over;

    (void)state;
    for (round = 0; round < 8; round++) {
        dialled = open_joined(3, &accepted);
        for (left_over = 2; left_over-- > 0;) {
            exchange(dialled, accepted);
            killer = (round & 1) ? dialled : accepted;
            kill_socket(any_rail(killer), round & 2);
            if (round & 4) { /* nobody knows yet: these may meet the dead socket, which takes none of them */
                parcel_post(killer, LARGE);
                parcel_post((round & 2) ? ((round & 1) ? accepted : dialled) : killer, LARGE);
            }
            DRIVE_UNTIL(&left, &right, joined(dialled) == left_over && joined(accepted) == left_over);
            exchange(dialled, accepted);
            assert_int_equal(tcp->packets->send_short(accepted->conn, 1, dialled->packets, "more", 4), UCS_OK);
            DRIVE_UNTIL(&left, &right, dialled->packets == 2 - left_over);
        }
        assert_int_equal(dialled->closed_status, UCS_INPROGRESS);
        assert_int_equal(accepted->closed_status, UCS_INPROGRESS);
        close_pair();
    }
}

/* Numbers that cannot be: both sides end the connection. */
static void test_one_dies_and_lies(void **state)
{
    struct cw_tcp_rail_count *count;
    struct link *dialled, *accepted;
    struct cw_tcp_conn *rail;
    unsigned round;

    (void)state;
    cw_log_set_interceptor(count_lines);
    for (round = 0; round < 12; round++) {
        dialled = open_joined(2, &accepted);
        exchange(dialled, accepted);
        rail  = any_rail((round & 1) ? dialled : accepted);
        count = &rail->first->rails->counts[rail->slot];
        assert_true(count->sent > 0 && count->taken > 0 && count->sent == count->confirmed);
        if (round >= 8) {
            count->sent--; /* less than what came there */
        } else if (round & 4) {
            count->taken--; /* less than what was told before */
        } else {
            count->taken++; /* more than what was sent */
        }
        kill_socket(any_rail((round & 2) ? dialled : accepted), round & 1);
        DRIVE_UNTIL(&left, &right,
                    dialled->closed_status != UCS_INPROGRESS && accepted->closed_status != UCS_INPROGRESS);
        assert_int_equal(dialled->closed_status, UCS_ERR_CONNECTION_RESET);
        assert_int_equal(accepted->closed_status, UCS_ERR_CONNECTION_RESET);
        close_pair();
    }
    cw_log_set_interceptor(NULL);
}

/* At any moment, one after the other until none is left: the connection goes on, and everything arrives once. */
static void test_one_dies_any_time(void **state)
{
    unsigned round, step_no, when, posted, killed, again = 0, i;
    struct link *dialled, *accepted;

    (void)state;
    srand(11);
    for (round = 0; round < 60; round++) {
        dialled = open_joined(4, &accepted);
        when    = (unsigned)rand() % 60;
        for (step_no = posted = killed = 0; step_no <= 60 || posted < 12; step_no++) {
            if (step_no >= when && killed <= round % 3 && joined(dialled) > 0) {
                kill_socket(any_rail((round & 1) ? dialled : accepted), round & 2);
                when += (unsigned)rand() % 20;
                killed++;
            }
            if (rand() % 4 == 0 && posted < 12) {
                (void)parcel_send((posted & 1) ? dialled : accepted, parcel_new(1 + (size_t)rand() % LARGE));
                posted++;
            }
            step((rand() % 2) ? &left : &right);
        }
        DRIVE_UNTIL(&left, &right, num_placed == num_taken());
        for (i = 0; i < num_parcels; i++) {
            DRIVE_UNTIL(&left, &right, !parcels[i].taken || parcels[i].wait.status == UCS_OK);
        }
        assert_int_equal(dialled->closed_status, UCS_INPROGRESS);
        assert_int_equal(accepted->closed_status, UCS_INPROGRESS);
        assert_true(joined(dialled) < 3 && joined(accepted) < 3);
        exchange(dialled, accepted);
        again += num_unplaced;
        close_pair();
    }
    print_message("%u packets were cut in the middle\n", again);
    assert_true(again > 0);
}

/* What is on its way when sockets die, one after the other, is sent again, on the last one in the end; a send completes
 * when its bytes are there, and a flush behind it. */
static void test_sent_again(void **state)
{
    struct wait flush;
    struct link *dialled, *accepted;
    unsigned round, i, before;

    (void)state;
    for (round = 0; round < 8; round++) {
        dialled = open_joined(3, &accepted);
        before  = num_placed;
        flush   = (struct wait)WAIT_INIT;
        block(dialled, (round & 1) != 0);
        assert_int_equal(tcp->packets->flush(dialled->conn, &flush.completion), UCS_INPROGRESS);
        assert_int_equal(tcp->packets->flush(dialled->conn, NULL), UCS_INPROGRESS);
        assert_true(
            tcp->packets->owes(left.iface)); /* also where nothing but packets of further sockets is under way */
        while (joined(dialled) > 0) {
            for (i = 0; i < 20; i++) { /* nothing was read there: nothing is complete */
                step(&left);
            }
            for (i = before; i < num_parcels && !(round & 1); i++) {
                assert_int_equal(parcels[i].wait.status, UCS_INPROGRESS);
            }
            kill_socket(any_rail((round & 2) ? dialled : accepted), round & 4);
            i = joined(dialled);
            DRIVE_UNTIL(&left, &right, joined(dialled) < i && joined(accepted) < i);
            if (num_placed > before) {
                break;
            }
        }
        DRIVE_UNTIL(&left, &right, num_placed == num_taken() && flush.times == 1);
        assert_int_equal(flush.status, UCS_OK);
        for (i = 0; i < num_parcels; i++) {
            DRIVE_UNTIL(&left, &right, !parcels[i].taken || parcels[i].wait.status == UCS_OK);
        }
        assert_int_equal(tcp->packets->flush(dialled->conn, NULL), UCS_OK);
        assert_false(tcp->packets->owes(left.iface));
        assert_int_equal(dialled->closed_status, UCS_INPROGRESS);
        parcel_post(accepted, LARGE);
        DRIVE_UNTIL(&left, &right, num_placed == num_taken());
        close_pair();
    }
}

/* A send on a further socket is complete when the peer has it, never before; closing tells those that wait. */
static void test_completes_there(void **state)
{
    struct link *dialled, *accepted;
    struct parcel *parcel;
    unsigned i;

    (void)state;
    dialled = open_joined(2, &accepted);
    parcel  = parcel_new(LARGE / 64);
    assert_int_equal(parcel_send(dialled, parcel), UCS_INPROGRESS);
    assert_null(any_rail(dialled)->tx);
    for (i = 0; i < 50; i++) {
        step(&left);
    }
    assert_int_equal(parcel->wait.status, UCS_INPROGRESS);
    DRIVE_UNTIL(&left, &right, parcel->placed == 1 && parcel->wait.status == UCS_OK);
    parcel = parcel_new(LARGE / 64);
    assert_int_equal(parcel_send(dialled, parcel), UCS_INPROGRESS);
    link_close(dialled);
    assert_int_equal(parcel->wait.status, UCS_ERR_CANCELED);
    DRIVE_UNTIL(&left, &right, accepted->closed_status != UCS_INPROGRESS);
    close_pair();
}

/* What a peer may tell of further sockets: once for each, of slots that there are, of the right length, on the first
 * socket. */
static void test_peer_tells_wrong(void **state)
{
    static const struct {
        size_t length;
        uint8_t slot;
        uint8_t reserved;
        uint8_t times;
    } rows[] = {{24, CW_TCP_MAX_JOINED, 0, 1}, {24, 255, 0, 1}, {24, 0, 1, 1}, {24, 3, 0, 2}, {23, 0, 0, 1}};
    uint8_t frame[CW_TCP_FRAME_HEADER + 24];
    struct link *dialled, *accepted;
    struct cw_tcp_rail_body body;
    unsigned row, i;

    (void)state;
    cw_log_set_interceptor(count_lines);
    for (row = 0; row <= sizeof(rows) / sizeof(rows[0]); row++) {
        dialled = (row == sizeof(rows) / sizeof(rows[0])) ? open_pair(1, 1, &accepted) : open_joined(2, &accepted);
        i       = row % (sizeof(rows) / sizeof(rows[0]));
        body    = (struct cw_tcp_rail_body){.slot = rows[i].slot, .reserved = {rows[i].reserved}};
        cw_tcp_frame_encode(frame, CW_TCP_RAIL, 0, rows[i].length);
        memcpy(frame + CW_TCP_FRAME_HEADER, &body, sizeof(body));
        for (i = rows[i].times; i > 0; i--) {
            assert_int_equal(send(tcp_conn(dialled)->item.fd, frame, CW_TCP_FRAME_HEADER + sizeof(body), MSG_NOSIGNAL),
                             sizeof(frame));
        }
        DRIVE_UNTIL(&left, &right, accepted->closed_status != UCS_INPROGRESS);
        assert_int_equal(accepted->closed_status, UCS_ERR_IO_ERROR);
        close_pair();
    }
    cw_log_set_interceptor(NULL);
}

/* The frame TAKEN: on the first socket, more than before, not more than was sent, of sockets that there are, of the
 * right length, not behind RAIL. */
static void test_peer_confirms_wrong(void **state)
{
    static const struct {
        size_t length;
        uint8_t slot;
        uint8_t reserved;
        uint8_t further;
        uint8_t ended;
        int more;
    } rows[] = {{16, CW_TCP_MAX_JOINED, 0, 0, 0, 1}, {16, 255, 0, 0, 0, 1}, {16, 0, 1, 0, 0, 1}, {16, 0, 0, 0, 0, 0},
                {16, 0, 0, 0, 0, -1}, {16, 0, 0, 0, 0, 2}, {16, 3, 0, 0, 0, 1}, {15, 0, 0, 0, 0, 1},
                {16, 0, 0, 1, 0, 1}, {16, 0, 0, 0, 1, 1}};
    uint8_t frames[2 * CW_TCP_FRAME_HEADER + 24 + 16];
    struct link *dialled, *accepted;
    struct cw_tcp_taken_body body;
    struct cw_tcp_conn *from;
    size_t length;
    unsigned row;

    (void)state;
    cw_log_set_interceptor(count_lines);
    for (row = 0; row < sizeof(rows) / sizeof(rows[0]); row++) {
        dialled = open_joined(2, &accepted);
        exchange(dialled, accepted);
        assert_int_equal(parcel_send(accepted, parcel_new(100)), UCS_INPROGRESS);
        body   = (struct cw_tcp_taken_body){
            .slot     = rows[row].slot,
            .reserved = {rows[row].reserved},
            .taken    = tcp_conn(accepted)->rails->counts[0].confirmed + (uint64_t)rows[row].more};
        from   = rows[row].further ? any_rail(dialled) : tcp_conn(dialled);
        length = rows[row].ended ? CW_TCP_FRAME_HEADER + 24 : 0;
        memset(frames, 0, sizeof(frames));
        cw_tcp_frame_encode(frames, CW_TCP_RAIL, 0, 24);
        cw_tcp_frame_encode(frames + length, CW_TCP_TAKEN, 0, rows[row].length);
        memcpy(frames + length + CW_TCP_FRAME_HEADER, &body, sizeof(body));
        length += CW_TCP_FRAME_HEADER + sizeof(body);
        assert_int_equal(send(from->item.fd, frames, length, MSG_NOSIGNAL), length);
        DRIVE_UNTIL(&right, &right, accepted->closed_status != UCS_INPROGRESS);
        assert_int_equal(accepted->closed_status, UCS_ERR_IO_ERROR);
        assert_true(parcels[num_parcels - 1].wait.status < 0);
        close_pair();
    }
    cw_log_set_interceptor(NULL);
}

/* What was taken and completed before close_conn arrives, on whichever socket it is, before `closed`. */
static void test_close(void **state)
{
    struct link *dialled, *accepted, *from, *to;
    unsigned round, i, sent;

    (void)state;
    for (round = 0; round < 20; round++) {
        dialled = open_joined(2 + round % 3, &accepted);
        from    = (round & 1) ? dialled : accepted;
        to      = (round & 1) ? accepted : dialled;
        for (i = 0; i < 6; i++) {
            (void)parcel_send(from, parcel_new(1 + (round * 7919u + i * 65537u) % LARGE));
        }
        if (round & 2) {
            (void)parcel_send(to, parcel_new(LARGE)); /* on its way to who closes */
            (void)parcel_send(to, parcel_new(LARGE));
        }
        for (sent = 0; sent < 50 && tcp->packets->send_short(from->conn, 1, sent, "last", 4) == UCS_OK; sent++) {
        }
        for (i = 0; i < round / 4; i++) {
            step(&left);
            step(&right);
        }
        if (to->closed_status == UCS_INPROGRESS) {
            link_close(from);
        }
        DRIVE_UNTIL(&left, &right, to->closed_status != UCS_INPROGRESS);
        assert_int_equal(to->closed_status, UCS_ERR_CONNECTION_RESET);
        assert_int_equal(to->packets, sent);
        for (i = 1; i < 7; i++) {
            assert_true(!parcels[i].taken || parcels[i].wait.status != UCS_OK || parcels[i].placed);
        }
        link_close(to);
        DRIVE_UNTIL(&left, &right, tcp_of(&left)->num_lingering + tcp_of(&right)->num_lingering == 0);
        close_pair();
    }
}

/* A dialler that closes while its further sockets are being opened. */
static void test_close_early(void **state)
{
    struct link *dialled, *accepted;
    unsigned round, i;

    (void)state;
    cw_log_set_interceptor(count_lines);
    log_lines = 0;
    for (round = 0; round < 12; round++) {
        dialled = open_pair(4, 4, &accepted);
        (void)parcel_send(dialled, parcel_new(LARGE));
        for (i = 0; i < round / 2; i++) {
            step(&left);
            step(&right);
        }
        link_close((round & 1) ? dialled : accepted);
        dialled = (round & 1) ? accepted : dialled;
        DRIVE_UNTIL(&left, &right, dialled->closed_status != UCS_INPROGRESS);
        drive_for_ms(&left, &right, 2);
        assert_int_equal(tcp_of(&right)->num_strangers, 0);
        close_pair();
    }
    cw_log_set_interceptor(NULL);
    assert_int_equal(log_lines, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_first_dies),
        cmocka_unit_test(test_one_dies_idle),
        cmocka_unit_test(test_one_dies_and_lies),
        cmocka_unit_test(test_one_dies_any_time),
        cmocka_unit_test(test_sent_again),
        cmocka_unit_test(test_completes_there),
        cmocka_unit_test(test_peer_tells_wrong),
        cmocka_unit_test(test_peer_confirms_wrong),
        cmocka_unit_test(test_close),
        cmocka_unit_test(test_close_early),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
