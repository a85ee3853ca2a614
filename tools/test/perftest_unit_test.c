/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Unit tests of the performance tool: the parameters that go to the server, command lines, the numbers of a row.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "meter.h"
#include "options.h"
#include "plan.h"
#include "say.h"
#include "tests.h"

static const struct cw_perf_params example = {
    .test = "tag_bw",
    .size = 123456789,
    .parts = {123456000, 0, 789},
    .part_count = 3,
    .stride = 1 << 30,
    .am_header = 17,
    .iterations = 1,
    .warmup = 99,
    .window = 7,
    .thread_mode = UCS_THREAD_MODE_MULTI,
    .threads = 5,
    .wildcard_tag = true,
    .sleep = true,
    .recv_iov = true,
    .copy = true,
    .user_memory = true,
    .memory_handle = true,
};

static void params_survive_the_way(void **state)
{
    uint8_t bytes[CW_PERF_WIRE_BYTES];
    struct cw_perf_params got;

    (void)state;
    cw_params_encode(&example, bytes);
    assert_true(cw_params_decode(&got, bytes, sizeof(bytes)));
    assert_string_equal(got.test, example.test);
    assert_int_equal(got.size, example.size);
    assert_int_equal(got.iterations, example.iterations);
    assert_int_equal(got.warmup, example.warmup);
    assert_int_equal(got.window, example.window);
    assert_int_equal(got.thread_mode, example.thread_mode);
    assert_int_equal(got.threads, 5);
    assert_true(got.wildcard_tag);
    assert_false(got.probe_first);
    assert_true(got.sleep);
    assert_false(got.verify);
    assert_int_equal(got.part_count, 3);
    assert_memory_equal(got.parts, example.parts, sizeof(got.parts));
    assert_int_equal(got.stride, example.stride);
    assert_int_equal(got.am_header, 17);
    assert_false(got.send_iov);
    assert_true(got.recv_iov);
    assert_false(got.recv_data);
    assert_true(got.copy);
    assert_true(got.user_memory);
    assert_false(got.nonblock);
    assert_true(got.memory_handle);
    assert_false(got.idle_target);
}

/* Sets one byte at a time to 0xff: nothing but parameters within their bounds is ever accepted. */
static void wrong_params_are_refused(void **state)
{
    uint8_t bytes[CW_PERF_WIRE_BYTES];
    struct cw_perf_params got;

    (void)state;
    cw_params_encode(&example, bytes);
    for (size_t length = 0; length < sizeof(bytes); length++) {
        assert_false(cw_params_decode(&got, bytes, length));
    }
    for (size_t at = 0; at < sizeof(bytes); at++) {
        cw_params_encode(&example, bytes);
        bytes[at] = 0xff;
        if (cw_params_decode(&got, bytes, sizeof(bytes))) {
            assert_true(memchr(got.test, '\0', sizeof(got.test)) != NULL);
            assert_true(got.iterations > 0 && got.iterations <= UINT64_C(1) << 48);
            assert_true(got.window <= 1u << 20);
            assert_true(got.part_count > 0 && got.part_count <= CW_PERF_MAX_PARTS);
            assert_true(got.size <= CW_PERF_MAX_SIZE && got.am_header <= 1u << 20);
            assert_true(got.thread_mode <= UCS_THREAD_MODE_MULTI);
            assert_true(got.threads > 0 && got.threads <= CW_PERF_MAX_THREADS);
        }
    }
    cw_params_encode(&example, bytes);
    memset(bytes + CW_PERF_TEST_NAME + 8, 0, 8);
    assert_false(cw_params_decode(&got, bytes, sizeof(bytes)));
    /* A bit that this version does not know would be an option that is silently left out. */
    cw_params_encode(&example, bytes);
    bytes[CW_PERF_TEST_NAME + 5 * 8 + 2] = 1;
    assert_false(cw_params_decode(&got, bytes, sizeof(bytes)));
}

/* PRF-1: the host may stand before, between or after the options. */
static void host_may_stand_anywhere(void **state)
{
    char *lines[][8] = {
        {"tool", "host", "-t", "tag_lat", "-n", "5", "-f", NULL},
        {"tool", "-t", "tag_lat", "host", "-n", "5", "-f", NULL},
        {"tool", "-t", "tag_lat", "-n", "5", "-f", "host", NULL},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        struct cw_perf_options options;
        cw_options_init(&options);
        assert_true(cw_options_parse(&options, 7, lines[i], false));
        assert_string_equal(options.host, "host");
        assert_string_equal(options.params.test, "tag_lat");
        assert_int_equal(options.params.iterations, 5);
        assert_true(options.final_only);
    }
}

