/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What libucs and libucm promise: texts of statuses (LIB-7), names of kinds, small helpers, memory events (R28, NB-40
 * to NB-44), and what the headers of libucs compute: status pointers, sets of processors.
 */

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <ucm/api/ucm.h>
#include <ucs/config/types.h>
#include <ucs/debug/debug.h>
#include <ucs/debug/memtrack.h>
#include <ucs/memory/memory_type.h>
#include <ucs/memory/memtype_cache.h>
#include <ucs/sys/sock.h>
#include <ucs/sys/string.h>
#include <ucs/sys/uid.h>
#include <ucs/type/cpu_set.h>
#include <ucs/type/status.h>
#include <ucs/type/thread_mode.h>

#include "runner.h"

static const char *program;

TEST(test_status_texts)
{
    assert_string_equal(ucs_status_string(UCS_OK), "Success");
    assert_string_equal(ucs_status_string(UCS_INPROGRESS), "Operation in progress");
    assert_string_equal(ucs_status_string(UCS_ERR_NO_ELEM), "No such element");
    assert_string_equal(ucs_status_string(UCS_ERR_CANCELED), "Request canceled");
    assert_string_equal(ucs_status_string(UCS_ERR_CONNECTION_RESET), "Connection reset by remote peer");
    assert_string_equal(ucs_status_string(UCS_ERR_ENDPOINT_TIMEOUT), "Endpoint timeout");
}

/* Every value that a status can have gets a text, no two named ones the same. */
TEST(test_every_status_has_a_text)
{
    char seen[256][64];
    int value, other;

    for (value = -128; value <= 127; ++value) {
        snprintf(seen[value + 128], sizeof(seen[0]), "%s", ucs_status_string((ucs_status_t)value));
        for (other = -128; other < value; ++other) {
            assert_string_not_equal(seen[value + 128], seen[other + 128]);
        }
    }
    assert_string_equal(seen[128 - 26], "Unknown error -26");
    assert_string_equal(seen[128 + 2], "Unknown error 2");
}

static void *ask_unknown(void *argument)
{
    (void)argument;
    return (void *)(uintptr_t)ucs_status_string((ucs_status_t)77);
}

TEST(test_unknown_text_is_not_rewritten_by_others)
{
    const char *mine = ucs_status_string((ucs_status_t)78);
    pthread_t thread;

    assert_int_equal(pthread_create(&thread, NULL, ask_unknown, NULL), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_string_equal(mine, "Unknown error 78");
}

TEST(test_names)
{
    ucs_memory_type_t type;

    assert_string_equal(ucs_thread_mode_names[UCS_THREAD_MODE_SINGLE], "single"); /* NB-25 */
    assert_string_equal(ucs_thread_mode_names[UCS_THREAD_MODE_SERIALIZED], "serialized");
    assert_string_equal(ucs_thread_mode_names[UCS_THREAD_MODE_MULTI], "multi");
    assert_string_equal(ucs_memory_type_names[UCS_MEMORY_TYPE_HOST], "host");
    assert_string_equal(ucs_memory_type_names[UCS_MEMORY_TYPE_UNKNOWN], "unknown");
    assert_null(ucs_memory_type_names[UCS_MEMORY_TYPE_LAST + 1]);
    assert_string_equal(ucs_async_mode_names[UCS_ASYNC_MODE_POLL], "poll");
    assert_null(ucs_async_mode_names[UCS_ASYNC_MODE_LAST]);
    ucs_memory_type_for_each(type)
    {
        assert_true(strlen(ucs_memory_type_descs[type]) > 0);
    }
}

static int calls;

static ucs_status_ptr_t answer(ucs_status_ptr_t value)
{
    ++calls;
    return value;
}

TEST(test_status_pointer_is_evaluated_once)
{
    calls = 0;
    assert_int_equal(UCS_PTR_STATUS(answer(NULL)), UCS_OK);
    assert_int_equal(UCS_PTR_STATUS(answer(&calls)), UCS_INPROGRESS);
    assert_int_equal(UCS_PTR_STATUS(answer(UCS_STATUS_PTR(UCS_ERR_BUSY))), UCS_ERR_BUSY);
    assert_int_equal(calls, 3);
}

TEST(test_cpu_set_borders)
{
    ucs_cpu_set_t set;

    UCS_CPU_ZERO(&set);
    UCS_CPU_SET(UCS_CPU_SETSIZE, &set);
    UCS_CPU_SET(-1, &set);
    assert_int_equal(ucs_cpu_set_find_lcs(&set), 0);
    assert_false(ucs_cpu_is_set(-1, &set));
    UCS_CPU_SET(UCS_CPU_SETSIZE - 1, &set);
    assert_true(ucs_cpu_is_set(UCS_CPU_SETSIZE - 1, &set));
    assert_int_equal(ucs_cpu_set_find_lcs(&set), UCS_CPU_SETSIZE - 1);
    UCS_CPU_CLR(UCS_CPU_SETSIZE - 1, &set);
    assert_false(ucs_cpu_is_set(UCS_CPU_SETSIZE - 1, &set));
}

/* The texts, cut short ones too, are those of the reference library, by calling it. */
TEST(test_address_as_text)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(1234)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(80)};
    struct sockaddr other = {.sa_family = AF_UNIX};
    char text[64], tiny[10];

    assert_int_equal(inet_pton(AF_INET, "10.1.2.3", &v4.sin_addr), 1);
    assert_int_equal(inet_pton(AF_INET6, "fe80::1", &v6.sin6_addr), 1);
    assert_ptr_equal(ucs_sockaddr_str((struct sockaddr *)&v4, text, sizeof(text)), text);
    assert_string_equal(text, "10.1.2.3:1234");
    assert_string_equal(ucs_sockaddr_str((struct sockaddr *)&v6, text, sizeof(text)), "fe80::1:80");
    assert_string_equal(ucs_sockaddr_str(NULL, text, sizeof(text)), "<null>");
    assert_string_equal(ucs_sockaddr_str(&other, text, sizeof(text)), "<invalid address family>");
    assert_string_equal(ucs_sockaddr_str((struct sockaddr *)&v4, tiny, sizeof(tiny)), "10.1.2.3:");
    ucs_memtrack_allocated(text, sizeof(text), "a test's"); /* asks for nothing */
    ucs_memtrack_releasing(text);
}

