/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Discovery: which transports there are and which devices they have. No context of UCP is needed.
 *
 * Every function may be called by any thread at any time. Handles and lists hold no system resources; where a call
 * fails, what it would have written becomes NULL and 0, and the functions that release accept that.
 *
 * Not here: transports as such. They sit behind an internal contract in libucp. For binaries that name them,
 * libuct.so.0 exports the original's functions for interfaces, endpoints and memory; each answers
 * UCS_ERR_UNSUPPORTED, and a program that is compiled against this header fails at compile time.
 */
#ifndef UCT_H
#define UCT_H

#include <ucs/async/async_fwd.h>
#include <ucs/memory/memory_type.h>
#include <ucs/memory/memtype_cache.h>
#include <ucs/type/cpu_set.h>
#include <ucs/type/status.h>
#include <ucs/type/thread_mode.h>
#include <uct/api/version.h>

BEGIN_C_DECLS
#pragma GCC visibility push(default)

#define UCT_COMPONENT_NAME_MAX 16 /**< Size of a component's name, with its zero. */
#define UCT_MD_NAME_MAX        16 /**< Size of a memory domain's name, with its zero. */
#define UCT_TL_NAME_MAX        10 /**< Size of a transport's name, with its zero. */
#define UCT_DEVICE_NAME_MAX    32 /**< Size of a device's name, with its zero. */

/** A family of transports; valid for the life of the process. */
typedef struct uct_component *uct_component_h;

/** A memory domain: registered memory that the transports of one component share. */
typedef struct uct_md *uct_md_h;

/** Settings of a memory domain. There are none. */
typedef struct uct_md_config uct_md_config_t;

/** Kinds of devices. */
typedef enum uct_device_type {
    UCT_DEVICE_TYPE_NET,  /**< Network. */
    UCT_DEVICE_TYPE_SHM,  /**< Memory that processes share. */
    UCT_DEVICE_TYPE_ACC,  /**< Accelerator. */
    UCT_DEVICE_TYPE_SELF, /**< The process itself. */
    UCT_DEVICE_TYPE_LAST  /**< Number of kinds. */
} uct_device_type_t;

/** Which members of uct_component_attr_t are wanted. */
enum uct_component_attr_field {
    UCT_COMPONENT_ATTR_FIELD_NAME              = UCS_BIT(0), /**< name */
    UCT_COMPONENT_ATTR_FIELD_MD_RESOURCE_COUNT = UCS_BIT(1), /**< md_resource_count */
    UCT_COMPONENT_ATTR_FIELD_MD_RESOURCES      = UCS_BIT(2), /**< md_resources */
    UCT_COMPONENT_ATTR_FIELD_FLAGS             = UCS_BIT(3)  /**< flags */
};

/** Abilities of a component. */
enum {
    UCT_COMPONENT_FLAG_CM = UCS_BIT(0) /**< It has a connection manager. None here has. */
};

/** A memory domain by name. */
typedef struct uct_md_resource_desc {
    char md_name[UCT_MD_NAME_MAX]; /**< The name for uct_md_open(). */
} uct_md_resource_desc_t;

/** Results of uct_component_query(). */
typedef struct uct_component_attr {
    uint64_t                field_mask;                   /**< In: uct_component_attr_field, the members wanted. */
    char                    name[UCT_COMPONENT_NAME_MAX]; /**< Name. */
    unsigned                md_resource_count;            /**< Number of memory domains; it never changes. */
    uct_md_resource_desc_t *md_resources;                 /**< In: an array of as many entries, to be filled. */
    uint64_t                flags;                        /**< UCT_COMPONENT_FLAG_CM or 0. */
} uct_component_attr_t;

/** A transport on a device. */
typedef struct uct_tl_resource_desc {
    char              tl_name[UCT_TL_NAME_MAX];      /**< Transport, as UCX_TLS names it. */
    char              dev_name[UCT_DEVICE_NAME_MAX]; /**< Device, as UCX_NET_DEVICES names it. */
    uct_device_type_t dev_type;                      /**< Kind of the device. */
    ucs_sys_device_t  sys_device;                    /**< UCS_SYS_DEVICE_ID_UNKNOWN. */
} uct_tl_resource_desc_t;

/** Abilities of a memory domain. None here does anything for programs. */
enum {
    UCT_MD_FLAG_ALLOC      = UCS_BIT(0), /**< Allocates memory. */
    UCT_MD_FLAG_REG        = UCS_BIT(1), /**< Registers memory. */
    UCT_MD_FLAG_NEED_MEMH  = UCS_BIT(2), /**< Needs a handle of local memory. */
    UCT_MD_FLAG_NEED_RKEY  = UCS_BIT(3), /**< Needs a key of remote memory. */
    UCT_MD_FLAG_ADVISE     = UCS_BIT(4), /**< Takes advice on memory. */
    UCT_MD_FLAG_FIXED      = UCS_BIT(5), /**< Allocates at an address that is asked for. */
    UCT_MD_FLAG_RKEY_PTR   = UCS_BIT(6), /**< Gives pointers to remote memory. */
    UCT_MD_FLAG_SOCKADDR   = UCS_BIT(7), /**< Connects by socket addresses. */
    UCT_MD_FLAG_INVALIDATE = UCS_BIT(8)  /**< Invalidates registrations. */
};

