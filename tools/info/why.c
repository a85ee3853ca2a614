/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * --why: makes the pair of workers, connects them if the peer is here, and prints.
 *
 * Callers: main.c.
 */
#include "why.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/string.h"
#include "config/table.h"
#include "connect/further.h"
#include "core/ep.h"
#include "core/lane_cm.h"
#include "core/lanes.h"
#include "endpoint.h"
#include "os/net.h"
#include "say.h"
#include "show.h"

const char *cw_why_setting(const struct cw_why *why, enum cw_setting_id id, char text[CW_WHY_SETTING_MAX])
{
    static const char *const sources[] = {
        [CW_SOURCE_DEFAULT] = "default",
        [CW_SOURCE_FILE] = "ucx.conf",
        [CW_SOURCE_ENVIRONMENT] = "environment",
        [CW_SOURCE_MODIFY] = "option -D",
    };
    const struct cw_config *config = why->side.context->config;
    struct cw_text value = {0};

    cw_value_print(&cw_settings[id].spec, (const char *)config + cw_settings[id].offset, &value);
    snprintf(text, CW_WHY_SETTING_MAX, "UCX_%s=%s (%s)", cw_settings[id].name, cw_text_get(&value),
             sources[config->sources[id]]);
    cw_text_free(&value);
    return text;
}

static void print_heading(const struct cw_why *why)
{
    const struct cw_info_options *options = why->options;
    static const char *const places[] = {
            [CW_INFO_SAME] = "the same worker",
            [CW_INFO_INTRA] = "another worker of this machine",
            [CW_INFO_INTER] = "known only by its network address, as on another machine",
    };

    printf("#\n# Why: %s, %zu bytes\n#\n#   from: worker %016" PRIx64 " of this process\n#     to: worker %016" PRIx64,
           cw_info_op_name(options->op), options->size, why->side.worker->uid, why->address.uid);
    if (options->to != NULL) {
        printf(", whose address is in %s\n#\n", options->to);
    } else {
        printf(", %s\n#\n", places[options->placed ? options->place : CW_INFO_INTRA]);
    }
}

/* The peer's address, and a connection if it is a worker of ours. */
static ucs_status_t find_peer(struct cw_why *why, uint64_t features)
{
    const struct cw_info_options *options = why->options;

    if (options->to != NULL) {
        why->blob = cw_address_file_read(options->to, &why->address);
        return (why->blob == NULL) ? UCS_ERR_INVALID_PARAM : UCS_OK;
    }
    why->blob =
        cw_endpoint_peer(&why->side, &why->peer, options->placed ? options->place : CW_INFO_INTRA, options, features);
    if (why->blob == NULL || cw_address_decode(why->blob, &why->address) != UCS_OK) {
        return UCS_ERR_INVALID_PARAM;
    }
    return UCS_OK;
}

static struct cw_info_side *peer_of(struct cw_why *why)
{
    return (why->peer.worker == NULL) ? NULL : &why->peer;
}

static void print_ends(struct cw_conn *conn)
{
    char local_text[CW_NET_TEXT_MAX], remote_text[CW_NET_TEXT_MAX];
    struct cw_net_address local, remote;

    if (cw_iface_cm(conn->iface) == NULL) {
        return;
    }
    cw_cm_ends(cw_iface_cm(conn->iface), conn, &local, &remote);
    if (local.family != CW_NET_NONE && remote.family != CW_NET_NONE) {
        cw_net_format(&local, local_text);
        cw_net_format(&remote, remote_text);
        printf("#   from %s to %s\n", local_text, remote_text);
    }
}

/* Whether the connection took the path that was predicted. */
static int connect_peer(struct cw_why *why)
{
    const ucs_status_t status = cw_side_meet(&why->side, peer_of(why), why->blob, 0, &why->ep);

    if (status != UCS_OK) {
        why->ep = NULL;
        printf("# The connection: it was tried, and failed: %s\n#\n", ucs_status_string(status));
        return CW_INFO_FAILED;
    }
    printf("# The connection: it was tried, and made by %s%s\n", why->ep->conn->iface->transport->name,
           (why->ep->conn->iface == why->chosen) ? "" : ", because the one that was chosen failed");
    print_ends(why->ep->conn);
    printf("#\n");
    why->chosen = why->ep->conn->iface;
    return CW_INFO_OK;
}

