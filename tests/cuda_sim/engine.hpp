// Contexts, streams and events of the simulated driver, and who runs what is queued.
//
// A stream is a queue of operations that run in order. An event is a ticket: recording queues the
// ticket in a stream, waiting queues an operation that holds its stream back until the ticket that
// the event has *now* is done. A gate holds its stream back until the program has written a word.
// The legacy default stream of a context comes after all that is queued in its streams that block,
// and they come after it; other streams do neither. In modes eager and jitter each stream has a
// thread that runs its queue; in mode lazy one executor runs what a query or a wait asks for and
// what that depends on, choosing at random among the streams that could go on.
// Where streams share a connection, what is queued in it begins in the order of the calls.
#pragma once

#include <chrono>

#include "memory.hpp"

namespace sim {

struct Kernel {
  const char* name;
  unsigned parameter_count;
  uint16_t parameter_bytes[16];
  void (*launch)(dim3 grid, dim3 block, size_t shared, void** parameters, simt::Schedule schedule);
};

constexpr unsigned kParameterBytes = 256;

struct Context {
  bool is_alive = false;
  bool is_primary = false;
  int device = 0;
  unsigned retains = 0;
};

struct Stream;

// A place in a stream. It lives while an event, an operation or a waiting thread names it.
struct Ticket {
  unsigned references = 0;
  bool is_done = false;
  Stream* stream = nullptr;
  uint64_t number = 0;
  double milliseconds = 0;
};

// A graph that is being captured: what is queued in its streams becomes part of it and does not
// run.
struct Capture {
  bool is_active = false, is_broken = false;
  uint64_t id = 0;  // no other capture has had it
  unsigned mode = 0;
  uint64_t thread = 0;       // that has begun it
  Stream* origin = nullptr;  // that it was begun in
  uint64_t nodes = 0;
};

struct Event {
  bool is_alive = false, takes_time = false;
  Context* context = nullptr;
  Ticket* ticket = nullptr;  // of the last record
  // Where the last record was captured: in which capture, which may be over, and after how many
  // nodes of which stream.
  uint64_t capture_id = 0, captured_nodes = 0;
  Stream* captured_on = nullptr;
};

struct Op {
  enum Kind : uint8_t { copy, fill, launch, wait, record, gate } kind;
  // Each engine of the device has connections of its own. A wait takes that of kernels, where it
  // is in the way of most; a record that of what it comes behind.
  enum Connection : uint8_t { kernels, to_device, to_host } connection = kernels;
  Op* next = nullptr;
  uint64_t turn = 0;  // among the operations of all streams
  uint64_t number = 0;
  Ticket* ticket = nullptr;
  void* target = nullptr;
  const void* source = nullptr;
  uint64_t bytes = 0;
  unsigned char value = 0;
  bool is_staged = false;  // the source is a copy of pageable memory
  const Kernel* kernel = nullptr;
  dim3 grid, block;
  unsigned shared_bytes = 0;
  alignas(16) unsigned char parameters[kParameterBytes];
};

struct Stream {
  bool is_alive = false;
  bool has_thread = false;
  bool is_running = false;    // an operation of it runs now
  bool is_held = false;       // nothing in it runs
  bool is_blocking = false;   // the legacy default stream orders it
  bool is_legacy = false;     // it is that one
  bool is_default = false;    // it is that one, or the default one of a thread
  uint64_t thread = 0;         // whose default stream it is
  Capture* capture = nullptr;  // that it is part of
  bool is_joined = false;      // others of the capture wait for it ..
  uint64_t nodes = 0, joined_nodes = 0;  // .. up to which of its nodes there
  Context* context = nullptr;
  Op* head = nullptr;
  Op* tail = nullptr;
  uint64_t queued = 0, done = 0;  // numbers of operations
  Op::Connection connection = Op::kernels;  // of what it was given last
  unsigned uses = 0;              // kinds of work that it was given, as bits
  uint64_t wanted = 0;            // lazy: up to which number the executor must come
  uint64_t random = 0;
};

inline Context contexts[kContexts];
inline Stream streams[kStreams];
inline Event events[kEvents];
inline Ticket tickets[kOps];
inline Op* free_ops = nullptr;
inline unsigned ops_made = 0, next_ticket = 0;
inline unsigned gates_queued = 0;
inline uint64_t ops_queued = 0;
inline Op* op_memory = nullptr;
inline Capture captures[kCaptures];
inline uint64_t captures_begun = 0;
inline bool has_executor = false;

// What the executor was asked for; on the stack of who asks.
struct Goal {
  Stream* stream;
  uint64_t number;
  uint64_t steps;  // at most
  bool is_done = false;
  Goal* next = nullptr;
};
inline Goal* goals = nullptr;

inline Op* new_op(Op::Kind kind) {
  if (!op_memory) {
    void* mapped = mmap(nullptr, sizeof(Op) * kOps, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED) abort();
    op_memory = static_cast<Op*>(mapped);
  }
  Op* op = free_ops;
  if (op) {
    free_ops = op->next;
  } else if (ops_made < kOps) {
    op = op_memory + ops_made++;
  } else {
    fprintf(stderr, "simcuda: %u operations are queued\n", kOps);
    abort();
  }
  *op = Op();
  op->kind = kind;
  return op;
}

inline Ticket* new_ticket(Stream* stream, uint64_t number) {
  for (unsigned tries = 0; tries < kOps; tries++) {
    Ticket* ticket = tickets + next_ticket++ % kOps;
    if (ticket->references) continue;
    *ticket = {1, false, stream, number, 0};
    return ticket;
  }
  abort();
}

inline void drop(Ticket* ticket) {
  if (ticket) ticket->references--;
}

// Whether the word that a gate looks at has come to its value, by any number of turns.
inline bool is_open(const Op& gate) {
  uint32_t word = __atomic_load_n(static_cast<const uint32_t*>(gate.source), __ATOMIC_ACQUIRE);
  return int32_t(word - uint32_t(gate.bytes)) >= 0;
}

// Whether an operation that was queued before in the same connection has not begun yet.
inline bool is_behind_another(const Op& op) {
  for (const Stream& stream : streams) {
    const Op* other = stream.is_running ? stream.head->next : stream.head;
    for (; other && other->turn < op.turn; other = other->next) {
      if (other->connection == op.connection) return true;
    }
  }
  return false;
}

inline bool can_step(const Stream& stream) {
  if (state.settings.is_shared && stream.head && is_behind_another(*stream.head)) return false;
  return stream.head && !stream.is_running && !stream.is_held && !state.settings.is_held &&
         !(stream.head->kind == Op::wait && !stream.head->ticket->is_done) &&
         !(stream.head->kind == Op::gate && !is_open(*stream.head));
}

// Waits until something has changed. Nobody tells of a word that a gate looks at.
inline void wait_for_change(Lock& lock) {
  if (gates_queued == 0) return state.changed.wait(lock);
  state.changed.wait_for(lock, std::chrono::microseconds(100));
}

// What an operation does, without the lock.
inline void run(Op& op, simt::Schedule schedule) {
  switch (op.kind) {
    case Op::copy:
      memmove(op.target, op.source, op.bytes);
      if (op.is_staged) munmap(const_cast<void*>(op.source), op.bytes);
      break;
    case Op::fill:
      memset(op.target, op.value, op.bytes);
      break;
    case Op::launch: {
      void* places[16];
      unsigned char* place = op.parameters;
      for (unsigned i = 0; i < op.kernel->parameter_count; i++) {
        places[i] = place;
        place += (op.kernel->parameter_bytes[i] + 15) / 16 * 16;
      }
      op.kernel->launch(op.grid, op.block, op.shared_bytes, places, schedule);
      break;
    }
    case Op::wait:
    case Op::record:
    case Op::gate:
      break;
  }
}

// Runs the first operation of a stream that can.
inline void step(Stream& stream, Lock& lock) {
  Op* op = stream.head;
  stream.is_running = true;
  simt::Schedule schedule = state.settings.schedule;
  schedule.seed ^= op->number;
  bool dawdles = state.settings.mode == Mode::jitter || state.settings.mode == Mode::slow;
  uint64_t dawdle = dawdles ? random_below(stream.random, 64) : 0;
  lock.unlock();
  // Beside other programs a turn comes back late, so a few are enough there.
  double until = now_milliseconds() + 0.1;
  for (uint64_t i = 0; i < dawdle && now_milliseconds() < until; i++) sched_yield();
  // Now and then a stream falls far behind.
  if (dawdle > 56) {
    timespec pause = {0, long(dawdle) * 20000};
    nanosleep(&pause, nullptr);
  }
  run(*op, schedule);
  lock.lock();
  if (op->kind == Op::launch) check_guards(op->kernel->name);
  if (op->kind == Op::gate) gates_queued--;
  stream.head = op->next;
  if (!stream.head) stream.tail = nullptr;
  stream.done = op->number;
  stream.is_running = false;
  if (op->kind == Op::record) {
    op->ticket->is_done = true;
    op->ticket->milliseconds = now_milliseconds();
  }
  drop(op->ticket);
  op->next = free_ops;
  free_ops = op;
  state.changed.notify_all();
}

inline void* stream_main(void* argument) {
  Stream& stream = *static_cast<Stream*>(argument);
  Lock lock(state.lock);
  for (;;) {
    if (!stream.is_alive && !stream.head) break;
    if (state.settings.mode != Mode::lazy && can_step(stream)) {
      step(stream, lock);
    } else {
      wait_for_change(lock);
    }
  }
  stream.has_thread = false;
  state.changed.notify_all();
  return nullptr;
}

// Up to which operation each stream has to come for a goal: what it waits for, and what that waits
// for. Each pass over the streams can only raise the marks, and there are finitely many.
inline void mark_wanted(const Goal& goal) {
  for (Stream& stream : streams) stream.wanted = 0;
  goal.stream->wanted = goal.number;
  for (bool has_changed = true; has_changed;) {
    has_changed = false;
    for (Stream& stream : streams) {
      for (Op* op = stream.head; op && op->number <= stream.wanted; op = op->next) {
        if (op->kind != Op::wait || op->ticket->is_done) continue;
        Stream& other = *op->ticket->stream;
        if (other.wanted >= op->ticket->number) continue;
        other.wanted = op->ticket->number;
        has_changed = true;
      }
    }
  }
}

// Runs what a goal needs, one operation after another.
inline void pursue(Goal& goal, Lock& lock) {
  for (uint64_t steps = 0; steps < goal.steps && goal.stream->done < goal.number; steps++) {
    mark_wanted(goal);
    Stream* choice = nullptr;
    uint64_t candidates = 0;
    for (Stream& stream : streams) {
      if (!can_step(stream) || stream.head->number > stream.wanted) continue;
      if (random_below(state.random, ++candidates) == 0) choice = &stream;
    }
    if (!choice) return;  // held
    step(*choice, lock);
  }
}

inline void* executor_main(void*) {
  Lock lock(state.lock);
  for (;;) {
    while (!goals) state.changed.wait(lock);
    Goal* goal = goals;
    goals = goal->next;
    pursue(*goal, lock);
    goal->is_done = true;
    state.changed.notify_all();
  }
  return nullptr;
}

inline bool start_thread(void* (*main)(void*), void* argument) {
  pthread_t thread;
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  // Signals are for the program's threads.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  bool is_started = pthread_create(&thread, &attributes, main, argument) == 0;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_attr_destroy(&attributes);
  return is_started;
}

// Lazy: lets the executor take up to `steps` steps towards a place in a stream.
inline void ask(Lock& lock, Stream& stream, uint64_t number, uint64_t steps) {
  if (state.settings.mode != Mode::lazy || stream.done >= number || steps == 0) return;
  if (!has_executor) has_executor = start_thread(executor_main, nullptr);
  Goal goal = {&stream, number, steps};
  Goal** last = &goals;
  while (*last) last = &(*last)->next;
  *last = &goal;
  state.changed.notify_all();
  while (!goal.is_done) state.changed.wait(lock);
}

// Waits until a stream has come to a place.
inline void wait_for(Lock& lock, Stream& stream, uint64_t number) {
  while (stream.done < number) {
    ask(lock, stream, number, UINT64_MAX);
    if (stream.done < number) wait_for_change(lock);
  }
}

// Lazy: a query moves things on by some steps, or none, or all.
inline uint64_t steps_of_query() {
  uint64_t draw = random_below(state.random, 8);
  return draw < 3 ? draw : draw < 5 ? UINT64_MAX : 1;
}

inline void wait_for_all(Lock& lock) {
  for (Stream& stream : streams) {
    if (stream.is_alive || stream.head) wait_for(lock, stream, stream.queued);
  }
}

inline Stream* new_stream(Context* context) {
  static unsigned next = 0;
  for (unsigned tries = 0; tries < kStreams; tries++) {
    Stream* stream = streams + next++ % kStreams;
    if (stream->is_alive || stream->has_thread || stream->head) continue;
    uint64_t number = stream->queued;
    *stream = Stream();
    // Numbers go on, so that a ticket of the stream that was here before stays done.
    stream->queued = stream->done = number;
    stream->context = context;
    stream->random = state.settings.seed * 1000003 + next;
    stream->is_alive = stream->has_thread = true;
    if (start_thread(stream_main, stream)) return stream;
    *stream = Stream();
    return nullptr;
  }
  return nullptr;
}

// What a stream needs for a kind of work a driver may take as it gets the first of it. Copies to
// the host are left out: they are made where somebody asks for one.
inline void count_first_use(Stream& stream, unsigned kind) {
  if (stream.uses & 1u << kind) return;
  stream.uses |= 1u << kind;
  state.allocation_count++;
}

inline void append(Stream& stream, Op* op) {
  op->number = ++stream.queued;
  op->turn = ++ops_queued;
  stream.connection = op->connection;
  if (stream.tail) {
    stream.tail->next = op;
  } else {
    stream.head = op;
  }
  stream.tail = op;
  state.changed.notify_all();
}

// What is queued in `stream` from here on waits for all that is queued in `other`.
inline void order(Stream& stream, Stream& other) {
  if (other.done >= other.queued) return;
  Op* record = new_op(Op::record);
  append(other, record);
  record->ticket = new_ticket(&other, record->number);
  Op* wait = new_op(Op::wait);
  wait->ticket = record->ticket;
  wait->ticket->references++;
  append(stream, wait);
}

// Queues an operation where the legacy default stream lets it.
inline void enqueue(Stream& stream, Op* op) {
  for (Stream& other : streams) {
    bool is_ordered = stream.is_blocking && other.is_blocking && other.is_alive &&
                      other.context == stream.context && &other != &stream;
    if (is_ordered && (stream.is_legacy || other.is_legacy)) order(stream, other);
  }
  append(stream, op);
}

// Whether a kernel is given an address in [first, first + bytes).
inline bool is_given(const Op& op, uint64_t first, uint64_t bytes) {
  const unsigned char* at = op.parameters;
  for (unsigned i = 0; i < op.kernel->parameter_count; i++) {
    uint64_t address = 0;
    if (op.kernel->parameter_bytes[i] == sizeof address) memcpy(&address, at, sizeof address);
    if (address >= first && address - first < bytes) return true;
    at += (op.kernel->parameter_bytes[i] + 15) / 16 * 16;
  }
  return false;
}

// The first queued operation that reads or writes host memory in [first, first + bytes).
inline const Op* op_on_host_memory(const unsigned char* first, uint64_t bytes) {
  for (Stream& stream : streams) {
    for (Op* op = stream.head; op; op = op->next) {
      if (op->kind == Op::launch && is_given(*op, reinterpret_cast<uint64_t>(first), bytes)) {
        return op;
      }
      if (op->kind != Op::copy) continue;
      const unsigned char* source = static_cast<const unsigned char*>(op->source);
      const unsigned char* target = static_cast<const unsigned char*>(op->target);
      bool reads = source < first + bytes && first < source + op->bytes;
      bool writes = target < first + bytes && first < target + op->bytes;
      if (reads || writes) return op;
    }
  }
  return nullptr;
}

}  // namespace sim
