/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the tests of the devices share: two connected sides in one process, one on each end of the wire of the virtual
 * machine, and the wire.
 *
 * Callers: test_*.c of this directory, which cmocka.h precedes with what it needs.
 */
#ifndef CW_TEST_RDMA_PAIR_H
#define CW_TEST_RDMA_PAIR_H

#include "verbs_side.h"

/* Far beyond what anything takes that is going to happen. */
enum { PAIR_LONG_MS = 20000 };

struct pair {
    struct cw_verbs_side a, b;
    struct cw_verbs_name name_a, name_b;
};

/* Both with `length` bytes and those options (NULL: defaults), connected to each other. */
void pair_open(struct pair *pair, size_t length, const struct cw_verbs_options *options);
void pair_close(struct pair *pair);

/* One work request of side a at offset `offset` of both memories; the number of ibv_post_send(). */
int pair_post(struct pair *pair, uint64_t id, enum ibv_wr_opcode opcode, size_t offset, size_t length, unsigned flags);
/* Waits for the next completion of that queue and returns its status; without one the test fails. */
enum ibv_wc_status pair_await(struct ibv_cq *cq, struct ibv_wc *wc);
enum ibv_qp_state pair_state(struct ibv_qp *qp);

/* wire.sh with these words; pair_skip() ends the test as skipped where there are no two devices. */
void pair_wire(const char *words);
void pair_skip_without_devices(void);
double pair_seconds(void);

#endif
