/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Creating a context: parameters, configuration, and the list of usable devices, with warnings about names that match
 * no device.
 */
#include "core/context.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/string.h"
#include "config/tls.h"
#include "core/domain.h"
#include "core/mem.h"
#include "mem/registry.h"
#include "os/memory.h"
#include "transport/registry.h"

#define MAX_DEVICES 64

/* The devices of this machine, grouped by transport, before the configuration filters them. */
struct found {
    struct cw_resource *list;
    unsigned count;
};

static bool tls_allows(const struct cw_allow_list *tls, const char *transport)
{
    unsigned i;

    if (tls->mode == CW_LIST_ALL) {
        return true;
    }
    for (i = 0; i < tls->list.count; i++) {
        if (tls->mode == CW_LIST_ALLOW && cw_plan_tls_selects(tls->list.names[i], transport)) {
            return true;
        }
        if (tls->mode == CW_LIST_EXCEPT && cw_plan_tls_excludes(tls->list.names[i], transport)) {
            return false;
        }
    }
    return tls->mode == CW_LIST_EXCEPT;
}

int cw_context_allows(const struct ucp_context *context, const char *transport)
{
    return tls_allows(&context->config->tls, transport);
}

static const struct cw_name_list *device_list(const struct cw_config *config, enum cw_device_class class_id)
{
    if (class_id == CW_DEVICE_NET) {
        return &config->net_devices;
    }
    return (class_id == CW_DEVICE_SHM) ? &config->shm_devices : &config->self_devices;
}

/* The names for the text "please use one or more of:", NUL-terminated even if truncated. */
struct names_text {
    char text[512];
    size_t length;
};

static void names_add(struct names_text *names, const char *format, const char *a, const char *b)
{
    char one[96];
    int length = snprintf(one, sizeof(one), format, a, b);

    if (length > 0 && names->length + (size_t)length + 3 < sizeof(names->text)) {
        names->length += (size_t)snprintf(names->text + names->length, sizeof(names->text) - names->length, "%s%s",
                                          (names->length == 0) ? "" : ", ", one);
    }
}

/* The devices of a class, for the text of a warning. */
static struct names_text names_of_class(const struct found *found, enum cw_device_class class_id)
{
    struct names_text names = {.text = ""};
    unsigned i;

    for (i = 0; i < found->count; i++) {
        if (found->list[i].transport->device_class == class_id) {
            names_add(&names, "'%s'(%s)", found->list[i].device.name, found->list[i].transport->name);
        }
    }
    return names;
}

static bool is_found(const struct found *found, enum cw_device_class class_id, const char *entry)
{
    unsigned i;

    for (i = 0; i < found->count; i++) {
        if (found->list[i].transport->device_class == class_id &&
            cw_device_entry_names(entry, found->list[i].device.name)) {
            return true;
        }
    }
    return false;
}

/* Logs why transports have no devices: those that `entry` of UCX_TLS names, or all (NULL); of one device, or all. */
static void warn_reasons(const struct cw_config *config, const char *entry, const char *device)
{
    struct cw_text text;
    const char *line, *end;
    unsigned i;

    for (i = 0; i < cw_num_transports; i++) {
        if (cw_transports[i]->explain == NULL ||
            (entry != NULL && !cw_plan_tls_selects(entry, cw_transports[i]->name) &&
             !cw_plan_tls_covered(entry, cw_transports[i]->name))) {
            continue;
        }
        text = (struct cw_text){0};
        cw_transports[i]->explain(config, &text);
        for (line = cw_text_get(&text); (end = strchr(line, '\n')) != NULL; line = end + 1) {
            if (device == NULL || cw_string_starts(line, device)) {
                cw_warn("%s: %.*s", cw_transports[i]->name, (int)(end - line), line);
            }
        }
        cw_text_free(&text);
    }
}

#define NAMES_CHECKED 100u

/* Maximum number of names of a list that are checked. */
static unsigned num_checked(const struct cw_name_list *list, const char *type)
{
    if (list->count <= NAMES_CHECKED) {
        return list->count;
    }
    cw_warn("%u names are given for %ss; those after the first %u are not checked", list->count, type, NAMES_CHECKED);
    return NAMES_CHECKED;
}

static void warn_devices(const struct cw_config *config, const struct found *found, enum cw_device_class class_id,
                         const char *type)
{
    const struct cw_name_list *list = device_list(config, class_id);
    const unsigned count = num_checked(list, type);
    struct names_text names;
    const char *name;
    unsigned i, j;

    for (i = 0; i < count; i++) {
        name = list->names[i] + (i == 0 && list->names[0][0] == '^');
        if (name[0] != '\0' && strcmp(name, "all") != 0 && !is_found(found, class_id, name)) {
            names = names_of_class(found, class_id);
            cw_warn("%s '%s' is not available%s%s", type, name,
                    (names.length > 0) ? ", please use one or more of: " : ", nor is any other", names.text);
            warn_reasons(config, NULL, name);
        }
        for (j = 0; j < i; j++) {
            if (strcmp(list->names[i], list->names[j]) == 0) {
                cw_warn("%s '%s' is specified multiple times", type, list->names[i]);
                break;
            }
        }
    }
}

