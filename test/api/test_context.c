/* SPDX-License-Identifier: BSD-3-Clause */
/* Library and context: LIB-1..7, CTX-1..13, CTX-20..34, GEN-2..4, GEN-11..14, R7, R10, R11, R13. */
#define _GNU_SOURCE
#include "harness.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static ucp_params_t tag_params(void)
{
    ucp_params_t params;

    memset(&params, 0xff, sizeof(params));
    params.field_mask = UCP_PARAM_FIELD_FEATURES;
    params.features = UCP_FEATURE_TAG;
    return params;
}

/* Initialises and cleans up with one changed setting; NULL name: none. */
static ucs_status_t init_with(const char *name, const char *value)
{
    ucp_params_t params = tag_params();
    ucp_config_t *config = NULL;
    ucp_context_h context;
    ucs_status_t status;

    assert_int_equal(ucp_config_read(NULL, NULL, &config), UCS_OK);
    if (name != NULL) {
        assert_int_equal(ucp_config_modify(config, name, value), UCS_OK);
    }
    status = ucp_init(&params, config, &context);
    ucp_config_release(config);
    if (status == UCS_OK) {
        ucp_cleanup(context);
    }
    return status;
}

static ucp_context_attr_t query(ucp_context_h context, uint64_t mask)
{
    ucp_context_attr_t attr;

    memset(&attr, 0xff, sizeof(attr));
    attr.field_mask = mask;
    assert_int_equal(ucp_context_query(context, &attr), UCS_OK);
    assert_true(attr.field_mask == mask); /* R13 */
    return attr;
}

API_TEST(test_lib1_lib2_version)
{
    unsigned major = 0, minor = 0, release = 0;
    char text[64];

    ucp_get_version(&major, &minor, &release);
    snprintf(text, sizeof(text), "%u.%u.%u", major, minor, release);
    assert_int_equal(strncmp(ucp_get_version_string(), text, strlen(text)), 0);
    assert_int_equal(major, UCP_API_MAJOR);
    assert_true(minor >= UCP_API_MINOR);
    if (!cw_test_reference()) {
        assert_int_equal(major, 1);
        assert_int_equal(minor, 23); /* VER-28: programs switch features on it */
    }
}

API_TEST(test_lib4_lib5_mismatch_is_no_error)
{
    static const unsigned levels[][2] = {{UCP_API_MAJOR, UCP_API_MINOR}, {1, 5}, {1, 0}, {1, 99}, {99, 99}, {0, 1}};
    ucp_params_t params = tag_params();

    for (size_t i = 0; i < sizeof(levels) / sizeof(levels[0]); i++) {
        ucp_context_h context = NULL;

        assert_int_equal(ucp_init_version(levels[i][0], levels[i][1], &params, NULL, &context), UCS_OK);
        ucp_cleanup(context);
    }
}

API_TEST(test_lib6_thread_level)
{
    ucp_lib_attr_t attr;

    memset(&attr, 0xff, sizeof(attr));
    attr.field_mask = UCP_LIB_ATTR_FIELD_MAX_THREAD_LEVEL;
    assert_int_equal(ucp_lib_query(&attr), UCS_OK);
    assert_int_equal(attr.max_thread_level, UCS_THREAD_MODE_MULTI);
    assert_int_equal(attr.field_mask, UCP_LIB_ATTR_FIELD_MAX_THREAD_LEVEL);
    memset(&attr, 0xff, sizeof(attr));
    attr.field_mask = 0;
    assert_int_equal(ucp_lib_query(&attr), UCS_OK);
    assert_int_equal((unsigned)attr.max_thread_level, 0xffffffffu);
}