/* Long messages, puts and gets are spread over them. */
static void print_further_lanes(const struct cw_why *why)
{
    const struct ucp_worker *worker = why->side.worker;
    struct cw_further_message further[CW_MAX_LANES];
    char rndv[CW_WHY_SETTING_MAX], rma[CW_WHY_SETTING_MAX];
    const int by_access = why->chosen->domain != NULL;
    unsigned count = 0, i;

    if (why->address.uid == worker->uid || !cw_lanes_suit(why->chosen, by_access)) {
        printf("# Further lanes for long operations: none, as %s moves them without the network\n#\n",
               why->chosen->transport->name);
        return;
    }
    count = cw_further_send(worker, &why->address, by_access, further);
    printf("# Further lanes for long operations (%s, %s):%s\n", cw_why_setting(why, CW_SETTING_max_rndv_rails, rndv),
           cw_why_setting(why, CW_SETTING_max_rma_rails, rma),
           (count == 0) ? " none: no path to the peer adds bandwidth to the first, or the settings limit lanes to "
                          "one" : "");
    for (i = 0; i < count; i++) {
        printf("#   lane[%u]: %s/%s, path %u: "
               "%s\n", i + 1, cw_iface_name(further[i].iface), cw_iface_device(further[i].iface),
               further[i].route, further[i].why);
    }
    printf("#\n");
}

static int print_why(struct cw_why *why)
{
    struct cw_path path = {.iface = NULL};
    int status = CW_INFO_OK;

    print_heading(why);
    (void)cw_path_next(why->side.worker, &why->address, 0, NULL, &path);
    why->chosen = path.iface;
    cw_why_transports(why);
    if (why->chosen == NULL) {
        printf("# No transport reaches the peer: no message can be sent. See above what each of them lacks.\n#\n");
        cw_say_error("no transport reaches the peer");
        return CW_INFO_FAILED;
    }
    if (why->options->to == NULL) {
        status = connect_peer(why);
    }
    print_further_lanes(why);
    if (why->options->op <= CW_INFO_STREAM) {
        cw_why_message(why);
    } else {
        cw_why_memory(why);
    }
    return status;
}

/* No transport was left for a context: what the settings did to each of them. */
static void print_without_context(struct cw_why *why)
{
    struct ucp_context nothing = {.resources = NULL};
    ucp_config_t *config;

    if (cw_side_config(why->options->only, &config) == UCS_OK) {
        nothing.config = &config->settings;
        why->side.context = &nothing;
        printf("#\n# Why: %s, %zu bytes\n#\n", cw_info_op_name(why->options->op), why->options->size);
        cw_why_transports(why);
        why->side.context = NULL;
        ucp_config_release(config);
    }
}

int cw_show_why(const struct cw_info_options *options)
{
    const uint64_t features = options->features | cw_side_features(options->op);
    struct cw_why why = {.options = options};
    int status = CW_INFO_FAILED;
    ucs_status_t opened;

    if (options->op == CW_INFO_AMO && options->size != 4 && options->size != 8) {
        cw_say_error("--size: an atomic operation has 4 or 8 bytes, not %zu", options->size);
        return CW_INFO_USAGE;
    }
    opened = cw_side_open(&why.side, options, features, options->only);
    if (opened == UCS_ERR_NO_DEVICE) {
        print_without_context(&why);
    } else if (opened == UCS_OK && cw_side_add_worker(&why.side) == UCS_OK && find_peer(&why, features) == UCS_OK) {
        status = print_why(&why);
    }
    if (why.ep != NULL) {
        cw_side_part(&why.side, peer_of(&why), why.ep);
    }
    free(why.blob);
    cw_side_close(&why.peer);
    cw_side_close(&why.side);
    return status;
}
