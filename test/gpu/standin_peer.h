/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A process that exchanges messages of LENGTH bytes with another one, for tests with standin_memory.h.
 */
#ifndef CW_TEST_GPU_STANDIN_PEER_H
#define CW_TEST_GPU_STANDIN_PEER_H

static const struct cw_pair_config config = {.features = UCP_FEATURE_TAG | UCP_FEATURE_RMA};

struct peer {
    struct cw_side side;
    ucp_ep_h ep;
    int fd;
};

static inline void peer_open(struct peer *peer, int fd)
{
    peer->fd = fd;
    cw_side_open(&peer->side, &config);
    peer->ep = cw_fd_connect(fd, &peer->side, &config);
    cw_fd_barrier(fd, peer->side.worker);
}

static inline void peer_close(struct peer *peer)
{
    const ucp_request_param_t param = cw_param_none();

    cw_fd_barrier(peer->fd, peer->side.worker);
    (void)cw_worker_wait_request(peer->side.worker, ucp_ep_close_nbx(peer->ep, &param), "a close");
    cw_side_destroy(&peer->side);
}

static inline void peer_send(struct peer *peer, const char *from)
{
    const ucp_request_param_t param = cw_param_none();

    assert_int_equal(
        cw_worker_wait_request(peer->side.worker, ucp_tag_send_nbx(peer->ep, from, LENGTH, 1, &param), "a send"),
        UCS_OK);
}

static inline ucs_status_t peer_receive(struct peer *peer, char *to)
{
    const ucp_request_param_t param = cw_param_none();

    return cw_worker_wait_request(peer->side.worker,
                                  ucp_tag_recv_nbx(peer->side.worker, to, LENGTH, 1, CW_TAG_ALL, &param), "a receive");
}

#endif
