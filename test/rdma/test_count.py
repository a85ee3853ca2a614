#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What verbs_count.so counts is what a program does that does nothing else: `bare_verbs`, whose requests are known. And
a program that opens libibverbs by itself is counted as well, with each registration once: ibv_reg_mr() calls
ibv_reg_mr_iova2() by its name, and both are counted functions.

Usage: test_count.py BARE_VERBS VERBS_COUNT. Status 77 where there are no two devices of rxe.
"""

import glob
import os
import subprocess
import sys
import tempfile

TRIPS, WARM_UP, BATCH = 20, 5, 64
OPENS_ITSELF = """
import ctypes
verbs = ctypes.CDLL("libibverbs.so.1")
verbs.ibv_get_device_list.restype = ctypes.POINTER(ctypes.c_void_p)
verbs.ibv_open_device.argtypes = [ctypes.c_void_p]
verbs.ibv_open_device.restype = ctypes.c_void_p
verbs.ibv_alloc_pd.argtypes = [ctypes.c_void_p]
verbs.ibv_alloc_pd.restype = ctypes.c_void_p
verbs.ibv_reg_mr.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
verbs.ibv_reg_mr.restype = ctypes.c_void_p
device = verbs.ibv_open_device(verbs.ibv_get_device_list(None)[0])
assert device
memory = ctypes.create_string_buffer(8192)
assert verbs.ibv_reg_mr(verbs.ibv_alloc_pd(device), memory, 8192, 1)
"""


def count(preload, command):
    with tempfile.TemporaryDirectory() as directory:
        environment = dict(os.environ, LD_PRELOAD=preload, CW_VERBS_COUNT=os.path.join(directory, "count"))
        subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
        paths = glob.glob(os.path.join(directory, "count.*"))
        assert len(paths) == 1, "counters of %d processes" % len(paths)
        with open(paths[0], encoding="ascii") as file:
            return {name: int(value) for name, value in (line.split() for line in file)}


def check(found, expected):
    wrong = ["%s is %d, not %d" % (name, found[name], value)
             for name, value in expected.items() if found[name] != value]
    assert not wrong, "; ".join(wrong)


def main():
    bare, preload = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    if not all(os.path.exists("/sys/class/infiniband/rxe%d" % number) for number in (0, 1)):
        return 77
    trips = TRIPS + WARM_UP
    command = [bare, "-d", "rxe0,rxe1", "-n", str(TRIPS), "-w", str(WARM_UP), "-k"]
    common = {"registrations": 1, "qps": 1, "cqs": 2, "srqs": 0, "extended": 0, "recvs": 512, "completions_bad": 0}
    check(count(preload, command + ["rate"]),
          dict(common, rc_send=trips * BATCH, rc_send_bytes=trips * BATCH * 8, sends=trips * BATCH, doorbells=trips,
               signalled=trips, inlined=trips * BATCH, inlined_bytes=trips * BATCH * 8))
    check(count(preload, command + ["send", "-s", "1000"]),
          dict(common, recvs=512 + trips, rc_send=trips, rc_send_bytes=trips * 1000, doorbells=trips, signalled=trips,
               inlined=0, inlined_bytes=0))
    check(count(preload, command + ["read", "-s", "4096"]),
          dict(common, rc_read=trips, rc_read_bytes=trips * 4096, sends=trips, completions=trips,
               completions_send=trips))
    check(count(preload, command + ["fadd"]), dict(common, rc_fadd=trips, sends=trips, rc_write=0, ud_send=0))
    check(count(preload, [sys.executable, "-c", OPENS_ITSELF]),
          {"sends": 0, "qps": 0, "registrations": 1, "registered_bytes": 8192})
    return 0


if __name__ == "__main__":
    sys.exit(main())
