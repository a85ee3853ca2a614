// SPDX-License-Identifier: BSD-3-Clause

// A program that calls libucp from Go as bindings do: by cgo, with callbacks that are functions of Go, requests that
// carry the number of a channel, and workers that belong to a thread of the system each.
package main

/*
#cgo LDFLAGS: -lucp -lucs
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <ucp/api/ucp.h>

extern void goSent(void *request, ucs_status_t status, void *number);
extern void goReceived(void *request, ucs_status_t status, ucp_tag_recv_info_t *info, void *number);
extern void goStreamReceived(void *request, ucs_status_t status, size_t length, void *number);
extern ucs_status_t goArrived(void *number, void *header, size_t headerLength, void *data, size_t length,
                              ucp_am_recv_param_t *param);
extern void goCame(ucp_conn_request_h request, void *number);
extern void goBroke(void *number, ucp_ep_h ep, ucs_status_t status);

// Numbers that the other side gets back as pointers, and members of unions, which Go cannot name.
static void *asPointer(uintptr_t number) { return (void *)number; }
static int isError(ucs_status_ptr_t pointer) { return UCS_PTR_IS_ERR(pointer); }
static ucs_status_t asStatus(ucs_status_ptr_t pointer) { return UCS_PTR_RAW_STATUS(pointer); }
static void sendParam(ucp_request_param_t *param, uintptr_t number)
{
    param->op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
    param->cb.send      = (ucp_send_nbx_callback_t)goSent;
    param->user_data    = asPointer(number);
}
static void receiveParam(ucp_request_param_t *param, uintptr_t number)
{
    sendParam(param, number);
    param->op_attr_mask |= UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
    param->cb.recv       = (ucp_tag_recv_nbx_callback_t)goReceived;
}
static void streamParam(ucp_request_param_t *param, uintptr_t number)
{
    sendParam(param, number);
    param->op_attr_mask  |= UCP_OP_ATTR_FLAG_NO_IMM_CMPL | UCP_OP_ATTR_FIELD_FLAGS;
    param->flags          = UCP_STREAM_RECV_FLAG_WAITALL;
    param->cb.recv_stream = (ucp_stream_recv_nbx_callback_t)goStreamReceived;
}
static void dataParam(ucp_request_param_t *param, uintptr_t number)
{
    sendParam(param, number);
    param->op_attr_mask |= UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
    param->cb.recv_am    = (ucp_am_recv_data_nbx_callback_t)goStreamReceived;
}
static ucs_status_t setHandler(ucp_worker_h worker, unsigned id, uintptr_t number)
{
    ucp_am_handler_param_t param = {.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                                                  UCP_AM_HANDLER_PARAM_FIELD_ARG,
                                    .id = id, .cb = (ucp_am_recv_callback_t)goArrived, .arg = asPointer(number)};

    return ucp_worker_set_am_recv_handler(worker, &param);
}
static ucs_status_t listenOn(ucp_worker_h worker, uintptr_t number, ucp_listener_h *listener)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    ucp_listener_params_t params = {.field_mask = UCP_LISTENER_PARAM_FIELD_SOCK_ADDR |
                                                  UCP_LISTENER_PARAM_FIELD_CONN_HANDLER,
                                    .sockaddr = {(struct sockaddr *)&address, sizeof(address)},
                                    .conn_handler = {(ucp_listener_conn_callback_t)goCame, asPointer(number)}};

    return ucp_listener_create(worker, &params, listener);
}
static ucs_status_t connectTo(ucp_worker_h worker, ucp_listener_h listener, ucp_ep_h *ep)
{
    ucp_listener_attr_t attr = {.field_mask = UCP_LISTENER_ATTR_FIELD_SOCKADDR};
    ucs_status_t status      = ucp_listener_query(listener, &attr);
    ucp_ep_params_t params   = {.field_mask = UCP_EP_PARAM_FIELD_FLAGS | UCP_EP_PARAM_FIELD_SOCK_ADDR |
                                              UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER,
                                .flags = UCP_EP_PARAMS_FLAGS_CLIENT_SERVER,
                                .err_mode = UCP_ERR_HANDLING_MODE_PEER,
                                .err_handler = {(ucp_err_handler_cb_t)goBroke, NULL},
                                .sockaddr = {(struct sockaddr *)&attr.sockaddr, sizeof(struct sockaddr_in)}};

    return (status == UCS_OK) ? ucp_ep_create(worker, &params, ep) : status;
}
static ucs_status_t acceptFrom(ucp_worker_h worker, ucp_conn_request_h request, ucp_ep_h *ep)
{
    ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_CONN_REQUEST, .conn_request = request};

    return ucp_ep_create(worker, &params, ep);
}
static int sleepOn(int fd) { struct pollfd item = {fd, POLLIN, 0}; return poll(&item, 1, 1000); }
static const char *nameOfMemory(unsigned type) { return ucs_memory_type_names[type]; }
*/
import "C"

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"sync"
	"unsafe"
)

