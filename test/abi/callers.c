/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What public programs call in libucs, libuct and libucm beside UCP, with their arguments and in their order; written
 * from the list of their calls (NB-*). Usage: callers NAME. Built as usual, with the archives, and not position
 * independent, which gives the program copies of the libraries' data objects (NB-6, N22-26). Status 0: the caller got
 * what it relies on.
 */
#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucm/api/ucm.h>
#include <ucp/api/ucp.h>
#include <ucs/config/global_opts.h>
#include <ucs/debug/debug.h>
#include <ucs/debug/log_def.h>
#include <ucs/debug/memtrack.h>
#include <ucs/memory/memtype_cache.h>
#include <ucs/sys/string.h>
#include <ucs/sys/uid.h>
#include <uct/api/uct.h>

#include "must.h"

static ucp_context_h context;
static ucp_worker_h worker;

static void use_ucp(ucs_thread_mode_t mode)
{
    ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES, .features = UCP_FEATURE_TAG | UCP_FEATURE_RMA};
    ucp_worker_params_t worker_params = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE, .thread_mode = mode};
    ucp_config_t *config;

    must(ucp_config_read(NULL, NULL, &config) == UCS_OK);
    must(ucp_init(&params, config, &context) == UCS_OK);
    ucp_config_release(config);
    must(ucp_worker_create(context, &worker_params, &worker) == UCS_OK);
}

static void leave_ucp(void)
{
    ucp_worker_destroy(worker);
    ucp_cleanup(context);
}

static int lines_of_ucx;

static ucs_log_func_rc_t mercury_log(const char *file, unsigned line, const char *function, ucs_log_level_t level,
                                     const ucs_log_component_config_t *comp_conf, const char *message, va_list ap)
{
    char text[1024];

    vsnprintf(text, sizeof(text), message, ap);
    must(file != NULL && line > 0 && function != NULL && strlen(comp_conf->name) < sizeof(comp_conf->name));
    must(ucs_log_level_names[level] != NULL);
    lines_of_ucx++;
    return UCS_LOG_FUNC_RC_STOP;
}

/* The domains of one component, as mercury reads them: the second query names the array alone. */
static int mercury_component(uct_component_h component, const char *prefix)
{
    uct_component_attr_t attr = {.field_mask = UCT_COMPONENT_ATTR_FIELD_NAME |
                                               UCT_COMPONENT_ATTR_FIELD_MD_RESOURCE_COUNT |
                                               UCT_COMPONENT_ATTR_FIELD_FLAGS};
    uct_tl_resource_desc_t *resources;
    unsigned num_resources, i, j;
    uct_md_config_t *config;
    uct_md_h md;
    int found = 0;

    must(uct_component_query(component, &attr) == UCS_OK);
    attr.field_mask = UCT_COMPONENT_ATTR_FIELD_MD_RESOURCES;
    attr.md_resources = calloc(attr.md_resource_count, sizeof(*attr.md_resources));
    must(uct_component_query(component, &attr) == UCS_OK);
    for (i = 0; i < attr.md_resource_count; i++) {
        must(uct_md_config_read(component, NULL, NULL, &config) == UCS_OK);
        must(uct_md_open(component, attr.md_resources[i].md_name, config, &md) == UCS_OK);
        uct_config_release(config);
        must(uct_md_query_tl_resources(md, &resources, &num_resources) == UCS_OK);
        for (j = 0; j < num_resources; j++) {
            found += resources[j].dev_type == UCT_DEVICE_TYPE_NET &&
                     strncmp(resources[j].tl_name, prefix, strlen(prefix)) == 0;
        }
        uct_release_tl_resource_list(resources);
        uct_md_close(md);
    }
    free(attr.md_resources);
    return found;
}

static void mercury(void) /* NB-10, NB-11, NB-25, NB-50 .. NB-58 */
{
    uct_component_h *components;
    ucp_worker_attr_t attr = {.field_mask = UCP_WORKER_ATTR_FIELD_THREAD_MODE};
    unsigned num_components, i;
    int found = 0;

    ucs_log_push_handler(mercury_log); /* from a constructor there: before anything else */
    must(uct_query_components(&components, &num_components) == UCS_OK);
    for (i = 0; i < num_components; i++) {
        found += mercury_component(components[i], "tcp");
    }
    uct_release_component_list(components);
    must(found > 0);
    setenv("UCX_LOG_LEVEL", "debug", 1);
    use_ucp(UCS_THREAD_MODE_MULTI);
    must(ucp_worker_query(worker, &attr) == UCS_OK);
    must(strcmp(ucs_thread_mode_names[attr.thread_mode], "multi") == 0);
    leave_ucp();
    must(lines_of_ucx > 0);
    ucs_log_pop_handler();
}

