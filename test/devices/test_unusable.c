/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Devices of which each call fails in turn, and at random: a worker is made with what works, and one line at WARN says
 * which device is left out, at which step and why. A device that fails later costs the connections over it. The first
 * argument names the device's transport, for UCX_TLS; the devices are stand-ins (verbs_stand_in.c, ../ofi/stand_in.c).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"

#ifdef CW_VERBS
#include "verbs_stand_in.h"
#endif

enum { TEXT = 65536, LONG = 300000, SHORT = 80, MOST_CALLS = 200, SEEDS = 40 };

struct step {
    const char *name;
    /* A failure in the opening leaves out the device (FATAL) or all (LISTING), or the device is used all the same. */
    enum { FATAL, LISTING, TAKEN } opening;
    /* Without this no connection begins, so messages take another path; else the connection fails later. */
    bool begins;
};

static const struct step verbs_steps[] = {
    {"get_device_list", LISTING, false}, {"open_device", FATAL, false}, {"query_device", FATAL, false},
    {"query_port", FATAL, false},      {"query_gid", FATAL, false},   {"query_pkey", FATAL, false},
    {"alloc_pd", FATAL, false},        {"reg_mr", FATAL, true},       {"create_comp_channel", FATAL, false},
    {"create_cq", FATAL, false},       {"create_qp", FATAL, true},    {"modify_qp", FATAL, true},
    {"post_recv", FATAL, false},       {"create_srq", FATAL, true},   {"post_srq_recv", FATAL, true},
    {"create_ah", FATAL, true},        {"modify_srq", TAKEN, false},  {"resize_cq", TAKEN, false},
    {"post_send", FATAL, false},       {"poll_cq", FATAL, false},     {.name = NULL}};
static const struct step ofi_steps[] = {
    {"domain", FATAL, false}, {"av_open", FATAL, false}, {"cq_open", FATAL, false}, {"endpoint", FATAL, false},
    {"bind", FATAL, false},   {"enable", FATAL, false},  {"getname", FATAL, false}, {"mr_reg", FATAL, false},
    {"recv", FATAL, false},   {"send", FATAL, false},    {"cq_read", FATAL, false}, {.name = NULL}};

static const struct step *steps;
static const char *transport;
static char text[TEXT];
static volatile int failures;

static void on_failure(void *arg, ucp_ep_h ep, ucs_status_t status)
{
    (void)arg;
    (void)ep;
    assert_int_not_equal(status, UCS_OK);
    failures++;
}

static void set_tls(const char *others)
{
    char tls[64];

    snprintf(tls, sizeof(tls), "%s%s", others, transport);
    setenv("UCX_TLS", tls, 1);
}

static void let_fail(const char *step, unsigned skip, int number)
{
    char words[64];

    snprintf(words, sizeof(words), "%s %u %d", step, skip, number);
    unsetenv("CW_FAILED");
    setenv("CW_FAIL", words, 1);
}

static bool fail_no_more(void)
{
    unsetenv("CW_FAIL");
    return getenv("CW_FAILED") != NULL;
}

/* Opens as cw_side_open does, with what it logs in `text`. */
static ucs_status_t open_side(struct cw_side *side)
{
    ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES,
                           .features = UCP_FEATURE_TAG | UCP_FEATURE_RMA | UCP_FEATURE_WAKEUP};
    ucp_worker_params_t worker_params = {.field_mask = 0};
    ucs_status_t status;
    int saved[2], file;

    *side = (struct cw_side){.context = NULL};
    file = cw_capture_start(saved);
    status = ucp_init(&params, NULL, &side->context);
    if (status != UCS_OK) {
        side->context = NULL;
    } else {
        status = ucp_worker_create(side->context, &worker_params, &side->worker);
        side->worker = (status == UCS_OK) ? side->worker : NULL;
    }
    cw_capture_end(file, saved, text, sizeof(text));
    return status;
}

