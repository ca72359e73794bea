"""A worker process: it makes calls of Python and writes the arrays that they return into blocks.

In: messages of `_workers.Pool` over a socket, rows to make and the block for them. Out: messages
with the results, whose arrays are described, not pickled. It lives as long as the socket, and never
longer than the program.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import pickle
import random
import select
import signal
import socket
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

from wavetrain import _dice
from wavetrain._blocks import HEADER_BYTES, Block, Writer
from wavetrain._sample import Sample

ROW, DONE, CANCELLED = 0, 1, 2  # words of a block: row in progress + 1, rows done, 1: stop
MESSAGE_BYTES = 32 << 10  # of a socket; a larger message lies in a block
DESCRIPTORS_MAX = 253  # of a message, as Linux has it
PURPOSE = _dice.YOURS - 1  # of the seeds of rows
PR_SET_PDEATHSIG = 1
A_SAMPLE = "wavetrain.Sample"  # stands for one, which needs no process


class Failed(NamedTuple):
    """A row without a value, and why."""

    text: str


class Request(NamedTuple):
    """The argument of a call, and the place that its random numbers depend on."""

    what: Any
    epoch: int
    position: int


# ---- Messages -----------------------------------------------------------------------------------


def put(sock: socket.socket, message: Any, fds: Sequence[int] = (), flags: int = 0) -> None:
    data = pickle.dumps(message, 5)
    if len(data) <= MESSAGE_BYTES:
        socket.send_fds(sock, [b"\0" + data], fds, flags)
        return
    block = Block(HEADER_BYTES + len(data))
    ctypes.memmove(block.address + HEADER_BYTES, data, len(data))
    socket.send_fds(sock, [b"\1" + str(len(data)).encode()], [*fds, block.fd], flags)


def take(sock: socket.socket, flags: int = 0) -> tuple[Any, list[int]]:
    """A message and its descriptors. EOFError if the other side is closed."""
    data, fds, _, _ = socket.recv_fds(sock, MESSAGE_BYTES + 1, DESCRIPTORS_MAX, flags)
    if not data:
        raise EOFError
    if data[:1] == b"\1":
        size = int(data[1:])
        block = Block(HEADER_BYTES + size, fds.pop())
        data = b"\0" + ctypes.string_at(block.address + HEADER_BYTES, size)
    for fd in fds:
        os.set_inheritable(fd, False)
    return pickle.loads(data[1:]), fds


# ---- Rows ---------------------------------------------------------------------------------------


def die_with_parent(sock: socket.socket) -> None:
    """The kernel kills this process at the death of its parent: the program, a server of forks, a
    zygote. One that is dead by now has closed its side of the socket."""
    parent = os.getppid()
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent or is_closed(sock.fileno()):
        os._exit(1)


def die_with_pipe(life: int) -> None:
    """The kernel kills this process as the other end of a pipe is closed, which the program alone
    has. multiprocessing's server of forks outlives the program as long as a worker does. Each
    worker has its own pipe, as the owner of one is one process."""
    fcntl.fcntl(life, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(life, fcntl.F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(life, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)
    if is_closed(life):
        os._exit(1)


def is_closed(fd: int) -> bool:
    """Whether the other end is."""
    poll = select.poll()
    poll.register(fd, 0)
    return bool(poll.poll(0))


def seed_row(seed: int, epoch: int, position: int) -> frozenset[str]:
    """Seeds the global generators of random, numpy and torch, if imported; the names of these."""
    key = _dice.mix(position, _dice.key(seed, epoch, PURPOSE))
    random.seed(key)
    seeded = {name for name in ("numpy", "torch") if name in sys.modules}
    if "numpy" in seeded:
        cast("Any", sys.modules["numpy"]).random.seed([key & 0xFFFFFFFF, key >> 32])
    if "torch" in seeded:
        torch: Any = sys.modules["torch"]
        torch.default_generator.manual_seed(key >> 1)
    return frozenset(seeded)


def asked(call: Callable[[Any], Any], request: Request, seed: int) -> Any:
    """The value of a row. A call that imports numpy or torch is made once more, with seeds."""
    seeded = seed_row(seed, request.epoch, request.position)
    value = call(request.what)
    if any(name in sys.modules and name not in seeded for name in ("numpy", "torch")):
        seed_row(seed, request.epoch, request.position)
        value = call(request.what)
    return value


def told(error: BaseException) -> str:
    """An exception of a call, with its traceback from the call on."""
    frames = error.__traceback__
    for _ in range(2):  # those of this module
        frames = frames if frames is None else frames.tb_next
    lines = traceback.format_exception(type(error), error, frames or error.__traceback__)
    head = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return f"{head}\n{''.join(lines)}"[:MESSAGE_BYTES].rstrip()


def made(
    call: Callable[[Any], Any],
    request: Request,
    seed: int,
    writer: Writer,
    caught: type[BaseException] = BaseException,
) -> Any:
    """The value of a row as messages have it; None: the end. caught: exceptions that are an answer;
    others end the caller, as Ctrl-C does in the process of the program."""
    try:
        value = asked(call, request, seed)
        return A_SAMPLE if isinstance(value, Sample) else writer.value(value)
    except StopIteration:
        return None
    except caught as error:
        return Failed(told(error))


def serve(sock: socket.socket, has_parent: bool, call: Any = None) -> None:
    """The life of a worker, which ends with the socket. has_parent: the thread that started it
    lives as long as its process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the program, which ends this
    if has_parent:
        die_with_parent(sock)
    with sock, contextlib.suppress(EOFError, OSError):
        put(sock, os.getpid(), [os.pidfd_open(os.getpid())])
        (seed, pickled), (life,) = take(sock)
        die_with_pipe(life)
        try:
            call = pickle.loads(pickled) if call is None else call
        except BaseException as error:
            put(sock, Failed(told(error)))
            return
        put(sock, None)  # ready
        blocks = dict[int, Block]()
        while True:
            (number, rows, block, gone), fds = take(sock)
            for each in gone:
                blocks.pop(each, None)
            if fds:
                blocks[block[0]] = Block(block[1], fds[0])
                blocks[block[0]].forget_descriptor()
            writer = Writer(blocks[block[0]])
            if "torch" in sys.modules:  # each worker is one thread of the machine
                cast("Any", sys.modules["torch"]).set_num_threads(1)
            results, row_bytes = results_of(call, rows, seed, writer)
            put(sock, (number, results, row_bytes), [each.fd for each in writer.blocks[1:]])


def results_of(
    call: Callable[[Any], Any], rows: Sequence[Request], seed: int, writer: Writer
) -> tuple[list[Any], int]:
    """The result of each row, in order, and the most bytes that one has."""
    words, results, row_bytes = writer.blocks[0].words, list[Any](), 0
    for row, request in enumerate(rows):
        if words[CANCELLED]:
            break
        words[ROW] = row + 1
        results.append(made(call, Request(*request), seed, writer))
        words[ROW] = 0
        words[DONE] += 1
        row_bytes = max(row_bytes, writer.bytes)
    return results, row_bytes


def breed(
    sock: socket.socket, other: socket.socket, has_parent: bool, call: Callable[[Any], Any]
) -> None:
    """The life of a process that has the data set, and nothing else, and forks workers. It also
    forks those that replace others, when the program itself has threads and must not fork any more.
    other: the program's end, which the fork has copied."""
    other.close()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # no call waits for them
    if has_parent:
        die_with_parent(sock)
    with sock, contextlib.suppress(EOFError, OSError):
        while True:
            _, fds = take(sock)
            worker = socket.socket(fileno=fds[0])
            if os.fork() == 0:
                sock.close()
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                try:
                    serve(worker, True, call)
                finally:
                    os._exit(0)
            worker.close()