/* Whether this entry of UCX_TLS names a built-in memory domain; its device may be absent here. */
static unsigned is_of_a_domain(const char *entry)
{
    const struct cw_md *md;
    unsigned i, known = 0;

    for (i = 0; (md = cw_mds[i]) != NULL; i++) {
        known |= (unsigned)(md->tls != NULL && (cw_plan_tls_selects(entry, md->tls) ||
                                                cw_plan_tls_covered(entry, md->tls)));
    }
    return known;
}

/* Whether the device is the first one of its transport. */
static int begins_transport(const struct found *found, unsigned index)
{
    return index == 0 || found->list[index - 1].transport != found->list[index].transport;
}

static struct names_text names_of_transports(const struct found *found)
{
    struct names_text names = {.text = ""};
    unsigned i;

    for (i = 0; i < found->count; i++) {
        if (begins_transport(found, i)) {
            names_add(&names, "%s%s", cw_plan_tls_aliases(found->list[i].transport->name), "");
        }
    }
    return names;
}

/* The available name that is nearest to a misspelt one; "" if none is near. */
static void guess_transport(const char *name, const struct names_text *available, char *guess, size_t size)
{
    unsigned distance = (strlen(name) < 5) ? 2 : 3, now;
    char names[sizeof(available->text)], *rest = names, *candidate;

    guess[0] = '\0';
    cw_string_copy(names, sizeof(names), available->text);
    while ((candidate = strsep(&rest, ", ")) != NULL) {
        now = (candidate[0] == '\0') ? distance : cw_string_distance(name, candidate, distance);
        if (now < distance) {
            distance = now;
            (void)snprintf(guess, size, " (maybe: %s?)", candidate);
        }
    }
}

static void warn_transports(const struct cw_config *config, const struct found *found)
{
    const struct cw_allow_list *tls = &config->tls;
    const unsigned count = (tls->mode == CW_LIST_ALLOW) ? num_checked(&tls->list, "transport") : 0;
    struct names_text available;
    char guess[64];
    unsigned i, j, known;

    for (i = 0; i < count; i++) {
        known = is_of_a_domain(tls->list.names[i]);
        for (j = 0; j < found->count && !known; j++) {
            known = begins_transport(found, j) &&
                    (cw_plan_tls_selects(tls->list.names[i], found->list[j].transport->name) ||
                     cw_plan_tls_covered(tls->list.names[i], found->list[j].transport->name));
        }
        if (!known) {
            available = names_of_transports(found);
            guess_transport(tls->list.names[i], &available, guess, sizeof(guess));
            cw_warn("transport '%s' is not available, please use one or more of: %s%s", tls->list.names[i],
                    available.text, guess);
            warn_reasons(config, tls->list.names[i], NULL);
        }
    }
}

/* Datagrams alone carry no messages here, whatever a list names. */
static void warn_datagrams(const struct cw_config *config, const struct found *found)
{
    const struct cw_allow_list *tls = &config->tls;
    const char *other = NULL;
    unsigned i;
    int is_there = 0;

    for (i = 0; i < found->count; i++) {
        is_there |= strcmp(found->list[i].transport->name, "verbs") == 0;
    }
    for (i = 0; tls->mode == CW_LIST_ALLOW && is_there && i < tls->list.count; i++) {
        if (cw_plan_tls_asks_otherwise(tls->list.names[i])) {
            other = tls->list.names[i];
        } else if (cw_plan_tls_selects(tls->list.names[i], "verbs")) {
            return;
        }
    }
    if (other != NULL) {
        cw_warn("transport '%s': RDMA messages use reliable connections (rc), the only kind supported", other);
    }
}

static void warn_unavailable(const struct cw_config *config, const struct found *found)
{
    const char *rule = cw_tuning_unknown(&config->tuning);

    if (!config->warn_invalid_config) {
        return;
    }
    warn_devices(config, found, CW_DEVICE_NET, "network device");
    warn_devices(config, found, CW_DEVICE_SHM, "intra-node device");
    warn_devices(config, found, CW_DEVICE_SELF, "loopback device");
    warn_transports(config, found);
    warn_datagrams(config, found);
    if (rule != NULL) {
        cw_warn("unknown rule '%s' in UCX_TUNING; docs/reference/tuning.md lists the rules", rule);
    }
}