/** A cost that grows with a number: c + m * number, in seconds. */
typedef struct ucs_linear_func {
    double c; /**< For nothing. */
    double m; /**< For each. */
} ucs_linear_func_t;

/** Results of uct_md_query(). */
typedef struct uct_md_attr {
    struct {
        uint64_t max_alloc;                   /**< Most bytes that it allocates: 0. */
        uint64_t max_reg;                     /**< Most bytes that it registers: 0. */
        uint64_t flags;                       /**< UCT_MD_FLAG_...: 0. */
        uint64_t reg_mem_types;               /**< Kinds of memory that it registers: none. */
        uint64_t detect_mem_types;            /**< Kinds that it recognises: none. */
        uint64_t alloc_mem_types;             /**< Kinds that it allocates: none. */
        uint64_t access_mem_types;            /**< Kinds that the processor reaches: host memory. */
    } cap;                                    /**< Capabilities. */
    ucs_linear_func_t reg_cost;               /**< Time of a registration: 0. */
    char component_name[UCT_COMPONENT_NAME_MAX]; /**< Component that it belongs to. */
    size_t rkey_packed_size;                  /**< Bytes of a packed key: 0. */
    ucs_cpu_set_t local_cpus;                 /**< Processors near to it: all. */
} uct_md_attr_t;

/**
 * Lists the components.
 *
 * @param components_p      Set to a new array of handles; to be released by uct_release_component_list().
 * @param num_components_p  Set to their number.
 *
 * @return UCS_OK, UCS_ERR_INVALID_PARAM or UCS_ERR_NO_MEMORY.
 */
ucs_status_t uct_query_components(uct_component_h **components_p, unsigned *num_components_p);

/**
 * Releases a list; the handles in it stay valid.
 *
 * @param components  The list, or NULL.
 */
void uct_release_component_list(uct_component_h *components);

/**
 * Describes a component.
 *
 * @param component       The component.
 * @param component_attr  In: field_mask, and md_resources if it is wanted. Out: the members wanted; no other changes.
 *
 * @return UCS_OK or UCS_ERR_INVALID_PARAM.
 */
ucs_status_t uct_component_query(uct_component_h component, uct_component_attr_t *component_attr);

/**
 * Makes the settings of a component's memory domains.
 *
 * @param component   The component.
 * @param env_prefix  Prefix of environment variables; ignored.
 * @param filename    Configuration file; ignored.
 * @param config_p    Set to the settings; to be released by uct_config_release(); uct_md_open() keeps nothing of them.
 *
 * @return UCS_OK, UCS_ERR_INVALID_PARAM or UCS_ERR_NO_MEMORY.
 */
ucs_status_t uct_md_config_read(uct_component_h component, const char *env_prefix, const char *filename,
                                uct_md_config_t **config_p);

/**
 * Releases settings.
 *
 * @param config  What uct_md_config_read() made, or NULL.
 */
void uct_config_release(void *config);

/**
 * Opens a memory domain.
 *
 * @param component  The component.
 * @param md_name    Name of one of its memory domains.
 * @param config     Settings; borrowed for the call, may be NULL.
 * @param md_p       Set to the memory domain; to be closed by uct_md_close().
 *
 * @return UCS_OK; UCS_ERR_NO_DEVICE: the component has none of this name; UCS_ERR_INVALID_PARAM.
 */
ucs_status_t uct_md_open(uct_component_h component, const char *md_name, const uct_md_config_t *config,
                         uct_md_h *md_p);

/**
 * Closes a memory domain.
 *
 * @param md  The memory domain, or NULL.
 */
void uct_md_close(uct_md_h md);

/**
 * Describes a memory domain.
 *
 * @param md       The memory domain.
 * @param md_attr  Filled.
 *
 * @return UCS_OK or UCS_ERR_INVALID_PARAM.
 */
ucs_status_t uct_md_query(uct_md_h md, uct_md_attr_t *md_attr);

/**
 * Lists transports and devices of a memory domain: those that ucp_context_print_info() shows where no setting chooses
 * among them. Network interfaces are looked up at each call.
 *
 * @param md               The memory domain.
 * @param resources_p      Set to a new array, or to NULL; to be released by
 *                         uct_release_tl_resource_list().
 * @param num_resources_p  Set to their number.
 *
 * @return UCS_OK, UCS_ERR_INVALID_PARAM, UCS_ERR_NO_MEMORY; UCS_ERR_IO_ERROR: the system did not list its interfaces.
 */
ucs_status_t uct_md_query_tl_resources(uct_md_h md, uct_tl_resource_desc_t **resources_p, unsigned *num_resources_p);

/**
 * Releases a list of transports and devices.
 *
 * @param resources  The list, or NULL.
 */
void uct_release_tl_resource_list(uct_tl_resource_desc_t *resources);

#pragma GCC visibility pop
END_C_DECLS

#endif