/* One line at WARN with device, step and cause. */
static void check_line(const struct step *step, unsigned skip, int errors)
{
    const char *device = (steps == verbs_steps) ? "stand0" : "standin0";
    const char *line = strstr(text, " WARN ");

    if (step->opening == LISTING && line != NULL && strstr(line, strerror(EREMOTEIO)) != NULL) {
        return;
    }
    if (cw_capture_count(text, " WARN ") != 1 || cw_capture_count(text, " ERROR ") != errors ||
        strstr(line, device) == NULL ||
        strstr(line, strerror(EREMOTEIO)) == NULL) {
        fail_msg("%s fails at call %u, and this is logged:\n%s", step->name, skip, text);
    }
}

static char sent[LONG], seen[LONG];

/* Returns whether all went well; everything ends in any case. */
static bool exchange(struct cw_pair *pair, ucp_ep_h ep, size_t length, ucp_tag_t tag)
{
    ucp_request_param_t param = cw_param_none();
    ucs_status_ptr_t send, receive, flush;
    ucs_status_t sending, status;
    const double end = cw_time_now_s() + CW_WAIT_S;

    cw_pattern_fill(sent, length, tag);
    memset(seen, 0, length);
    receive = ucp_tag_recv_nbx(pair->rx->worker, seen, length, tag, CW_TAG_ALL, &param);
    send = ucp_tag_send_nbx(ep, sent, length, tag, &param);
    sending = cw_pair_wait(pair, send, "a send over a device that fails");
    flush = ucp_ep_flush_nbx(ep, &param);
    status = cw_pair_wait(pair, flush, "a flush over a device that fails");
    sending = (sending == UCS_OK) ? status : sending;
    while (UCS_PTR_IS_PTR(receive) && ucp_request_check_status(receive) == UCS_INPROGRESS && sending == UCS_OK &&
           failures == 0) {
        (void)cw_pair_progress(pair);
        assert_true(cw_time_now_s() < end);
    }
    if (UCS_PTR_IS_PTR(receive) && ucp_request_check_status(receive) == UCS_INPROGRESS) {
        ucp_request_cancel(pair->rx->worker, receive);
    }
    status = cw_pair_wait(pair, receive, "a receive over a device that fails");
    if (status == UCS_OK) {
        cw_pattern_check(seen, length, tag);
    }
    return status == UCS_OK && sending == UCS_OK;
}

/* Puts and gets; the memory may not be registered with the device. */
static bool reach(struct cw_pair *pair, ucp_ep_h ep)
{
    ucp_mem_map_params_t params = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH,
                                   .address = seen,
                                   .length = sizeof(seen)};
    ucp_request_param_t param = cw_param_none();
    ucs_status_t status[3] = {UCS_ERR_LAST, UCS_ERR_LAST, UCS_ERR_LAST};
    ucp_rkey_h key = NULL;
    ucp_mem_h memory;
    size_t length;
    void *packed;

    assert_int_equal(ucp_mem_map(pair->rx->context, &params, &memory), UCS_OK);
    assert_int_equal(ucp_rkey_pack(pair->rx->context, memory, &packed, &length), UCS_OK);
    status[0] = ucp_ep_rkey_unpack(ep, packed, &key);
    if (status[0] == UCS_OK) {
        cw_pattern_fill(sent, sizeof(sent), 7);
        status[1] = cw_pair_wait(pair, ucp_put_nbx(ep, sent, sizeof(sent), (uintptr_t)seen, key, &param), "a put");
        status[2] = cw_pair_wait(pair, ucp_ep_flush_nbx(ep, &param), "the flush of a put");
        if (status[1] == UCS_OK && status[2] == UCS_OK) {
            cw_pattern_check(seen, sizeof(seen), 7);
        }
        ucp_rkey_destroy(key);
    }
    ucp_rkey_buffer_release(packed);
    assert_int_equal(ucp_mem_unmap(pair->rx->context, memory), UCS_OK);
    return status[0] == UCS_OK && status[1] == UCS_OK && status[2] == UCS_OK;
}

static void close_ep(struct cw_pair *pair, ucp_ep_h ep)
{
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS, .flags = UCP_EP_CLOSE_FLAG_FORCE};

    (void)cw_pair_wait(pair, ucp_ep_close_nbx(ep, &param), "the end of an endpoint");
    for (struct cw_settling settling = cw_settling(); cw_settles(&settling);) {
        (void)cw_pair_progress(pair);
    }
}

