/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sender side of a rendezvous (msg/send.h shows the phases): the announcement, and the protocols that move the bytes
 * after the receiver's answer.
 */
#ifndef CW_RNDV_SEND_H
#define CW_RNDV_SEND_H

#include "msg/send.h"

ucs_status_t cw_send_announce(struct cw_request *request);
ucs_status_t cw_send_data(struct cw_request *request);
/* The receiver has answered the announcement: moves the request from its list to the endpoint's queue, to send from its
 * first byte on by `attempt`. */
void cw_send_from_start(struct cw_request *request, enum cw_send_phase phase,
                        ucs_status_t (*attempt)(struct cw_request *request));
/* Callback of a staging alarm (rndv/staging.h): moves the request from its list to the endpoint's queue. */
void cw_send_go_on(void *request);
/* As cw_send_from_start, for a receiver whose device may copy. `names`: the receiver accepts a name of the memory
 * (rndv/ipc.h). */
void cw_send_by_devices(struct cw_request *request, int names);
struct cw_wire_rts cw_send_rts(const struct cw_send *send);
ucs_status_t cw_send_on_ready(struct ucp_ep *ep, const void *data, size_t length);
ucs_status_t cw_send_on_done(struct ucp_ep *ep, const void *data, size_t length);

/* send_device.c. cw_send_device_name registers the memory of a message before its announcement, if the receiver's
 * device is to read it, and encodes its name; returns the length of the name, at most `space`, or 0: no device reads
 * it. cw_send_device_write: the receiver asks the sender's device to write. cw_send_device_end: the device has
 * finished. */
size_t cw_send_device_name(struct cw_request *request, size_t space, uint8_t bytes[CW_KEY_MEMORY_MAX]);
ucs_status_t cw_send_device_write(struct cw_request *request, const struct cw_wire_rndv_ready *ready,
                                  const void *parts, size_t length);
void cw_send_device_end(struct cw_send *send);

#endif