/* UCC's and goucx' look-ups, JUCX' memory, libfabric's question about kinds of memory. */
TEST(test_helpers) /* NB-15, NB-17 .. NB-19, NB-26, NB-30 .. NB-32 */
{
    const char *list[] = {"a", "bC", NULL};
    unsigned char info[32], untouched[32];
    char *memory = ucs_malloc(100, "a test's");

    assert_int_equal(ucs_string_find_in_list("a", list, 1), 0);
    assert_int_equal(ucs_string_find_in_list("BC", list, 0), 1);
    assert_int_equal(ucs_string_find_in_list("BC", list, 1), -1);
    assert_int_equal(ucs_string_find_in_list("cuda", ucs_memory_type_names, 0), UCS_MEMORY_TYPE_CUDA);
    assert_non_null(memory);
    memset(memory, 1, 100);
    ucs_free(memory);
    ucs_free(NULL);
    assert_true(ucs_get_system_id() != 0);
    assert_true(ucs_get_system_id() == ucs_get_system_id());
    ucs_debug_disable_signals();
    ucs_debug_disable_signals();
    ucs_debug_disable_signal(11);
    memset(info, 0x5a, sizeof(info));
    memset(untouched, 0x5a, sizeof(untouched));
    assert_int_equal(ucs_memtype_cache_lookup(NULL, 0, NULL), UCS_ERR_NO_ELEM);
    assert_int_equal(ucs_memtype_cache_lookup(list, sizeof(list), (ucs_memory_info_t *)(void *)info), UCS_ERR_NO_ELEM);
    assert_memory_equal(info, untouched, sizeof(info));
    ucs_memtype_cache_update(list, sizeof(list), UCS_MEMORY_TYPE_HOST, UCS_SYS_DEVICE_ID_UNKNOWN);
    assert_int_equal(sizeof(ucs_memory_info_t), 24);
    assert_int_equal(offsetof(ucs_memory_info_t, alloc_length), 16);
}

/* A process that was started anew prints the same number (NB-19). */
TEST(test_system_id_is_of_the_host)
{
    unsigned long long theirs = 0;
    char command[600];
    FILE *pipe;

    snprintf(command, sizeof(command), "exec '%s' system-id", program);
    pipe = popen(command, "r");
    assert_non_null(pipe);
    assert_int_equal(fscanf(pipe, "%llx", &theirs), 1);
    pclose(pipe);
    assert_true(theirs == (unsigned long long)ucs_get_system_id());
}

/* As Open MPI's memory hooks do: announce, ask, report; the memory is not touched by the report. NB-41. */
TEST(test_memory_events)
{
    const size_t length = 65536;
    void *memory = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    assert_ptr_not_equal(memory, MAP_FAILED);
    ucm_set_external_event(UCM_EVENT_VM_UNMAPPED);
    assert_int_equal(ucm_test_events(UCM_EVENT_VM_UNMAPPED), UCS_OK);
    assert_int_equal(ucm_test_external_events(UCM_EVENT_VM_UNMAPPED), UCS_OK);
    memset(memory, 1, length);
    ucm_vm_munmap(memory, length);
    assert_int_equal(((char *)memory)[length - 1], 1);
    assert_int_equal(munmap(memory, length), 0);
    ucm_vm_mmap(memory, length); /* NB-43 */
    ucm_unset_external_event(UCM_EVENT_VM_UNMAPPED);
    assert_int_equal(ucm_set_event_handler(UCM_EVENT_VM_UNMAPPED, 0, NULL, NULL), UCS_ERR_UNSUPPORTED);
}

TEST(test_event_bits) /* NB-44 */
{
    static const int in_order[] = {UCM_EVENT_MMAP,  UCM_EVENT_MUNMAP, UCM_EVENT_MREMAP,  UCM_EVENT_SHMAT,
                                   UCM_EVENT_SHMDT, UCM_EVENT_SBRK,   UCM_EVENT_MADVISE, UCM_EVENT_BRK};
    int i;

    for (i = 0; i < 8; i++) {
        assert_int_equal(in_order[i], 1 << i);
    }
    assert_int_equal(UCM_EVENT_VM_MAPPED, 0x10000);
    assert_int_equal(UCM_EVENT_VM_UNMAPPED, 0x20000);
    assert_int_equal(UCM_EVENT_MEM_TYPE_ALLOC, 0x100000);
    assert_int_equal(UCM_EVENT_MEM_TYPE_FREE, 0x200000);
    assert_int_equal(UCM_EVENT_FLAG_NO_INSTALL, 0x1000000);
    assert_int_equal(UCM_EVENT_FLAG_EXISTING_ALLOC, 0x2000000);
}

int main(int argc, char **argv)
{
    if (argc > 1) {
        printf("%llx\n", (unsigned long long)ucs_get_system_id());
        return 0;
    }
    program = argv[0];
    return cw_tests_run(NULL, NULL);
}
