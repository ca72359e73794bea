/* wavetrain_node.h - one loader for the processes of a node.
 *
 * SPDX-License-Identifier: MIT
 *
 * One process, the owner, opens a loader with share_name and pushes; others, the consumers, attach
 * by that name and pop. Chunks are read and decoded once, whatever the number of processes, and
 * batches lie in memory that all of them map: nothing is copied.
 *
 *     owner                                    consumer 2 of 4
 *     config.share_name = "train";             wavetrain_attach("train", 2, time, &loader, NULL);
 *     config.share_consumers = 4;              while (wavetrain_pop(loader, ..) == WAVETRAIN_OK) {
 *     wavetrain_open(&config, &loader, NULL);      ..
 *     wavetrain_push(loader, ..);                  wavetrain_release(loader, batch, NULL);
 *     wavetrain_flush(loader);                 }
 *     wavetrain_pop(loader, ..); -> END        wavetrain_close(loader, ..);
 *
 * NAMES. A name is one of this user's on this machine (of this network namespace, in containers): a
 * socket without a file. With '/' it is the path of a socket, for containers that share a folder. A
 * name that another loader has is INVALID, with the process that has it. No death leaves anything
 * that stands in the way: the next open of the name works.
 *
 * LISTS. Each consumer gets one list of batches, WAVETRAIN_END, an error and WAVETRAIN_RESET, each
 * in its place, once. END is after the last batch that was flushed; the next pop waits for samples
 * that are pushed after it. If several threads pop, each that waits at that moment gets END; a pop
 * that begins later does not, unlike that of a loader that is not shared. RESET: the owner called
 * wavetrain_reset, batches that were not popped are dropped, and batch_id starts at 0 again. An
 * error that ends the owner's stream is returned again until a RESET.
 *
 * CALLS. On a consumer pop, batch_info, release, dlpack, stats, last_error and close are as ever;
 * push, flush, reset, pump, lend, read_into and forget are the owner's, and INVALID. A tensor keeps
 * its slot. With SHARE_ALL batches are read-only memory: a write ends the process by SIGSEGV (copy
 * before you write), versioned DLPack tensors have their flag, and wavetrain_dlpack_legacy, which
 * has none, is UNSUPPORTED. The owner's pop, unless share_owner is set, gives no batch. It is END
 * once all consumers took all batches, and until then AGAIN or STARVED, as a pop without a batch
 * is. A forked child attaches anew.
 *
 * DEATH. A process that ends is known by its socket, at once, or by its process, if a child of its
 * keeps the socket. A consumer notices within a second that its owner closed or ended: it takes the
 * batches that were published, then pop is SHUTDOWN. Batches that it holds stay readable until it
 * closes. A consumer that ends without a close, or closes while batches wait for it, or did not
 * attach in attach_timeout_ns, is lost. Batches that it had popped are dropped, counted as
 * stats.batches_lost and logged with their tags. Those in its list are for the next consumer
 * (SHARE_FIRST), or end the stream with SHUTDOWN (LOST_FAIL), or are dropped and counted
 * (LOST_SKIP). Another process may attach with its number, and takes the list from there on. A
 * child that an owner forked, and that did not exec, keeps the name until it ends as well, and
 * wavetrain_attach is NOT_FOUND until then. Before Linux 6.5 the end of a process of another PID
 * namespace is known by its socket alone.
 *
 * TRUST. Consumers are processes of the same user. Each writes a page of its own, and the samples
 * of slots, unless SHARE_ALL; all else is mapped read-only. The owner neither crashes nor hangs by
 * anything that it writes, and no other consumer gets wrong bytes by its page.
 *
 * MEMORY. wavetrain_memory.shared_bytes; it is taken at open, and never grows. A consumer takes
 * some megabytes of its own at attach, and no thread. The owner needs thread_mode OWN, and host
 * memory: backend CUDA is UNSUPPORTED, AUTO takes the host.
 */
#ifndef WAVETRAIN_NODE_H
#define WAVETRAIN_NODE_H

#include "wavetrain.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Attaches to the loader that shares a name, as this consumer, counted from 0: a loader that
 * takes its batches. Waits until a process has the name, for timeout_ns at most: 0 does not wait,
 * UINT64_MAX waits forever. Any thread; each number is for one living process. The error is
 * optional. INVALID: NULL, a name that is not one, a path where something else than a socket
 * lies, or a number that is too large. A number that a living process has is INVALID, too, and so
 * is an owner of another user. NOT_FOUND: no process has the name in time. UNSUPPORTED: the
 * owner's wavetrain is another version. OUT_OF_MEMORY, IO. */
wavetrain_status wavetrain_attach(const char *share_name, uint32_t consumer, uint64_t timeout_ns,
                                  wavetrain_loader *loader, wavetrain_error *error);

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif /* WAVETRAIN_NODE_H */
