/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Set-up of the worker's lock of os/lock.h.
 */
#include "os/lock.h"

ucs_status_t cw_lock_init(struct cw_lock *lock)
{
    pthread_mutexattr_t attr;
    int ret;

    lock->waiters = 0;
    if (pthread_mutexattr_init(&attr) != 0) {
        return UCS_ERR_NO_MEMORY;
    }
    pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_RECURSIVE);
    ret = pthread_mutex_init(&lock->mutex, &attr);
    pthread_mutexattr_destroy(&attr);
    return (ret == 0) ? UCS_OK : UCS_ERR_NO_MEMORY;
}

void cw_lock_cleanup(struct cw_lock *lock)
{
    pthread_mutex_destroy(&lock->mutex);
}