static void defaults_are_those_of_the_specification(void **state)
{
    struct cw_perf_options options;
    char *line[] = {"tool", "-s", "16,48,8192", NULL};

    (void)state;
    cw_options_init(&options);
    assert_int_equal(options.params.size, 8);
    assert_int_equal(options.params.iterations, 1000000);
    assert_int_equal(options.params.warmup, 10000);
    assert_int_equal(options.port, 13337);
    assert_true(options.rank == 50.0);
    assert_true(cw_options_parse(&options, 3, line, false));
    assert_int_equal(options.params.size, 8256);
    assert_int_equal(options.params.part_count, 3);
    assert_int_equal(options.params.parts[1], 48);
    assert_int_equal(cw_test_find("tag_lat")->window, 1);
    assert_int_equal(cw_test_find("tag_bw")->window, 32);
    /* Half of a round trip, or the whole of an operation that one side alone carries out (PRF-27). */
    assert_int_equal(cw_test_find("ucp_put_lat")->parts, 2);
    assert_int_equal(cw_test_find("ucp_get")->parts, 1);
    assert_true(cw_test_find("ucp_get")->latency);
    assert_false(cw_test_find("ucp_add")->latency);
    assert_null(cw_test_find("none"));
}

/* 1000 round trips of 2000 ticks: half of each is the latency (PRF-27), MB are 2^20 bytes (PRF-23). */
static void row_of_a_latency_test(void **state)
{
    struct cw_meter meter = {.rank = 50, .parts = 2, .size = 1 << 20};

    (void)state;
    cw_ticks_start();
    assert_true(cw_hist_init(&meter.hist));
    cw_meter_begin(&meter);
    for (int i = 0; i < 1000; i++) {
        cw_hist_add(&meter.hist, 2000);
    }
    meter.iterations = 1000;
    meter.previous = meter.start + 2000 * 1000;
    struct cw_meter_row row = cw_meter_row(&meter);
    double usec = 1000 * cw_ticks_ns() / 1e3;
    assert_int_equal(row.iterations, 1000);
    assert_true(row.percentile_usec > usec * 0.99 && row.percentile_usec < usec * 1.01);
    assert_true(row.overall_usec > usec * 0.99 && row.overall_usec < usec * 1.01);
    assert_true(row.overall_rate > 1e6 / usec * 0.99 && row.overall_rate < 1e6 / usec * 1.01);
    assert_true(row.overall_mbps > row.overall_rate * 0.999 && row.overall_mbps < row.overall_rate * 1.001);

    /* After an intermediate row the average is that of the new interval alone. */
    cw_meter_interval(&meter, meter.previous);
    meter.iterations += 10;
    meter.previous += 10 * 4000;
    row = cw_meter_row(&meter);
    assert_true(row.average_usec > 2 * usec * 0.99 && row.average_usec < 2 * usec * 1.01);
    assert_true(row.overall_usec < usec * 1.05);
    cw_hist_fini(&meter.hist);
}

/* Sixteen iterations in one reading of the clock are sixteen values, all the mean. */
static void many_iterations_in_one_reading(void **state)
{
    struct cw_meter meter = {.rank = 50, .parts = 1, .size = 8};

    (void)state;
    cw_ticks_start();
    assert_true(cw_hist_init(&meter.hist));
    cw_meter_begin(&meter);
    meter.previous -= 16000000;
    cw_meter_step_many(&meter, 16);
    assert_int_equal(meter.iterations, 16);
    assert_int_equal(meter.hist.count, 16);
    assert_int_equal(meter.hist.min, meter.hist.max);
    assert_true(meter.hist.min >= 1000000 && meter.hist.min < UINT64_C(1000000000000));
    cw_hist_fini(&meter.hist);
}

/* Patterns: each pair once (all), and nobody plays two at a time. */
static void everybody_plays_everybody(void **state)
{
    (void)state;
    for (uint32_t size = 2; size < 20; size++) {
        bool met[20][20] = {{false}};
        unsigned games = 0;
        for (unsigned round = 0; round < cw_plan_rounds(CW_PATTERN_ALL, size); round++) {
            bool busy[20] = {false};
            for (uint32_t client = 0; client < size; client++) {
                uint32_t server = cw_plan_server(CW_PATTERN_ALL, size, round, client);
                if (server == CW_NOBODY) {
                    continue;
                }
                assert_true(server < size && client < server && !met[client][server]);
                assert_false(busy[client] || busy[server]);
                assert_int_equal(cw_plan_clients(CW_PATTERN_ALL, size, round, server), 1);
                met[client][server] = busy[client] = busy[server] = true;
                games++;
            }
        }
        assert_int_equal(games, size * (size - 1) / 2);
    }
    assert_int_equal(cw_plan_server(CW_PATTERN_PAIRS, 6, 0, 1), 4);
    assert_int_equal(cw_plan_server(CW_PATTERN_PAIRS, 6, 0, 4), CW_NOBODY);
    assert_int_equal(cw_plan_clients(CW_PATTERN_PAIRS, 6, 0, 4), 1);
    assert_int_equal(cw_plan_clients(CW_PATTERN_MANY, 6, 0, 0), 5);
    assert_int_equal(cw_plan_server(CW_PATTERN_MANY, 6, 0, 5), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(params_survive_the_way),  cmocka_unit_test(wrong_params_are_refused),
        cmocka_unit_test(host_may_stand_anywhere), cmocka_unit_test(defaults_are_those_of_the_specification),
        cmocka_unit_test(row_of_a_latency_test),   cmocka_unit_test(many_iterations_in_one_reading),
        cmocka_unit_test(everybody_plays_everybody),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