static ucs_status_t connect_pair(struct cw_pair *pair, ucp_ep_h *ep)
{
    ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLER |
                                            UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE,
                              .err_mode = UCP_ERR_HANDLING_MODE_PEER,
                              .err_handler = {.cb = on_failure}};
    ucs_status_t status;
    size_t length;

    params.address = cw_test_worker_address(pair->rx->worker, &length);
    status = ucp_ep_create(pair->tx->worker, &params, ep);
    free((void *)params.address);
    return status;
}

/* Connects and moves bytes. A connection that fails is noticed by its handler, once. */
static bool talk(struct cw_pair *pair)
{
    const double end = cw_time_now_s() + CW_WAIT_S;
    ucs_status_t status;
    bool is_well;
    ucp_ep_h ep;

    failures = 0;
    status = connect_pair(pair, &ep);
    if (status != UCS_OK) {
        assert_int_equal(status, UCS_ERR_UNREACHABLE);
        return false;
    }
    is_well = exchange(pair, ep, 8, 1);
    is_well &= exchange(pair, ep, LONG, 2);
    is_well &= reach(pair, ep);
    for (unsigned i = 0; i < SHORT && is_well; i++) { /* more than there are receives */
        is_well = exchange(pair, ep, 3000, 3 + i);
    }
    while (!is_well && failures == 0) {
        (void)cw_pair_progress(pair);
        if (cw_time_now_s() > end) {
            fail_msg("a request failed, and no handler was called");
        }
    }
    assert_true(failures <= 1);
    close_ep(pair, ep);
    assert_true(failures <= 1);
    return is_well;
}

static void open_pair(struct cw_pair *pair)
{
    *pair = (struct cw_pair){.count = 2, .tx = &pair->sides[0], .rx = &pair->sides[1]};
}

static void close_pair(struct cw_pair *pair)
{
    cw_side_destroy(&pair->sides[0]);
    cw_side_destroy(&pair->sides[1]);
}

/* Fails each call of the step that an opening makes, on one side of a pair that must work all the same. */
static void check_opening(const struct step *step)
{
    struct cw_pair pair;
    bool has_failed;

    for (unsigned skip = 0; skip < MOST_CALLS; skip++) {
        open_pair(&pair);
        let_fail(step->name, skip, EREMOTEIO);
        assert_int_equal(open_side(pair.tx), UCS_OK);
        has_failed = fail_no_more();
        if (has_failed && step->opening != TAKEN) {
            check_line(step, skip, 0);
        } else if (cw_capture_count(text, " WARN ") + cw_capture_count(text, " ERROR ") != 0) {
            fail_msg("this is logged:\n%s", text);
        }
        assert_int_equal(open_side(pair.rx), UCS_OK);
        assert_true(talk(&pair));
        close_pair(&pair);
        if (!has_failed) {
            return;
        }
    }
    fail_msg("%s is called without end", step->name);
}

TEST(test_opening)
{
    setenv("UCX_NET_DEVICES", (steps == verbs_steps) ? "stand0:1,lo" : "standin:standin0,lo", 1);
    for (const struct step *step = steps; step->name != NULL; step++) {
        set_tls("self,tcp,");
        check_opening(step);
        set_tls("self,shm,");
        check_opening(step);
    }
}

/* Without another transport the status says that it failed, and the line why. */
TEST(test_alone)
{
    struct cw_side side;
    ucs_status_t status;
    bool has_failed = true;

    set_tls("");
    setenv("UCX_NET_DEVICES", (steps == verbs_steps) ? "stand0:1" : "standin:standin0", 1);
    for (const struct step *step = steps; step->name != NULL; step++) {
        has_failed = step->opening != TAKEN;
        for (unsigned skip = 0; has_failed; skip++) {
            let_fail(step->name, skip, EREMOTEIO);
            status = open_side(&side);
            has_failed = fail_no_more();
            assert_int_equal(status == UCS_OK, !has_failed);
            if (has_failed && strstr(text, strerror(EREMOTEIO)) == NULL) {
                fail_msg("%s fails at call %u, and this is logged:\n%s", step->name, skip, text);
            }
            cw_side_destroy(&side);
        }
    }
}

