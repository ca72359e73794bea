"""Worker processes that make values of Python in shared memory.

In: a callable, and rows, each a request of it with a place in an epoch. Out: for each row its
value, whose arrays lie in blocks; or END; or a `Failed`. Messages are small pickles over a socket
for each worker, with descriptors of blocks; no data is pickled. `_worker` is the other side.

No thread is started: a wait for a row takes the answers of all workers. A row is in progress from
the word `ROW` of its block on until that is 0 again. So a worker that dies or hangs costs that row
alone: the others of its tasks are asked for again. Invariant: the block of a task is used again
only after its worker has answered or is dead, and no array of it is left.
"""

from __future__ import annotations

import collections
import contextlib
import logging
import multiprocessing
import multiprocessing.forkserver
import multiprocessing.process
import os
import pickle
import select
import signal
import socket
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, cast

from wavetrain._asked import END
from wavetrain._blocks import HEADER_BYTES, Block, Free, Lease, value_of
from wavetrain._border import short
from wavetrain._errors import ShutdownError
from wavetrain._interrupts import Kept
from wavetrain._owned import Owned
from wavetrain._pipeline import Loader
from wavetrain._worker import CANCELLED, DONE, ROW, Failed, Request, breed, put, serve, take

LOGGER = logging.getLogger("wavetrain.workers")
STARTS = ("forkserver", "spawn", "fork")
TASK_ROWS_MIN, TASK_ROWS = 8, 64
TASKS_MAX = 8  # that a worker has at a time: its socket takes 10 messages without a wait
TRIES = 3  # of a task whose workers die between rows
START_S = 120.0  # for imports of the data set's modules
GRACE_S = 0.5  # for a worker to end by itself
DEATH_S = 10.0  # for the system to end one that was killed
SLICE_S = 0.25
GUARD = (
    'a script that starts workers needs `if __name__ == "__main__":` around what it runs, and the '
    "class of a data set must be in a module that can be imported"
)


class Task:
    """Rows that one worker is asked for at a time."""

    def __init__(self, number: int, rows: list[Request]) -> None:
        self.number, self.rows = number, rows
        self.results: list[Any] = [None] * len(rows)
        self.left = [*range(len(rows))]  # without a result
        self.lease: Lease | None = None
        self.tries = 0
        self.is_cancelled = False

    @property
    def words(self) -> Any:
        return cast("Lease", self.lease).block.words


class Row(Owned):
    """The answer to one row, as concurrent.futures has it."""

    def __init__(self, pool: Pool, task: Task, number: int) -> None:
        self.pool, self.task, self.number = pool, task, number

    def done(self) -> bool:
        if self.task.left:
            self.pool.poll(0)
        return not self.task.left

    def result(self) -> Any:
        """The value, END or a Failed. Waits."""
        while self.task.left:
            self.pool.poll(SLICE_S)
        return self.task.results[self.number]

    def cancel(self) -> bool:
        return self.pool.cancel(self.task)


class Worker:
    """A process, and the tasks that it has."""

    def __init__(self, sock: socket.socket, process: Any, life: int) -> None:
        self.sock, self.process = sock, process
        self.life = life  # which kills it when that is closed
        self.pid = self.pidfd = -1  # until its first message
        self.is_ready = False
        self.exit_code: int | None = None
        self.tasks = dict[int, Task]()  # by number, in the order that it does them
        self.known = set[int]()  # blocks that it has mapped
        self.seen: Any = None  # its progress at the last look
        self.since = time.monotonic()  # it started, or made progress

    def __repr__(self) -> str:
        return f"worker process {self.pid}" if self.pid >= 0 else "a worker process"

    @property
    def load(self) -> int:
        return sum(len(task.left) for task in self.tasks.values())

    def hangs(self, timeout_s: float) -> str:
        """Why it is to be ended; "": it is not."""
        task = next(iter(self.tasks.values()), None)
        seen: Any = task and (task.number, task.words[ROW], task.words[DONE])
        if self.is_ready and (seen != self.seen or task is None):
            self.seen, self.since = seen, time.monotonic()
        limit = timeout_s if self.is_ready else START_S
        if time.monotonic() - self.since <= limit:
            return ""
        if not self.is_ready:
            return f"was not ready within {START_S:g} s"
        return f"took more than worker_timeout_s = {timeout_s:g} s, and was ended"

    def is_dead(self, timeout_s: float) -> bool:
        if self.pidfd < 0:  # it never got a block
            return True
        poll = select.poll()
        poll.register(self.pidfd, select.POLLIN)
        return bool(poll.poll(int(timeout_s * 1e3)))

    def end(self) -> bool:
        """Kills it; whether it is dead, and so writes no more."""
        self.sock.close()
        os.close(self.life)
        if self.pidfd >= 0:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)
        elif self.process is not None:
            self.process.kill()
        is_dead = self.is_dead(DEATH_S)
        if self.process is not None:
            self.process.join(DEATH_S if is_dead else 0)
            self.exit_code = self.process.exitcode
            closed(self.process)
        if self.pidfd >= 0:
            os.close(self.pidfd)
            self.pidfd = -1
        return is_dead

    @property
    def exit_text(self) -> str:
        code = self.exit_code
        if code is None:
            return "died"
        return f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"


