/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Accesses of one request over several lanes (core/lanes.h): each lane's device needs its own registration of the local
 * memory and its own key of the peer's. Each access goes to the lane that, by bandwidth, would finish its share first.
 * Without stripes all accesses use the message lane. A closed lane accepts no further access; its accesses in flight
 * end with an error, and so does the whole request.
 */
#ifndef CW_ACCESS_STRIPES_H
#define CW_ACCESS_STRIPES_H

#include "access/access.h"
#include "core/ep.h"
#include "msg/datatype.h"

struct cw_stripe {
    struct cw_completion completion; /* of its accesses */
    struct cw_access *access;
    struct cw_mem_use use;      /* zero if another use of the request has the domain's registration */
    const struct cw_memh *memh; /* the local memory in the domain of the lane */
    struct cw_remote_key key;
    uint64_t taken; /* bytes of the accesses that the lane accepted */
    uint16_t generation;
    uint8_t failed; /* one of its accesses ended with an error and may still be carried out */
    uint8_t lane;   /* the number of the further lane; 0: no key for it */
};

struct cw_stripes {
    unsigned count;
    struct cw_stripe stripe[CW_KEY_MEMORY_PARTS];
};

/* Writes the key for the device of the lane. 0: none. */
typedef int (*cw_stripes_find)(const void *arg, const struct cw_conn *lane, struct cw_remote_key *key);

/* Registers the memory for up to `rails` further lanes whose devices access memory. access->stripes is NULL if there
 * are fewer than two. */
void cw_stripes_begin(struct cw_access *access, const struct cw_mem_part *part, unsigned rights, unsigned rails);
/* Excludes the lanes for which `find` has no key. */
void cw_stripes_keys(struct cw_access *access, cw_stripes_find find, const void *arg);
/* For a put or a get by key: opens further lanes if it is long enough, and stripes it over those that are open. */
void cw_stripes_for_key(struct cw_access *access, const struct ucp_rkey *rkey, const struct cw_mem_part *part,
                        unsigned rights, size_t max);
/* After a request with stripes has ended with an error: makes sure that no device of a failed lane still carries out an
 * access of it. CW_BLOCKED: the peer has not closed that lane yet. UCS_OK: the request may start over, on the message
 * lane. */
ucs_status_t cw_stripes_give_up(struct cw_access *access);
/* Begins one access: writes the next bytes of the cursor, whose first byte belongs at the address `to`, or reads
 * *length_p of the `left` bytes. UCS_OK: a lane accepted the access. CW_AGAIN: the message lane has no tx space;
 * CW_BLOCKED: the best of several lanes has none; UCS_ERR_CONNECTION_RESET: none of them is open any more;
 * UCS_ERR_UNSUPPORTED: the device does not reach the memory. */
ucs_status_t cw_stripes_put(struct cw_access *access, struct cw_dt_cursor *cursor, uint64_t to);
ucs_status_t cw_stripes_get(struct cw_access *access, char *memory, uint64_t from, size_t left, size_t *length_p);
/* Writes what peers need to access the local memory by any of the lanes, as parts of a key. Returns their length. */
size_t cw_stripes_parts(const struct cw_access *access, uint8_t parts[CW_KEY_PARTS_MAX]);
/* Ends an attempt whose last access returned `status`: as cw_access_begun, or the status. With stripes an error makes
 * `repeat` the next attempt, once no access is in flight. */
ucs_status_t cw_stripes_begun(struct cw_access *access, ucs_status_t status,
                              ucs_status_t (*repeat)(struct cw_request *request));
/* No access may be in flight. NULL is allowed and does nothing. */
void cw_stripes_free(struct cw_stripes *stripes);

#endif