API_TEST(test_lib7_status_texts)
{
    static const struct {
        ucs_status_t status;
        const char *text;
    } rows[] = {
        {UCS_ERR_ENDPOINT_TIMEOUT, "Endpoint timeout"},
        {UCS_ERR_NO_ELEM, "No such element"},
        {UCS_ERR_CONNECTION_RESET, "Connection reset by remote peer"},
        {-98, "Unknown error -98"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_string_equal(ucs_status_string(rows[i].status), rows[i].text);
    }
    for (int status = 2; status > -128; status--) {
        assert_true(strlen(ucs_status_string((ucs_status_t)status)) > 0);
    }
}

/* CTX-1: without a configuration the defaults hold. */
API_TEST(test_ctx3_gen2_every_field_garbage)
{
    ucp_params_t params;
    ucp_context_h context = NULL;
    ucp_context_attr_t attr;

    for (int fill = 0; fill < 2; fill++) {
        memset(&params, fill == 0 ? 0xff : 0x01, sizeof(params));
        params.field_mask = UCP_PARAM_FIELD_FEATURES;
        params.features = UCP_FEATURE_TAG | UCP_FEATURE_RMA | UCP_FEATURE_AM | UCP_FEATURE_STREAM;
        assert_int_equal(ucp_init(&params, NULL, &context), UCS_OK);
        attr = query(context, UCP_ATTR_FIELD_NAME | UCP_ATTR_FIELD_THREAD_MODE);
        assert_non_null(memchr(attr.name, 0, sizeof(attr.name)));
        assert_int_not_equal(attr.name[0], 0);
        assert_int_equal(attr.thread_mode, UCS_THREAD_MODE_SINGLE);
        ucp_cleanup(context);
    }
}

API_TEST(test_ctx4_odd_feature_sets)
{
    static const struct {
        uint64_t mask, features;
    } rows[] = {
        {0, UINT64_MAX},
        {UCP_PARAM_FIELD_FEATURES, 0},
        {UCP_PARAM_FIELD_FEATURES, UCP_FEATURE_TAG | 1ull << 63 | 1ull << 40},
        {UCP_PARAM_FIELD_FEATURES | 1ull << 62, UCP_FEATURE_TAG},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        ucp_params_t params;
        ucp_context_h context = NULL;

        memset(&params, 0xff, sizeof(params));
        params.field_mask = rows[i].mask;
        params.features = rows[i].features;
        assert_int_equal(ucp_init(&params, NULL, &context), UCS_OK);
        ucp_cleanup(context);
    }
}

API_TEST(test_ctx2_config_is_copied_and_reusable)
{
    ucp_params_t params = tag_params();
    ucp_worker_params_t worker_params = {.field_mask = 0};
    ucp_config_t *config;

    assert_int_equal(ucp_config_read(NULL, NULL, &config), UCS_OK);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(ucp_init(&params, config, &pair->sides[i].context), UCS_OK);
    }
    assert_int_equal(ucp_config_modify(config, "TLS", "no_such_transport"), UCS_OK);
    ucp_config_release(config);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(ucp_worker_create(pair->sides[i].context, &worker_params, &pair->sides[i].worker), UCS_OK);
    }
}

API_TEST(test_ctx5_name_is_truncated)
{
    static const char long_name[] = "a context name that is longer than thirty-two bytes";
    struct cw_side *side = &pair->sides[0];
    ucp_params_t params = tag_params();
    char own[sizeof(long_name)];
    ucp_context_attr_t attr;

    memcpy(own, long_name, sizeof(own));
    params.field_mask |= UCP_PARAM_FIELD_NAME;
    params.name = own;
    assert_int_equal(ucp_init(&params, NULL, &side->context), UCS_OK);
    memset(own, 'x', sizeof(own) - 1);
    attr = query(side->context, UCP_ATTR_FIELD_NAME);
    assert_int_equal(strnlen(attr.name, sizeof(attr.name)), UCP_ENTITY_NAME_MAX - 1);
    assert_int_equal(strncmp(attr.name, long_name, UCP_ENTITY_NAME_MAX - 1), 0);
}

API_TEST(test_ctx7_sender_mask_changes_no_match)
{
    struct cw_op send = {0}, recv = {0};
    uint64_t out = 3, in = 0;
    ucp_params_t params = tag_params();
    ucp_worker_params_t worker_params = {.field_mask = 0};

    pair->count = 1;
    pair->tx = pair->rx = &pair->sides[0];
    params.field_mask |= UCP_PARAM_FIELD_TAG_SENDER_MASK;
    params.tag_sender_mask = 0xffffffff00000000ull;
    assert_int_equal(ucp_init(&params, NULL, &pair->sides[0].context), UCS_OK);
    assert_int_equal(ucp_worker_create(pair->sides[0].context, &worker_params, &pair->sides[0].worker), UCS_OK);
    pair->tx->ep = cw_side_connect(pair->tx, pair->rx->worker, NULL);
    cw_op_recv(&recv, pair->rx->worker, &in, sizeof(in), 0x1111111100000001ull, 0xffull);
    cw_op_send(&send, pair->tx->ep, &out, sizeof(out), 0x2222222200000001ull);
    assert_int_equal(cw_op_wait(pair, &recv, "receive"), UCS_OK);
    assert_int_equal(cw_op_wait(pair, &send, "send"), UCS_OK);
    assert_true(recv.info.sender_tag == 0x2222222200000001ull);
    cw_pair_close(pair);
}

