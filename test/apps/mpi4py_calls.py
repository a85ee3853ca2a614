#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""MPI from Python, call by call: cancelled requests, element types, modes of sending, collectives, communicators,
windows, threads, executors, errors. Arguments name the parts to run (default: all); Python's standard library only."""

from array import array
import sys
import threading
import traceback

from mpi4py import MPI
from mpi4py.futures import MPICommExecutor
from mpi4py.util import pkl5

KINDS = {"b": MPI.SIGNED_CHAR, "B": MPI.UNSIGNED_CHAR, "h": MPI.SHORT, "H": MPI.UNSIGNED_SHORT, "i": MPI.INT,
         "I": MPI.UNSIGNED, "q": MPI.LONG_LONG, "Q": MPI.UNSIGNED_LONG_LONG, "f": MPI.FLOAT, "d": MPI.DOUBLE}
SIZES = (0, 1, 100, 5000, 200000)
OPERATIONS = {"SUM": sum, "MAX": max, "MIN": min}


def expect(condition, what):
    if not condition:
        print("FAILED: rank %d: %s" % (MPI.COMM_WORLD.rank, what), flush=True)
        MPI.COMM_WORLD.Abort(1)


def filled(code, size, seed):
    """Values that fit every type, and that depend on the seed from the first one on."""
    return array(code, [(seed * 7 + i) % 101 for i in range(size)])


def empty(code, size):
    return array(code, [125] * size)


def abort_on_exception(kind, value, trace):
    """A process that ends alone would leave the others waiting for it."""
    traceback.print_exception(kind, value, trace)
    sys.stderr.flush()
    MPI.COMM_WORLD.Abort(1)


