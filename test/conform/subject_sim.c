/* SPDX-License-Identifier: BSD-3-Clause */
/* The simulated network under test: a network per test, its seed and faults by the test's number. */
#include <stdio.h>
#include <stdlib.h>

#include "rig.h"
#include "sim.h"
#include "sim_transport.h"

static struct cw_sim_network *network;
static uint64_t next_seed;

static void setup(void)
{
    struct cw_sim_knobs knobs;
    const char *text = getenv("CW_SIM_SEED");

    if (next_seed == 0) {
        next_seed = (text != NULL) ? strtoull(text, NULL, 0) : 1;
        print_message("The first simulated network has the seed CW_SIM_SEED=%llu; each test takes the next number.\n",
                      (unsigned long long)next_seed);
    }
    cw_sim_knobs_random(&knobs, next_seed);
    network = cw_sim_network_new(next_seed++, &knobs);
}

static void teardown(void)
{
    cw_sim_network_free(network);
}

const struct cw_subject cw_subject = {
    .transport = &cw_sim_transport, .traits = CW_SUBJECT_CHANCE, .setup = setup, .teardown = teardown};