/* Its summary at the start checks no status of the three calls in the middle. */
static void mpich(void) /* NB-50, NB-55, NB-56 */
{
    uct_component_h *components;
    unsigned num_components, num_resources, i, j, k, listed = 0;
    uct_tl_resource_desc_t *resources;
    uct_component_attr_t attr;
    uct_md_config_t *config;
    uct_md_h md;

    must(UCT_API >= UCT_VERSION(1, 9) && UCT_VERNO_MAJOR == 1 && strlen(UCT_VERNO_STRING) > 0); /* NB-5 */
    use_ucp(UCS_THREAD_MODE_SERIALIZED);
    must(uct_query_components(&components, &num_components) == UCS_OK);
    for (i = 0; i < num_components; i++) {
        attr.field_mask = UCT_COMPONENT_ATTR_FIELD_MD_RESOURCE_COUNT;
        must(uct_component_query(components[i], &attr) == UCS_OK);
        attr.field_mask = UCT_COMPONENT_ATTR_FIELD_MD_RESOURCES | UCT_COMPONENT_ATTR_FIELD_NAME;
        attr.md_resources = malloc(attr.md_resource_count * sizeof(*attr.md_resources));
        must(uct_component_query(components[i], &attr) == UCS_OK);
        for (j = 0; j < attr.md_resource_count; j++) {
            uct_md_config_read(components[i], NULL, NULL, &config);
            uct_md_open(components[i], attr.md_resources[j].md_name, config, &md);
            uct_config_release(config);
            uct_md_query_tl_resources(md, &resources, &num_resources);
            for (k = 0; k < num_resources; k++) {
                listed += strlen(resources[k].dev_name) > 0;
            }
            uct_release_tl_resource_list(resources);
            uct_md_close(md);
        }
        free(attr.md_resources);
    }
    uct_release_component_list(components);
    must(listed >= 2);
    leave_ucp();
}

/* Its memory hooks report what is unmapped, before UCP is there and after it has gone (NB-40 .. NB-42). */
static void open_mpi(void)
{
    const size_t length = 1 << 16;
    void *memory = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    must(memory != MAP_FAILED);
    ucm_vm_munmap(memory, length);
    use_ucp(UCS_THREAD_MODE_MULTI);
    ucm_set_external_event(UCM_EVENT_VM_UNMAPPED);
    must(ucm_test_external_events(UCM_EVENT_VM_UNMAPPED) == UCS_OK);
    must(ucm_test_events(UCM_EVENT_VM_UNMAPPED) == UCS_OK);
    ucm_vm_munmap(memory, length);
    leave_ucp();
    ucm_vm_munmap(memory, length);
    must(munmap(memory, length) == 0);
    must(strcmp(ucs_memory_type_names[UCS_MEMORY_TYPE_HOST], "host") == 0);
    must(strcmp(ucs_status_string(UCS_ERR_UNREACHABLE), "Destination is unreachable") == 0);
}

/* Looks for domains of RDMA devices, finds none and disables itself. */
static void open_mpi_btl_uct(void) /* NB-92 */
{
    static const char *const wanted[] = {"mlx5_0", "mlx4_0", "rocep0s4", "irdma0"};
    uct_component_attr_t attr = {0};
    uct_component_h *components;
    uct_md_resource_desc_t domain;
    unsigned num_components, i, j;

    ucm_set_external_event(UCM_EVENT_VM_UNMAPPED);
    must(uct_query_components(&components, &num_components) == UCS_OK);
    for (i = 0; i < num_components; i++) {
        attr.field_mask = UCT_COMPONENT_ATTR_FIELD_NAME | UCT_COMPONENT_ATTR_FIELD_MD_RESOURCE_COUNT;
        must(uct_component_query(components[i], &attr) == UCS_OK && attr.md_resource_count == 1);
        attr.field_mask |= UCT_COMPONENT_ATTR_FIELD_MD_RESOURCES;
        attr.md_resources = &domain;
        must(uct_component_query(components[i], &attr) == UCS_OK);
        for (j = 0; j < 4; j++) {
            must(strcmp(domain.md_name, wanted[j]) != 0);
        }
    }
    uct_release_component_list(components);
}

