/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The usage text. The manual page is made of it: docs/pages.py.
 *
 * Callers: main.c.
 */
#include "options.h"

#include "tests.h"

#include <stdio.h>

void cw_options_usage(const char *program)
{
    const struct cw_perf_test *test;

    printf("\nUsage: %s [options]          server: waits for one client\n", program);
    printf("       %s [options] <host>   client: runs the tests with the server on <host>\n", program);
    printf("       %s [options] -l       both in one process\n", program);
    printf("       mpirun -n <count> %s [options]  among the processes of a job\n\n", program);
    printf("What to measure\n  -t <test>     one of\n");
    for (unsigned index = 0; (test = cw_test_at(index)) != NULL; index++) {
        printf("      %14s  %s\n", test->name, test->help);
    }
    printf("  -s <bytes>    message size, or a list: the entries of -D iov, otherwise summed up (8);\n"
           "                1K:16 are 16 entries of 1K\n"
           "  -n <count>    measured iterations, 0: without end (1000000)\n"
           "  -w <count>    warm-up iterations before them (10000)\n"
           "  -O <count>    bound on unfinished sends (0: 1 for latency, 32 for bandwidth)\n"
           "  -b <file>     run the tests of a batch file: each line a name and options; may be repeated\n"
           "  -D <layout>[,<layout>]  contig or iov at the sender, and at the receiver (contig)\n"
           "  -i <bytes>    distance between the entries of a list (0: contiguous)\n"
           "  -H <bytes>    header of an active message, in addition to its size (0)\n"
           "  -y            copy active messages that arrive eagerly\n"
           "  -z            pass a memory handle with each operation\n"
           "  -B            memory of the library, mapped with UCP_MEM_MAP_NONBLOCK\n"
           "  -r <mode>     stream: recv posts receives, recv_data returns data of the library (recv)\n"
           "  --sweep <first>:<last>  sizes from the first to the last, each twice the one before: 8:4M\n"
           "  -V, --verify  check every byte of every message, every sum of atomic operations\n\n"
           "Memory of one-sided tests\n"
           "  --user-memory register this program's own memory, instead of letting the library allocate\n"
           "  -o            the server makes no progress\n\n"
           "How\n"
           "  -E <mode>     poll: spin on the worker; sleep: sleep until an event (poll)\n"
           "  -T <threads>  threads at each side, each with a worker and an endpoint of its own (1)\n"
           "  -M <mode>     thread mode of the workers: single, serialized, multi (single)\n"
           "  --yield       yield the CPU when there is no work (this side only)\n"
           "  -I            create the context with the wakeup feature\n"
           "  -C            receive with a wild-card tag\n"
           "  -U            wait by probing, so that every message arrives unexpected\n"
           "  -e [<mode>]   error handling of the endpoint (this side's only): none, peer, failover; -epeer is -e\n"
           "  -m <type>[,<type>]  memory to send from, and to receive into (one-sided: local, and remote):\n"
           "                host, cuda, rocm, cuda-managed, rocm-managed (host)\n"
           "  -c <list>     bind to these CPUs, such as 0,2-3\n"
           "  -l            both sides in this process\n"
           "  -p <port>     TCP port of the out-of-band connection (13337)\n"
           "  -6            out-of-band connection over IPv6\n"
           "  --timeout <s> exit after this time without progress (default: client 60, server never)\n\n"
           "Started by mpirun, prun or srun, with -t and without a host\n"
           "  -P <0|1>      0: one of two sides, also in a job; 1: part of the job, also at a terminal\n"
           "  --pattern <who>  pairs: those of the first half with those of the second, at the same time;\n"
           "                all: each with each other; many: all with the first, at the same time (pairs)\n\n"
           "Output\n"
           "  -R <rank>     percentile that the result rows show (50.0)\n"
           "  -f            only the final row\n"
           "  -X            one more line, before the rows: the library, and the transport of the endpoint\n"
           "  -v, --csv     comma-separated values\n"
           "  --json        one line for each test: an object with the final numbers and percentiles\n"
           "  -N            group digits by thousands\n"
           "  -q, --quiet   no error messages, no sign of progress on the terminal\n"
           "  --percentiles one more line, before the final row: p50, p90, p99, p99.9, minimum, maximum\n"
           "  --library     print version and file of the library in use, and exit\n"
           "  -h            this text\n\n"
           "Numbers of bytes may have a suffix K, M or G, for 2^10, 2^20 and 2^30.\n"
           "Transport and device are selected by the environment: UCX_TLS, UCX_NET_DEVICES. Options of UCX's tool for\n"
           "tests of UCT (-d, -x, -W, -A) are ignored with a warning.\n");
}