/* CTX-9, ABU-11: NO_DEVICE where nothing can be used, NO_ELEM for an empty list. */
API_TEST(test_ctx9_impossible_settings)
{
    int fds;

    assert_int_equal(init_with(NULL, NULL), UCS_OK);
    fds = cw_process_fds();
    for (int i = 0; i < 5; i++) {
        assert_int_equal(init_with("TLS", "no_such_transport"), UCS_ERR_NO_DEVICE);
        if (!cw_test_reference()) { /* 1.13 has no check of these */
            assert_int_equal(init_with("TLS", ""), UCS_ERR_NO_ELEM);
            assert_int_equal(init_with("KEEPALIVE_INTERVAL", "0"), UCS_ERR_INVALID_PARAM);
            assert_int_equal(init_with("KEEPALIVE_NUM_EPS", "0"), UCS_ERR_INVALID_PARAM);
        }
    }
    assert_int_equal(cw_process_fds(), fds); /* nothing leaks */
    assert_int_equal(init_with(NULL, NULL), UCS_OK);
}

/* N22-32, N22-135: transports and kinds of memory of other machines may be named, and excluded. */
API_TEST(test_n22_32_names_of_other_machines)
{
    static const char *const excluded[] = {"^cuda_ipc", "^rc_gda", "^cuda,rc_gda", "^ze,gaudi", "^ze_copy,gaudi_gdr"};
    char value[128];

    cw_test_skip_reference("1.13 does not know these names");
    for (size_t i = 0; i < sizeof(excluded) / sizeof(excluded[0]); i++) {
        assert_int_equal(init_with("TLS", excluded[i]), UCS_OK);
    }
    snprintf(value, sizeof(value), "ze,gaudi,ze_copy,%s", getenv("UCX_TLS") ? getenv("UCX_TLS") : "all");
    assert_int_equal(init_with("TLS", value), getenv("UCX_TLS") ? UCS_OK : UCS_ERR_INVALID_PARAM);
}

API_TEST(test_n22_30_memory_types_of_other_machines)
{
    cw_test_skip_reference("1.13 does not know these names");
    assert_int_equal(init_with("RNDV_FRAG_SIZE", "ze-host:1M,ze-device:2M,ze-managed:3M,gaudi:4M"), UCS_OK);
    assert_int_equal(init_with("REG_NONBLOCK_MEM_TYPES", "ze-host,ze-device,ze-managed,gaudi"), UCS_OK);
    assert_int_equal(init_with("MEMTYPE_REG_WHOLE_ALLOC_TYPES", "ze-device,gaudi"), UCS_OK);
    assert_int_equal(init_with("RNDV_FRAG_MEM_TYPES", "ze-host"), UCS_OK);
}

API_TEST(test_ctx10_invalid_names_beside_usable_ones)
{
    char value[128];

    snprintf(value, sizeof(value), "no_such_transport,%s,neither_this", getenv("UCX_TLS") ? getenv("UCX_TLS") : "all");
    assert_int_equal(init_with("TLS", value), UCS_OK);
}

API_TEST(test_ctx21_r7_request_size)
{
    size_t sizes[3];

    for (int i = 0; i < 3; i++) {
        ucp_params_t params = tag_params();
        ucp_context_h context = NULL;

        params.field_mask |= UCP_PARAM_FIELD_REQUEST_SIZE;
        params.request_size = (size_t)i * 1000;
        assert_int_equal(ucp_init(&params, NULL, &context), UCS_OK);
        sizes[i] = query(context, UCP_ATTR_FIELD_REQUEST_SIZE).request_size;
        assert_int_equal(query(context, UCP_ATTR_FIELD_REQUEST_SIZE).request_size, sizes[i]);
        ucp_cleanup(context);
    }
    assert_int_equal(sizes[0], sizes[1]); /* the user's area is not part of it */
    assert_int_equal(sizes[0], sizes[2]);
    assert_true(sizes[0] > 0 && sizes[0] < 1024);
    assert_true(cw_test_reference() || sizes[0] <= 256);
}