def neighbours(comm):
    return (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size


# A send that is cancelled is either cancelled or received, whoever posts first; the sender knows, and says, which.

def end_of_cancelled(comm, send, receive, into, what):
    right, left = neighbours(comm)
    status = MPI.Status()
    send.Wait(status)
    cancelled = comm.sendrecv(status.Is_cancelled(), dest=right, sendtag=1, source=left, recvtag=1)
    if cancelled:
        receive.Cancel()
    receive.Wait(status)
    expect(status.Is_cancelled() == cancelled, "%s: the send says cancelled %s, the receive not" % (what, cancelled))
    expect(into == (empty("i", len(into)) if cancelled else filled("i", len(into), left)), what + ": data")
    comm.Barrier()


def cancel_sends(comm):
    right, left = neighbours(comm)
    for size in SIZES:
        MPI.Attach_buffer(bytearray(8 * (4 * size + MPI.BSEND_OVERHEAD) + 4096))
        for name in ("Isend", "Issend", "Ibsend", "Send_init", "Ssend_init", "Bsend_init"):
            for posted in (False, True):
                what = "%s of %d cancelled, receive posted %s" % (name, size, "before" if posted else "after")
                out, into = filled("i", size, comm.rank), empty("i", size)
                if posted:
                    receive = comm.Irecv(into, left, 9)
                    comm.Barrier()
                send = getattr(comm, name)(out, right, 9)
                if name.endswith("_init"):
                    send.Start()
                send.Cancel()
                if not posted:
                    comm.Barrier()
                    receive = comm.Irecv(into, left, 9)
                end_of_cancelled(comm, send, receive, into, what)
                if name.endswith("_init"):
                    into = empty("i", size)
                    receive = comm.Irecv(into, left, 9)
                    send.Start()
                    send.Wait()
                    receive.Wait()
                    expect(into == filled("i", size, left), what + ": started again")
                    send.Free()
                comm.Barrier()
                expect(not comm.Iprobe(MPI.ANY_SOURCE, MPI.ANY_TAG), what + ": a message is left")
                comm.Barrier()
        MPI.Detach_buffer()


def cancel_receives(comm):
    right, left = neighbours(comm)
    for size in SIZES[1:]:
        status = MPI.Status()
        lost = [empty("i", size) for _ in range(20)]
        requests = [comm.Irecv(buffer, MPI.ANY_SOURCE if i % 2 else left, MPI.ANY_TAG if i % 3 else 5)
                    for i, buffer in enumerate(lost)]
        again = comm.Recv_init(lost[0], left, 5)
        again.Start()
        for i, request in enumerate(requests):
            request.Cancel()
            if i % 4 == 3:
                request.Free()
            else:
                request.Wait(status)
                expect(status.Is_cancelled(), "Irecv is not cancelled")
        again.Cancel()
        again.Wait(status)
        expect(status.Is_cancelled(), "Recv_init is not cancelled")
        comm.Barrier()
        again.Start()
        comm.Send(filled("i", size, comm.rank), right, 5)
        again.Wait(status)
        expect(not status.Is_cancelled() and status.Get_count(MPI.INT) == size, "Recv_init started again")
        expect(lost[0] == filled("i", size, left), "data of Recv_init started again")
        expect(all(buffer == empty("i", size) for buffer in lost[1:]), "a cancelled receive took data")
        again.Cancel()
        again.Free()
    pending = comm.irecv(source=left, tag=6)
    pending.cancel()
    pending.Free()
    comm.Barrier()
    expect(comm.sendrecv(comm.rank, dest=right, sendtag=6, source=left, recvtag=6) == left, "message behind a cancel")


def cancel_many(comm):
    """More requests at once than were used before: those that are cancelled are new."""
    right, left = neighbours(comm)
    into = [empty("i", 100) for _ in range(400)]
    sends = [comm.Issend(filled("i", 100, comm.rank), right, 9) for _ in into]
    for send in sends:
        send.Cancel()
    comm.Barrier()
    receives = [comm.Irecv(buffer, left, 9) for buffer in into]
    status = MPI.Status()
    kept = 0
    for send in sends:
        send.Wait(status)
        kept += not status.Is_cancelled()
    kept = comm.sendrecv(kept, dest=right, sendtag=1, source=left, recvtag=1)
    for i, (receive, buffer) in enumerate(zip(receives, into)):
        if i >= kept:
            receive.Cancel()
        receive.Wait(status)
        expect(status.Is_cancelled() == (i >= kept), "%d sends were kept, not so receive %d" % (kept, i))
        expect(buffer == (filled("i", 100, left) if i < kept else empty("i", 100)), "data of receive %d" % i)
    comm.Barrier()


def cancel(comm):
    cancel_many(comm)
    for each in (comm, MPI.COMM_SELF):
        cancel_receives(each)
        cancel_sends(each)


# Messages.

def buffers(comm):
    right, left = neighbours(comm)
    status = MPI.Status()
    for code in KINDS:
        for size in SIZES:
            into = empty(code, size)
            comm.Sendrecv(filled(code, size, comm.rank), right, 1, into, left, 1, status)
            expect(into == filled(code, size, left), "Sendrecv of %d %s" % (size, code))
            expect(status.Get_count(KINDS[code]) == size, "count of %d %s" % (size, code))
            comm.Sendrecv_replace(into, right, 2, left, 2)
            expect(into == filled(code, size, (left - 1) % comm.size), "Sendrecv_replace of %d %s" % (size, code))


def modes(comm):
    right, left = neighbours(comm)
    for size in SIZES:
        MPI.Attach_buffer(bytearray(3 * (8 * size + MPI.BSEND_OVERHEAD) + 4096))
        names = ("Isend", "Issend", "Ibsend", "Irsend", "Send_init", "Ssend_init", "Bsend_init", "Rsend_init")
        into = [empty("d", size) for _ in names]
        receives = [comm.Irecv(buffer, left, tag) for tag, buffer in enumerate(into)]
        comm.Barrier()
        out = filled("d", size, comm.rank)
        sends = [getattr(comm, name)(out, right, tag) for tag, name in enumerate(names)]
        MPI.Prequest.Startall(sends[4:])
        left_over = set(range(len(names)))
        while left_over:
            left_over -= set(MPI.Request.Waitsome(receives) or [])
        MPI.Request.Waitall(sends)
        for name, buffer in zip(names, into):
            expect(buffer == filled("d", size, left), "%s of %d" % (name, size))
        for send in sends[4:]:
            send.Free()
        MPI.Detach_buffer()


def objects(comm):
    right, left = neighbours(comm)
    for which in (comm, pkl5.Intracomm(comm)):
        for size in SIZES:
            what = "object of %d by %s" % (size, type(which).__name__)
            thing = [comm.rank, bytes(size), bytearray(filled("B", size, comm.rank))]
            wanted = [left, bytes(size), bytearray(filled("B", size, left))]
            for name in ("isend", "issend"):
                request = getattr(which, name)(thing, right, 3)
                expect(which.recv(None, left, 3) == wanted, "%s: %s" % (name, what))
                request.wait()
            request = which.isend(thing, right, 4)
            expect(which.mprobe(left, 4).recv() == wanted, "mprobe: " + what)
            request.wait()
            expect(which.bcast(thing, root=0)[0] == 0, "bcast: " + what)
            expect([each[0] for each in which.allgather(thing)] == list(range(comm.size)), "allgather: " + what)


# Collectives.

def reductions(comm):
    everyone = range(comm.size)
    for code in KINDS:
        for size in (1, 100, 5000):
            out, into = filled(code, size, comm.rank), empty(code, size)
            columns = list(zip(*(filled(code, size, rank) for rank in everyone)))
            for name, combine in OPERATIONS.items():
                if name == "SUM" and code in "bB":
                    continue
                what = "%s of %d %s" % (name, size, code)
                operation, wanted = getattr(MPI, name), array(code, map(combine, columns))
                comm.Allreduce(out, into, operation)
                expect(into == wanted, "Allreduce: " + what)
                comm.Iallreduce(out, into, operation).Wait()
                expect(into == wanted, "Iallreduce: " + what)
                comm.Reduce(out, into, operation, comm.size - 1)
                expect(comm.rank != comm.size - 1 or into == wanted, "Reduce: " + what)
                comm.Scan(out, into, operation)
                expect(into == array(code, [combine(column[:comm.rank + 1]) for column in columns]), "Scan: " + what)
    low = MPI.Op.Create(lambda a, b, kind: b.__setitem__(slice(None), bytes(map(min, a, b))), commute=True)
    into = empty("B", 300)
    comm.Allreduce(filled("B", 300, comm.rank), into, low)
    expect(into == array("B", map(min, zip(*(filled("B", 300, rank) for rank in everyone)))), "operation of Python")
    low.Free()


def moves(comm):
    everyone = range(comm.size)
    for code in "Bid":
        for size in (1, 100, 20000):
            what = "%d %s" % (size, code)
            mine, counts = filled(code, size, comm.rank), [rank + 1 for rank in everyone]
            all_of_them = array(code)
            for rank in everyone:
                all_of_them += filled(code, size, rank)
            into = empty(code, size * comm.size)
            comm.Allgather(mine, into)
            expect(into == all_of_them, "Allgather of " + what)
            comm.Iallgather(mine, into).Wait()
            comm.Alltoall(into, into[:])
            expect(into == all_of_them, "Iallgather of " + what)
            part = empty(code, size)
            comm.Scatter(all_of_them if comm.rank == 0 else None, part, 0)
            expect(part == mine, "Scatter of " + what)
            comm.Ibcast(part, 0).Wait()
            expect(part == filled(code, size, 0), "Ibcast of " + what)
            parts = empty(code, sum(counts))
            comm.Allgatherv(filled(code, comm.rank + 1, comm.rank), [parts, counts, None, KINDS[code]])
            wanted = array(code)
            for rank in everyone:
                wanted += filled(code, rank + 1, rank)
            expect(parts == wanted, "Allgatherv of " + what)
            out, into = array(code), empty(code, size * comm.size)
            for rank in everyone:
                out += filled(code, size, comm.rank * comm.size + rank)
            comm.Ialltoall(out, into).Wait()
            wanted = array(code)
            for rank in everyone:
                wanted += filled(code, size, rank * comm.size + comm.rank)
            expect(into == wanted, "Ialltoall of " + what)


# Communicators.

def communicators(comm):
    request = None
    copy, request = comm.Idup()
    request.Wait()
    expect(copy.allreduce(1) == comm.size, "Idup")
    copy.Free()
    group = comm.Get_group().Excl([comm.size - 1])
    if comm.rank != comm.size - 1:
        part = comm.Create_group(group, 3)
        expect(part.allgather(part.rank) == list(range(comm.size - 1)), "Create_group")
        part.Free()
    half = comm.Split(comm.rank % 2, comm.rank)
    between = half.Create_intercomm(0, comm, 1 - comm.rank % 2, 7)
    into = empty("i", 1)
    between.Allreduce(array("i", [comm.rank]), into)
    expect(into[0] == sum(range(1 - comm.rank % 2, comm.size, 2)), "Allreduce between groups")
    expect(between.allgather(comm.rank) == list(range(1 - comm.rank % 2, comm.size, 2)), "allgather between groups")
    union = between.Merge(comm.rank % 2 == 1)
    expect(union.allreduce(comm.rank) == sum(range(comm.size)), "Merge")
    for each in (union, between, half):
        each.Free()
    ring = comm.Create_cart([comm.size], periods=[True])
    right, left = neighbours(ring)
    into = empty("i", 200)
    ring.Neighbor_alltoall(filled("i", 100, ring.rank) + filled("i", 100, ring.rank + 50), into)
    if comm.size > 2:
        expect(into == filled("i", 100, left + 50) + filled("i", 100, right), "Neighbor_alltoall")
    expect(sorted(ring.neighbor_allgather(ring.rank)) == sorted((left, right)), "neighbor_allgather")
    ring.Free()


# Windows.

def one_window(comm, window, memory, code, size):
    kind = KINDS[code]
    what = " of %d %s" % (size, code)
    fences(comm, window, memory, [filled(code, size, comm.rank), kind], what)
    accumulates(comm, window, memory, [filled(code, size, comm.rank), kind], what)
    single_elements(comm, window, memory, [filled(code, size, comm.rank), kind], what)
    requests_and_groups(comm, window, memory, [filled(code, size, comm.rank), kind], what)


def store(comm, window, values):
    """Ends when everybody has stored values in its own part."""
    window.Lock(comm.rank, MPI.LOCK_EXCLUSIVE)
    window.Put(values, comm.rank)
    window.Unlock(comm.rank)
    comm.Barrier()


def load(comm, window, memory):
    """Everybody's accesses before the call are in what it returns."""
    comm.Barrier()
    window.Lock(comm.rank, MPI.LOCK_EXCLUSIVE)
    values = memory()
    window.Unlock(comm.rank)
    comm.Barrier()
    return values


def fences(comm, window, memory, mine, what):
    right, left = neighbours(comm)
    code, size = mine[0].typecode, len(mine[0])
    got = empty(code, size)
    window.Fence(MPI.MODE_NOPRECEDE)
    window.Put(mine, right)
    window.Fence()
    expect(memory() == filled(code, size, left), "Put" + what)
    window.Get([got, mine[1]], right)
    window.Fence()
    expect(got == mine[0], "Get" + what)
    window.Accumulate(mine, right, op=MPI.SUM)
    window.Fence(MPI.MODE_NOSUCCEED)
    expect(memory() == array(code, [2 * value for value in filled(code, size, left)]), "Accumulate" + what)
    comm.Barrier()


def accumulates(comm, window, memory, mine, what):
    right, left = neighbours(comm)
    code, size = mine[0].typecode, len(mine[0])
    for name, result in (("SUM", lambda old, new: old + new), ("PROD", lambda old, new: old * new), ("MAX", max),
                         ("MIN", min), ("REPLACE", lambda old, new: new), ("NO_OP", lambda old, new: old)):
        operation = getattr(MPI, name)
        wanted = array(code, map(result, mine[0], filled(code, size, left)))
        if operation != MPI.NO_OP:
            store(comm, window, mine)
            window.Lock(right, MPI.LOCK_SHARED)
            window.Accumulate(mine, right, op=operation)
            window.Unlock(right)
            expect(load(comm, window, memory) == wanted, "Accumulate %s%s" % (name, what))
        store(comm, window, mine)
        got = empty(code, size)
        window.Lock_all()
        window.Get_accumulate(mine, [got, mine[1]], right, op=operation)
        window.Flush(right)
        window.Unlock_all()
        expect(got == filled(code, size, right), "old values of Get_accumulate %s%s" % (name, what))
        expect(load(comm, window, memory) == wanted, "Get_accumulate %s%s" % (name, what))


def single_elements(comm, window, memory, mine, what):
    code = mine[0].typecode
    old = empty(code, 1)
    if code == "d":
        return # Open MPI 4.1 adds them as integers, on any libucp
    store(comm, window, mine)
    window.Lock(0, MPI.LOCK_SHARED)
    for _ in range(10):
        window.Fetch_and_op([array(code, [3]), mine[1]], [old, mine[1]], 0, 0, MPI.SUM)
        window.Flush(0)
    window.Unlock(0)
    first = load(comm, window, memory)[0]
    expect(comm.rank != 0 or first == mine[0][0] + 30 * comm.size, "Fetch_and_op" + what)
    store(comm, window, mine)
    expected = filled(code, 1, 0)
    window.Lock(0, MPI.LOCK_SHARED)
    window.Compare_and_swap([array(code, [comm.rank + 1000]), mine[1]], [expected, mine[1]], [old, mine[1]], 0, 0)
    window.Unlock(0)
    winners = [rank for rank, value in enumerate(comm.allgather(old[0])) if value == expected[0]]
    expect(len(winners) == 1, "Compare_and_swap%s: winners %s" % (what, winners))
    first = load(comm, window, memory)[0]
    expect(comm.rank != 0 or first == winners[0] + 1000, "result of Compare_and_swap" + what)


def requests_and_groups(comm, window, memory, mine, what):
    right, left = neighbours(comm)
    code, size = mine[0].typecode, len(mine[0])
    got, old = empty(code, size), empty(code, size)
    store(comm, window, [array(code, [0] * size), mine[1]])
    window.Lock_all()
    window.Rput(mine, right).Wait()
    window.Flush_all()
    window.Rget([got, mine[1]], right).Wait()
    window.Raccumulate(mine, right, op=MPI.SUM).Wait()
    window.Flush_local_all()
    window.Flush_all()
    window.Rget_accumulate(mine, [old, mine[1]], right, op=MPI.SUM).Wait()
    window.Unlock_all()
    expect(got == mine[0], "Rput, Rget" + what)
    expect(old == array(code, [2 * value for value in mine[0]]), "Raccumulate, Rget_accumulate" + what)
    expect(load(comm, window, memory) == array(code, [3 * value for value in filled(code, size, left)]),
           "result of Rget_accumulate" + what)
    group = comm.Get_group()
    window.Post(group.Incl([left]))
    window.Start(group.Incl([right]))
    window.Put(mine, right)
    window.Complete()
    window.Wait()
    expect(memory() == filled(code, size, left), "Post, Start" + what)
    comm.Barrier()


def windows(comm):
    for code in "iqd":
        for size in (1, 100, 5000):
            memory = empty(code, size)
            window = MPI.Win.Create(memory, memory.itemsize, MPI.INFO_NULL, comm)
            one_window(comm, window, lambda: memory[:], code, size)
            window.Free()
            width = array(code).itemsize
            window = MPI.Win.Allocate(size * width, width, MPI.INFO_NULL, comm)
            one_window(comm, window, lambda: array(code, bytes(window.tomemory())), code, size)
            window.Free()


# Threads, executors, errors.

def ring_of_one_thread(comm, number, failures):
    right, left = neighbours(comm)
    try:
        for turn in range(60):
            size = SIZES[turn % (len(SIZES) - 1)]
            into = empty("i", size)
            request = comm.Irecv(into, left, turn)
            comm.Send(filled("i", size, comm.rank + number), right, turn)
            request.Wait()
            if into != filled("i", size, left + number):
                failures.append("thread %d, turn %d" % (number, turn))
    except MPI.Exception as exception:
        failures.append(str(exception))


def threads(comm):
    expect(MPI.Query_thread() == MPI.THREAD_MULTIPLE, "the MPI library does not support threads")
    failures = []
    copies = [comm.Dup() for _ in range(4)]
    running = [threading.Thread(target=ring_of_one_thread, args=(copy, i, failures)) for i, copy in enumerate(copies)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    expect(not failures, "threads: %s" % failures)
    for copy in copies:
        copy.Free()


def square(number):
    return number * number


def executors(comm):
    for _ in range(3):
        with MPICommExecutor(comm, root=0) as executor:
            if executor is not None:
                expect(list(executor.map(square, range(100))) == [i * i for i in range(100)], "executor")
                later = [executor.submit(square, i) for i in range(50)]
                later[-1].cancel()
                expect(all(f.cancelled() or f.result() == i * i for i, f in enumerate(later)), "submit")


def raised(call, *arguments):
    try:
        call(*arguments)
    except MPI.Exception as exception:
        return exception.Get_error_class()
    return MPI.SUCCESS


def errors(comm):
    right, left = neighbours(comm)
    for size in SIZES[2:]:
        request = comm.Isend(filled("i", size, comm.rank), right, 1)
        expect(raised(comm.Recv, empty("i", size - 1), left, 1) == MPI.ERR_TRUNCATE, "truncation of %d" % size)
        request.Wait()
    expect(raised(comm.Send, array("i"), comm.size, 1) == MPI.ERR_RANK, "send to a rank that is not there")
    expect(comm.sendrecv(comm.rank, dest=right, sendtag=2, source=left, recvtag=2) == left, "message after errors")
    comm.Send(array("i", [1]), MPI.PROC_NULL)
    status = MPI.Status()
    comm.Recv(empty("i", 1), MPI.PROC_NULL, 1, status)
    expect(status.source == MPI.PROC_NULL and status.Get_count(MPI.INT) == 0, "receive of nobody")


PARTS = (cancel, buffers, modes, objects, reductions, moves, communicators, windows, threads, executors, errors)


def main():
    sys.excepthook = abort_on_exception
    comm = MPI.COMM_WORLD
    expect(comm.size > 1, "one process alone shows nothing")
    for part in PARTS:
        if not sys.argv[1:] or part.__name__ in sys.argv[1:]:
            part(comm)
            comm.Barrier()
            if comm.rank == 0:
                print("mpi4py_calls: %s" % part.__name__, flush=True)
    if comm.rank == 0:
        print("mpi4py_calls: passed with %d processes" % comm.size)
    return 0


if __name__ == "__main__":
    sys.exit(main())
