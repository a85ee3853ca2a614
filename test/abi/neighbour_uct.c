/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Discovery by libuct (NB-50 .. NB-60, NB-92): what it lists is what libucp itself uses, each call keeps to the
 * contract on which its callers rely, and the names that plugins were linked with answer that there is nothing.
 */

#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <ucp/api/ucp.h>
#include <uct/api/uct.h>
#include <unistd.h>

#include "runner.h"

#define MAX_LINES 256

static int compare(const void *left, const void *right)
{
    return strcmp(left, right);
}

/* Transport/device of everything that libuct lists, in the alphabet's order. */
static int list_uct(char lines[][64])
{
    uct_component_attr_t attr;
    uct_md_resource_desc_t md_resource;
    uct_tl_resource_desc_t *resources;
    uct_component_h *components;
    unsigned num_components, num_resources, i, j;
    uct_md_h md;
    int count = 0;

    assert_int_equal(uct_query_components(&components, &num_components), UCS_OK);
    for (i = 0; i < num_components; i++) {
        attr = (uct_component_attr_t){.field_mask = UCT_COMPONENT_ATTR_FIELD_MD_RESOURCES,
                                    .md_resources = &md_resource};
        assert_int_equal(uct_component_query(components[i], &attr), UCS_OK);
        assert_int_equal(uct_md_open(components[i], md_resource.md_name, NULL, &md), UCS_OK);
        assert_int_equal(uct_md_query_tl_resources(md, &resources, &num_resources), UCS_OK);
        for (j = 0; j < num_resources && count < MAX_LINES; j++) {
            assert_int_equal(resources[j].sys_device, UCS_SYS_DEVICE_ID_UNKNOWN);
            snprintf(lines[count++], 64, "%s/%s", resources[j].tl_name, resources[j].dev_name);
        }
        uct_release_tl_resource_list(resources);
        uct_md_close(md);
    }
    uct_release_component_list(components);
    qsort(lines, (size_t)count, 64, compare);
    return count;
}

/* As Open MPI reads it: "# resource N : md N dev N flags -- tl/dev". */
static int list_ucp(char lines[][64])
{
    ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES, .features = UCP_FEATURE_TAG};
    char line[512], name[64], *text = NULL;
    ucp_context_h context;
    size_t size = 0;
    int count = 0;
    FILE *stream;

    assert_int_equal(ucp_init(&params, NULL, &context), UCS_OK);
    stream = open_memstream(&text, &size);
    assert_non_null(stream);
    ucp_context_print_info(context, stream);
    fclose(stream);
    ucp_cleanup(context);
    stream = fmemopen(text, size, "r");
    while (fgets(line, sizeof(line), stream) != NULL) {
        if (sscanf(line, "# resource %*d : md %*d dev %*d flags -- %63s", name) == 1 && count < MAX_LINES) {
            snprintf(lines[count++], 64, "%s", name);
        }
    }
    fclose(stream);
    free(text);
    qsort(lines, (size_t)count, 64, compare);
    return count;
}

/* NB-51. */
TEST(test_names_are_those_of_libucp) /* NB-57, NB-58, NB-59 */
{
    static char from_uct[MAX_LINES][64], from_ucp[MAX_LINES][64];
    const int count = list_ucp(from_ucp);
    int i;

    assert_true(count >= 2);
    assert_int_equal(list_uct(from_uct), count);
    for (i = 0; i < count; i++) {
        assert_string_equal(from_uct[i], from_ucp[i]);
    }
}

TEST(test_layouts) /* NB-52, NB-60 */
{
    assert_int_equal(sizeof(uct_component_attr_t), 48);
    assert_int_equal(offsetof(uct_component_attr_t, name), 8);
    assert_int_equal(offsetof(uct_component_attr_t, md_resource_count), 24);
    assert_int_equal(offsetof(uct_component_attr_t, md_resources), 32);
    assert_int_equal(offsetof(uct_component_attr_t, flags), 40);
    assert_int_equal(sizeof(uct_md_resource_desc_t), 16);
    assert_int_equal(sizeof(uct_tl_resource_desc_t), 52);
    assert_int_equal(offsetof(uct_tl_resource_desc_t, dev_name), 10);
    assert_int_equal(offsetof(uct_tl_resource_desc_t, dev_type), 44);
    assert_int_equal(offsetof(uct_tl_resource_desc_t, sys_device), 48);
    assert_int_equal(UCT_DEVICE_TYPE_SELF, 3);
    assert_int_equal(sizeof(uct_md_attr_t), 224);
    assert_int_equal(offsetof(uct_md_attr_t, cap.access_mem_types), 48);
    assert_int_equal(offsetof(uct_md_attr_t, reg_cost), 56);
    assert_int_equal(offsetof(uct_md_attr_t, component_name), 72);
    assert_int_equal(offsetof(uct_md_attr_t, rkey_packed_size), 88);
    assert_int_equal(offsetof(uct_md_attr_t, local_cpus), 96);
}