/* The list grows per transport: memory for the maximum would stay unused. */
static ucs_status_t add_devices(const struct cw_config *config, const struct cw_transport *transport,
                                struct found *found)
{
    struct cw_device devices[MAX_DEVICES];
    unsigned count = cw_transport_devices(transport, config, devices, MAX_DEVICES), i;
    struct cw_resource *list;

    if (count == 0) {
        return UCS_OK;
    }
    count = (count > MAX_DEVICES) ? MAX_DEVICES : count;
    list = realloc(found->list, (found->count + count) * sizeof(*list));
    if (list == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    found->list = list;
    for (i = 0; i < count; i++) {
        list[found->count++] = (struct cw_resource){.transport = transport, .device = devices[i]};
    }
    return UCS_OK;
}

/* After a failure the list contains what was found before. */
static ucs_status_t find_devices(const struct cw_config *config, struct found *found)
{
    ucs_status_t status = UCS_OK;
    unsigned i;

    for (i = 0; i < cw_num_transports && status == UCS_OK; i++) {
        status = add_devices(config, cw_transports[i], found);
    }
    return status;
}

static void complain_no_device(const struct cw_config *config)
{
    struct names_text tls = {.text = ""}, devices = {.text = ""};
    unsigned i;

    for (i = 0; i < config->tls.list.count; i++) {
        names_add(&tls, "%s%s", (config->tls.mode == CW_LIST_EXCEPT && i == 0) ? "^" : "", config->tls.list.names[i]);
    }
    for (i = 0; i < config->net_devices.count; i++) {
        names_add(&devices, "%s%s", config->net_devices.names[i], "");
    }
    cw_error("no usable transport is left of UCX_TLS=%s with UCX_NET_DEVICES=%s; allow at least one of self, shm, tcp",
             (config->tls.mode == CW_LIST_ALL) ? "all" : tls.text, devices.text);
}

/* Leaves those devices in the context's list that the configuration allows. */
static void keep_allowed(struct ucp_context *context, const struct found *found)
{
    const struct cw_config *config = context->config;
    const struct cw_resource *resource;
    unsigned i, retained = 0;

    for (i = 0; i < found->count; i++) {
        resource = &found->list[i];
        if (tls_allows(&config->tls, resource->transport->name) &&
            cw_device_list_allows(device_list(config, resource->transport->device_class), resource->device.name)) {
            context->resources[retained++] = *resource;
        }
    }
    context->num_resources = retained;
}

static ucs_status_t find_resources(struct ucp_context *context)
{
    const struct cw_config *config = context->config;
    struct found found = {.list = NULL};
    ucs_status_t status;

    if ((config->tls.mode == CW_LIST_ALLOW && config->tls.list.count == 0) ||
        (config->net_devices.count == 0 && config->shm_devices.count == 0 && config->acc_devices.count == 0 &&
         config->self_devices.count == 0)) {
        cw_error("the list of transports or all lists of devices are empty; set or unset UCX_TLS and UCX_NET_DEVICES");
        return UCS_ERR_NO_ELEM;
    }
    status = find_devices(config, &found);
    context->resources = found.list;
    if (status != UCS_OK) {
        return status;
    }
    warn_unavailable(config, &found);
    keep_allowed(context, &found);
    if (config->single_net_device) {
        cw_resources_keep_single(context->resources, &context->num_resources,
                                 (config->node_local_id < CW_ULUNITS_AUTO) ? config->node_local_id
                                                                           : context->node_local_id);
    }
    cw_domains_open(context);
    if (context->num_resources == 0) {
        complain_no_device(config);
        return UCS_ERR_NO_DEVICE;
    }
    return UCS_OK;
}

void cw_name_set(char name[CW_NAME_MAX], const char *given, const void *handle)
{
    if (given != NULL) {
        snprintf(name, CW_NAME_MAX, "%s", given);
    } else {
        snprintf(name, CW_NAME_MAX, "%p", handle);
    }
}

/* Contexts without a name are numbered. */
static void name_set(char name[CW_NAME_MAX], const char *given)
{
    static unsigned count;

    if (given != NULL) {
        cw_name_set(name, given, NULL);
    } else {
        snprintf(name, CW_NAME_MAX, "ucp_context_%u", __atomic_fetch_add(&count, 1, __ATOMIC_RELAXED));
    }
}

static void set_params(struct ucp_context *context, const ucp_params_t *params)
{
    uint64_t mask = params->field_mask;

    context->api = cw_api_level_of(UCP_API_MAJOR, UCP_API_MINOR);
    context->features = (mask & UCP_PARAM_FIELD_FEATURES) ? params->features : 0;
    context->request_size = (mask & UCP_PARAM_FIELD_REQUEST_SIZE) ? params->request_size : 0;
    context->request_init = (mask & UCP_PARAM_FIELD_REQUEST_INIT) ? params->request_init : NULL;
    context->request_cleanup = (mask & UCP_PARAM_FIELD_REQUEST_CLEANUP) ? params->request_cleanup : NULL;
    context->tag_sender_mask = (mask & UCP_PARAM_FIELD_TAG_SENDER_MASK) ? params->tag_sender_mask : 0;
    context->node_local_id = (mask & UCP_PARAM_FIELD_NODE_LOCAL_ID) ? params->node_local_id : 0;
    context->mt_workers_shared = (mask & UCP_PARAM_FIELD_MT_WORKERS_SHARED) ? params->mt_workers_shared : 0;
    name_set(context->name, (mask & UCP_PARAM_FIELD_NAME) ? params->name : NULL);
    if (context->features == 0) {
        cw_warn("the context is created with an empty set of features; no communication will be possible");
    }
    if (context->features & UCP_FEATURE_DEVICE) {
        cw_debug("context %s: device-initiated operations are not supported; creating memory lists for them will fail",
                 context->name);
    }
}

uint64_t cw_context_memory_types(struct ucp_context *context)
{
    const struct cw_md *md;
    struct cw_md_attr attr;
    uint64_t types = 0;
    unsigned i;

    for (i = 0; (md = cw_mds[i]) != NULL; i++) {
        if (md->tls == NULL || cw_context_allows(context, md->tls)) {
            md->query(md, &attr);
            types |= attr.copies;
        }
    }
    __atomic_store_n(&context->memory_types, types, __ATOMIC_RELAXED);
    return types;
}

static void context_free(struct ucp_context *context)
{
    struct cw_list *link;

    while ((link = cw_list_pop_head(&context->conn_requests)) != NULL) {
        free(link);
    }
    if (context->memory != NULL) {
        cw_mem_table_free(context->memory);
    }
    cw_domains_close(context);
    free(context->resources);
    cw_config_free(context->config);
    free(context);
}

ucs_status_t cw_context_new(const ucp_params_t *params, const struct cw_config *config, struct ucp_context **context_p)
{
    struct ucp_context *context = calloc(1, sizeof(*context));
    ucs_status_t status;

    if (context == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    cw_lock_init(&context->requests_lock);
    cw_list_init(&context->conn_requests);
    status =
        (config == NULL) ? cw_config_read(NULL, NULL, &context->config) : cw_config_clone(config, &context->config);
    if (status != UCS_OK) {
        goto fail;
    }
    status = cw_config_validate(context->config);
    if (status != UCS_OK) {
        goto fail;
    }
    set_params(context, params);
    (void)cw_context_memory_types(context);
    context->references = 1;
    context->process = cw_memory_process();
    status = cw_mem_table_new(&context->memory);
    if (status != UCS_OK) {
        goto fail;
    }
    status = find_resources(context);
    if (status != UCS_OK) {
        goto fail;
    }
    *context_p = context;
    return UCS_OK;

fail:
    context_free(context);
    return status;
}

void cw_context_hold(struct ucp_context *context)
{
    __atomic_add_fetch(&context->references, 1, __ATOMIC_RELAXED);
}

void cw_context_drop(struct ucp_context *context)
{
    if (__atomic_sub_fetch(&context->references, 1, __ATOMIC_ACQ_REL) == 0) {
        context_free(context);
    }
}

void cw_context_end(struct ucp_context *context)
{
    const unsigned workers = __atomic_load_n(&context->references, __ATOMIC_RELAXED) - 1;

    if (workers > 0) {
        cw_warn("context %s was cleaned up before %u of its workers and is freed with the last of them; call "
                "ucp_worker_destroy first",
                context->name, workers);
    }
    cw_context_drop(context);
}

void cw_context_print(const struct ucp_context *context, FILE *stream)
{
    const struct cw_transport *last = NULL;
    unsigned i, md = 0;

    fprintf(stream, "#\n# UCP context\n#\n");
    for (i = 0; i < context->num_resources; i++) {
        if (i == 0 || context->resources[i].transport != last) {
            last = context->resources[i].transport;
            fprintf(stream, "#     component %-2u :  %s\n#            md %-2u :  component %-2u %s\n", md, last->name,
                    md, md, last->name);
            md++;
        }
    }
    fprintf(stream, "#\n");
    md = 0;
    for (i = 0; i < context->num_resources; i++) {
        if (i == 0 || context->resources[i].transport != last) {
            md += (i > 0);
            last = context->resources[i].transport;
        }
        fprintf(stream, "#      resource %-2u :  md %-2u dev %-2u flags -- %s/%s\n", i, md, i,
                context->resources[i].transport->name, context->resources[i].device.name);
    }
    for (i = 0; i < context->num_domains; i++) {
        fprintf(stream, "# registrations %-2u :  %s, %s\n", i, context->domains[i]->kind->name,
                cw_domain_keeping(context, context->domains[i]));
    }
    fprintf(stream, "#\n");
}
