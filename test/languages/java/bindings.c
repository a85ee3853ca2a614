/* SPDX-License-Identifier: BSD-3-Clause */
/* The native half of Bindings.java. */
#include <jni.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucp/api/ucp.h>

/* What a request carries: the object of Java that is notified, and the request itself, for who cancels it. */
struct operation {
    jobject object;
    jobject buffer;
    void *request;
    ucp_rkey_h rkey;
    struct operation *next;
};

static JavaVM *vm;
static struct operation *under_way;
static ucp_conn_request_h came;

static JNIEnv *env_now(void)
{
    void *env = NULL;

    (*vm)->GetEnv(vm, &env, JNI_VERSION_1_8);
    return env;
}

static void check(ucs_status_t status, const char *what)
{
    if (status != UCS_OK) {
        printf("FAILED: %s: %s\n", what, ucs_status_string(status));
        exit(1);
    }
}

jint JNI_OnLoad(JavaVM *loaded, void *reserved)
{
    (void)reserved;
    vm = loaded;
    return JNI_VERSION_1_8;
}

static void complete(struct operation *operation, ucs_status_t status, size_t length)
{
    JNIEnv *env = env_now();
    jclass class = (*env)->GetObjectClass(env, operation->object);
    jmethodID done = (*env)->GetMethodID(env, class, "done", "(IJ)V");
    struct operation **place;

    for (place = &under_way; *place != NULL && *place != operation; place = &(*place)->next) {
    }
    if (*place != NULL) {
        *place = operation->next;
    }
    if (operation->rkey != NULL) {
        ucp_rkey_destroy(operation->rkey);
    }
    (*env)->CallVoidMethod(env, operation->object, done, (jint)status, (jlong)length);
    (*env)->DeleteGlobalRef(env, operation->object);
    (*env)->DeleteGlobalRef(env, operation->buffer);
    free(operation);
}

static void sent(void *request, ucs_status_t status, void *user_data)
{
    complete(user_data, status, 0);
    ucp_request_free(request);
}

static void received(void *request, ucs_status_t status, const ucp_tag_recv_info_t *info, void *user_data)
{
    complete(user_data, status, (status == UCS_OK) ? info->length : 0);
    ucp_request_free(request);
}

static void data_received(void *request, ucs_status_t status, size_t length, void *user_data)
{
    complete(user_data, status, length);
    ucp_request_free(request);
}

static struct operation *begin(JNIEnv *env, jobject object, jobject buffer, ucp_request_param_t *param)
{
    struct operation *operation = calloc(1, sizeof(*operation));

    if (operation == NULL) {
        check(UCS_ERR_NO_MEMORY, "an operation");
    }
    operation->object = (*env)->NewGlobalRef(env, object);
    operation->buffer = (buffer != NULL) ? (*env)->NewGlobalRef(env, buffer) : NULL;
    operation->next = under_way;
    under_way = operation;
    param->op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
    param->cb.send = sent;
    param->user_data = operation;
    return operation;
}

static void posted(struct operation *operation, ucs_status_ptr_t pointer)
{
    if (UCS_PTR_IS_PTR(pointer)) {
        operation->request = pointer;
    } else {
        complete(operation, UCS_PTR_RAW_STATUS(pointer), 0);
    }
}

JNIEXPORT jlong JNICALL Java_Bindings_open(JNIEnv *env, jclass class)
{
    ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_MT_WORKERS_SHARED,
                    .features = UCP_FEATURE_TAG | UCP_FEATURE_AM | UCP_FEATURE_RMA,
                    .mt_workers_shared = 1};
    ucp_config_t *config;
    ucp_context_h context = NULL;

    (void)env, (void)class;
    check(ucp_config_read(NULL, NULL, &config), "config_read");
    check(ucp_init(&params, config, &context), "init");
    ucp_config_release(config);
    return (jlong)(uintptr_t)context;
}