/* Devices that were opened, and fail when a connection begins or later. With another transport the workers go on. */
static void check_later(const struct step *step, bool is_alone)
{
    bool is_well, has_failed = true;
    struct cw_pair pair;

    for (unsigned skip = 0; has_failed && skip < MOST_CALLS; skip += 1 + 3 * skip) {
        open_pair(&pair);
        assert_int_equal(open_side(pair.tx), UCS_OK);
        assert_int_equal(open_side(pair.rx), UCS_OK);
        let_fail(step->name, skip, EREMOTEIO);
        is_well = talk(&pair);
        has_failed = fail_no_more();
        if (!is_well && (!has_failed || (!is_alone && skip == 0 && step->begins))) {
            fail_msg("%s fails at call %u, and so does the endpoint", step->name, skip);
        }
        if (!talk(&pair) && !is_alone) {
            fail_msg("%s failed at call %u, and no new endpoint works", step->name, skip);
        }
        close_pair(&pair);
    }
}

TEST(test_later)
{
    for (const struct step *step = steps; step->name != NULL; step++) {
        set_tls("self,tcp,");
        setenv("UCX_NET_DEVICES", (steps == verbs_steps) ? "stand0:1,stand1:1,lo" : "standin:standin0,lo", 1);
        check_later(step, false);
        set_tls("");
        setenv("UCX_NET_DEVICES", (steps == verbs_steps) ? "stand0:1" : "standin:standin0", 1);
        check_later(step, true);
    }
}

/* Each call may fail, while two workers open, talk and close. */
TEST(test_random)
{
    struct cw_pair pair;

    setenv("UCX_NET_DEVICES", (steps == verbs_steps) ? "stand0:1,stand1:1,lo" : "standin:standin0,lo", 1);
    for (unsigned seed = 1; seed <= SEEDS; seed++) {
        set_tls((seed % 4 == 0) ? "self,shm," : "self,tcp,");
        open_pair(&pair);
        let_fail("random", seed, (seed % 2 == 0) ? 10 : 300);
        assert_int_equal(open_side(pair.tx), UCS_OK);
        assert_int_equal(open_side(pair.rx), UCS_OK);
        (void)talk(&pair);
        (void)talk(&pair);
        close_pair(&pair);
        (void)fail_no_more();
    }
}

#ifdef CW_VERBS
/* The second of two devices dies under a message that both carry. */
TEST(test_dies)
{
    struct cw_pair pair;
    ucp_ep_h ep;

    setenv("UCX_NET_DEVICES", "stand0:1,stand1:1,lo", 1);
    for (int i = 0; i < 2; i++) {
        const char *name = (i == 0) ? "stand1" : "stand0";

        set_tls("self,tcp,");
        open_pair(&pair);
        assert_int_equal(open_side(pair.tx), UCS_OK);
        assert_int_equal(open_side(pair.rx), UCS_OK);
        failures = 0;
        assert_int_equal(connect_pair(&pair, &ep), UCS_OK);
        assert_true(exchange(&pair, ep, LONG, 1));
        stand_in_dies(name);
        if (!exchange(&pair, ep, LONG, 2)) {
            assert_int_equal(i, 1);
        }
        (void)exchange(&pair, ep, 8, 3);
        assert_int_equal(failures, i);
        close_ep(&pair, ep);
        assert_true(talk(&pair));
        close_pair(&pair);
        stand_in_dies(NULL);
    }
}
#endif

int main(int argc, char **argv)
{
    transport = (argc > 1) ? argv[1] : "rc";
    steps = (strcmp(transport, "rc") == 0) ? verbs_steps : ofi_steps;
#ifdef CW_VERBS
    device_is.num_devices = 2;
    device_is.repeats = 0;
#endif
    return cw_tests_run(NULL, NULL);
}
