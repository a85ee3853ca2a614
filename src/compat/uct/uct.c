/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Discovery of transports and devices (docs/why/neighbours.md), for programs that choose a network before they
 * communicate (mercury, MPICH), without a context of UCP.
 *
 * Invariants: components and memory domains are constant tables, so that every handle stays valid and no call except
 * the lists allocates. Names are those of libucp: test/abi compares them with ucp_context_print_info().
 */
#include <stdbool.h>
#include <uct/api/uct.h>
#include <ucp/api/ucp_version.h>
#include <stdlib.h>
#include <string.h>

#include "os/net.h"

/* NOLINTNEXTLINE(misc-redundant-expression): the assertion holds because they are equal */
_Static_assert(UCT_API == UCP_API_VERSION, "both headers name one API level");
_Static_assert(sizeof(uct_component_attr_t) == 48 && sizeof(uct_md_resource_desc_t) == 16 &&
               sizeof(uct_tl_resource_desc_t) == 52 && sizeof(uct_md_attr_t) == 224, "sizes are ABI");

#define MAX_INTERFACES 256

/* A component has one memory domain, which has one transport; all three have one name. */
struct uct_component {
    char name[UCT_TL_NAME_MAX];
    uct_device_type_t type;
};

struct uct_md {
    const struct uct_component *component;
};

struct uct_md_config {
    uct_component_h component;
};

static struct uct_component components[] = {
    {"self", UCT_DEVICE_TYPE_SELF},
    {"posix", UCT_DEVICE_TYPE_SHM},
    {"tcp", UCT_DEVICE_TYPE_NET},
};
#define NUM_COMPONENTS (sizeof(components) / sizeof(components[0]))

static struct uct_md domains[NUM_COMPONENTS] = {{&components[0]}, {&components[1]}, {&components[2]}};

ucs_status_t uct_query_components(uct_component_h **components_p, unsigned *num_components_p)
{
    uct_component_h *list;
    unsigned i;

    if (components_p == NULL || num_components_p == NULL) {
        return UCS_ERR_INVALID_PARAM;
    }
    list = malloc(NUM_COMPONENTS * sizeof(list[0]));
    *components_p = list;
    *num_components_p = (list == NULL) ? 0 : NUM_COMPONENTS;
    for (i = 0; i < *num_components_p; i++) {
        list[i] = &components[i];
    }
    return (list == NULL) ? UCS_ERR_NO_MEMORY : UCS_OK;
}

void uct_release_component_list(uct_component_h *list)
{
    free(list);
}

ucs_status_t uct_component_query(uct_component_h component, uct_component_attr_t *attr)
{
    if (component == NULL || attr == NULL ||
        ((attr->field_mask & UCT_COMPONENT_ATTR_FIELD_MD_RESOURCES) && attr->md_resources == NULL)) {
        return UCS_ERR_INVALID_PARAM;
    }
    if (attr->field_mask & UCT_COMPONENT_ATTR_FIELD_NAME) {
        memset(attr->name, 0, sizeof(attr->name));
        memcpy(attr->name, component->name, sizeof(component->name));
    }
    if (attr->field_mask & UCT_COMPONENT_ATTR_FIELD_MD_RESOURCE_COUNT) {
        attr->md_resource_count = 1;
    }
    if (attr->field_mask & UCT_COMPONENT_ATTR_FIELD_MD_RESOURCES) {
        memset(attr->md_resources, 0, sizeof(attr->md_resources[0]));
        memcpy(attr->md_resources[0].md_name, component->name, sizeof(component->name));
    }
    if (attr->field_mask & UCT_COMPONENT_ATTR_FIELD_FLAGS) {
        attr->flags = 0;
    }
    return UCS_OK;
}