JNIEXPORT jlong JNICALL Java_Bindings_worker(JNIEnv *env, jclass class, jlong context)
{
    ucp_worker_params_t params = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                 .thread_mode = UCS_THREAD_MODE_MULTI};
    ucp_worker_h worker = NULL;

    (void)env, (void)class;
    check(ucp_worker_create((ucp_context_h)(uintptr_t)context, &params, &worker), "worker_create");
    return (jlong)(uintptr_t)worker;
}

static void connection(ucp_conn_request_h request, void *arg)
{
    (void)arg;
    came = request;
}

JNIEXPORT jlong JNICALL Java_Bindings_listen(JNIEnv *env, jclass class, jlong worker)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    ucp_listener_params_t params = {
        .field_mask = UCP_LISTENER_PARAM_FIELD_SOCK_ADDR | UCP_LISTENER_PARAM_FIELD_CONN_HANDLER,
        .sockaddr = {(struct sockaddr *)&address, sizeof(address)},
        .conn_handler = {connection, NULL}};
    ucp_listener_h listener = NULL;

    (void)env, (void)class;
    check(ucp_listener_create((ucp_worker_h)(uintptr_t)worker, &params, &listener), "listener_create");
    return (jlong)(uintptr_t)listener;
}

static void broke(void *arg, ucp_ep_h ep, ucs_status_t status)
{
    (void)arg, (void)ep, (void)status;
}

JNIEXPORT jlong JNICALL Java_Bindings_connect(JNIEnv *env, jclass class, jlong worker, jlong listener)
{
    ucp_listener_attr_t attr = {.field_mask = UCP_LISTENER_ATTR_FIELD_SOCKADDR};
    ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_FLAGS | UCP_EP_PARAM_FIELD_SOCK_ADDR |
                                            UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER,
                              .flags = UCP_EP_PARAMS_FLAGS_CLIENT_SERVER,
                              .err_mode = UCP_ERR_HANDLING_MODE_PEER,
                              .err_handler = {broke, NULL},
                              .sockaddr = {(struct sockaddr *)&attr.sockaddr, sizeof(struct sockaddr_in)}};
    ucp_ep_h ep = NULL;

    (void)env, (void)class;
    check(ucp_listener_query((ucp_listener_h)(uintptr_t)listener, &attr), "listener_query");
    check(ucp_ep_create((ucp_worker_h)(uintptr_t)worker, &params, &ep), "ep_create");
    return (jlong)(uintptr_t)ep;
}

JNIEXPORT jlong JNICALL Java_Bindings_accepted(JNIEnv *env, jclass class, jlong worker)
{
    ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_CONN_REQUEST, .conn_request = came};
    ucp_ep_h ep = NULL;

    (void)env, (void)class;
    if (came != NULL) {
        check(ucp_ep_create((ucp_worker_h)(uintptr_t)worker, &params, &ep), "accept");
        came = NULL;
    }
    return (jlong)(uintptr_t)ep;
}

JNIEXPORT jint JNICALL Java_Bindings_progress(JNIEnv *env, jclass class, jlong worker)
{
    (void)env, (void)class;
    return (jint)ucp_worker_progress((ucp_worker_h)(uintptr_t)worker);
}

JNIEXPORT void JNICALL Java_Bindings_tagReceive(JNIEnv *env, jclass class, jlong worker, jobject buffer, jlong tag,
                                                jobject object)
{
    ucp_request_param_t param;
    struct operation *operation = begin(env, object, buffer, &param);

    (void)class;
    param.op_attr_mask |= UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
    param.cb.recv = received;
    posted(operation, ucp_tag_recv_nbx((ucp_worker_h)(uintptr_t)worker, (*env)->GetDirectBufferAddress(env, buffer),
                                       (size_t)(*env)->GetDirectBufferCapacity(env, buffer), (ucp_tag_t)tag,
                                       UINT64_MAX, &param));
}

