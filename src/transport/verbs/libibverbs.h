/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rdma-core's libibverbs, loaded at run time: without it only RDMA devices are missing. The data path functions
 * (posting, polling) are inline functions of its header and need no symbol. Include this header only in files that are
 * built when libibverbs's header is available.
 */
#ifndef CW_TRANSPORT_VERBS_LIBIBVERBS_H
#define CW_TRANSPORT_VERBS_LIBIBVERBS_H

#include <infiniband/verbs.h>

/* The functions that transport/verbs needs: member, symbol. */
#define CW_VERBS_SYMBOLS(X)                                                                                            \
    X(fork_init, ibv_fork_init)                                                                                        \
    X(get_device_list, ibv_get_device_list)                                                                            \
    X(free_device_list, ibv_free_device_list)                                                                          \
    X(get_device_name, ibv_get_device_name)                                                                            \
    X(open_device, ibv_open_device)                                                                                    \
    X(close_device, ibv_close_device)                                                                                  \
    X(query_device, ibv_query_device)                                                                                  \
    X(query_port_compat, ibv_query_port)                                                                               \
    X(query_gid_ex, _ibv_query_gid_ex)                                                                                 \
    X(query_pkey, ibv_query_pkey)                                                                                      \
    X(alloc_pd, ibv_alloc_pd)                                                                                          \
    X(dealloc_pd, ibv_dealloc_pd)                                                                                      \
    X(reg_mr, ibv_reg_mr)                                                                                              \
    X(dereg_mr, ibv_dereg_mr)                                                                                          \
    X(create_comp_channel, ibv_create_comp_channel)                                                                    \
    X(destroy_comp_channel, ibv_destroy_comp_channel)                                                                  \
    X(create_cq, ibv_create_cq)                                                                                        \
    X(resize_cq, ibv_resize_cq)                                                                                        \
    X(destroy_cq, ibv_destroy_cq)                                                                                      \
    X(get_cq_event, ibv_get_cq_event)                                                                                  \
    X(ack_cq_events, ibv_ack_cq_events)                                                                                \
    X(create_srq, ibv_create_srq)                                                                                      \
    X(modify_srq, ibv_modify_srq)                                                                                      \
    X(destroy_srq, ibv_destroy_srq)                                                                                    \
    X(create_qp, ibv_create_qp)                                                                                        \
    X(modify_qp, ibv_modify_qp)                                                                                        \
    X(query_qp, ibv_query_qp)                                                                                          \
    X(destroy_qp, ibv_destroy_qp)                                                                                      \
    X(create_ah, ibv_create_ah)                                                                                        \
    X(destroy_ah, ibv_destroy_ah)                                                                                      \
    X(get_async_event, ibv_get_async_event)                                                                            \
    X(ack_async_event, ibv_ack_async_event)                                                                            \
    X(wc_status_str, ibv_wc_status_str)                                                                                \
    X(event_type_str, ibv_event_type_str)

struct cw_verbs_library {
#define CW_VERBS_MEMBER(member, symbol) __typeof__(&(symbol)) member;
    CW_VERBS_SYMBOLS(CW_VERBS_MEMBER)
#undef CW_VERBS_MEMBER
    /* ibv_reg_dmabuf_mr; NULL: rdma-core is older than 34. */
    struct ibv_mr *(*reg_dmabuf_mr)(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t address, int fd,
                                    int access);
    /* ibv_is_fork_initialized; NULL: rdma-core is older than 36. */
    int (*fork_state)(void);
};

/* Kernel modules that let ibv_reg_mr() register GPU memory by its virtual address. */
enum cw_verbs_peer_memory { CW_VERBS_PEER_NVIDIA = 1, CW_VERBS_PEER_AMD = 2 };

/* Returns NULL if no device is usable; *why_p is then the reason, a sentence with static lifetime. The library is
 * opened once per process, and only if the kernel lists an RDMA device. Thread safe. */
const struct cw_verbs_library *cw_verbs_library(const char **why_p);

/* Returns the loaded ones, a mask of enum cw_verbs_peer_memory. */
unsigned cw_verbs_peer_memory(void);

#endif
