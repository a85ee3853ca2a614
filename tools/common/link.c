/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One side of a UCP connection under test.
 *
 * Callers: the performance tool and the demonstration.
 * Uses only what every API level since 1.13 has, so that the tool runs on any libucp.so.0 with that interface.
 */
#define _GNU_SOURCE
#include "link.h"

#include "say.h"
#include "ticks.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK_INTERVAL_NS 50000000u

int cw_link_fail(struct cw_link *link, const char *format, ...)
{
    va_list arguments;

    if (!link->failed) {
        va_start(arguments, format);
        vsnprintf(link->error, sizeof(link->error), format, arguments);
        va_end(arguments);
        link->failed = true;
    }
    return -1;
}

static void on_endpoint_error(void *arg, ucp_ep_h ep, ucs_status_t status)
{
    (void)ep;
    cw_link_fail(arg, "the endpoint failed: %s", ucs_status_string(status));
}

static int check_peer(struct cw_link *link)
{
    if (link->oob != NULL && !link->oob_waits && cw_oob_check(link->oob, &link->oob_waits) != 0) {
        return cw_link_fail(link, "%s", cw_oob_error());
    }
    return 0;
}

static int check_clock(struct cw_link *link)
{
    uint64_t now = cw_clock_ns();

    cw_watchdog_beat();
    if (link->moved != link->moved_seen || link->moved_ns == 0) {
        link->moved_seen = link->moved;
        link->moved_ns = now;
    } else if (now - link->moved_ns > link->config.timeout_s * UINT64_C(1000000000)) {
        return cw_link_fail(link, "nothing moved for %u seconds", link->config.timeout_s);
    }
    if (now - link->checked_ns < CHECK_INTERVAL_NS) {
        return 0;
    }
    if (link->config.stop != NULL && atomic_load_explicit(link->config.stop, memory_order_relaxed)) {
        return cw_link_fail(link, "another thread has failed");
    }
    link->checked_ns = now;
    return check_peer(link);
}

/* Sleeps until the worker or the peer has news, at most a second. */
static int sleep_once(struct cw_link *link)
{
    struct pollfd items[2] = {{.fd = link->event_fd, .events = POLLIN}, {.fd = -1}};
    ucs_status_t status = ucp_worker_arm(link->worker);

    if (status == UCS_ERR_BUSY) {
        return 0;
    }
    if (status != UCS_OK) {
        return cw_link_fail(link, "ucp_worker_arm failed: %s", ucs_status_string(status));
    }
    if (link->oob != NULL) {
        items[1].fd = link->oob->fd;
        items[1].events = (short)(link->oob_waits ? POLLRDHUP : POLLIN | POLLRDHUP);
    }
    int count = poll(items, 2, 1000);
    if (count < 0 && errno != EINTR) {
        return cw_link_fail(link, "poll failed: %s", strerror(errno));
    }
    return count > 0 && items[1].revents != 0 ? check_peer(link) : 0;
}

int cw_link_idle(struct cw_link *link, bool nothing_done)
{
    if (nothing_done && link->config.sleep && sleep_once(link) != 0) {
        return -1;
    }
    if (nothing_done && link->config.share_cpu) {
        sched_yield();
    }
    return check_clock(link);
}

ucp_context_h cw_link_new_context(struct cw_link *link, const struct cw_link_config *config, bool threads)
{
    unsigned major, minor, release;
    ucp_context_h context;
    ucp_params_t params = {
        .field_mask = UCP_PARAM_FIELD_FEATURES | (threads ? UCP_PARAM_FIELD_MT_WORKERS_SHARED : 0),
        .features = config->features | (config->sleep ? UCP_FEATURE_WAKEUP : 0),
        .mt_workers_shared = threads,
    };

    /* Asking for the level of the library at hand avoids its warning about a newer header (LIB-5). */
    ucp_get_version(&major, &minor, &release);
    if (minor > UCP_API_MINOR || major != UCP_API_MAJOR) {
        major = UCP_API_MAJOR;
        minor = UCP_API_MINOR;
    }
    ucs_status_t status = ucp_init_version(major, minor, &params, NULL, &context);
    if (status != UCS_OK) {
        cw_link_fail(link, "ucp_init failed: %s", ucs_status_string(status));
        return NULL;
    }
    return context;
}

static int create_worker(struct cw_link *link)
{
    ucp_worker_params_t params = {
        .field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE | UCP_WORKER_PARAM_FIELD_FLAGS,
        .thread_mode = link->config.thread_mode,
        .flags = UCP_WORKER_FLAG_IGNORE_REQUEST_LEAK, /* when the peer ends, operations under way are left */
    };
    ucp_worker_attr_t attr = {.field_mask = UCP_WORKER_ATTR_FIELD_THREAD_MODE};
    ucs_status_t status = ucp_worker_create(link->context, &params, &link->worker);

    if (status != UCS_OK) {
        return cw_link_fail(link, "ucp_worker_create failed: %s", ucs_status_string(status));
    }
    status = ucp_worker_query(link->worker, &attr);
    if (status != UCS_OK || attr.thread_mode < link->config.thread_mode) {
        return cw_link_fail(link, "the library does not support the thread mode requested with -M");
    }
    if (link->config.sleep) {
        status = ucp_worker_get_efd(link->worker, &link->event_fd);
        if (status != UCS_OK) {
            return cw_link_fail(link, "ucp_worker_get_efd failed: %s", ucs_status_string(status));
        }
    }
    return 0;
}