JNIEXPORT void JNICALL Java_Bindings_tagSend(JNIEnv *env, jclass class, jlong ep, jobject buffer, jlong tag,
                                             jobject object)
{
    ucp_request_param_t param;
    struct operation *operation = begin(env, object, buffer, &param);

    (void)class;
    posted(operation, ucp_tag_send_nbx((ucp_ep_h)(uintptr_t)ep, (*env)->GetDirectBufferAddress(env, buffer),
                                       (size_t)(*env)->GetDirectBufferCapacity(env, buffer), (ucp_tag_t)tag, &param));
}

/* The data of any message is received, whether it came along or was announced. */
static ucs_status_t arrived(void *arg, const void *header, size_t header_length, void *data, size_t length,
                            const ucp_am_recv_param_t *am_param)
{
    JNIEnv *env = env_now();
    jclass class = (*env)->FindClass(env, "Bindings");
    jclass made = (*env)->FindClass(env, "Bindings$Operation");
    jmethodID method = (*env)->GetStaticMethodID(env, class, "arrived",
                                                 "([BJLBindings$Operation;)Ljava/nio/ByteBuffer;");
    jobject object = (*env)->NewObject(env, made, (*env)->GetMethodID(env, made, "<init>", "()V"));
    jbyteArray top = (*env)->NewByteArray(env, (jsize)header_length);
    jobject buffer;
    ucp_request_param_t param;
    struct operation *operation;

    (*env)->SetByteArrayRegion(env, top, 0, (jsize)header_length, header);
    buffer = (*env)->CallStaticObjectMethod(env, class, method, top, (jlong)length, object);
    if ((*env)->ExceptionCheck(env)) {
        return UCS_OK; /* it comes out of the call of Java that progresses */
    }
    operation = begin(env, object, buffer, &param);
    if (!(am_param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV)) {
        memcpy((*env)->GetDirectBufferAddress(env, buffer), data, length);
        complete(operation, UCS_OK, length);
        return UCS_OK;
    }
    param.op_attr_mask |= UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
    param.cb.recv_am = data_received;
    posted(operation, ucp_am_recv_data_nbx(arg, data, (*env)->GetDirectBufferAddress(env, buffer), length, &param));
    return UCS_INPROGRESS;
}

JNIEXPORT void JNICALL Java_Bindings_onMessage(JNIEnv *env, jclass class, jlong worker, jint id)
{
    ucp_am_handler_param_t param = {.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                                                  UCP_AM_HANDLER_PARAM_FIELD_ARG,
                                    .id = (unsigned)id, .cb = arrived, .arg = (void *)(uintptr_t)worker};

    (void)env, (void)class;
    check(ucp_worker_set_am_recv_handler((ucp_worker_h)(uintptr_t)worker, &param), "set_am_recv_handler");
}

JNIEXPORT void JNICALL Java_Bindings_messageSend(JNIEnv *env, jclass class, jlong ep, jint id, jbyteArray header,
                                                 jobject buffer, jobject object)
{
    ucp_request_param_t param;
    struct operation *operation = begin(env, object, buffer, &param);
    jbyte *top = (*env)->GetByteArrayElements(env, header, NULL);

    (void)class;
    param.op_attr_mask |= UCP_OP_ATTR_FIELD_FLAGS;
    param.flags = UCP_AM_SEND_FLAG_COPY_HEADER;
    posted(operation, ucp_am_send_nbx((ucp_ep_h)(uintptr_t)ep, (unsigned)id, top,
                                      (size_t)(*env)->GetArrayLength(env, header),
                                      (*env)->GetDirectBufferAddress(env, buffer),
                                      (size_t)(*env)->GetDirectBufferCapacity(env, buffer), &param));
    (*env)->ReleaseByteArrayElements(env, header, top, JNI_ABORT);
}

