/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ports of this machine's RDMA devices, and the settings of the verbs transport.
 */
#ifndef CW_TRANSPORT_VERBS_VERBS_DEVICE_H
#define CW_TRANSPORT_VERBS_VERBS_DEVICE_H

#include "transport/transport.h"
#include "transport/verbs/libibverbs.h"
#include "transport/verbs/verbs_wire.h"

#define CW_VERBS_GID_TEXT 48u
#define CW_VERBS_NOT_SET  UINT64_MAX
#define CW_VERBS_MAX_IOV  4u /* scatter/gather entries of one request */

struct cw_verbs_settings {
    uint64_t gid_index; /* CW_VERBS_NOT_SET: the library chooses */
    uint64_t pkey;      /* CW_VERBS_NOT_SET: the library chooses; without the membership bit */
    uint8_t sl;
    uint8_t traffic_class;
    uint8_t traffic_class_chosen; /* chosen by the library, for RoCE */
    uint8_t hop_limit;
    uint8_t timeout; /* in the unit of ibv_qp_attr.timeout */
    uint8_t retries;
    uint8_t rnr_timer;
    uint8_t rnr_retries;
    uint8_t reads;
    unsigned sends;    /* send queue entries */
    unsigned receives; /* shared receive queue entries */
    unsigned inlined;
    unsigned most_live; /* beyond this number idle connections are parked; UINT_MAX: never */
    size_t segment; /* largest packet in bytes */
    size_t most_segments;
    uint64_t connect_timeout_ns;
    uint64_t first_retry_ns;
    uint64_t keepalive_ns;
    int pages_on_demand; /* registrations of host memory need not pin it */
    int guarded; /* settings require authentication or encryption, which this transport lacks */
};

/* One port, as the device reports it. */
struct cw_verbs_port {
    char device[CW_DEVICE_NAME_MAX];
    char name[CW_DEVICE_NAME_MAX]; /* "mlx5_0:1" */
    uint8_t number;
    uint8_t gid_indices[CW_VERBS_MAX_GIDS];
    uint32_t net_devices[CW_VERBS_MAX_GIDS]; /* Ethernet: network interface index of each GID */
    uint16_t pkey_index;
    struct cw_verbs_address address; /* queue pair and key are not set */
    double bandwidth_bps;
    unsigned max_qps;
    unsigned max_reads;
    unsigned max_retries; /* with more retries the device never gives up */
    unsigned max_sends;
    unsigned max_receives;
    unsigned max_completions; /* of a completion queue */
    unsigned max_iov;
    size_t max_message;
    size_t max_put; /* of one request */
    int has_atomics;
    int breaks_unseen; /* no event reports that a peer's access broke a queue pair */
    int is_broken; /* a call failed that works on a sound device; `why` is the reason */
    char why[256]; /* why the port is unused; "": it is used */
};

void cw_verbs_gid_text(const uint8_t gid[16], char text[CW_VERBS_GID_TEXT]);
void cw_verbs_settings_load(const struct cw_config *config, struct cw_verbs_settings *settings);
/* Clamps the settings to the limits of the device. */
void cw_verbs_settings_fit(struct cw_verbs_settings *settings, const struct cw_verbs_port *port);
unsigned cw_verbs_query_devices(const struct cw_config *config, struct cw_device *devices, unsigned max);
void cw_verbs_explain(const struct cw_config *config, struct cw_text *text);
/* Opens the device of that name. On failure returns NULL, and port->why is the reason. */
struct ibv_context *cw_verbs_device_open(const struct cw_verbs_library *lib, const struct cw_verbs_settings *settings,
                                         const char *name, struct cw_verbs_port *port);

#endif
