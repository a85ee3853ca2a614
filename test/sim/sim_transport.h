/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The simulated network as a transport. It has a device only while a test has made a network (sim.h). Listed in
 * registry_transport.c.
 */
#ifndef CW_TEST_SIM_TRANSPORT_H
#define CW_TEST_SIM_TRANSPORT_H

#include "transport/transport.h"

extern const struct cw_transport cw_sim_transport;
extern const struct cw_transport cw_sim_rdma_transport;

#endif
