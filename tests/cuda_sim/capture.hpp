// Captures of graphs: who is in one, what breaks one, and what comes of it. Rules are those of the
// CUDA Programming Guide ("Prohibited and Unhandled Operations") and of the driver's manual. Where
// these leave open whether a refused call breaks a capture, it does here.
//
// In: calls of driver.cpp, which includes this in its namespace and has `mine` and `current`, with
// the lock held. Out: a code. Invariant: what is queued in a stream of a capture is counted as a
// node and does not run.
#pragma once

// What a capture gave. It can be counted and not launched.
struct Graph {
  bool is_alive;
  uint64_t nodes;
};
Graph graphs[kGraphs];

Graph* graph_of(void* handle) {
  for (Graph& graph : graphs) {
    if (&graph == handle) return graph.is_alive ? &graph : nullptr;
  }
  return nullptr;
}

void break_capture(Capture* capture) { capture->is_broken = true; }

// The capture that an event was last recorded in, while it lasts.
Capture* capture_of(const Event& event) {
  for (Capture& capture : captures) {
    if (capture.is_active && capture.id == event.capture_id) return &capture;
  }
  return nullptr;
}

// The answer about an event that was recorded in a capture: an H200's driver of CUDA 13.0 knows no
// more of it once that is over.
unsigned ask_captured(const Event& event) {
  Capture* capture = capture_of(event);
  if (!capture) return kInvalidValue;
  break_capture(capture);
  return kCapturedEvent;
}

// A call that is unsafe breaks the captures that forbid it: those that the calling thread has begun
// and, where it is in global mode, those in global mode of any thread.
bool breaks_a_capture() {
  if (mine().capture_mode == 2) return false;
  bool breaks = false;
  for (Capture& capture : captures) {
    if (!capture.is_active || capture.mode == 2) continue;
    bool is_mine = capture.thread == thread_number();
    bool forbids = capture.mode == 0 && mine().capture_mode == 0;
    if (!forbids && !is_mine) continue;
    break_capture(&capture);
    breaks = true;
  }
  return breaks;
}

// The legacy default stream orders the blocking streams of its context, so nothing can be queued in
// it while one of them is captured, whatever the mode.
bool orders_captured(const Stream& stream) {
  return stream.is_alive && stream.is_blocking && stream.capture && stream.context == current();
}

bool is_legacy_unusable() {
  for (const Stream& stream : streams) {
    if (orders_captured(stream)) return true;
  }
  return false;
}

bool break_what_legacy_orders() {
  for (const Stream& stream : streams) {
    if (orders_captured(stream)) break_capture(stream.capture);
  }
  return is_legacy_unusable();
}

// Work in a stream of a capture.
unsigned add_node(Stream& stream) {
  stream.capture->nodes++;
  stream.nodes++;
  return kSuccess;
}

void enter_capture(Stream& stream, Capture* capture) {
  stream.capture = capture;
  stream.nodes = stream.joined_nodes = 0;
  stream.is_joined = false;
}

// A wait where the stream is captured or the event was. A stream that waits for a captured event
// becomes part of the capture, and has to be waited for in it before it ends.
unsigned wait_in_capture(Stream& stream, const Event& event) {
  Capture* capture = capture_of(event);
  if (stream.capture && stream.capture->is_broken) return kCaptureInvalidated;
  if (!capture) {
    if (!stream.capture) return kInvalidValue;
    break_capture(stream.capture);
    return kCaptureIsolation;
  }
  if (capture->is_broken) return kCaptureInvalidated;
  if (stream.is_legacy) return break_capture(capture), kCaptureImplicit;
  if (stream.capture && stream.capture != capture) {
    break_capture(stream.capture);
    break_capture(capture);
    return kCaptureMerge;
  }
  if (!stream.capture) enter_capture(stream, capture);
  Stream& other = *event.captured_on;
  if (&other != &stream) {
    other.is_joined = true;
    if (other.joined_nodes < event.captured_nodes) other.joined_nodes = event.captured_nodes;
  }
  return kSuccess;
}

unsigned begin_capture(Stream& stream, unsigned mode) {
  for (Capture& capture : captures) {
    if (capture.is_active) continue;
    capture = Capture();
    capture.is_active = true;
    capture.id = ++captures_begun;
    capture.mode = mode;
    capture.thread = thread_number();
    capture.origin = &stream;
    enter_capture(stream, &capture);
    return kSuccess;
  }
  return kOutOfMemory;
}

// Takes every stream out of its capture.
unsigned end_capture(Stream& stream, void** graph) {
  Capture* capture = stream.capture;
  if (capture->origin != &stream) return break_capture(capture), kCaptureUnmatched;
  if (capture->mode != 2 && capture->thread != thread_number()) return kCaptureWrongThread;
  bool is_joined = true;
  for (Stream& other : streams) {
    if (!other.is_alive || other.capture != capture) continue;
    bool is_covered = other.is_joined && other.joined_nodes == other.nodes;
    is_joined = is_joined && (&other == &stream || is_covered);
    other.capture = nullptr;
  }
  capture->is_active = false;
  *graph = nullptr;
  if (capture->is_broken) return kCaptureInvalidated;
  if (!is_joined) return kCaptureUnjoined;
  for (Graph& made : graphs) {
    if (made.is_alive) continue;
    made = {true, capture->nodes};
    *graph = &made;
    return kSuccess;
  }
  return kOutOfMemory;
}