API_TEST(test_ctx30_gen4_query_touches_what_was_asked)
{
    static const struct {
        uint64_t bit;
        size_t offset, size;
    } fields[] = {
        {UCP_ATTR_FIELD_REQUEST_SIZE, offsetof(ucp_context_attr_t, request_size), sizeof(size_t)},
        {UCP_ATTR_FIELD_THREAD_MODE, offsetof(ucp_context_attr_t, thread_mode), sizeof(ucs_thread_mode_t)},
        {UCP_ATTR_FIELD_MEMORY_TYPES, offsetof(ucp_context_attr_t, memory_types), sizeof(uint64_t)},
        {UCP_ATTR_FIELD_NAME, offsetof(ucp_context_attr_t, name), UCP_ENTITY_NAME_MAX},
        {0, 0, 0},
        {1ull << 50, 0, 0},
    };
    struct cw_side *side = &pair->sides[0];
    ucp_params_t params = tag_params();

    assert_int_equal(ucp_init(&params, NULL, &side->context), UCS_OK);
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        ucp_context_attr_t attr = query(side->context, fields[i].bit);
        const unsigned char *bytes = (const unsigned char *)&attr;

        for (size_t k = sizeof(attr.field_mask); k < sizeof(attr); k++) {
            if (k < fields[i].offset || k >= fields[i].offset + fields[i].size) {
                assert_int_equal(bytes[k], 0xff);
            }
        }
    }
    assert_true(query(side->context, UCP_ATTR_FIELD_MEMORY_TYPES).memory_types & 1u);
}

/* CTX-31, R11: read as Open MPI reads it. */
API_TEST(test_ctx31_print_info_can_be_parsed)
{
    static const char *const known[] = {"self", "tcp", "posix", "sysv", "cma", "shm", "xpmem", "knem", "verbs"};
    struct cw_side *side = &pair->sides[0];
    ucp_params_t params = tag_params();
    char *text = NULL, *line, *next;
    size_t size = 0;
    FILE *stream = open_memstream(&text, &size);
    int resources = 0;

    assert_non_null(stream);
    assert_int_equal(ucp_init(&params, NULL, &side->context), UCS_OK);
    ucp_context_print_info(side->context, stream);
    fclose(stream);
    assert_non_null(strstr(text, "UCP context"));
    for (line = text; *line != 0; line = next) {
        int resource, md, device;
        char flags[3], transport[32], name[64];
        bool familiar = false;

        next = strchr(line, '\n');
        next = next == NULL ? line + strlen(line) : next + 1;
        assert_true(next - line < 128);
        if (line[0] != '\n' && line[0] != 0) {
            assert_int_equal(line[0], '#');
        }
        if (sscanf(line, "# resource %d : md %d dev %d flags %2s %31[^/ \n]/%63[^/ \n]", &resource, &md, &device, flags,
                   transport, name) != 6) {
            continue;
        }
        assert_true(md >= 0 && device >= 0 && resource >= 0);
        assert_true(strspn(flags, "-a") == 2);
        for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
            familiar = familiar || strcmp(known[i], transport) == 0;
        }
        assert_true(familiar); /* CTX-32 */
        resources++;
    }
    assert_true(resources > 0);
    free(text);
}

API_TEST(test_ctx34_repeated_init_and_cleanup)
{
    int rounds = cw_test_reference() ? 50 : (int)cw_test_scaled(300), fds = 0;
    long rss = 0;

    rounds = (rounds < 60 && !cw_test_reference()) ? 60 : rounds; /* the first ones need memory that others use again */

    for (int round = 0; round < rounds; round++) {
        struct cw_pair_config config = {.features = round % 2 == 0 ? UCP_FEATURE_TAG :
                                                                     UCP_FEATURE_TAG | UCP_FEATURE_WAKEUP,
                                        .no_endpoints = true};

        cw_pair_open(pair, &config);
        cw_pair_progress(pair);
        for (int i = 0; i < pair->count; i++) {
            cw_side_destroy(&pair->sides[i]);
        }
        if (round == rounds / 5) {
            fds = cw_process_fds();
            rss = cw_process_rss_kb();
        }
    }
    assert_int_equal(cw_process_fds(), fds);
    rss = cw_process_rss_kb() - rss;
    print_message("%ld KiB more after %d rounds\n", rss, rounds);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    assert_true(cw_test_reference() || rss < 512);
#endif
}

API_TEST(test_ctx34_connections_leave_nothing_behind)
{
    int fds = 0, rounds = 30;

    for (int round = 0; round < rounds; round++) {
        struct cw_op send = {0}, recv = {0};
        uint64_t out = 1, in = 0;

        cw_pair_open(pair, NULL);
        cw_op_recv(&recv, pair->rx->worker, &in, sizeof(in), 1, CW_TAG_ALL);
        cw_op_send(&send, pair->tx->ep, &out, sizeof(out), 1);
        assert_int_equal(cw_op_wait(pair, &recv, "receive"), UCS_OK);
        assert_int_equal(cw_op_wait(pair, &send, "send"), UCS_OK);
        cw_pair_close(pair);
        if (round == 5) {
            fds = cw_process_fds();
        }
    }
    assert_int_equal(cw_process_fds(), fds);
}