static int create_endpoint(struct cw_link *link, const void *address)
{
    ucp_ep_params_t params = {
        .field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS,
        .address = address,
        .err_mode = link->config.error_mode,
        .err_handler = {.cb = on_endpoint_error, .arg = link},
    };

    if (link->config.error_mode != UCP_ERR_HANDLING_MODE_NONE) {
        params.field_mask |= UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
    }
    ucs_status_t status = ucp_ep_create(link->worker, &params, &link->ep);
    if (status != UCS_OK) {
        link->ep = NULL;
        return cw_link_fail(link, "ucp_ep_create failed: %s", ucs_status_string(status));
    }
    return 0;
}

static int connect_peer(struct cw_link *link)
{
    ucp_worker_attr_t attr = {.field_mask = UCP_WORKER_ATTR_FIELD_ADDRESS};
    ucs_status_t status = ucp_worker_query(link->worker, &attr);
    enum cw_oob_type type;
    void *remote;
    size_t length;
    int result;

    if (status != UCS_OK) {
        return cw_link_fail(link, "ucp_worker_query failed: %s", ucs_status_string(status));
    }
    if (link->oob == NULL) {
        result = create_endpoint(link, attr.address);
    } else if (cw_oob_send(link->oob, CW_OOB_ADDRESS, attr.address, attr.address_length) != 0 ||
               cw_oob_recv(link->oob, 1u << CW_OOB_ADDRESS, &type, &remote, &length) != 0) {
        result = cw_link_fail(link, "%s", cw_oob_error());
    } else {
        result = create_endpoint(link, remote);
        free(remote);
    }
    ucp_worker_release_address(link->worker, attr.address);
    return result;
}

int cw_link_open(struct cw_link *link, const struct cw_link_config *config, struct cw_oob *oob)
{
    *link = (struct cw_link){.config = *config, .oob = oob, .event_fd = -1};
    link->rests = config->sleep || config->share_cpu;
    link->context = config->context != NULL ? config->context : cw_link_new_context(link, config, false);
    if (link->context == NULL || create_worker(link) != 0 || connect_peer(link) != 0) {
        return -1;
    }
    return 0;
}

static void progress_worker(void *arg)
{
    struct cw_link *link = arg;

    ucp_worker_progress(link->worker);
}

int cw_link_barrier(struct cw_link *link)
{
    if (link->oob == NULL) {
        return 0;
    }
    link->oob->idle = progress_worker;
    link->oob->idle_arg = link;
    int result = cw_oob_barrier(link->oob);
    link->oob->idle = NULL;
    link->oob_waits = false;
    return result == 0 ? 0 : cw_link_fail(link, "%s", cw_oob_error());
}

static void close_endpoint(struct cw_link *link)
{
    ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
        /* By force only an endpoint with error handling may be closed (CLS-2). */
        .flags = link->failed && link->config.error_mode != UCP_ERR_HANDLING_MODE_NONE ? UCP_EP_CLOSE_FLAG_FORCE : 0,
    };
    ucs_status_t status = UCS_OK;
    void *request = ucp_ep_close_nbx(link->ep, &param);

    if (UCS_PTR_IS_ERR(request)) {
        status = UCS_PTR_STATUS(request);
    } else if (request != NULL) {
        uint64_t deadline_ns = cw_clock_ns() + (link->failed ? 1 : link->config.timeout_s) * UINT64_C(1000000000);
        do {
            ucp_worker_progress(link->worker);
            cw_watchdog_beat();
            status = ucp_request_check_status(request);
        } while (status == UCS_INPROGRESS && cw_clock_ns() < deadline_ns);
        ucp_request_free(request);
    }
    if (status == UCS_INPROGRESS) {
        cw_link_fail(link, "closing the endpoint did not end in time");
    } else if (status != UCS_OK) {
        cw_link_fail(link, "closing the endpoint failed: %s", ucs_status_string(status));
    }
}

int cw_link_close(struct cw_link *link)
{
    if (link->ep != NULL) {
        close_endpoint(link);
    }
    if (link->rkey != NULL) {
        ucp_rkey_destroy(link->rkey);
    }
    if (!link->failed && link->worker != NULL) {
        cw_link_barrier(link);
    }
    if (link->worker != NULL) {
        ucp_worker_destroy(link->worker);
    }
    /* Operations of the worker may have used the memory until now. */
    for (int i = 0; i < 2; i++) {
        if (link->memhs[i] != NULL) {
            ucp_mem_unmap(link->context, link->memhs[i]);
        }
    }
    if (link->context != NULL && link->config.context == NULL) {
        ucp_cleanup(link->context);
    }
    link->ep = NULL;
    link->rkey = NULL;
    link->memhs[0] = link->memhs[1] = NULL;
    link->worker = NULL;
    link->context = NULL;
    return link->failed ? -1 : 0;
}