type result struct {
	status C.ucs_status_t
	length C.size_t
}

var (
	lock    sync.Mutex
	waiting = map[uintptr]chan result{}
	last    uintptr
	came    = make(chan C.ucp_conn_request_h, 4)
	arrived = make(chan []byte, 4)
	receive func(data unsafe.Pointer, length C.size_t)
)

func fail(format string, arguments ...interface{}) {
	fmt.Printf("FAILED: "+format+"\n", arguments...)
	os.Exit(1)
}

func check(status C.ucs_status_t, what string) {
	if status != C.UCS_OK {
		fail("%s: %s", what, C.GoString(C.ucs_status_string(status)))
	}
}

func expect() (C.uintptr_t, chan result) {
	lock.Lock()
	defer lock.Unlock()
	last++
	waiting[last] = make(chan result, 1)
	return C.uintptr_t(last), waiting[last]
}

func done(request unsafe.Pointer, number unsafe.Pointer, status C.ucs_status_t, length C.size_t) {
	lock.Lock()
	defer lock.Unlock()
	waiting[uintptr(number)] <- result{status, length}
	delete(waiting, uintptr(number))
	C.ucp_request_free(request)
}

//export goSent
func goSent(request unsafe.Pointer, status C.ucs_status_t, number unsafe.Pointer) {
	done(request, number, status, 0)
}

//export goReceived
func goReceived(request unsafe.Pointer, status C.ucs_status_t, info *C.ucp_tag_recv_info_t, number unsafe.Pointer) {
	done(request, number, status, info.length)
}

//export goStreamReceived
func goStreamReceived(request unsafe.Pointer, status C.ucs_status_t, length C.size_t, number unsafe.Pointer) {
	done(request, number, status, length)
}

//export goArrived
func goArrived(number unsafe.Pointer, header unsafe.Pointer, headerLength C.size_t, data unsafe.Pointer,
	length C.size_t, param *C.ucp_am_recv_param_t) C.ucs_status_t {
	arrived <- C.GoBytes(header, C.int(headerLength))
	if param.recv_attr&C.UCP_AM_RECV_ATTR_FLAG_RNDV != 0 {
		receive(data, length)
		return C.UCS_INPROGRESS
	}
	arrived <- C.GoBytes(data, C.int(length))
	return C.UCS_OK
}

//export goCame
func goCame(request C.ucp_conn_request_h, number unsafe.Pointer) { came <- request }

//export goBroke
func goBroke(number unsafe.Pointer, ep C.ucp_ep_h, status C.ucs_status_t) {}

type side struct {
	worker C.ucp_worker_h
	other  *side
}

// progress moves both sides, as both belong to this thread.
func (s *side) progress() {
	C.ucp_worker_progress(s.worker)
	if s.other != nil {
		C.ucp_worker_progress(s.other.worker)
	}
}

func (s *side) wait(pointer C.ucs_status_ptr_t, answer chan result, what string) C.size_t {
	if pointer == nil {
		return 0
	}
	if C.isError(pointer) != 0 {
		check(C.asStatus(pointer), what)
	}
	for {
		select {
		case got := <-answer:
			check(got.status, what)
			return got.length
		default:
			s.progress()
		}
	}
}

func pattern(length int) []byte {
	data := make([]byte, length)
	for i := range data {
		data[i] = byte(i * 13)
	}
	return data
}