API_TEST(test_gen11_several_contexts_at_once)
{
    static const uint64_t features[] = {UCP_FEATURE_TAG, UCP_FEATURE_TAG | UCP_FEATURE_WAKEUP,
                                        UCP_FEATURE_TAG | UCP_FEATURE_RMA | UCP_FEATURE_AMO64,
                                        UCP_FEATURE_TAG | UCP_FEATURE_AM | UCP_FEATURE_STREAM};
    struct cw_pair lone = {.count = 1};
    struct cw_side sides[4];

    for (int i = 0; i < 4; i++) {
        struct cw_pair_config config = {.features = features[i]};

        if (i == 1 && cw_test_self_only() && cw_test_reference()) {
            config.features = UCP_FEATURE_TAG;
        }
        cw_side_open(&sides[i], &config);
        sides[i].ep = cw_side_connect(&sides[i], sides[i].worker, NULL);
    }
    for (int i = 3; i >= 0; i--) { /* all of them alive, in another order */
        struct cw_op send = {0}, recv = {0};
        uint64_t out = (uint64_t)i, in = 9;

        lone.sides[0] = sides[i];
        cw_op_recv(&recv, sides[i].worker, &in, sizeof(in), 1, CW_TAG_ALL);
        cw_op_send(&send, sides[i].ep, &out, sizeof(out), 1);
        assert_int_equal(cw_op_wait(&lone, &recv, "receive"), UCS_OK);
        assert_int_equal(cw_op_wait(&lone, &send, "send"), UCS_OK);
        assert_int_equal(in, i);
    }
    for (int i = 0; i < 4; i++) {
        cw_side_destroy(&sides[(i * 3) % 4]);
    }
}

API_TEST(test_gen12_fork_with_exit_only)
{
    cw_pair_open(pair, NULL);
    for (int i = 0; i < 6; i++) {
        struct cw_op send = {0}, recv = {0};
        uint64_t out = 1, in = 0;
        int status;
        pid_t child = fork();

        assert_true(child >= 0);
        if (child == 0) {
            if (i % 2 == 0) {
                _exit(0);
            }
            execl("/bin/true", "true", (char *)NULL);
            _exit(0);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        cw_op_recv(&recv, pair->rx->worker, &in, sizeof(in), 1, CW_TAG_ALL);
        cw_op_send(&send, pair->tx->ep, &out, sizeof(out), 1);
        assert_int_equal(cw_op_wait(pair, &recv, "receive after fork"), UCS_OK);
        assert_int_equal(cw_op_wait(pair, &send, "send after fork"), UCS_OK);
    }
    cw_pair_close(pair);
}

API_TEST(test_gen13_no_signal_dispositions_change)
{
    struct sigaction before[65], now;

    cw_test_skip_reference("it installs handlers when it is loaded, and more with its first context");
    for (int i = 1; i < 65; i++) {
        before[i].sa_handler = SIG_ERR;
        (void)sigaction(i, NULL, &before[i]);
    }
    cw_pair_open(pair, NULL);
    for (int i = 1; i < 65; i++) {
        now.sa_handler = SIG_ERR;
        (void)sigaction(i, NULL, &now);
        assert_ptr_equal(now.sa_handler, before[i].sa_handler);
    }
    cw_pair_close(pair);
}

API_TEST(test_gen14_descriptors_are_close_on_exec)
{
    struct cw_pair_config config = {.features = UCP_FEATURE_TAG | UCP_FEATURE_WAKEUP};
    struct cw_op send = {0}, recv = {0};
    uint64_t out = 1, in = 0;
    bool known[1024] = {false};

    cw_test_skip_reference("some of its descriptors are not");
    for (int fd = 0; fd < 1024; fd++) {
        known[fd] = fcntl(fd, F_GETFD) >= 0;
    }
    cw_pair_open(pair, &config);
    cw_op_recv(&recv, pair->rx->worker, &in, sizeof(in), 1, CW_TAG_ALL);
    cw_op_send(&send, pair->tx->ep, &out, sizeof(out), 1);
    assert_int_equal(cw_op_wait(pair, &recv, "receive"), UCS_OK);
    assert_int_equal(cw_op_wait(pair, &send, "send"), UCS_OK);
    for (int fd = 0; fd < 1024; fd++) {
        int flags = fcntl(fd, F_GETFD);

        if (flags >= 0 && !known[fd] && !(flags & FD_CLOEXEC)) {
            fail_msg("Descriptor %d would be inherited by a program that is executed", fd);
        }
    }
    cw_pair_close(pair);
}
