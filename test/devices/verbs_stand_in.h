/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What tests make of the devices of verbs_stand_in.c, "stand0" and "stand1", and what these saw.
 */
#ifndef CW_TEST_DEVICES_VERBS_STAND_IN_H
#define CW_TEST_DEVICES_VERBS_STAND_IN_H

#include <infiniband/verbs.h>
#include <stddef.h>
#include <stdint.h>

/* What the devices are like; set before they are opened. */
extern struct stand_in {
    int num_devices;
    int max_cqe;
    int resizes;          /* ibv_resize_cq works */
    int max_qp, max_each; /* queue pairs of all, and of each completion queue */
    int is_ethernet;
    int is_down, has_no_srq, has_no_atomics, max_wr;
    unsigned vendor;
    unsigned more_inline; /* bytes that a queue pair takes inline beyond those that were asked for */
    size_t max_mr; /* bytes that are registered at once; 0: any */
    int stands;    /* nothing is carried out */
    int repeats;   /* a request to a peer that is gone, for long; else it fails at once */
    unsigned cut;  /* bit i: the cable of the device "stand<i>"; nothing arrives, also of what the peer acknowledges */
    int subnets;   /* each device has a subnet of its own */
    int loses;     /* of 100 datagrams; as many come once more, after some that follow them */
    int breaks;      /* so many datagrams break the queue pair that sends them */
    int flushes_late; /* the requests of a broken queue pair end one by one, some time after it broke */
    int acks_late; /* a request is carried out some time before its sender learns of it */
    int is_mute;   /* the sender of a refused request never learns of it */
    int has_no_access_events; /* nor does the program of the target */
    uint8_t gid[16];          /* with is_ethernet */
    uint8_t vlan_gid[16];     /* not empty: its second GID, of another network device */
    unsigned net_devices[2];  /* those of the two; 0: unknown */
    uint16_t pkeys[4];        /* the table of partitions; empty: the default one */
} device_is;

extern struct stand_in_seen {
    unsigned qps, most_qps, most_under_way, refused_qps, made_qps, datagrams, refusals;
    unsigned receive_calls; /* that posted to a shared receive queue */
    int largest_cq;
    unsigned largest_put; /* bytes of a request */
    unsigned connected, last_gid_index, last_pkey_index; /* queue pairs of type RC, and what the last one used */
} device_saw;

/* That device breaks for ever, and reports it. NULL: all work again for those who open them anew. */
void stand_in_dies(const char *name);
/* The ports lose their links, or have them again; nothing is carried out meanwhile. `reports`: programs that have
 * opened a device are notified. */
void stand_in_link(int is_down, int reports);
/* A connected queue pair of type RC, or NULL. */
struct ibv_qp *stand_in_connected(void);
/* A datagram arrives that says it is of queue pair src_qp. Whether there was room for it. */
int stand_in_datagram(uint32_t src_qp, struct ibv_qp *to, const void *bytes, uint32_t length);

#endif