ucs_status_t uct_md_config_read(uct_component_h component, const char *env_prefix, const char *filename,
                                uct_md_config_t **config_p)
{
    (void)env_prefix;
    (void)filename;
    if (config_p == NULL) {
        return UCS_ERR_INVALID_PARAM;
    }
    *config_p = NULL;
    if (component == NULL) {
        return UCS_ERR_INVALID_PARAM;
    }
    *config_p = malloc(sizeof(**config_p));
    if (*config_p == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    (*config_p)->component = component;
    return UCS_OK;
}

void uct_config_release(void *config)
{
    free(config);
}

ucs_status_t uct_md_open(uct_component_h component, const char *md_name, const uct_md_config_t *config, uct_md_h *md_p)
{
    if (md_p == NULL) {
        return UCS_ERR_INVALID_PARAM;
    }
    *md_p = NULL;
    if (component == NULL || md_name == NULL || (config != NULL && config->component != component)) {
        return UCS_ERR_INVALID_PARAM;
    }
    if (strcmp(md_name, component->name) != 0) {
        return UCS_ERR_NO_DEVICE;
    }
    *md_p = &domains[component - components];
    return UCS_OK;
}

void uct_md_close(uct_md_h md)
{
    (void)md;
}

ucs_status_t uct_md_query(uct_md_h md, uct_md_attr_t *attr)
{
    if (md == NULL || attr == NULL) {
        return UCS_ERR_INVALID_PARAM;
    }
    memset(attr, 0, sizeof(*attr));
    attr->cap.access_mem_types = UCS_BIT(UCS_MEMORY_TYPE_HOST);
    memcpy(attr->component_name, md->component->name, sizeof(md->component->name));
    memset(&attr->local_cpus, 0xff, sizeof(attr->local_cpus));
    return UCS_OK;
}

static void describe(const struct uct_component *component, const char *device, uct_tl_resource_desc_t *resource)
{
    memset(resource, 0, sizeof(*resource));
    memcpy(resource->tl_name, component->name, sizeof(resource->tl_name));
    memcpy(resource->dev_name, device, strlen(device) + 1);
    resource->dev_type = component->type;
    resource->sys_device = UCS_SYS_DEVICE_ID_UNKNOWN;
}

/* Whether it is the first entry of its name, and leads to other hosts or to this one: UCX_TCP_BRIDGE_ENABLE. */
static bool is_device(const struct cw_net_interface *list, int index)
{
    int i;

    for (i = 0; i < index; i++) {
        if (strcmp(list[i].name, list[index].name) == 0) {
            return false;
        }
    }
    return list[index].loopback || !cw_net_is_bridge(list[index].name) || cw_net_has_default_route(list[index].name);
}

/* UCS_OK with *resources_p NULL if there is no interface. */
static ucs_status_t list_interfaces(const struct uct_component *component, uct_tl_resource_desc_t **resources_p,
                                    unsigned *num_resources_p)
{
    struct cw_net_interface *list = malloc(MAX_INTERFACES * sizeof(list[0]));
    const int num = (list == NULL) ? 0 : cw_net_interfaces(list, MAX_INTERFACES);
    ucs_status_t status = UCS_OK;
    int i;

    if (num > 0) {
        *resources_p = malloc((size_t)num * sizeof(**resources_p));
    }
    if (num < 0) {
        status = UCS_ERR_IO_ERROR;
    } else if (list == NULL || (num > 0 && *resources_p == NULL)) {
        status = UCS_ERR_NO_MEMORY;
    }
    for (i = 0; status == UCS_OK && i < num; i++) {
        if (is_device(list, i)) {
            describe(component, list[i].name, &(*resources_p)[(*num_resources_p)++]);
        }
    }
    free(list);
    return status;
}

ucs_status_t uct_md_query_tl_resources(uct_md_h md, uct_tl_resource_desc_t **resources_p, unsigned *num_resources_p)
{
    if (resources_p == NULL || num_resources_p == NULL) {
        return UCS_ERR_INVALID_PARAM;
    }
    *resources_p = NULL;
    *num_resources_p = 0;
    if (md == NULL) {
        return UCS_ERR_INVALID_PARAM;
    }
    if (md->component->type == UCT_DEVICE_TYPE_NET) {
        return list_interfaces(md->component, resources_p, num_resources_p);
    }
    *resources_p = malloc(sizeof(**resources_p));
    if (*resources_p == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    describe(md->component, "memory", *resources_p);
    *num_resources_p = 1;
    return UCS_OK;
}

void uct_release_tl_resource_list(uct_tl_resource_desc_t *resources)
{
    free(resources);
}