static void libfabric(void) /* NB-30, NB-31 */
{
    ucs_memory_info_t info = {.type = UCS_MEMORY_TYPE_HOST};
    ucs_status_t status;
    char buffer[64];

    ucs_memtype_cache_lookup(NULL, 0, NULL); /* switches hooks on */
    use_ucp(UCS_THREAD_MODE_MULTI);
    status = ucs_memtype_cache_lookup(buffer, sizeof(buffer), &info);
    must(status == UCS_ERR_NO_ELEM || status == UCS_ERR_UNSUPPORTED);
    must(info.type == UCS_MEMORY_TYPE_HOST && info.base_address == NULL);
    ucs_memtype_cache_update(buffer, sizeof(buffer), UCS_MEMORY_TYPE_HOST, UCS_SYS_DEVICE_ID_UNKNOWN);
    leave_ucp();
}

static void ucxx(void) /* NB-12, NB-13 */
{
    ucs_log_component_config_t component = {UCS_LOG_LEVEL_WARN, "UCXX", "*"};

    ucs_log_dispatch(__FILE__, __LINE__, __func__, UCS_LOG_LEVEL_WARN, &component, "a line of %s", "ucxx");
    component.log_level = UCS_LOG_LEVEL_TRACE;
    use_ucp(UCS_THREAD_MODE_MULTI);
    ucs_log_dispatch(__FILE__, __LINE__, __func__, UCS_LOG_LEVEL_TRACE, &component, "another line");
    leave_ucp();
}

/* As the macros compiled into it do: the level is read in the object, and only then the function is called. */
#define jucx_log(level, ...)                                                                               \
    do {                                                                                                   \
        if ((level) <= ucs_global_opts.log_component.log_level) {                                          \
            ucs_log_dispatch(__FILE__, __LINE__, __func__, level, &ucs_global_opts.log_component, __VA_ARGS__); \
        }                                                                                                  \
    } while (0)

static void jucx(void) /* NB-12, NB-15 .. NB-17, NB-28 */
{
    ucp_config_t *config;
    void *vector;

    ucs_debug_disable_signals(); /* when the library is loaded */
    must(ucs_global_opts.log_component.log_level == UCS_LOG_LEVEL_WARN);
    must(ucp_config_read(NULL, NULL, &config) == UCS_OK);
    must(ucs_global_opts_set_value("LOG_LEVEL", "info") == UCS_OK); /* each key to both; one must know it */
    must(ucp_config_modify(config, "LOG_LEVEL", "info") == UCS_OK);
    must(ucs_global_opts_set_value("TLS", "tcp,self") == UCS_ERR_NO_ELEM);
    must(ucp_config_modify(config, "TLS", "tcp,self") == UCS_OK);
    ucp_config_release(config);
    must(ucs_global_opts.log_component.log_level == UCS_LOG_LEVEL_INFO);
    ucs_log_push_handler(mercury_log);
    jucx_log(UCS_LOG_LEVEL_INFO, "JUCX: %s", "logged");
    jucx_log(UCS_LOG_LEVEL_DEBUG, "JUCX: %s", "not logged");
    must(lines_of_ucx == 1);
    ucs_log_pop_handler();
    use_ucp(UCS_THREAD_MODE_MULTI);
    vector = ucs_malloc(4 * sizeof(ucp_dt_iov_t), "JUCX iov vector");
    must(vector != NULL);
    ucs_free(vector);
    leave_ucp();
}

static void goucx(void) /* NB-18, NB-26 */
{
    must(ucs_string_find_in_list("cuda", (const char **)ucs_memory_type_names, 0) == UCS_MEMORY_TYPE_CUDA);
    must(ucs_string_find_in_list("nowhere", (const char **)ucs_memory_type_names, 0) == -1);
    use_ucp(UCS_THREAD_MODE_SINGLE);
    leave_ucp();
}

static void everyone(void) /* NB-10, NB-19 */
{
    must(strcmp(ucs_status_string(UCS_OK), "Success") == 0);
    must(ucs_get_system_id() != 0);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*call)(void);
    } callers[] = {{"mercury", mercury},     {"mpich", mpich}, {"open_mpi", open_mpi},
                   {"open_mpi_btl_uct", open_mpi_btl_uct},     {"libfabric", libfabric},
                   {"ucxx", ucxx},           {"jucx", jucx},   {"goucx", goucx},
                   {"everyone", everyone}};
    size_t i;

    for (i = 0; i < sizeof(callers) / sizeof(callers[0]); i++) {
        if (argc == 2 && strcmp(argv[1], callers[i].name) == 0) {
            callers[i].call();
            return 0;
        }
    }
    fprintf(stderr, "usage: callers NAME\n");
    return 2;
}