// memory of C, since Go's may move while the library uses it
func outside(data []byte) unsafe.Pointer { return C.CBytes(data) }

func (s *side) send(ep C.ucp_ep_h, data []byte,
	post func(memory unsafe.Pointer, param *C.ucp_request_param_t) C.ucs_status_ptr_t, what string) {
	var param C.ucp_request_param_t
	memory := outside(data)
	number, answer := expect()
	C.sendParam(&param, number)
	s.wait(post(memory, &param), answer, what)
	C.free(memory)
}

func tags(s *side, ep C.ucp_ep_h, receiver *side) {
	for _, length := range []int{0, 8, 5000, 2000000} {
		var param C.ucp_request_param_t
		room := C.malloc(C.size_t(length + 1))
		number, answer := expect()
		C.receiveParam(&param, number)
		pending := C.ucp_tag_recv_nbx(receiver.worker, room, C.size_t(length), 5, 0xff, &param)
		data := pattern(length)
		s.send(ep, data, func(memory unsafe.Pointer, param *C.ucp_request_param_t) C.ucs_status_ptr_t {
			return C.ucp_tag_send_nbx(ep, memory, C.size_t(length), 5, param)
		}, "send of a tag message")
		if got := s.wait(pending, answer, "receive of a tag message"); int(got) != length {
			fail("a tag message of %d bytes came as %d", length, got)
		}
		if !bytes.Equal(C.GoBytes(room, C.int(length)), data) {
			fail("a tag message of %d bytes came with other contents", length)
		}
		C.free(room)
	}
}

func messages(s *side, ep C.ucp_ep_h, receiver *side) {
	check(C.setHandler(receiver.worker, 9, 1), "set_am_recv_handler")
	for _, length := range []int{100, 3000000} {
		data, header := pattern(length), []byte("a header")
		receive = func(description unsafe.Pointer, length C.size_t) {
			var param C.ucp_request_param_t
			room := C.malloc(length)
			number, answer := expect()
			C.dataParam(&param, number)
			pending := C.ucp_am_recv_data_nbx(receiver.worker, description, room, length, &param)
			go func() {
				if C.isError(pending) == 0 {
					<-answer
				}
				arrived <- C.GoBytes(room, C.int(length))
				C.free(room)
			}()
		}
		top := outside(header)
		s.send(ep, data, func(memory unsafe.Pointer, param *C.ucp_request_param_t) C.ucs_status_ptr_t {
			return C.ucp_am_send_nbx(ep, 9, top, C.size_t(len(header)), memory, C.size_t(length), param)
		}, "send of an active message")
		C.free(top)
		for _, expected := range [][]byte{header, data} {
			for got := false; !got; {
				select {
				case came := <-arrived:
					got = true
					if !bytes.Equal(came, expected) {
						fail("an active message of %d bytes came with other contents", length)
					}
				default:
					s.progress()
				}
			}
		}
	}
}

func streams(s *side, ep C.ucp_ep_h, receiver *side, back C.ucp_ep_h) {
	var param C.ucp_request_param_t
	var length C.size_t
	data := pattern(50000)
	room := C.malloc(C.size_t(len(data)))
	number, answer := expect()
	C.streamParam(&param, number)
	pending := C.ucp_stream_recv_nbx(back, room, C.size_t(len(data)), &length, &param)
	s.send(ep, data, func(memory unsafe.Pointer, param *C.ucp_request_param_t) C.ucs_status_ptr_t {
		return C.ucp_stream_send_nbx(ep, memory, C.size_t(len(data)), param)
	}, "send of a stream")
	s.wait(pending, answer, "receive of a stream")
	if !bytes.Equal(C.GoBytes(room, C.int(len(data))), data) {
		fail("a stream came with other contents")
	}
	C.free(room)
}

