/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Doorbells of cold connections (shm_idle.c) in a page that the receiver polls, instead of bytes on their sockets. The
 * receiver creates the page when the first of its connections becomes cold, and passes it to each peer with the number
 * of the peer's doorbell. A worker that may sleep creates none: the sockets wake it.
 *
 * A peer sets its doorbell, then that of the group, then that of the page. The receiver clears them in the reverse
 * order, each before it reads the next, so no packet is missed. All peers can write to the whole page. A peer that sets
 * other doorbells costs the receiver a few polls; one that clears them delays packets until the receiver sweeps all
 * rings.
 */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "os/segment.h"
#include "os/unix_socket.h"
#include "transport/shm/shm.h"

#define GROUP  ((uint32_t)CW_CACHE_LINE)
#define GROUPS 61u

struct shm_arrivals {
    _Alignas(CW_CACHE_LINE) uint32_t page;
    _Alignas(CW_CACHE_LINE) uint8_t groups[GROUPS];
    _Alignas(CW_CACHE_LINE) uint32_t reserved;
    _Alignas(CW_CACHE_LINE) uint8_t bells[GROUPS * GROUP];
};

_Static_assert(sizeof(struct shm_arrivals) == SHM_PAGE, "layout shared with the peer");

/* The message that passes the page, identified by its length. */
struct offer {
    uint32_t bell;
};

static bool make_page(struct shm_iface *iface)
{
    void *page;

    if (iface->arrivals == NULL && cw_segment_create(SHM_PAGE, SHM_PAGE, &iface->arrivals_fd, &page) == UCS_OK) {
        iface->arrivals = page;
    }
    return iface->arrivals != NULL;
}

/* Returns a free doorbell; 0: none. */
static uint32_t find_bell(struct shm_iface *iface)
{
    struct shm_conn **belled;
    uint32_t bell, max;

    for (bell = 1; bell < iface->num_bells && iface->belled[bell] != NULL; bell++) {
    }
    if (bell >= GROUPS * GROUP) {
        return 0;
    }
    if (bell >= iface->num_bells) {
        max = (iface->num_bells == 0) ? GROUP : iface->num_bells * 2;
        belled = realloc(iface->belled, max * sizeof(struct shm_conn *));
        if (belled == NULL) {
            return 0;
        }
        memset(belled + iface->num_bells, 0, (max - iface->num_bells) * sizeof(struct shm_conn *));
        iface->belled = belled;
        iface->num_bells = max;
    }
    return bell;
}

void cw_shm_bell_offer(struct shm_conn *conn)
{
    struct shm_iface *iface = shm_iface_of(&conn->super);
    struct offer offer;

    if (conn->bell != 0 || conn->bell_refused) {
        return;
    }
    offer.bell = make_page(iface) ? find_bell(iface) : 0;
    conn->bell_refused = offer.bell == 0 ||
                         cw_unix_send(conn->item.fd, &offer, sizeof(offer), iface->arrivals_fd) != UCS_OK;
    if (!conn->bell_refused) {
        conn->bell = offer.bell;
        iface->belled[offer.bell] = conn;
    }
}

bool cw_shm_bell_take(struct shm_conn *conn, const void *message, size_t length, int fd)
{
    struct offer offer;
    void *page;

    if (length != sizeof(offer) || fd < 0) {
        return false;
    }
    memcpy(&offer, message, sizeof(offer));
    if (conn->peer_arrivals == NULL && offer.bell > 0 && offer.bell < GROUPS * GROUP &&
        cw_segment_attach(fd, SHM_PAGE, SHM_PAGE, &page) == UCS_OK) {
        conn->peer_arrivals = page;
        conn->peer_bell = offer.bell;
    }
    return true;
}

bool cw_shm_bell_set(const struct shm_conn *conn)
{
    struct shm_arrivals *arrivals = conn->peer_arrivals;

    if (arrivals == NULL) {
        return false;
    }
    __atomic_store_n(&arrivals->bells[conn->peer_bell], 1, __ATOMIC_RELEASE);
    __atomic_store_n(&arrivals->groups[conn->peer_bell / GROUP], 1, __ATOMIC_RELEASE);
    __atomic_store_n(&arrivals->page, 1, __ATOMIC_RELEASE);
    return true;
}

bool cw_shm_bell_rang(const struct shm_iface *iface)
{
    return __atomic_load_n(&iface->arrivals->page, __ATOMIC_RELAXED) != 0;
}

static void answer_group(struct shm_iface *iface, uint32_t group)
{
    uint8_t *bells = iface->arrivals->bells;
    uint32_t bell;

    for (bell = group * GROUP; bell < (group + 1) * GROUP && bell < iface->num_bells; bell++) {
        if (__atomic_load_n(&bells[bell], __ATOMIC_RELAXED) != 0) {
            (void)__atomic_exchange_n(&bells[bell], 0, __ATOMIC_ACQ_REL);
            if (iface->belled[bell] != NULL) {
                cw_shm_warm(iface->belled[bell]);
            }
        }
    }
}

CW_COLD void cw_shm_bell_answer(struct shm_iface *iface)
{
    uint8_t *groups = iface->arrivals->groups;
    uint32_t group;

    (void)__atomic_exchange_n(&iface->arrivals->page, 0, __ATOMIC_ACQ_REL);
    for (group = 0; group < GROUPS; group++) {
        if (__atomic_load_n(&groups[group], __ATOMIC_RELAXED) != 0) {
            (void)__atomic_exchange_n(&groups[group], 0, __ATOMIC_ACQ_REL);
            answer_group(iface, group);
        }
    }
}

void cw_shm_bell_end(struct shm_conn *conn)
{
    struct shm_iface *iface = shm_iface_of(&conn->super);

    if (conn->bell != 0) {
        iface->belled[conn->bell] = NULL;
        conn->bell = 0;
    }
    if (conn->peer_arrivals != NULL) {
        cw_segment_unmap(conn->peer_arrivals, SHM_PAGE);
        conn->peer_arrivals = NULL;
    }
}

void cw_shm_arrivals_end(struct shm_iface *iface)
{
    if (iface->arrivals != NULL) {
        cw_segment_unmap(iface->arrivals, SHM_PAGE);
        cw_fd_close(iface->arrivals_fd);
    }
    free(iface->belled);
}