TEST(test_query_touches_only_what_is_asked_for) /* NB-53, NB-54 */
{
    uct_component_h *components, *again;
    unsigned count, count_again, i;
    uct_component_attr_t attr, before;
    uct_md_resource_desc_t list[2];

    assert_int_equal(uct_query_components(&components, &count), UCS_OK);
    assert_int_equal(uct_query_components(&again, &count_again), UCS_OK);
    assert_int_equal(count, count_again);
    assert_ptr_not_equal(components, again);
    for (i = 0; i < count; i++) {
        assert_ptr_equal(components[i], again[i]); /* handles stay */
    }
    uct_release_component_list(again);
    for (i = 0; i < count; i++) {
        memset(&attr, 0x5a, sizeof(attr));
        attr.field_mask = UCT_COMPONENT_ATTR_FIELD_MD_RESOURCE_COUNT;
        before = attr;
        assert_int_equal(uct_component_query(components[i], &attr), UCS_OK);
        assert_int_equal(attr.md_resource_count, 1);
        before.md_resource_count = 1;
        assert_memory_equal(&attr, &before, sizeof(attr));

        memset(list, 0x5a, sizeof(list));
        attr.field_mask = UCT_COMPONENT_ATTR_FIELD_MD_RESOURCES; /* mercury's second call */
      attr.md_resources = list;
        before = attr;
        assert_int_equal(uct_component_query(components[i], &attr), UCS_OK);
        assert_memory_equal(&attr, &before, sizeof(attr));
        assert_int_equal(list[1].md_name[0], 0x5a); /* exactly as many as were counted */

        attr.field_mask = UCT_COMPONENT_ATTR_FIELD_NAME | UCT_COMPONENT_ATTR_FIELD_FLAGS;
        assert_int_equal(uct_component_query(components[i], &attr), UCS_OK);
        assert_string_equal(attr.name, list[0].md_name);
        assert_int_equal(attr.flags, 0);
    }
    uct_release_component_list(components);
}

TEST(test_failures_leave_nothing) /* NB-55, NB-56 */
{
    uct_tl_resource_desc_t *resources = (void *)state;
    uct_md_config_t *config = (void *)state;
    uct_md_h md = (void *)state;
    unsigned count = 7;
    uct_component_h *components;
    uct_component_attr_t attr = {.field_mask = UCT_COMPONENT_ATTR_FIELD_MD_RESOURCES};

    assert_int_equal(uct_query_components(NULL, &count), UCS_ERR_INVALID_PARAM);
    assert_int_equal(uct_query_components(&components, &count), UCS_OK);
    assert_int_equal(uct_component_query(components[0], &attr), UCS_ERR_INVALID_PARAM); /* no array */
    assert_int_equal(uct_component_query(components[0], NULL), UCS_ERR_INVALID_PARAM);
    assert_int_equal(uct_md_open(components[0], "mlx5_0", NULL, &md), UCS_ERR_NO_DEVICE);
    assert_null(md);
    md = (void *)state;
    assert_int_equal(uct_md_open(NULL, "self", NULL, &md), UCS_ERR_INVALID_PARAM);
    assert_null(md);
    assert_int_equal(uct_md_config_read(NULL, NULL, NULL, &config), UCS_ERR_INVALID_PARAM);
    assert_null(config);
    assert_int_equal(uct_md_query_tl_resources(NULL, &resources, &count), UCS_ERR_INVALID_PARAM);
    assert_null(resources);
    assert_int_equal(count, 0);
    uct_release_tl_resource_list(NULL);
    uct_config_release(NULL);
    uct_md_close(NULL);
    uct_release_component_list(components);
    uct_release_component_list(NULL);
}

