/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sends memory of a GPU from one process to another: the program forks, both processes take the first GPU, and one
 * sends a buffer that the other receives and checks. Only pointers of the GPU go to UCP; the library finds their type.
 *
 * Usage: gpu_send [bytes]
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ucp/api/ucp.h>

#if __has_include(<cuda.h>)
#include <cuda.h>
#else /* the few functions of the CUDA driver that are used here, so that this compiles without its toolkit */
typedef int CUdevice, CUresult;
typedef struct CUctx_st *CUcontext;
typedef unsigned long long CUdeviceptr;
CUresult cuInit(unsigned flags);
CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device);
CUresult cuCtxSetCurrent(CUcontext context);
CUresult cuCtxSynchronize(void);
CUresult cuMemAlloc_v2(CUdeviceptr *ptr, size_t length);
CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t length);
CUresult cuMemFree_v2(CUdeviceptr ptr);
#define cuMemAlloc cuMemAlloc_v2
#define cuMemFree  cuMemFree_v2
#endif

enum { TAG = 1 };

static void fail(const char *what, const char *why)
{
    fprintf(stderr, "gpu_send: %s: %s\n", what, why);
    exit(1);
}

static void cuda(const char *what, CUresult result)
{
    char number[32];

    if (result != 0) {
        snprintf(number, sizeof(number), "error %d", (int)result);
        fail(what, number);
    }
}

static void ucx(const char *what, ucs_status_t status)
{
    if (status != UCS_OK) {
        fail(what, ucs_status_string(status));
    }
}

static void await(const char *what, ucp_worker_h worker, ucs_status_ptr_t request)
{
    if (!UCS_PTR_IS_PTR(request)) {
        ucx(what, UCS_PTR_STATUS(request)); /* over already, or failed */
        return;
    }
    while (ucp_request_check_status(request) == UCS_INPROGRESS) {
        (void)ucp_worker_progress(worker);
    }
    ucx(what, ucp_request_check_status(request));
    ucp_request_free(request);
}

/* Sends the own address through a pipe, reads the peer's, and connects. */
static ucp_ep_h meet(ucp_worker_h worker, int to, int from)
{
    ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS};
    ucp_address_t *own;
    char peer[4096];
    size_t length;
    ucp_ep_h ep;

    ucx("ucp_worker_get_address", ucp_worker_get_address(worker, &own, &length));
    if (length > sizeof(peer) || write(to, own, length) != (ssize_t)length || read(from, peer, sizeof(peer)) <= 0) {
        fail("the processes do not meet", "a pipe failed");
    }
    ucp_worker_release_address(worker, own);
    params.address = (const ucp_address_t *)peer;
    ucx("ucp_ep_create", ucp_ep_create(worker, &params, &ep));
    return ep;
}

static void fill(unsigned char *bytes, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        bytes[i] = (unsigned char)(i * 7 + i / 4096);
    }
}

static void run(int sends, size_t length, int to, int from)
{
    const ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES, .features = UCP_FEATURE_TAG};
    const ucp_worker_params_t worker_how = {.field_mask = 0};
    const ucp_request_param_t param = {.op_attr_mask = 0};
    unsigned char *expected = malloc(length), *got = calloc(1, length);
    ucp_context_h context;
    ucp_worker_h worker;
    CUcontext gpu;
    CUdeviceptr buffer;
    ucp_ep_h ep;

    if (expected == NULL || got == NULL) {
        fail("malloc", "there is no memory");
    }
    /* First the driver, then the context of UCP: the library uses a driver that is loaded, and loads none. */
    cuda("cuInit", cuInit(0));
    cuda("cuDevicePrimaryCtxRetain", cuDevicePrimaryCtxRetain(&gpu, 0));
    cuda("cuCtxSetCurrent", cuCtxSetCurrent(gpu));
    cuda("cuMemAlloc", cuMemAlloc(&buffer, length));
    ucx("ucp_init", ucp_init(&params, NULL, &context));
    ucx("ucp_worker_create", ucp_worker_create(context, &worker_how, &worker));
    ep = meet(worker, to, from);
    fill(expected, length);
    if (sends) {
        cuda("cuMemcpy", cuMemcpy(buffer, (uintptr_t)expected, length));
        cuda("cuCtxSynchronize", cuCtxSynchronize()); /* only now the GPU has all bytes, however few they are */
        await("a send", worker, ucp_tag_send_nbx(ep, (void *)(uintptr_t)buffer, length, TAG, &param));
    } else {
        await("a receive", worker,
              ucp_tag_recv_nbx(worker, (void *)(uintptr_t)buffer, length, TAG, UINT64_MAX, &param));
        cuda("cuMemcpy", cuMemcpy((uintptr_t)got, buffer, length));
        if (memcmp(got, expected, length) != 0) {
            fail("the message", "other bytes came than were sent");
        }
        printf("received %zu bytes into memory of the GPU\n", length);
    }
    await("a close", worker, ucp_ep_close_nbx(ep, &param));
    ucp_worker_destroy(worker);
    ucp_cleanup(context);
    cuda("cuMemFree", cuMemFree(buffer));
    free(expected);
    free(got);
}

int main(int argc, char **argv)
{
    const size_t length = (argc > 1) ? strtoul(argv[1], NULL, 0) : (size_t)16 << 20;
    int there[2], back[2], status;
    pid_t child;

    if (length == 0 || pipe(there) != 0 || pipe(back) != 0) {
        fail("usage", "gpu_send [bytes]");
    }
    child = fork(); /* before anything is known of a GPU: the driver does not outlive a fork */
    if (child == 0) {
        run(0, length, back[1], there[0]);
        return 0;
    }
    run(1, length, there[1], back[0]);
    return (child > 0 && waitpid(child, &status, 0) == child && status == 0) ? 0 : 1;
}