def start_of(given: str | None) -> str:
    if given is None:
        return STARTS[0]
    if given not in STARTS:
        names = ", ".join(map(repr, STARTS))
        raise ValueError(f"worker_start must be one of {names} (got {short(given)})")
    return given


class Pool(Owned):
    """Workers that make calls of one argument. All methods are for one thread at a time."""

    instead = "the processes belong to the one that started them"

    def __init__(
        self,
        what: str,
        call: Callable[[Any], Any],
        count: int,
        *,
        start: str,
        timeout_s: float,
        seed: int = 0,
    ) -> None:
        self.pid, self.what, self.timeout_s, self.seed = os.getpid(), what, timeout_s, seed
        self.count, self.start = count, start
        self.context: Any = multiprocessing.get_context(start)
        server: Any = getattr(multiprocessing.forkserver, "_forkserver", None)
        if start == "forkserver" and getattr(server, "_preload_modules", None) == ["__main__"]:
            # No modules were chosen: the server gets this one, so that a worker starts sooner.
            self.context.set_forkserver_preload(["__main__", serve.__module__])
        self.workers: list[Worker] = []
        self.waiting: collections.deque[Task] = collections.deque()  # for a worker
        self.free = Free()
        self.blocks = set[int]()  # numbers of those that there are
        self.polled = time.monotonic()  # when it looked at workers
        self.task_number = self.block_number = 0
        self.row_bytes = 0  # of the largest row
        self.rows_max = 1  # of the longest task
        self.failure: tuple[type[Exception], str] | None = None
        self.zygote: tuple[socket.socket, Any] | None = None
        if start == "fork":
            self.pickled, self.zygote = b"", self.zygote_of(call)
        else:
            self.pickled = pickled(what, call)
        try:
            for _ in range(count):
                self.workers.append(self.started())
        except BaseException:
            self.close()
            raise

    # ---- Processes ------------------------------------------------------------------------------

    def zygote_of(self, call: Any) -> tuple[socket.socket, Any]:
        if Loader.alive - Loader.waiting:  # which only batches keep
            raise RuntimeError(
                "worker_start='fork' needs a process without open pipelines: a fork has none of "
                "their threads, but their locks as they were held, and a CUDA context that no fork "
                "can use. Make this loader first, or give worker_start='forkserver'"
            )
        ours, other = pair()
        process = self.context.Process(
            target=breed, args=(other, ours, self.is_bound, call), daemon=True
        )
        process.start()
        disown(process)
        other.close()
        return ours, process

    @property
    def is_bound(self) -> bool:
        """Whether a worker may end with its parent, as the kernel has it: with the thread that has
        started it."""
        is_main = threading.current_thread() is threading.main_thread()
        return is_main or self.start == "forkserver"

    def started(self) -> Worker:
        ours, other = pair()
        process = None
        with Kept(), other:
            try:
                if self.zygote is not None:
                    put(self.zygote[0], None, [other.fileno()])
                else:
                    ends: Any = (other, self.is_bound)
                    process = self.context.Process(target=serve, args=ends, daemon=True)
                    process.start()
                    disown(process)
            except (EOFError, OSError) as error:
                ours.close()
                raise RuntimeError(
                    f"no worker process could be started ({type(error).__name__}: {error}): {GUARD}"
                ) from error
            theirs, life = os.pipe()
            with contextlib.suppress(OSError):  # if it has died: poll finds that
                put(ours, (self.seed, self.pickled), [theirs])
            os.close(theirs)
            return Worker(ours, process, life)

    def close(self) -> None:
        """Ends all workers, at once those that are at work. Idempotent."""
        if os.getpid() != self.pid:  # a fork of the program, which only has their descriptors
            self.drop()
            return
        self.failure = self.failure or (ShutdownError, "these worker processes were ended")
        workers, self.workers = self.workers, []
        self.waiting.clear()
        for worker in workers:
            worker.sock.close()
        limit = time.monotonic() + GRACE_S
        for worker in workers:
            if worker.is_ready and not worker.tasks:
                worker.is_dead(max(0, limit - time.monotonic()))
            worker.end()
            worker.tasks.clear()
        zygote, self.zygote = self.zygote, None
        if zygote is not None:
            sock, process = zygote
            sock.close()
            process.join(DEATH_S)
            closed(process)
        self.free.close()

    def drop(self) -> None:
        while self.workers:
            worker = self.workers.pop()
            worker.sock.close()
            for fd in (worker.life, worker.pidfd):
                if fd >= 0:
                    os.close(fd)
        if self.zygote is not None:
            self.zygote[0].close()

    def shutdown(self, wait: bool = True, cancel_futures: bool = False) -> None:
        """As an executor has it."""
        self.close()

    # ---- Rows -----------------------------------------------------------------------------------

    def ask(self, rows: Sequence[Request]) -> list[Row]:
        """Has the rows made, the first ones at once, as far as workers have room."""
        size = task_rows(len(rows), self.count)
        answers = list[Row]()
        for first in range(0, len(rows), size):
            task = Task(self.task_number, [*rows[first : first + size]])
            self.task_number += 1
            self.waiting.append(task)
            answers += [Row(self, task, number) for number in range(len(task.rows))]
        self.assign()
        return answers

    def assign(self) -> None:
        """Sends tasks that wait to the workers that have the least to do."""
        if os.getpid() != self.pid:
            raise ShutdownError(
                "these worker processes belong to the process that this one was forked from: make "
                "another loader here"
            )
        if self.failure is not None:
            kind, text = self.failure
            raise kind(text)
        while self.waiting:
            free = [worker for worker in self.workers if len(worker.tasks) < TASKS_MAX]
            if not free:
                return
            with Kept():
                self.send(min(free, key=lambda each: each.load), self.waiting.popleft())

    def send(self, worker: Worker, task: Task) -> None:
        self.rows_max = max(self.rows_max, len(task.left))
        task.lease = self.leased(HEADER_BYTES + self.rows_max * self.row_bytes)
        block = task.lease.block
        task.words[ROW] = task.words[DONE] = task.words[CANCELLED] = 0
        gone = worker.known - self.blocks
        fds = [] if block.number in worker.known else [block.fd]
        worker.known = (worker.known - gone) | {block.number}
        rows = [tuple(task.rows[row]) for row in task.left]
        worker.tasks[task.number] = task
        with contextlib.suppress(OSError):  # if it has died: poll finds that
            message = (task.number, rows, (block.number, block.size), gone)
            put(worker.sock, message, fds, socket.MSG_DONTWAIT)

    def leased(self, size: int) -> Lease:
        while self.free.blocks:
            block = self.free.blocks.popleft()
            if block.size >= size:
                return Lease(block, self.free)
            self.blocks.discard(block.number)
        block = Block(size)
        block.number = self.block_number
        self.blocks.add(block.number)
        self.block_number += 1
        return Lease(block, self.free)

    def cancel(self, task: Task) -> bool:
        """No answer of it is wanted any more."""
        if task.left and not task.is_cancelled:
            task.is_cancelled = True
            if task in self.waiting:
                self.waiting.remove(task)
            if task.lease is not None:
                task.words[CANCELLED] = 1
        return True

    # ---- Answers --------------------------------------------------------------------------------

    def poll(self, timeout_s: float) -> None:
        """Takes answers of workers, and replaces those that died or hang."""
        self.assign()
        # Workers are only charged with time in which this waits: the program may have been stopped,
        # and all workers with it.
        away = time.monotonic() - self.polled - 2 * SLICE_S
        for worker in self.workers if away > 0 else ():
            worker.since += away
        poll, by_fd = select.poll(), dict[int, Worker]()
        for worker in self.workers:
            by_fd[worker.sock.fileno()] = worker
            poll.register(worker.sock, select.POLLIN)
        for fd, _ in poll.poll(int(timeout_s * 1e3)):
            with Kept():
                self.hear(by_fd[fd])
        for worker in [*self.workers]:
            why = worker.hangs(self.timeout_s)
            if why:
                with Kept():
                    self.lose(worker, why)
        self.polled = time.monotonic()
        self.assign()

    def hear(self, worker: Worker) -> None:
        try:
            message, fds = take(worker.sock, socket.MSG_DONTWAIT)
        except (BlockingIOError, ConnectionResetError):
            # It ended with tasks unread, which the kernel reports before its last messages.
            return
        except (EOFError, OSError):
            self.lose(worker, "")
            return
        if worker.pid < 0:
            worker.pid, worker.pidfd = message, fds[0]
        elif isinstance(message, Failed):
            text = f"{self.what} cannot be used in a worker process: {message.text}\n{GUARD}"
            self.failure = RuntimeError, text
        elif message is None:
            worker.is_ready = True
        else:
            self.take_answer(worker, message, fds)

    def take_answer(self, worker: Worker, message: Any, fds: list[int]) -> None:
        number, results, row_bytes = cast("tuple[int, list[Any], int]", message)
        task = worker.tasks.pop(number)
        self.row_bytes = max(self.row_bytes, row_bytes)
        leases = [cast("Lease", task.lease)]
        leases += [Lease(Block(os.fstat(fd).st_size, fd)) for fd in fds]
        for each in leases[1:]:
            each.block.forget_descriptor()
        if task.is_cancelled:
            task.left.clear()
            results = []
        for tree in results:
            made = tree if isinstance(tree, Failed) else value_of(tree, leases)
            task.results[task.left.pop(0)] = END if tree is None else made
        task.lease = None

    def lose(self, worker: Worker, why: str) -> None:
        """Ends a worker, and has others do its work, except for the row in progress."""
        self.workers.remove(worker)
        is_dead = worker.end()
        text = f"{worker!r} {why or worker.exit_text}"
        LOGGER.warning("%s", text)
        if not worker.is_ready:
            self.failure = self.failure or (RuntimeError, f"{text} as it started: {GUARD}")
            return
        tasks, worker.tasks = [*worker.tasks.values()], {}
        for task in tasks[:1]:
            row = task.words[ROW]
            task.tries += not row
            if row:
                task.results[task.left.pop(row - 1)] = Failed(f"{text} while it made this sample")
            elif task.tries >= TRIES:
                while task.left:
                    task.results[task.left.pop()] = Failed(f"{text} before it made this sample")
        for task in tasks:
            if not is_dead:  # it may still write there
                cast("Lease", task.lease).free = None
            task.lease = None
        self.waiting.extendleft(task for task in tasks[::-1] if task.left and not task.is_cancelled)
        self.workers.append(self.started())


def task_rows(count: int, workers: int) -> int:
    """Rows of a task, for that many in all: few messages, and work for all workers."""
    return min(TASK_ROWS, max(TASK_ROWS_MIN, -(-count // workers)))


def disown(process: Any) -> None:
    """Takes it from those that multiprocessing ends at the exit of the program, and of each fork of
    the program, which has a copy of the list."""
    getattr(multiprocessing.process, "_children", set[Any]()).discard(process)


def closed(process: Any) -> None:
    """Frees the resources that multiprocessing has for a process that has ended."""
    with contextlib.suppress(ValueError):  # one that has not
        process.close()


def pair() -> tuple[socket.socket, socket.socket]:
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def pickled(what: str, call: Any) -> bytes:
    try:
        return pickle.dumps(call, 5)
    except Exception as error:
        raise TypeError(
            f"{what} cannot be sent to worker processes, which get it by pickle "
            f"({type(error).__name__}: {error}): define its class or function at the top of a "
            "module, and open files and locks at the first use; or give worker_start='fork'"
        ) from error
