/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Contexts, workers and endpoints for the tool's own use.
 *
 * Callers: see side.h.
 */
#include "side.h"

#include "connect/connect.h"
#include "os/clock.h"
#include "say.h"

#define LIMIT_NS UINT64_C(10000000000)

static ucs_status_t limit_devices(ucp_config_t *config, enum cw_info_devices only)
{
    static const struct {
        enum cw_info_devices kind;
        const char *setting;
    } lists[] = {{CW_INFO_SHM, "SHM_DEVICES"}, {CW_INFO_NET, "NET_DEVICES"}, {CW_INFO_SELF, "SELF_DEVICES"}};
    ucs_status_t status = UCS_OK;
    size_t i;

    for (i = 0; only != CW_INFO_ALL && status == UCS_OK && i < sizeof(lists) / sizeof(lists[0]); i++) {
        if (lists[i].kind != only) {
            status = ucp_config_modify(config, lists[i].setting, "");
        }
    }
    return status;
}

ucs_status_t cw_side_config(enum cw_info_devices only, ucp_config_t **config_p)
{
    ucs_status_t status = ucp_config_read(NULL, NULL, config_p);

    if (status == UCS_OK) {
        status = limit_devices(*config_p, only);
        if (status != UCS_OK) {
            ucp_config_release(*config_p);
        }
    }
    if (status != UCS_OK) {
        cw_say_error("the settings cannot be read: %s", ucs_status_string(status));
    }
    return status;
}

ucs_status_t cw_side_open(struct cw_info_side *side, const struct cw_info_options *options, uint64_t features,
                          enum cw_info_devices only)
{
    const ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_ESTIMATED_NUM_EPS |
                                               UCP_PARAM_FIELD_ESTIMATED_NUM_PPN,
                          .features = features,
                          .estimated_num_eps = options->endpoints,
                          .estimated_num_ppn = options->per_node};
    ucp_config_t *config;
    ucs_status_t status;

    *side = (struct cw_info_side){.context = NULL};
    status = cw_side_config(only, &config);
    if (status != UCS_OK) {
        return status;
    }
    status = ucp_init(&params, config, &side->context);
    ucp_config_release(config);
    if (status != UCS_OK) {
        cw_say_error("a program could not make a context here: %s", ucs_status_string(status));
    }
    return status;
}

ucs_status_t cw_side_add_worker(struct cw_info_side *side)
{
    const ucp_worker_params_t params = {.field_mask = 0};
    const ucs_status_t status = ucp_worker_create(side->context, &params, &side->worker);

    if (status != UCS_OK) {
        side->worker = NULL;
        cw_say_error("a program could not make a worker here: %s", ucs_status_string(status));
    }
    return status;
}

void cw_side_close(struct cw_info_side *side)
{
    if (side->worker != NULL) {
        ucp_worker_destroy(side->worker);
    }
    if (side->context != NULL) {
        ucp_cleanup(side->context);
    }
    *side = (struct cw_info_side){.context = NULL};
}

uint64_t cw_side_features(enum cw_info_op op)
{
    static const uint64_t features[CW_INFO_OPS] = {
        [CW_INFO_TAG] = UCP_FEATURE_TAG, [CW_INFO_AM] = UCP_FEATURE_AM,   [CW_INFO_STREAM] = UCP_FEATURE_STREAM,
        [CW_INFO_PUT] = UCP_FEATURE_RMA, [CW_INFO_GET] = UCP_FEATURE_RMA,
        [CW_INFO_AMO] = UCP_FEATURE_AMO32 | UCP_FEATURE_AMO64,
    };

    return features[op];
}

static void progress(struct cw_info_side *side, struct cw_info_side *peer)
{
    ucp_worker_progress(side->worker);
    if (peer != NULL) {
        ucp_worker_progress(peer->worker);
    }
}

/* NULL, handle or error pointer. */
static ucs_status_t wait_for(struct cw_info_side *side, struct cw_info_side *peer, ucs_status_ptr_t request)
{
    const uint64_t start = cw_clock_ns();
    ucs_status_t status;

    if (!UCS_PTR_IS_PTR(request)) {
        return UCS_PTR_STATUS(request);
    }
    do {
        progress(side, peer);
        status = ucp_request_check_status(request);
    } while (status == UCS_INPROGRESS && cw_clock_ns() - start < LIMIT_NS);
    ucp_request_free(request);
    return (status == UCS_INPROGRESS) ? UCS_ERR_TIMED_OUT : status;
}

ucs_status_t cw_side_connect(struct cw_info_side *side, struct cw_info_side *peer, ucp_ep_h ep)
{
    const uint64_t start = cw_clock_ns();
    ucs_status_t status = UCS_OK;

    if (ep->state == CW_EP_IDLE) {
        status = cw_wireup_connect(ep);
    }
    while (status == UCS_OK && ep->state != CW_EP_OPEN) {
        progress(side, peer);
        if (ep->state == CW_EP_FAILED) {
            status = ep->status;
        } else if (cw_clock_ns() - start > LIMIT_NS) {
            status = UCS_ERR_TIMED_OUT;
        }
    }
    return status;
}

ucs_status_t cw_side_meet(struct cw_info_side *side, struct cw_info_side *peer, const ucp_address_t *address,
                          int error_handling, ucp_ep_h *ep_p)
{
    ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE,
                              .address = address,
                              .err_mode = error_handling ? UCP_ERR_HANDLING_MODE_PEER : UCP_ERR_HANDLING_MODE_NONE};
    ucs_status_t status = ucp_ep_create(side->worker, &params, ep_p);

    if (status == UCS_OK) {
        status = cw_side_connect(side, peer, *ep_p);
        if (status != UCS_OK) {
            cw_side_part(side, peer, *ep_p);
        }
    }
    return status;
}

void cw_side_part(struct cw_info_side *side, struct cw_info_side *peer, ucp_ep_h ep)
{
    const ucp_request_param_t param = {.op_attr_mask = 0};

    (void)wait_for(side, peer, ucp_ep_close_nbx(ep, &param));
}