func remoteMemory(s *side, ep C.ucp_ep_h, context C.ucp_context_h) {
	var memory C.ucp_mem_h
	var attr C.ucp_mem_attr_t
	var key unsafe.Pointer
	var length C.size_t
	var remote C.ucp_rkey_h
	params := C.ucp_mem_map_params_t{field_mask: C.UCP_MEM_MAP_PARAM_FIELD_LENGTH | C.UCP_MEM_MAP_PARAM_FIELD_FLAGS,
		length: 100000, flags: C.UCP_MEM_MAP_ALLOCATE}
	check(C.ucp_mem_map(context, &params, &memory), "mem_map")
	attr.field_mask = C.UCP_MEM_ATTR_FIELD_ADDRESS | C.UCP_MEM_ATTR_FIELD_MEM_TYPE
	check(C.ucp_mem_query(memory, &attr), "mem_query")
	if name := C.GoString(C.nameOfMemory(C.uint(attr.mem_type))); name != "host" {
		fail("the memory is of type %s", name)
	}
	check(C.ucp_rkey_pack(context, memory, &key, &length), "rkey_pack")
	check(C.ucp_ep_rkey_unpack(ep, key, &remote), "rkey_unpack")
	C.ucp_rkey_buffer_release(key)
	data, address := pattern(100000), C.uint64_t(uintptr(attr.address))
	s.send(ep, data, func(from unsafe.Pointer, param *C.ucp_request_param_t) C.ucs_status_ptr_t {
		return C.ucp_put_nbx(ep, from, C.size_t(len(data)), address, remote, param)
	}, "put")
	s.send(ep, nil, func(_ unsafe.Pointer, param *C.ucp_request_param_t) C.ucs_status_ptr_t {
		return C.ucp_ep_flush_nbx(ep, param)
	}, "flush")
	if !bytes.Equal(C.GoBytes(attr.address, C.int(len(data))), data) {
		fail("a put wrote other contents")
	}
	C.ucp_rkey_destroy(remote)
	check(C.ucp_mem_unmap(context, memory), "mem_unmap")
}

func newWorker(context C.ucp_context_h) *side {
	var s side
	params := C.ucp_worker_params_t{field_mask: C.UCP_WORKER_PARAM_FIELD_THREAD_MODE, thread_mode: C.UCS_THREAD_MODE_SINGLE}
	check(C.ucp_worker_create(context, &params, &s.worker), "worker_create")
	return &s
}

func (s *side) sleep() {
	var fd C.int
	check(C.ucp_worker_get_efd(s.worker, &fd), "get_efd")
	for C.ucp_worker_arm(s.worker) == C.UCS_ERR_BUSY {
		C.ucp_worker_progress(s.worker)
	}
	check(C.ucp_worker_signal(s.worker), "signal")
	if C.sleepOn(fd) != 1 {
		fail("a signal does not wake")
	}
}

func main() {
	var config *C.ucp_config_t
	var context C.ucp_context_h
	var listener C.ucp_listener_h
	var ep, back C.ucp_ep_h
	runtime.LockOSThread()
	check(C.ucp_config_read(nil, nil, &config), "config_read")
	params := C.ucp_params_t{field_mask: C.UCP_PARAM_FIELD_FEATURES, features: C.UCP_FEATURE_TAG | C.UCP_FEATURE_AM |
		C.UCP_FEATURE_STREAM | C.UCP_FEATURE_RMA | C.UCP_FEATURE_WAKEUP}
	check(C.ucp_init(&params, config, &context), "init")
	C.ucp_config_release(config)
	client, server := newWorker(context), newWorker(context)
	client.other = server
	check(C.listenOn(server.worker, 1, &listener), "listener_create")
	check(C.connectTo(client.worker, listener, &ep), "ep_create")
	for back == nil {
		select {
		case request := <-came:
			check(C.acceptFrom(server.worker, request, &back), "accept")
		default:
			client.progress()
		}
	}
	tags(client, ep, server)
	messages(client, ep, server)
	streams(client, ep, server, back)
	remoteMemory(client, ep, context)
	for _, end := range []C.ucp_ep_h{ep, back} {
		end := end
		client.send(end, nil, func(_ unsafe.Pointer, param *C.ucp_request_param_t) C.ucs_status_ptr_t {
			return C.ucp_ep_close_nbx(end, param)
		}, "close")
	}
	client.sleep()
	C.ucp_listener_destroy(listener)
	C.ucp_worker_destroy(client.worker)
	C.ucp_worker_destroy(server.worker)
	C.ucp_cleanup(context)
	fmt.Println("bindings from Go: passed")
}
