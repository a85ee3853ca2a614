/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The formats of wire/cm.h.
 */
#include "wire/cm.h"

#include <endian.h>
#include <string.h>

#define VERSION 1

struct client {
    char magic[4];
    uint16_t version;
    uint8_t err_mode;
    uint8_t zero;
    uint64_t number;
    uint64_t client_id;
};

struct server {
    char magic[4];
    uint8_t answer;
    uint8_t zero[3];
};

_Static_assert(sizeof(struct client) == CW_CM_REQUEST_LENGTH, "size on the wire");
_Static_assert(sizeof(struct server) == CW_CM_REPLY_HEADER, "size on the wire");

static const char client_magic[4] = {'C', 'W', 'M', '1'}, server_magic[4] = {'C', 'W', 'N', '1'};

void cw_cm_request_encode(const struct cw_cm_request *asked, uint8_t bytes[CW_CM_REQUEST_LENGTH])
{
    struct client client = {.version = htole16(VERSION),
                          .err_mode = asked->err_mode,
                          .number = htole64(asked->number),
                          .client_id = htole64(asked->client_id)};

    memcpy(client.magic, client_magic, sizeof(client_magic));
    memcpy(bytes, &client, sizeof(client));
}

ucs_status_t cw_cm_request_decode(const void *bytes, size_t length, struct cw_cm_request *asked)
{
    struct client client;

    if (length != sizeof(client)) {
        return UCS_ERR_INVALID_PARAM;
    }
    memcpy(&client, bytes, sizeof(client));
    if (memcmp(client.magic, client_magic, sizeof(client_magic)) != 0 || le16toh(client.version) != VERSION ||
        client.zero != 0) {
        return UCS_ERR_INVALID_PARAM;
    }
    *asked = (struct cw_cm_request){
        .number = le64toh(client.number), .client_id = le64toh(client.client_id), .err_mode = client.err_mode};
    return UCS_OK;
}

size_t cw_cm_reply_encode(enum cw_cm_verdict answer, const void *address, size_t address_length, uint8_t *bytes,
                          size_t max)
{
    struct server server = {.answer = (uint8_t)answer};

    memcpy(server.magic, server_magic, sizeof(server_magic));
    memcpy(bytes, &server, sizeof(server));
    if (address_length == 0 || address_length > max - sizeof(server)) {
        return sizeof(server);
    }
    memcpy(bytes + sizeof(server), address, address_length);
    return sizeof(server) + address_length;
}

/* The blob contains its own length, at CW_ADDRESS_AT_LENGTH; no more than `length` may be read. */
static ucs_status_t decode_address(const uint8_t *blob, size_t length, struct cw_address *address)
{
    uint16_t wire_length;

    if (length < CW_ADDRESS_HEADER) {
        return UCS_ERR_INVALID_PARAM;
    }
    memcpy(&wire_length, blob + CW_ADDRESS_AT_LENGTH, sizeof(wire_length));
    return (le16toh(wire_length) == length) ? cw_address_decode(blob, address) : UCS_ERR_INVALID_PARAM;
}

ucs_status_t cw_cm_reply_decode(const void *bytes, size_t length, enum cw_cm_verdict *answer,
                                struct cw_address *address)
{
    struct server server;

    if (length < sizeof(server)) {
        return UCS_ERR_INVALID_PARAM;
    }
    memcpy(&server, bytes, sizeof(server));
    if (memcmp(server.magic, server_magic, sizeof(server_magic)) != 0 || server.answer >= CW_CM_VERDICTS ||
        server.zero[0] != 0 || server.zero[1] != 0 || server.zero[2] != 0) {
        return UCS_ERR_INVALID_PARAM;
    }
    *answer = (enum cw_cm_verdict)server.answer;
    *address = (struct cw_address){.length = 0};
    length -= sizeof(server);
    return (length == 0) ? UCS_OK : decode_address((const uint8_t *)bytes + sizeof(server), length, address);
}
