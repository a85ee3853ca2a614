/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the programs of clients and servers share: workers that progress together, listeners that keep their requests,
 * endpoints whose failures are counted. Every parameter structure is filled with 0xff first (GEN-2).
 */
#ifndef CW_API_TEST_CS_COMMON_H
#define CW_API_TEST_CS_COMMON_H

#include "harness.h"

#include <netinet/in.h>

enum { CS_MAX_REQUESTS = 512, CS_NO_MODE = -1 };

#define CS_FEATURES (UCP_FEATURE_TAG | UCP_FEATURE_AM | UCP_FEATURE_STREAM | UCP_FEATURE_WAKEUP)

/* What came of an endpoint. */
struct cs_errors {
    int count;
    ucs_status_t status;
    ucp_ep_h ep;
};

struct cs_listener {
    ucp_listener_h handle;
    struct sockaddr_storage name; /* as queried */
    ucp_conn_request_h requests[CS_MAX_REQUESTS];
    int num_requests;
    ucp_ep_h eps[CS_MAX_REQUESTS]; /* of an accept handler */
    int num_eps;
};

/* A client's endpoint and the server's, both with failures counted. */
struct cs_couple {
    ucp_ep_h client;
    ucp_ep_h server;
    struct cs_errors client_errors;
    struct cs_errors server_errors;
};

/* Up to four workers progress together; [0] is the server's, [1] the client's. */
extern ucp_context_h cs_context;
extern ucp_worker_h cs_workers[4];

/* Set-up and tear-down of each test: a context and two workers. */
int cs_setup(void **state);
int cs_teardown(void **state);
#define CS_TEST(name) API_TEST_WITH(name, cs_setup, cs_teardown)
ucp_worker_h cs_worker_new(ucs_thread_mode_t mode);
/* One of another context, such as one with other settings. */
ucp_worker_h cs_worker_of(ucp_context_h context);
void cs_progress(void);
void cs_settle(void);
void cs_until(const volatile int *counter, int target, const char *what);
ucs_status_t cs_wait(ucs_status_ptr_t result, const char *what);

struct sockaddr_storage cs_name(const char *ip, int port);
int cs_port(const struct sockaddr_storage *name);
ucs_status_t cs_try_listen(struct cs_listener *listener, ucp_worker_h worker, const struct sockaddr_storage *name,
                           bool accepts);
void cs_listen(struct cs_listener *listener, ucp_worker_h worker, const char *ip, bool accepts);
/* The listener's port at this address of the machine. */
struct sockaddr_storage cs_at(const struct cs_listener *listener, const char *ip);
ucp_ep_h cs_connect(ucp_worker_h worker, const struct sockaddr_storage *name, int mode, struct cs_errors *errors);
ucs_status_t cs_try_accept(ucp_worker_h worker, ucp_conn_request_h request, int mode, struct cs_errors *errors,
                           ucp_ep_h *ep_p);
ucp_ep_h cs_accept(ucp_worker_h worker, ucp_conn_request_h request, struct cs_errors *errors);
void cs_couple(struct cs_couple *couple, struct cs_listener *listener, int mode);
ucs_status_ptr_t cs_close(ucp_ep_h ep, bool force);
/* Both at once. */
void cs_part(struct cs_couple *couple);

ucs_status_ptr_t cs_send(ucp_ep_h ep, const void *data, size_t length, ucp_tag_t tag);
/* A tagged message arrives whole. */
void cs_talk(ucp_ep_h from, ucp_worker_h to, size_t length);

#endif