JNIEXPORT jlong JNICALL Java_Bindings_map(JNIEnv *env, jclass class, jlong context, jobject buffer)
{
    ucp_mem_map_params_t params = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH,
                                   .address = (*env)->GetDirectBufferAddress(env, buffer),
                                   .length = (size_t)(*env)->GetDirectBufferCapacity(env, buffer)};
    ucp_mem_h memory = NULL;

    (void)class;
    check(ucp_mem_map((ucp_context_h)(uintptr_t)context, &params, &memory), "mem_map");
    return (jlong)(uintptr_t)memory;
}

JNIEXPORT jbyteArray JNICALL Java_Bindings_key(JNIEnv *env, jclass class, jlong context, jlong memory)
{
    void *key = NULL;
    size_t length = 0;
    jbyteArray bytes;

    (void)class;
    check(ucp_rkey_pack((ucp_context_h)(uintptr_t)context, (ucp_mem_h)(uintptr_t)memory, &key, &length), "rkey_pack");
    bytes = (*env)->NewByteArray(env, (jsize)length);
    (*env)->SetByteArrayRegion(env, bytes, 0, (jsize)length, key);
    ucp_rkey_buffer_release(key);
    return bytes;
}

JNIEXPORT jlong JNICALL Java_Bindings_address(JNIEnv *env, jclass class, jobject buffer)
{
    (void)class;
    return (jlong)(uintptr_t)(*env)->GetDirectBufferAddress(env, buffer);
}

JNIEXPORT void JNICALL Java_Bindings_get(JNIEnv *env, jclass class, jlong ep, jbyteArray key, jlong address,
                                         jobject buffer, jobject object)
{
    ucp_request_param_t param;
    struct operation *operation = begin(env, object, buffer, &param);
    jbyte *bytes = (*env)->GetByteArrayElements(env, key, NULL);
    ucp_rkey_h rkey = NULL;

    (void)class;
    check(ucp_ep_rkey_unpack((ucp_ep_h)(uintptr_t)ep, bytes, &rkey), "rkey_unpack");
    (*env)->ReleaseByteArrayElements(env, key, bytes, JNI_ABORT);
    operation->rkey = rkey;
    posted(operation, ucp_get_nbx((ucp_ep_h)(uintptr_t)ep, (*env)->GetDirectBufferAddress(env, buffer),
                                  (size_t)(*env)->GetDirectBufferCapacity(env, buffer), (uint64_t)address, rkey,
                                  &param));
}

JNIEXPORT void JNICALL Java_Bindings_cancel(JNIEnv *env, jclass class, jlong worker, jobject object)
{
    struct operation *operation = under_way;

    (void)class;
    while (operation != NULL && !(*env)->IsSameObject(env, operation->object, object)) {
        operation = operation->next;
    }
    if (operation != NULL) {
        ucp_request_cancel((ucp_worker_h)(uintptr_t)worker, operation->request);
    }
}

JNIEXPORT void JNICALL Java_Bindings_end(JNIEnv *env, jclass class, jlong ep, jobject object)
{
    ucp_request_param_t param;
    struct operation *operation = begin(env, object, NULL, &param);

    (void)class;
    posted(operation, ucp_ep_close_nbx((ucp_ep_h)(uintptr_t)ep, &param));
}

JNIEXPORT void JNICALL Java_Bindings_close(JNIEnv *env, jclass class, jlong context, jlongArray workers,
                                           jlong listener, jlong memory)
{
    jlong *handles = (*env)->GetLongArrayElements(env, workers, NULL);

    (void)class;
    check(ucp_mem_unmap((ucp_context_h)(uintptr_t)context, (ucp_mem_h)(uintptr_t)memory), "mem_unmap");
    ucp_listener_destroy((ucp_listener_h)(uintptr_t)listener);
    for (jsize i = 0; i < (*env)->GetArrayLength(env, workers); i++) {
        ucp_worker_destroy((ucp_worker_h)(uintptr_t)handles[i]);
    }
    (*env)->ReleaseLongArrayElements(env, workers, handles, JNI_ABORT);
    ucp_cleanup((ucp_context_h)(uintptr_t)context);
}
