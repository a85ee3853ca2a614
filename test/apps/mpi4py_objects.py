#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""MPI from Python: pickled objects (matched probes of unknown size), buffers, collectives, a window."""

from array import array
import sys

from mpi4py import MPI

ROUNDS = 20


def expect(condition, what):
    if not condition:
        print("FAILED: rank %d: %s" % (MPI.COMM_WORLD.rank, what), flush=True)
        MPI.COMM_WORLD.Abort(1)


def thing(rank, turn):
    """An object whose pickled size goes from a few bytes to some hundred KiB."""
    return {"rank": rank, "turn": turn, "text": "x" * (turn * turn * 777), "list": list(range(turn))}


def objects(comm):
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    for turn in range(ROUNDS):
        request = comm.isend(thing(comm.rank, turn), dest=right, tag=turn)
        expect(comm.recv(source=left, tag=turn) == thing(left, turn), "object of turn %d" % turn)
        request.wait()
    requests = [comm.isend(thing(comm.rank, turn), dest=right, tag=turn) for turn in range(ROUNDS)]
    for turn in reversed(range(ROUNDS)):
        message = comm.mprobe(source=MPI.ANY_SOURCE, tag=turn)
        expect(message.recv() == thing(left, turn), "probed object of turn %d" % turn)
    MPI.Request.waitall(requests)


def collectives(comm):
    expect(comm.allgather(comm.rank ** 2) == [rank ** 2 for rank in range(comm.size)], "allgather")
    expect(comm.bcast(thing(0, 15) if comm.rank == 0 else None) == thing(0, 15), "bcast")
    parts = comm.alltoall([(comm.rank, rank) for rank in range(comm.size)])
    expect(parts == [(rank, comm.rank) for rank in range(comm.size)], "alltoall")
    mine, total = array("d", [float(comm.rank)] * 50000), array("d", [0.0] * 50000)
    comm.Allreduce(mine, total)
    expect(set(total) == {comm.size * (comm.size - 1) / 2.0}, "Allreduce")


def window(comm):
    memory = array("q", [0] * comm.size)
    shared = MPI.Win.Create(memory, disp_unit=memory.itemsize, comm=comm)
    value = array("q", [comm.rank + 1])
    shared.Fence()
    for rank in range(comm.size):
        shared.Put(value, rank, comm.rank)
    shared.Fence()
    expect(list(memory) == list(range(1, comm.size + 1)), "window")
    shared.Free()


def main():
    comm = MPI.COMM_WORLD
    expect(comm.size > 1, "one process alone shows nothing")
    objects(comm)
    collectives(comm)
    window(comm)
    comm.Barrier()
    if comm.rank == 0:
        print("mpi4py_objects: passed with %d processes" % comm.size)
    return 0


if __name__ == "__main__":
    sys.exit(main())