/* In a network namespace of its own, where the system allows that, a process has no interface. */
TEST(test_no_interface) /* NB-55, NB-56 */
{
    uct_tl_resource_desc_t *resources = (void *)state;
    unsigned num_components, count = 7;
    uct_component_h *components;
    pid_t child;
    uct_md_h md;
    int status;

    assert_int_equal(uct_query_components(&components, &num_components), UCS_OK);
    assert_int_equal(uct_md_open(components[num_components - 1], "tcp", NULL, &md), UCS_OK);
    fflush(NULL);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        if (unshare(CLONE_NEWNET) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) {
            _exit(77);
        }
        _exit(!(uct_md_query_tl_resources(md, &resources, &count) == UCS_OK && resources == NULL && count == 0));
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    uct_md_close(md);
    uct_release_component_list(components);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
        print_message("no network namespace can be made here\n");
        skip();
    }
    assert_int_equal(status, 0);
}

TEST(test_md_query) /* NB-60 */
{
    uct_component_h *components;
    uct_md_config_t *config;
    uct_md_attr_t attr;
    unsigned count;
    uct_md_h md;

    assert_int_equal(uct_query_components(&components, &count), UCS_OK);
    assert_int_equal(uct_md_config_read(components[0], "TEST", NULL, &config), UCS_OK);
    assert_int_equal(uct_md_open(components[0], "self", config, &md), UCS_OK);
    assert_int_equal(uct_md_open(components[1], "posix", config, &md), UCS_ERR_INVALID_PARAM); /* another's */
    assert_int_equal(uct_md_open(components[0], "self", config, &md), UCS_OK);
    uct_config_release(config); /* before the memory domain is used */
    memset(&attr, 0x5a, sizeof(attr));
    assert_int_equal(uct_md_query(md, &attr), UCS_OK);
    assert_string_equal(attr.component_name, "self");
    assert_int_equal(attr.cap.flags, 0); /* it offers programs nothing but its name */
    assert_int_equal(attr.cap.max_reg, 0);
    assert_int_equal(uct_md_query(NULL, &attr), UCS_ERR_INVALID_PARAM);
    uct_md_close(md);
    uct_release_component_list(components);
}

static void *list_again(void *argument)
{
    static _Thread_local char lines[MAX_LINES][64];
    int i;

    (void)argument;
    for (i = 0; i < 50; i++) {
        list_uct(lines);
    }
    return NULL;
}

TEST(test_threads_list) /* NB-53 */
{
    pthread_t threads[4];
    int i;

    for (i = 0; i < 4; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, list_again, NULL), 0);
    }
    for (i = 0; i < 4; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
}

TEST(test_transports_are_not_offered) /* NB-90, NB-92 */
{
    static const char *const names[] = {
        "uct_worker_create", "uct_iface_open", "uct_iface_query", "uct_iface_get_address",
        "uct_iface_get_device_address", "uct_iface_set_am_handler", "uct_md_iface_config_read", "uct_config_modify",
        "uct_ep_create", "uct_ep_get_address", "uct_ep_connect_to_ep", "uct_md_mem_reg", "uct_md_mem_dereg",
        "uct_md_mkey_pack", "uct_rkey_unpack", "uct_rkey_release"};
    static const char *const quiet[] = {"uct_worker_destroy", "uct_iface_close", "uct_ep_destroy"};
    ucs_async_context_t *async = (void *)state;
    ucs_status_t (*function)(void *, void *, void *, void *, void *);
    size_t i;

    for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        *(void **)(void *)&function = dlsym(RTLD_DEFAULT, names[i]);
        assert_non_null(function);
        assert_int_equal(function(NULL, NULL, NULL, NULL, NULL), UCS_ERR_UNSUPPORTED);
    }
    for (i = 0; i < sizeof(quiet) / sizeof(quiet[0]); i++) {
        *(void **)(void *)&function = dlsym(RTLD_DEFAULT, quiet[i]);
        assert_non_null(function);
        function(NULL, NULL, NULL, NULL, NULL);
    }
    assert_int_equal(ucs_async_context_create(UCS_ASYNC_MODE_POLL, &async), UCS_ERR_UNSUPPORTED); /* NB-33 */
    assert_null(async);
    ucs_async_context_destroy(async);
}
