/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Why a message takes its path: the pair of workers in question, and the parts of the answer. Every decision that is
 * printed was made by the library's own functions for this pair; nothing here decides.
 *
 * Callers: why.c and the other files of --why.
 */
#ifndef CW_INFO_WHY_H
#define CW_INFO_WHY_H

#include "connect/path.h"
#include "side.h"

struct cw_why {
    const struct cw_info_options *options;
    struct cw_info_side side;
    struct cw_info_side peer;       /* context NULL: the side itself, or a file */
    ucp_address_t *blob;            /* of the peer */
    struct cw_address address;      /* decoded */
    const struct cw_iface *chosen;  /* NULL: none reaches the peer */
    ucp_ep_h ep;                    /* connected; NULL: only the peer's address is known */
};

/* Each prints its part, comment lines only. */
void cw_why_transports(const struct cw_why *why);
void cw_why_message(const struct cw_why *why);
void cw_why_memory(const struct cw_why *why);

/* "UCX_TLS=tcp (environment)" */
#define CW_WHY_SETTING_MAX 256
const char *cw_why_setting(const struct cw_why *why, enum cw_setting_id id, char text[CW_WHY_SETTING_MAX]);

/* address_file.c. Reads a worker address, any bytes; NULL: a sentence is on stderr. To be freed. */
ucp_address_t *cw_address_file_read(const char *path, struct cw_address *address);

#endif
