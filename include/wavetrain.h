/* wavetrain.h - streams boxes out of chunked N-dimensional arrays into batches of one shape.
 *
 * SPDX-License-Identifier: MIT
 *
 * This header is over 500 lines because it is the manual too. Read down to "Version" once. After
 * that each declaration stands alone: what it returns, what NULL means, who owns what, which
 * threads may call it and whether it waits.
 *
 *   1. Purpose              5. Threads and fork       9. Plain types
 *   2. A first program      6. Errors                10. Hooks
 *   3. Life of a sample     7. Version               11. Configuration
 *   4. Memory               8. Status                12. Functions
 *
 *
 * 1. Purpose
 *
 * A training loop needs the same thing over and over: N boxes cut out of large arrays on disk, cast
 * to one type, stacked in one tensor. With several fields there is one tensor for each. You push
 * samples, each an array (uri) and a box in it, or several such. You pop batches
 * [samples_per_batch, sample_shape...] in the order of the pushes. Between the two, wavetrain loads
 * the metadata and finds the chunks that the boxes touch. It reads and decodes each of them at most
 * once per batch, casts, and scatters into the batch. Many batches are in flight.
 *
 * Arrays are zarr v3 directories: regular or rectilinear chunk grids, sharded or not. Chunks are
 * raw or compressed by zstd, blosc (of zstd, lz4, zlib or blosclz), gzip, zlib, lz4, bz2 or lzma,
 * with crc32c checksums or without. Arrays are also zarr v2 directories, their chunks in C or F
 * order, raw or compressed by the same. A uri names the directory: its zarr.json is read, or its
 * .zarray where there is no zarr.json. A v2 fill value of null is zeros.
 *
 * Single files of plain elements are arrays, too: .npy files (versions 1.0 to 3.0, either order,
 * either byte order), and raw:PATH?dtype=u16&shape=64,128&offset=512&order=F. The dtype is a
 * little-endian name of section 9 in lower case, or of numpy (uint16), or a type as in numpy's
 * headers (>u2). offset (0) and order (C) may be left out. Both kinds have a fill value of 0, and
 * no more of them is read than boxes need.
 *
 * DIR/NAME_*.npy is one array too: the rows of all those files, by the numbers that stand for the
 * *. Numbers begin at 0 and have no gap. They have zeros in front (part_000.npy; part_1000.npy
 * follows part_999) or not. DIR/NAME_*.npy#first=1 begins at that number, and a name may continue
 * after the number (NAME_*_img.npy). Its files share type, byte order, order and all extents but
 * the first; DIR alone stands for the one sequence in it whose names end with the number. Every
 * header is read and checked when the array is first used, by as many threads as there are, and
 * what is wrong with one names its file. max_npy_files is how many files the arrays in use have
 * together; wavetrain_config_fit raises it. A files hook has such arrays if store.list lists its
 * folders.
 *
 * After the uri of a group that is an OME-NGFF image, #level=2 names one of its levels.
 * #scale=0.5,0.5,0.5 names the coarsest one whose voxels are no longer than that, by axis of space
 * or by axis. Boxes are in the voxels of that level. If something has a path with such an ending,
 * that path is meant. hook:NAME is an array that your program supplies (wavetrain_source_hook).
 *
 * After the uri of a zarr array or a .npy file of structured elements, ?field=NAME names one of
 * their fields. It is an array of the field's type. Without it, structured elements of up to 16
 * bytes are RAW.
 *
 * After all that, #cf=1 at the end of the uri of a zarr array decodes its elements by attributes of
 * the CF conventions, as xarray does. Elements that are missing (_FillValue, missing_value), or
 * outside of valid_range, are NaN; others are x * scale_factor + add_offset in f64. The array is
 * one of F64, or stays as it is without such attributes. Attributes that contradict each other, or
 * do not fit the type, are refused by name. A field or a config with cf = 1 adds the ending to the
 * uris of its boxes.
 *
 * Filters and checksums of numcodecs in zarr arrays are undone on the CPU, on whole chunks:
 * shuffle, delta, fixedscaleoffset, astype, packbits, crc32, adler32, fletcher32, crc32c at either
 * end. bitround and quantize need no undoing. The result is that of numcodecs. A float that becomes
 * an integer that cannot hold it is WAVETRAIN_DECODE. A chunk counts against
 * max_chunk_uncompressed_bytes as its filters widen it.
 *
 * Elements are booleans, integers, floats, complex numbers or raw bits. datetime64 and timedelta64
 * are int64 to wavetrain, "not a time" the least of them, and give I64 or RAW alone. Strings and
 * objects are refused. An array of rank 0 has a box of rank 0, which is a sample of one element. A
 * format that wavetrain does not understand is refused by name, before data is read.
 *
 * Files may change while the loader is open. The version of a file is its device, inode, size and
 * time of change (mtime). The first touch of a file in each batch looks at its path, once. Another
 * version there: everything that is cached of the file is forgotten, the file is read anew, and
 * stats.files_changed counts it. So a batch that is pushed after a change has the new version, and
 * no batch has parts of two versions of one file. A file that changes while a batch reads it is
 * WAVETRAIN_IO; one that is replaced by a rename is not, because its open descriptor still reads
 * the old version. Versions of different files are not compared. The same rule holds for what an
 * array is loaded from: zarr.json or .zarray, the .npy file, the folder of numbered .npy files.
 * Only wavetrain_reset and wavetrain_forget ask again which array a group's #level= or #scale=, or
 * a folder of numbered files, stands for.
 *
 * A file system takes times of change before it copies the bytes. They are from a clock of ticks: 4
 * to 10 ms, or 1 to 2 s if times are whole seconds. So chunks and index pages that are read within
 * 10 ms of the time of change (2 s if that is a whole second) are cached for no other batch. A
 * writer that stands still for longer between the two leaves old bytes in the cache. Two changes of
 * one tick that keep the size leave one version. A batch that reads between them may have parts of
 * both, and the second change of a zarr document or a .npy header is not seen.
 *
 * Objects of a files hook have their size as version, which is asked for once in each batch, before
 * they are read. One that is replaced by another of the same size is not noticed. Neither is one
 * that is replaced between that question and its reads: its old index is then used with its new
 * bytes. Give such an object a new name, or call wavetrain_forget. The first batch after
 * wavetrain_reset looks at documents that a hook reads.
 *
 * If store.read_version is set, the version of an object is its size and the 32 bytes that the hook
 * returns. The index of a shard and its chunks are read of one version. An object that is replaced
 * after its index was read is WAVETRAIN_IO for the samples that need it then, and the next ones
 * find the new version. So nothing asks for a version once in each batch, except for chunks that
 * chunk_cache_bytes keeps. A file that is one chunk is read in one request, of any version.
 *
 * Words: a *field* is one tensor of a batch: an image, its mask, a label; a sample has a part of
 * each, made of its boxes. A *box* is a range begin <= i < end on every axis of an array. A *chunk*
 * is the piece that is compressed as one; a *shard* is a file of many chunks and their index. A
 * *wave* is a group of chunks that are read and decoded together. A *slot* is the memory of one
 * batch.
 *
 * Link libwavetrain.a with -lpthread -ldl. It defines nothing but the functions below. On x86-64 it
 * keeps a program's shadow stack (SHSTK); indirect branch tracking (IBT) it does not know.
 *
 *
 * 2. A first program (examples/hello.c has it with every check)
 *
 *     wavetrain_config config;
 *     wavetrain_loader loader;
 *     wavetrain_batch batch;
 *     wavetrain_batch_view view;
 *     wavetrain_box box = { "/data/volume.zarr", 17, 3, 0, { 0, 64, 64 }, { 32, 128, 128 } };
 *     wavetrain_sample sample = { &box, 1, sizeof box, 42 };
 *     size_t taken;
 *
 *     wavetrain_config_default(&config, sizeof config);
 *     config.sample_rank = 3;
 *     config.sample_shape[0] = 32;
 *     config.sample_shape[1] = config.sample_shape[2] = 64;
 *     if (wavetrain_open(&config, &loader, NULL) != WAVETRAIN_OK) return 1;
 *     wavetrain_push(loader, &sample, 1, sizeof sample, WAVETRAIN_FOREVER, &taken);
 *     wavetrain_flush(loader);
 *     while (wavetrain_pop(loader, WAVETRAIN_FOREVER, &batch, NULL) == WAVETRAIN_OK) {
 *         view.struct_size = sizeof view;
 *         wavetrain_batch_info(loader, batch, 0, &view);
 *         train((const float *)view.data, view.tags, view.sample_count);
 *         wavetrain_release(loader, batch, NULL);
 *     }
 *     wavetrain_close(loader, WAVETRAIN_FOREVER, NULL);
 *
 *
 * 3. Life of a sample
 *
 *   QUEUED    push has taken it. Uri and box are copied; you may free them. At most
 *   lookahead_samples
 *             are queued; then push takes no more.
 *   PLANNED   its batch has a slot, and its array's metadata and shard index are being loaded.
 *   LOADING   its chunks are in waves: read, decoded, cast into its row of the slot.
 *   READY     every sample of its batch is there. Batches become ready in any order and are popped
 *             in push order.
 *   HELD      popped. Data, tags and statuses stay where they are until release.
 *   EXPORTED  released, but DLPack tensors of the batch live on. Data stays where it is; the batch
 *             handle is dead, and with it tags and statuses.
 *   FREE      released, and every tensor deleted. The slot takes another batch. While all
 *             n_batch_slots are held or exported, loading stalls. It continues when one is free, or
 *             when memory is lent (wavetrain_lend), which is given back when it is FREE.
 *   FAILED    something in the store is wrong. on_error = FAIL: the batches before it are popped,
 *             then each pop returns the error, until reset. on_error = SKIP: the sample holds
 *             pad_value, its status has the reason, and the stream continues. NAN: so it does, but
 *             a chunk that cannot be read leaves the sample's other elements, and is NaN itself.
 *   DROPPED   reset or close came first.
 *
 * A missing chunk is not a failure: it reads as the array's fill value (missing_chunks = FILL). An
 * absent chunk is missing while its array is there, and the nearest folder above it that was there
 * before (a files hook has no folders); else it is WAVETRAIN_IO. So is a link to nothing
 * (git-annex, DataLad), and a file where a folder of chunks must be. So is a file, array or folder
 * that is absent and there again within a batch. The first 256 names in an array's folder are
 * looked at if no file of it was found yet. An absent chunk is WAVETRAIN_DECODE if these spell keys
 * in another way than the document, such as 0/0 where a .zarray lacks dimension_separator. A files
 * hook lists no folders: it is asked for the other separator, for the first 64 absent chunks of an
 * array. A file that is not regular, such as a FIFO or a device, is WAVETRAIN_IO at once.
 * A chunk without a checksum is decoded as far as the boxes of a batch need it; damage in the rest
 * is not noticed. A chunk with a checksum is verified whole. With a chunk cache every chunk is
 * decoded whole.
 *
 *
 * 4. Memory
 *
 * wavetrain_memory_need gives the memory budget of a config, line by line. wavetrain_open takes
 * exactly that: from your block, your functions, or the system (wavetrain_memory_hook), and touches
 * every page. From then until close nothing is allocated, mapped, grown or freed, thread stacks
 * included; with map_uncompressed = 1 files are mapped into addresses that open reserved.
 * A budget beyond what the system allots is WAVETRAIN_OUT_OF_MEMORY at open, before a page is
 * touched (check_memory). The system allots what it has free as a whole, and what the memory limits
 * of the cgroup and of its parents leave. Anonymous, shared, locked and kernel memory counts
 * against these limits; pages of files do not, because they are given up. A limit that cannot be
 * read refuses nothing.
 * Caps are hard: waves are sized so that the budget fits, and a cap that is too small is
 * WAVETRAIN_BUDGET at open, with the floor in the text. A batch that is held and a tensor that
 * lives keep the memory of their slot from close; wavetrain_close describes the fate of the rest.
 *
 * Structs that cross this surface start with struct_size, which the caller sets to sizeof. They
 * only ever grow at the end, so that programs built with an older header keep working. wavetrain
 * writes at most the first struct_size bytes of a struct that it fills. In a struct that it reads,
 * fields past struct_size take their defaults; bytes past the fields that it knows must be 0, else
 * WAVETRAIN_INVALID. Samples and boxes grow the same way. Their size is a member or an argument
 * next to them, they lie that many bytes apart, and members that a smaller one lacks are zeros.
 * Such a size is a multiple of 8, as sizeof is, else WAVETRAIN_INVALID: a part of a pointer is not
 * a pointer. Structs inside another struct, and those of the arrays that wavetrain fills, never
 * grow; a larger size of one is WAVETRAIN_INVALID.
 *
 * Strings that go in are copied. Pointers that come out are borrowed until the release of their
 * batch; a DLPack tensor and what it points to, until its deleter is called.
 *
 *
 * 5. Threads and fork
 *
 * Every function may be called from any thread at any time, also on the same loader. Several
 * threads may pop: each gets other batches. thread_mode = OWN starts n_io_threads +
 * n_decode_threads threads at open, and one more where batches are made on a device; they block all
 * signals. Debuggers and top call them wavetrain-io0, wavetrain-dec0 and wavetrain-gpu. The one for
 * the device calls the driver, on 8 MiB of stack. Below every stack lies a guard, see
 * hook_stack_bytes. Threads that decode for it let your threads run first, at batch priority
 * (SCHED_BATCH), unless the thread that opens has another policy than SCHED_OTHER or the system
 * forbids it. For batches in host memory they run as any other thread.
 * If the number of decoding threads is not set, it is the least of three numbers. These are the
 * CPUs in the affinity mask of the thread that opens (or in cpus), the rounded CPU quotas of the
 * cgroup and its parents, and the CPUs online. It is divided by the ranks of the node, if
 * LOCAL_WORLD_SIZE, OMPI_COMM_WORLD_LOCAL_SIZE, MV2_COMM_WORLD_LOCAL_SIZE or MPI_LOCALNRANKS names
 * their number, or SLURM_STEP_TASKS_PER_NODE in a step of srun. It is not divided if cpus is set,
 * because those CPUs are for this rank alone, nor with share_name, because that loader works for
 * all ranks. placement_text of the stats has the number and the reason.
 * thread_mode = PUMP starts none: work happens on your thread, in wavetrain_pump and in pops and
 * pushes that wait. thread_mode = HOOK starts none: work happens in jobs that your own job system
 * runs (wavetrain_workers_hook), in wavetrain_pump, and in pops and pushes that wait. 128 KiB of
 * stack are enough for all of them; if batches are made on a device 1 MiB, because they call the
 * driver.
 * All other functions take 32 KiB of stack at most, and so do these if wavetrain has threads. If
 * backend is AUTO or CUDA, open, memory_need and config_fit call the driver too: 1 MiB.
 * Only push, pop and close with a timeout wait, and hooks that you make wait.
 *
 * No function is a cancellation point. A thread that is cancelled (pthread_cancel) inside of one,
 * also while it waits or works there, continues until the call has returned and its results are
 * written. Only its timeout, or close, ends a wait. Hooks are called with cancellation off,
 * whatever the thread, and must leave it off; wavetrain's threads are never cancelled.
 *
 * A signal handler must call no function, because the thread that it interrupts may hold a lock
 * that the function takes; wavetrain_version and wavetrain_status_str take none. It must not leave
 * by longjmp or an exception either, where it interrupts a call or a hook. Let it set a flag, or
 * write to a pipe, and let a thread act on that.
 *
 * A plugin that holds wavetrain may be unloaded (dlclose) at any time: the library stays loaded
 * once a loader was opened (keep_loaded). With keep_loaded = 0 all loaders must be closed and all
 * tensors deleted before.
 *
 * No hook is called with a lock held, and none after close has returned WAVETRAIN_OK. After a close
 * that returned WAVETRAIN_AGAIN for batches and tensors alone only memory.free is called, by the
 * close that is OK.
 *
 * Handles are numbers, never 0. A call with a handle that was closed, never existed, or is of
 * another copy of wavetrain in the process (a plugin's), touches no memory and returns
 * WAVETRAIN_SHUTDOWN. So does every call in a child made by fork, where the deleter of a tensor
 * does nothing.
 *
 *
 * 6. Errors
 *
 * Calls return a status: 0 is success, below 0 an error, above 0 "not now". Nothing that a file or
 * an argument holds ends the process. Results are written on success only; taken, held, need and
 * error are written on failure too. wavetrain_error names the sample, the chunk, the reason and the
 * fix. Functions with an error argument take NULL for it; the text of every call on a loader that
 * failed is there in wavetrain_last_error. Nothing is printed unless log_quiet = 0.
 */
#ifndef WAVETRAIN_H
#define WAVETRAIN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- 7. Version --------------------------------------------------------------------------- */
/* The rules between a header and an archive or shared library of another version, before 1.0 too:
 *
 *   same major     A program built with the older header keeps working with the newer library.
 *                  With an older library than its header a program works as long as it calls no
 *                  function and sets no field that the library does not have. The first does not
 *                  link, the second is WAVETRAIN_INVALID.
 *   another major  Nothing holds.
 *
 * So the shared library is libwavetrain.so.MAJOR, and CMake's find_package takes the same major,
 * not older than what it is asked for. Minor and patch may add functions, fields at the end of
 * structs (4.), statuses and constants, and what used to be refused may work. The C++ headers are
 * compiled into the program: source that uses them keeps compiling. The Rust crate keeps to cargo's
 * rule, by which another minor may change it before 1.0. */

#define WAVETRAIN_VERSION_MAJOR 0
#define WAVETRAIN_VERSION_MINOR 1
#define WAVETRAIN_VERSION_PATCH 0
/* The number that wavetrain_version returns in an archive of this header. */
#define WAVETRAIN_VERSION                                                                          \
    ((WAVETRAIN_VERSION_MAJOR << 16) | (WAVETRAIN_VERSION_MINOR << 8) | WAVETRAIN_VERSION_PATCH)

/* ---- 8. Status ---------------------------------------------------------------------------- */

typedef int32_t wavetrain_status;
enum {
    WAVETRAIN_OK = 0,
    /* Not now. */
    WAVETRAIN_AGAIN = 1,          /* nothing was waited for, or push found no room: try again */
    WAVETRAIN_STARVED = 2,        /* the timeout of pop ran out; a later pop gets the same batch */
    WAVETRAIN_END = 3,            /* flushed, and every batch popped */
    WAVETRAIN_RESET = 4,          /* of a consumer (wavetrain_node.h): the owner began anew */
    /* Errors. */
    WAVETRAIN_INVALID = -1,       /* an argument or a config field is wrong; the text names it */
    WAVETRAIN_NOT_FOUND = -2,     /* no such array, or a group; or a chunk, if that is an error */
    WAVETRAIN_DTYPE = -3,         /* no cast from the array's type to the output type */
    WAVETRAIN_RANK = -4,          /* box, array and sample shape have ranks that do not fit */
    WAVETRAIN_IO = -5,            /* something that is there could not be opened or read */
    WAVETRAIN_DECODE = -6,        /* bytes of the store break the rules of their format */
    WAVETRAIN_UNSUPPORTED = -7,   /* well-formed, but nothing that this version reads or does */
    WAVETRAIN_CUDA = -8,          /* a CUDA driver call failed */
    WAVETRAIN_OUT_OF_MEMORY = -9, /* at open: no memory, thread or free handle */
    WAVETRAIN_BUDGET = -10,       /* a cap is too small; the text names it and the floor */
    WAVETRAIN_SHUTDOWN = -11,     /* the loader was closed, never opened, or is the parent's */
    WAVETRAIN_INTERNAL = -12,     /* a defect of wavetrain: please report it */
    WAVETRAIN_STATUS_FORCE32 = 0x7FFFFFFF
};

/* ---- 9. Plain types ----------------------------------------------------------------------- */

#define WAVETRAIN_RANK_MAX 16          /* axes of an array, a box, a sample */
#define WAVETRAIN_URI_BYTES_MAX 4095   /* bytes of a uri, without a NUL */
#define WAVETRAIN_ERROR_TEXT_BYTES 512 /* here and below: with the NUL */
#define WAVETRAIN_SHORT_TEXT_BYTES 256
#define WAVETRAIN_NAME_BYTES 64
#define WAVETRAIN_CODECS_TEXT_BYTES 384
#define WAVETRAIN_MEMORY_LINES 32
#define WAVETRAIN_HISTOGRAM_BUCKETS 32
#define WAVETRAIN_CODEC_PLACES 8       /* of a count by codec; those without a codec hold 0 */
#define WAVETRAIN_BY_WORKER_PLACES 16  /* of a count by reason; those without a reason hold 0 */
#define WAVETRAIN_SCRATCH_BYTES 4259840 /* 4 MiB + 64 KiB: for config_fit and array_info */
#define WAVETRAIN_FOREVER UINT64_MAX    /* a timeout that never runs out */
#define WAVETRAIN_TENSORS_PER_SLOT 8    /* DLPack tensors of a field that live at a time */
#define WAVETRAIN_POP_TIMEOUT (UINT64_MAX - 1) /* of pop: config.pop_timeout_ns */
#define WAVETRAIN_UNTIL_RELEASED (UINT64_MAX - 2) /* of close: waits for batches and tensors, too */
#define WAVETRAIN_NGFF_VERSION_BYTES 16
#define WAVETRAIN_FIELDS_MAX 8          /* tensors in a batch */
#define WAVETRAIN_NO_INDEX UINT32_MAX   /* in a group entry: the store does not say */

/* An instance, and a popped batch: numbers, never 0, never used twice. Copy them as you like. */
typedef uint64_t wavetrain_loader;
typedef uint64_t wavetrain_batch;

/* From dlpack.h, by name only: include that header to look inside. Layout 1.x and that before
 * 1.0. */
struct DLManagedTensorVersioned;
struct DLManagedTensor;

/* Element types, of arrays and of batches. */
enum {
    WAVETRAIN_F32 = 1,
    WAVETRAIN_BF16 = 2,
    WAVETRAIN_F16 = 3,
    WAVETRAIN_I32 = 4,
    WAVETRAIN_I64 = 5,
    WAVETRAIN_U8 = 6,
    WAVETRAIN_I8 = 7,
    WAVETRAIN_U16 = 8,
    WAVETRAIN_I16 = 9,
    WAVETRAIN_U32 = 10,
    WAVETRAIN_U64 = 11,
    WAVETRAIN_F64 = 12,
    WAVETRAIN_BOOL = 13, /* one byte, 0 or 1 */
    WAVETRAIN_C64 = 14,  /* two f32: real, imaginary */
    WAVETRAIN_C128 = 15, /* two f64: real, imaginary */
    WAVETRAIN_RAW = 16,  /* dtype_bytes bytes without a meaning */
    WAVETRAIN_DTYPE_FORCE32 = 0x7FFFFFFF
};

/* Why something failed. Your memory; set struct_size before the call. */
typedef struct wavetrain_error {
    size_t struct_size;
    wavetrain_status status;
    uint32_t chunk_rank; /* coordinates in chunk; 0 where no chunk is to blame */
    uint64_t tag;        /* the tag of the sample to blame, else 0 */
    uint64_t batch_id;   /* the batch to blame, counted from 0 since open or reset, else 0 */
    uint32_t sample;     /* its place in the batch, else 0 */
    uint32_t reserved;   /* 0 */
    uint64_t chunk[WAVETRAIN_RANK_MAX];    /* place in the array's grid of chunks */
    char text[WAVETRAIN_ERROR_TEXT_BYTES]; /* UTF-8 with a NUL: array, chunk, reason, fix */
} wavetrain_error;

/* The place of the bytes of a line of the memory budget. */
enum {
    WAVETRAIN_MEMORY_HOST = 0,
    WAVETRAIN_MEMORY_PINNED = 1, /* page-locked */
    WAVETRAIN_MEMORY_DEVICE = 2,
    WAVETRAIN_MEMORY_FORCE32 = 0x7FFFFFFF
};

/* A line of the memory budget. */
typedef struct wavetrain_memory_line {
    char name[WAVETRAIN_NAME_BYTES]; /* what the bytes are for */
    uint32_t kind;                   /* WAVETRAIN_MEMORY_ */
    uint32_t reserved;               /* 0 */
    uint64_t bytes;
} wavetrain_memory_line;

/* The memory budget of a config. Your memory; set struct_size before the call. */
typedef struct wavetrain_memory {
    size_t struct_size;
    uint64_t host_bytes;   /* one block of host memory .. */
    uint64_t host_align;   /* .. aligned to this, a power of two */
    uint64_t pinned_bytes; /* 0 on the host backend */
    uint64_t device_bytes; /* 0 on the host backend */
    uint64_t slot_bytes;   /* the part of host_bytes that batches take */
    uint32_t threads;      /* threads that open will start */
    uint32_t line_count;
    wavetrain_memory_line lines[WAVETRAIN_MEMORY_LINES];
    uint64_t shared_bytes; /* host memory that processes share; 0 without share_name */
} wavetrain_memory;

/* The kinds of a box, by what it reads. */
enum {
    WAVETRAIN_BOX_URI = 0,    /* an array of a store */
    WAVETRAIN_BOX_MEMORY = 1, /* your memory */
    WAVETRAIN_BOX_VALUE = 2,  /* the same, of up to 64 bytes, which push copies: a label */
    WAVETRAIN_BOX_FORCE32 = 0x7FFFFFFF
};

/* The source of a box of MEMORY or of a VALUE: a tensor of as many axes as the box. Your memory;
 * set struct_size. The struct is read during push, and so are the elements of a VALUE. The elements
 * of MEMORY are borrowed, and must not be written, until the batch of the sample is popped. A reset
 * or close that returned WAVETRAIN_OK also ends the loan, as does a close that returned
 * WAVETRAIN_AGAIN for batches and tensors alone. The fill value of a tensor is 0. These boxes need
 * fields or max_boxes_per_sample in the config.
 *
 * CPU memory is copied through wavetrain's pinned memory on its way to a device. Memory of a device
 * is not copied: the kernel that fills the batch reads it in place, once event is over. That kernel
 * has run when the batch is popped, or reset or close has returned. Nothing outside of the tensor's
 * elements, from the first in memory to the last, is read. It must be memory that kernels in the
 * loader's context can read, of the device of its batches: another device is WAVETRAIN_INVALID, a
 * loader on the host WAVETRAIN_UNSUPPORTED. ONLY THE KERNEL FINDS OUT THAT MEMORY IS NOT SUCH
 * MEMORY, AND THEN THE CONTEXT IS LOST.
 *
 * event is borrowed like the memory, and must not be recorded again meanwhile. wavetrain queries it
 * whenever it looks at the device; none of its streams waits for it. Until the event is over, its
 * batch and those after it in the order of pops are not ready. Other batches are not delayed. One
 * that fails is WAVETRAIN_CUDA at pop, whatever on_error is, until reset. DO NOT RECORD IT IN A
 * CAPTURE: to ask for it may break that, and it stands for no work. */
typedef struct wavetrain_tensor {
    size_t struct_size;
    const void *data;     /* the first element, of any alignment; the bytes from the first element
                             in memory to the last must be readable */
    uint32_t dtype;       /* WAVETRAIN_F32 ..: one that the field may be made of */
    uint32_t dtype_bytes; /* bytes of an element where dtype is RAW; else 0 */
    int32_t device;       /* -1: host; of MEMORY also the number of the loader's CUDA device */
    uint32_t reserved;    /* 0 */
    uint64_t shape[WAVETRAIN_RANK_MAX];
    int64_t strides[WAVETRAIN_RANK_MAX]; /* bytes from one element to the next; all 0: row-major */
    void *event;          /* of a device: a CUevent after which the elements are complete; NULL:
                             they are complete when push is called. For CPU memory NULL */
} wavetrain_tensor;

/* A box of a field that is overwritten. Your memory; copied by push. */
typedef struct wavetrain_erase {
    uint64_t begin[WAVETRAIN_RANK_MAX]; /* by axis of the field: the first place */
    uint64_t end[WAVETRAIN_RANK_MAX];   /* one past the last, at most the field's extent; of axes
                                           that the field lacks both are 0 */
    const float *values; /* n_values values */
    uint32_t n_values;   /* 1: the same for all channels; or n_channels */
    uint32_t reserved;   /* 0 */
} wavetrain_erase;

/* Arithmetic on the elements of a box on their way into a field of F32, BF16 or F16. Your memory;
 * set struct_size; copied by push. It needs config.augment = 1, and elements of any type but RAW.
 *
 * For each place of the field that the box covers, in this order:
 *
 *     x = (float)element              as a cast to F32 makes it
 *     x = x * scale[c]                unless scale is NULL
 *     x = x + bias[c]                 unless bias is NULL
 *     x = x + noise_sigma * z         unless noise_sigma is 0
 *     if (x < clamp_low)  x = clamp_low      if has_clamp
 *     if (x > clamp_high) x = clamp_high
 *     x = values[c]                   if the place lies in a box of erase, the last one that it
 *                                     lies in
 *     the field gets x                as a cast of F32 makes it
 *
 * Every line is in float, and each * and + rounds once, to nearest even: they are never contracted
 * to one operation, and subnormal numbers are kept. Every NaN becomes 0x7FC00000 before the last
 * line, which is 0x7FC0 of BF16 and 0x7E00 of F16. So all backends give the same bits.
 *
 * c is the place along channel_axis of the field, or 0 where n_channels is 1. z is made of
 * noise_key and n, the number of the place in the field's sample, row-major:
 *
 *     uint64_t h = noise_key + (n + 1) * 0x9E3779B97F4A7C15;      in 64 bits
 *     h = (h ^ h >> 30) * 0xBF58476D1CE4E5B9;
 *     h = (h ^ h >> 27) * 0x94D049BB133111EB;
 *     h = h ^ h >> 31;
 *     z = table[h >> 53] + table[h >> 42 & 2047];                 one addition of floats
 *
 * table[i] is the float next to Q((i + 0.5) / 2048) * 0.7073325951129718. Q is the quantile of the
 * normal distribution. z has mean 0 and variance 1, and is between -4.94 and 4.94. Two boxes that
 * go to other places of a sample with the same key have other noise.
 *
 * The arithmetic applies to the fill value of an array, as to its elements. If pad_goes_through is
 * 1, it also applies to the padding that pad_mode of the field makes outside of the array; a
 * pad_value then counts as an element of the field. Else padding is cast alone, and erased nowhere.
 * The arithmetic never applies to places that no box covers.
 *
 * read_into refuses boxes that have it. */
typedef struct wavetrain_augment {
    size_t struct_size;
    const float *scale;    /* [n_channels]; NULL: none */
    const float *bias;     /* [n_channels]; NULL: none */
    uint32_t n_channels;   /* 0: no scale and no bias; 1: the same for all; else the field's extent
                              along channel_axis, up to 64 */
    uint32_t channel_axis; /* of the field; 0 where n_channels is at most 1 */
    float clamp_low;       /* a number or an infinity; not looked at without has_clamp */
    float clamp_high;      /* the same, not less than clamp_low */
    uint32_t has_clamp;    /* 0 or 1 */
    float noise_sigma;     /* 0: none; at least 0, finite */
    uint64_t noise_key;
    const wavetrain_erase *erase; /* n_erase boxes, each erase_bytes after the one before */
    uint32_t n_erase;      /* up to 8 */
    uint32_t erase_bytes;  /* sizeof(wavetrain_erase); 0 without a box */
    uint32_t pad_goes_through; /* 0 or 1 */
    uint32_t reserved;     /* 0 */
} wavetrain_augment;

/* The filter of wavetrain_affine. */
enum {
    WAVETRAIN_NEAREST = 0, /* the voxel floor(x + 1/2) */
    WAVETRAIN_LINEAR = 1,  /* between the two voxels of each axis */
    WAVETRAIN_FILTER_FORCE32 = 0x7FFFFFFF
};

/* An affine map from the places of a box to voxels of an array. Your memory; set struct_size;
 * copied by push. It needs config.augment = 1.
 *
 * Up to three axes of the array are mapped. Along these the box has begin 0, end the extent of the
 * output, and no step. Place (i, j, k) of the box reads about the voxel whose coordinate along
 * axis axes[a] is
 *
 *     x[a] = matrix[a][0] * i + matrix[a][1] * j + matrix[a][2] * k + matrix[a][3]
 *
 * Only the first `rank` rows, columns and indices exist. Place p and voxel p are centres.
 * The other axes are copied as of any box; with pad_mode constant they must lie inside of the
 * array. pad_mode of the field has the voxels outside along the mapped ones.
 *
 * Each entry of the matrix is rounded once, to the nearest multiple of 2^-32, ties to even; x is
 * exact from there on. An entry of 2^31 or more is WAVETRAIN_INVALID, and so is such a coordinate,
 * relative to the first voxel that is read. A matrix that is not finite or that is singular is
 * WAVETRAIN_INVALID, too.
 *
 * NEAREST takes the voxel floor(x + 1/2), of any type that a box of the array may have.
 *
 * LINEAR is for fields of F32, BF16 and F16. It rounds x to a multiple of 2^-24, half upwards;
 * pad_mode edge and reflect fold it into the array. The voxels floor(x) and floor(x) + 1 become
 * floats a and b, and w is the fraction of x. Axes are taken from the last of the map to the first:
 *
 *     a + (b - a) * w     three operations in float, each rounded once, never contracted
 *
 * If w is 0 the result is a, and b is not read. A NaN becomes 0x7FC00000. With pad_mode constant a
 * voxel outside is the pad value. A result is within (3 * rank * D + (rank + 1) * M) * 2^-24 of
 * exact interpolation, for voxels of magnitude up to M that are at most D apart.
 *
 * augment of the box follows: x of its first line is the result, in float. A place whose
 * voxels all lie outside under pad_mode constant is padding for pad_goes_through; with edge and
 * reflect no place is.
 *
 * The voxels between the corners of the output that lie in the array are read into memory of
 * config.max_resample_bytes. Boxes of a batch that fit there together decode a chunk once. A box
 * that reads more is WAVETRAIN_BUDGET at pop, of its sample alone.
 *
 * The uri may name an OME-NGFF image, in the versions that #level= reads. The matrix leads to
 * voxels of its level 0, whichever level is read: the given one, or with level -1 the coarsest that
 * is fine enough. Such a level has voxels that are, along each mapped axis, no longer than the
 * Euclidean norm of the factors of that row, times 1 + 1e-6 for rounding. If no level is fine
 * enough, or if the image gives no scales, that is level 0. With has_units = 1 the matrix leads to
 * physical units. Each entry of row a becomes one of the level, in double, with its scale s and
 * translation t along axes[a], and with s0 and t0 of level 0:
 *
 *     factor:  matrix[a][b] * s0 / s                  units:  matrix[a][b] / s
 *     term:    (matrix[a][3] * s0 + t0 - t) / s       units:  (matrix[a][3] - t) / s
 *
 * Level 0 without units has the matrix as it is. begin, end and step of a copied axis are in voxels
 * of the level that is read; its scale, translation and extent there must be those of level 0. If
 * they are not, or if an entry is then not finite, the sample is WAVETRAIN_INVALID at pop. It is
 * WAVETRAIN_UNSUPPORTED if a level above 0 or has_units needs a scale that the image does not give,
 * WAVETRAIN_NOT_FOUND if there is no such level. A uri that names an array has level 0 alone, and
 * no units: all else is WAVETRAIN_INVALID at pop.
 *
 * A box of a tensor has the bits of the same array in a file. The map leads to its elements as its
 * shape and strides count them. A tensor has level 0 alone and no units, and push returns what pop
 * returns of a file, except WAVETRAIN_BUDGET.
 *
 * The batches of a device have the same bits. The host decodes the chunks, resamples them and
 * copies the places to the device. A tensor in memory of a device is therefore
 * WAVETRAIN_UNSUPPORTED. A uri with #level= or #scale=, and read_into have no map. */
typedef struct wavetrain_affine {
    size_t struct_size;
    uint32_t rank;       /* 1 to 3 axes are mapped */
    uint32_t axes[3];    /* which of the array, each once */
    double matrix[3][4]; /* output place to voxel of level 0, or to physical units */
    uint32_t filter;     /* WAVETRAIN_NEAREST or WAVETRAIN_LINEAR */
    int32_t level;       /* of the image; -1: the coarsest that is fine enough */
    uint32_t has_units;  /* 0 or 1: the matrix leads to physical units of the image */
    uint32_t reserved;   /* 0 */
} wavetrain_affine;

/* A box of an array or a tensor, and the place of its elements in a field of the sample. Your
 * memory; copied by push.
 *
 * The box has ceil((end - begin) / |step|) places along each of its axes. Place p reads the element
 * begin + p * step of the array, or, where step is below 0, end - 1 + p * step: as a slice of numpy
 * does. Outside of the array a step of 1 or -1 reads the padding of the field (pad_mode); a longer
 * one has to stay inside. Chunks that a step leads over are not read.
 *
 * The places of an axis lie next to each other along an axis of the field, from its element at[]
 * on. With axes all 0 the axes of the box are those of the field in order. Axes of extent 1 may be
 * dropped so that the extents are those of the sample. If the extents are a part of the sample's,
 * the last axes of the box are those of the field. An axis of the field that no axis of the box
 * becomes has the one place at[]. Boxes of a sample that cover the same place of a field are
 * WAVETRAIN_INVALID; places that no box covers hold pad_value of the field. */
/* An axis of a box that reads elements one by one, in any order, repeats kept: place p of the axis
 * has the element indices[p] of the array. Several lists of a box are their product, as numpy.ix_
 * has it. Elements outside of the array are padding, as of other boxes: with pad_mode reflect each
 * run of neighbours must meet the array.
 *
 * A run of neighbours, up or down, is planned as a box of its own, and a chunk is read and decoded
 * once for all of them. For MEMORY, VALUE and boxes with a wavetrain_affine, lists are refused. */
typedef struct wavetrain_index_list {
    uint32_t axis;          /* of the box: its begin is 0, its end n_indices, its step 0 or 1 */
    uint32_t reserved;      /* 0 */
    const int64_t *indices; /* n_indices elements, at a multiple of 8; copied by the call */
    uint64_t n_indices;     /* at least 1; all of a sample together, of several lists of a box their
                             * product, at most max_indices_per_sample */
} wavetrain_index_list;

typedef struct wavetrain_box {
    const char *uri;    /* path or file:// uri, with a files hook any uri; UTF-8, needs no NUL; a
                         * last '/' is dropped. A relative path is of the folder that was the
                         * process's current one at open, whatever chdir did since */
    uint64_t uri_bytes; /* bytes of uri, 1 to WAVETRAIN_URI_BYTES_MAX */
    uint32_t rank;      /* axes of the array; of an array of rank 0, 0: the box is one element */
    uint32_t kind;      /* WAVETRAIN_BOX_ */
    int64_t begin[WAVETRAIN_RANK_MAX];
    int64_t end[WAVETRAIN_RANK_MAX]; /* one past the last */

    /* Members that a box of the first version lacks; zeros have its meaning. */
    uint32_t field;                   /* that gets its elements, counted from 0 */
    uint32_t reserved;                /* 0 */
    uint64_t at[WAVETRAIN_RANK_MAX];  /* by axis of the field: its index of the first place */
    int64_t step[WAVETRAIN_RANK_MAX]; /* by axis of the box: elements from one place to the next,
                                         backwards below 0; 0 is 1. Beyond 1 at most 536,870,911, to
                                         at most 268,435,455 places */
    uint8_t axes[WAVETRAIN_RANK_MAX]; /* by axis of the box: 1 + the axis of the field that it
                                         becomes, each once; 0: dropped, its extent is 1; all 0: in
                                         order, see above */
    const wavetrain_tensor *tensor;   /* of MEMORY and of a VALUE: what is read, and there is no
                                         uri; else NULL */
    const wavetrain_augment *augment; /* what is done to the elements; NULL: they are cast alone */
    const wavetrain_affine *affine;   /* where its places lie in the array; NULL: as begin, end and
                                         step say */
    const wavetrain_index_list *lists; /* axes that are lists of indices; NULL: none is */
    uint32_t n_lists;                  /* 0 to WAVETRAIN_RANK_MAX */
    uint32_t list_bytes;               /* sizeof(wavetrain_index_list); 0 if lists is NULL */
} wavetrain_box;

/* A sample. Your memory; copied by push, which takes sizeof(wavetrain_sample) as an argument. */
typedef struct wavetrain_sample {
    const wavetrain_box *boxes; /* n_boxes boxes, each box_bytes after the one before */
    uint32_t n_boxes;           /* 1 to max_boxes_per_sample */
    uint32_t box_bytes;         /* sizeof(wavetrain_box) */
    uint64_t tag;               /* your number; the batch and errors return it */
} wavetrain_sample;

/* Which arrays of a column have one row, for all rows of the table: flags. */
enum {
    WAVETRAIN_BEGIN_IS_ONE = 1,
    WAVETRAIN_SHAPE_IS_ONE = 2,
    WAVETRAIN_STEP_IS_ONE = 4,
    WAVETRAIN_AT_IS_ONE = 8,
    WAVETRAIN_WHICH_IS_ONE = 16,
    WAVETRAIN_VALUES_IS_ONE = 32,
    WAVETRAIN_AUGMENT_IS_ONE = 64,
    WAVETRAIN_AFFINE_IS_ONE = 128,
    WAVETRAIN_COLUMN_FORCE32 = 0x7FFFFFFF
};

/* A column of a table: one box of each sample, as numbers in arrays. Your memory; set struct_size,
 * and zeros for members that are left out. When push_table returns, it no longer uses the column
 * and all that it points to.
 *
 * Each array has `count` rows, packed, or one row if flags has its bit. The array lies at a
 * multiple of the size of its numbers. A box of a column reads what a wavetrain_box reads of the
 * same field, rank, begin, step and at, with axes all 0 and end one past its last element:
 *
 *     end = begin + (shape - 1) * |step| + 1
 *
 * So begin is the lowest element, also where step is below 0: begin 10, shape 3 and step -4 are the
 * elements 18, 14 and 10. A shape of 0 is an empty box, which push_table refuses. */
typedef struct wavetrain_column {
    size_t struct_size;
    uint32_t field;           /* that gets the elements, counted from 0 */
    uint32_t rank;            /* axes of each box, 0 to WAVETRAIN_RANK_MAX */
    uint32_t kind;            /* WAVETRAIN_BOX_URI or WAVETRAIN_BOX_VALUE */
    uint32_t flags;           /* WAVETRAIN_BEGIN_IS_ONE .. */
    const char *const *uris;  /* of URI: n_uris uris with a NUL, each as of wavetrain_box */
    uint32_t n_uris;          /* at least 1 of URI; 0 of a VALUE */
    uint32_t reserved;        /* 0 */
    const uint32_t *which;    /* [count]: the number of the uri, counted from 0; NULL: 0 */
    const int64_t *begin;     /* [count][rank], elements; NULL of a VALUE and where rank is 0 */
    const uint64_t *shape;    /* [count][rank], places; NULL where rank is 0 */
    const int64_t *step;      /* [count][rank], elements, as of wavetrain_box; NULL: 1, and of a
                                 VALUE */
    const uint64_t *at;       /* [count][axes of the field]: index of the first place; NULL: 0 */
    const void *values;       /* of VALUE: [count][value_bytes]; each value is row-major, has the
                                 extents `shape`, and is copied whole. These need fields or
                                 max_boxes_per_sample in the config */
    uint32_t value_dtype;     /* WAVETRAIN_F32 ..: one that the field may be made of; else 0 */
    uint32_t value_bytes;     /* bytes of the value of a row, 1 to 64; else 0 */
    const wavetrain_augment *augment; /* [count], each augment_bytes after the one before; NULL:
                                         elements are cast alone */
    uint32_t augment_bytes;   /* sizeof(wavetrain_augment); 0 without one */
    uint32_t affine_bytes;    /* sizeof(wavetrain_affine); 0 without one */
    const wavetrain_affine *affine; /* [count], each affine_bytes after the one before: where the
                                 places lie in the array. Mapped axes have begin 0 and the extent
                                 of the output. NULL: as begin, shape and step say */
} wavetrain_column;

/* A tensor of batches: a part of each sample, with a type and a shape of its own. Your memory; an
 * array of them is fields of the config, field_bytes from one to the next. */
typedef struct wavetrain_field {
    char name[WAVETRAIN_NAME_BYTES]; /* "mask": UTF-8 with a NUL, each another, without '/' */
    uint32_t sample_rank;   /* axes of a sample, 0 to 16; 0: one element for each, the batch has the
                               shape [samples] */
    uint32_t dtype;         /* as of the config */
    uint32_t dtype_bytes;   /* bytes of an element where dtype is RAW, 1 to 16; else 0 */
    uint32_t pad_mode;      /* WAVETRAIN_PAD_ */
    uint32_t pad_value_set; /* 1: PAD_CONSTANT takes pad_value, 0: the array's fill value */
    uint32_t cf;            /* 1: arrays that its boxes read are decoded by the CF conventions, as
                               if the uri ended with #cf=1; push refuses arrays that are not zarr's.
                               Elements that are fed have no attributes: they stay as they are */
    uint64_t sample_shape[WAVETRAIN_RANK_MAX]; /* each at least 1 */
    double pad_value;       /* that padding, skipped samples and places that no box covers hold;
                               must fit dtype */
} wavetrain_field;

/* The part of a popped batch that is one field. Your memory; set struct_size. The pointers in it
 * are wavetrain's, borrowed until release. Rows are packed in row-major order: sample i starts at
 * data + i * (bytes / sample_count). You may write to data. */
typedef struct wavetrain_batch_view {
    size_t struct_size;
    void *data;            /* CPU or device memory, see backend; aligned to 256 bytes, unless it is
                              lent */
    uint64_t bytes;        /* of sample_count samples */
    uint32_t rank;         /* 1 + sample_rank */
    uint32_t dtype;        /* WAVETRAIN_F32 .. */
    uint32_t dtype_bytes;  /* bytes of an element */
    uint32_t backend;      /* WAVETRAIN_BACKEND_HOST or _CUDA */
    int32_t device;        /* CUDA device; -1 on the host */
    uint32_t sample_count; /* shape[0]; less than samples_per_batch in a flushed last batch */
    uint64_t shape[WAVETRAIN_RANK_MAX + 1];
    void *ready_stream;    /* CUstream of the slot, for your work on it; NULL on the host. The data
                              is complete, on every stream, when pop returns */
    uint64_t batch_id;     /* from 0 since open or reset, in push order */
    const uint64_t *tags;  /* sample_count tags, in push order */
    const wavetrain_status *statuses; /* sample_count; not 0: the sample holds pad_value (SKIP), or
                                         NaN in chunks that cannot be read (NAN) */
    uint32_t failed_samples;          /* how many of them are not 0 */
    uint32_t reserved;                /* 0 */
    const uint64_t *filled_shape; /* [sample_count][sample_rank, of a scalar 1]: how far boxes of
                                     the sample reach along each axis, the largest place + 1,
                                     padding by pad_mode included. 0: no box covers a part of the
                                     field. A scalar has 1 or 0 */
    const uint64_t *digests; /* sample_count digests, see digest of the config, in host memory
                                whatever the backend; NULL where it is 0 */
    uint64_t digest;         /* the sum over the samples of mix(position, digest); 0 likewise */
    const char *name;        /* of the field, "" where the config has no table of them; lives as
                                long as the loader */
    uint64_t lend_tag;       /* of the memory that the batch lies in, if that is lent; else 0 */
    uint32_t is_lent;        /* 1: it is */
    uint32_t reserved2;      /* 0 */
} wavetrain_batch_view;

/* Memory for one field of a batch: see wavetrain_lend. */
typedef struct wavetrain_target {
    void *data;     /* aligned to the largest power of 2 that divides dtype_bytes */
    uint64_t bytes; /* at least those of samples_per_batch samples; others are not touched */
} wavetrain_target;

/* The work of one stage. */
typedef struct wavetrain_metric {
    uint64_t ns;           /* nanoseconds, summed over threads */
    uint64_t ns_best;      /* the shortest observation; UINT64_MAX before the first */
    uint64_t input_bytes;  /* that went in */
    uint64_t output_bytes; /* that came out */
    uint64_t count;        /* observations */
    /* Bucket b counts observations of [2^b, 2^(b+1)) ns, bucket 0 also 0 ns, the last all above. */
    uint64_t histogram[WAVETRAIN_HISTOGRAM_BUCKETS];
} wavetrain_metric;

/* The compressor of a chunk, whatever checksums are around or inside it. */
enum {
    WAVETRAIN_CODEC_NONE = 0, /* nothing compressed it */
    WAVETRAIN_CODEC_ZSTD = 1,
    WAVETRAIN_CODEC_BLOSC = 2, /* with any codec inside */
    WAVETRAIN_CODEC_GZIP = 3,
    WAVETRAIN_CODEC_ZLIB = 4,
    WAVETRAIN_CODEC_LZ4 = 5,
    WAVETRAIN_CODEC_BZ2 = 6,
    WAVETRAIN_CODEC_LZMA = 7
};

/* The number of each stage in an event. */
enum {
    WAVETRAIN_STAGE_PLAN = 0,
    WAVETRAIN_STAGE_META = 1,
    WAVETRAIN_STAGE_IO = 2,
    WAVETRAIN_STAGE_INPUT_TRANSFER = 3,
    WAVETRAIN_STAGE_DECODE = 4,
    WAVETRAIN_STAGE_POST_DECODE = 5,
    WAVETRAIN_STAGE_DECODE_GAP = 6,
    WAVETRAIN_STAGE_ASSEMBLE = 7,
    WAVETRAIN_STAGE_BIND_WAIT = 8,
    WAVETRAIN_STAGE_POP_WAIT = 9,
    WAVETRAIN_STAGE_DIGEST = 10,
    WAVETRAIN_STAGE_DEVICE_DECODE = 11,
    WAVETRAIN_STAGE_FORCE32 = 0x7FFFFFFF
};

/* One observation of a stage. */
typedef struct wavetrain_event {
    uint64_t begin_ns; /* CLOCK_MONOTONIC */
    uint64_t duration_ns;
    uint64_t bytes; /* that it adds to output_bytes of the stage */
    uint64_t batch; /* its number; UINT64_MAX: of none, or of several */
    uint32_t kind;  /* WAVETRAIN_STAGE_ */
    uint32_t thread; /* the kernel's number (gettid); 0: of none: a device works, a wave waits,
                        reads of a hook are in flight, or it is a gap between decodes */
    uint32_t wave;   /* of those that are staged at a time; UINT32_MAX: of none */
    uint32_t slot;   /* of the batch; UINT32_MAX: of none, or of several */
} wavetrain_event;

/* Figures since open or stats_reset; those of memory, backend and held batches are as of now. */
/* Why a thread of the CPU decodes a compressed chunk on its way to a device: a place of
 * chunks_not_on_device. From BROKEN on it was to be the device, and the chunk was read again. */
enum {
    WAVETRAIN_BY_WORKER_OFF = 0,      /* device_decode is OFF, or is AUTO with more than two threads
                                         that decode, or a cap has no room for it */
    WAVETRAIN_BY_WORKER_CODEC = 1,    /* no device decodes what compresses its array, or only where
                                         device_decode is ON */
    WAVETRAIN_BY_WORKER_KEPT = 2,     /* it is kept in the chunk cache */
    WAVETRAIN_BY_WORKER_UNNEEDED = 3, /* boxes read less of it than it has bytes in its file */
    WAVETRAIN_BY_WORKER_LARGE = 4,    /* it is one large stream, which a thread decodes sooner */
    WAVETRAIN_BY_WORKER_ARRAY = 5,    /* eight chunks of its array were read again */
    WAVETRAIN_BY_WORKER_BROKEN = 6,   /* a checksum or a header is wrong */
    WAVETRAIN_BY_WORKER_OTHER_CODEC = 7, /* blosc of another codec than the metadata names, or no
                                            zstd frame that a device decodes: one with a checksum or
                                            a dictionary, or several */
    WAVETRAIN_BY_WORKER_STREAMS = 8,  /* more than 64 streams and one for each KiB, with the blocks
                                         of frames */
    WAVETRAIN_BY_WORKER_ROOM = 9,     /* a wave has no room for it, or for its streams */
    WAVETRAIN_BY_WORKER_REFUSED = 10  /* the device refused a stream */
};

typedef struct wavetrain_stats_view {
    size_t struct_size;
    wavetrain_metric plan;           /* bounded planning steps */
    wavetrain_metric meta;           /* reads of array metadata and shard indexes */
    wavetrain_metric io;             /* reads of chunks; in: bytes read, out: bytes chunks needed */
    wavetrain_metric input_transfer; /* copies to the device, by its clock; 0 on the host */
    wavetrain_metric decode;         /* chunks; in: encoded bytes, out: decoded bytes */
    wavetrain_metric post_decode;    /* decoded chunks laid out for the device, by threads of the
                                        CPU; 0 on the host */
    wavetrain_metric decode_gap;     /* of a worker, from the end of a decode to the next one's
                                        beginning, since the wave of that may be read, if it did not
                                        sleep meanwhile. For your threads, inside a job alone. The
                                        stream that decodes on a device has gaps, too, since the
                                        copy of the next wave began */
    wavetrain_metric assemble;       /* chunks cast into batches; in: source, out: batch bytes */
    wavetrain_metric bind_wait;      /* waves, from when they may be read to the first decode */
    wavetrain_metric pop_wait;       /* pops that waited, whatever came of it */
    uint64_t array_meta_hits;        /* look-ups in the cache of array metadata */
    uint64_t array_meta_misses;
    uint64_t shard_index_hits;       /* look-ups in the cache of index pages */
    uint64_t shard_index_misses;
    uint64_t chunk_layout_hits;      /* look-ups in the cache of files' layouts */
    uint64_t chunk_layout_misses;
    uint64_t samples_pushed;         /* taken by push */
    uint64_t samples_failed;         /* that pop gave out with a status (on_error = SKIP, NAN) */
    uint64_t batches_emitted;        /* popped */
    uint64_t waves_emitted;          /* waves whose last chunk was assembled */
    uint64_t chunks_planned;         /* distinct chunks that batches needed, missing ones too; of
                                        uncompressed chunks parts that lie far from each other */
    uint64_t chunks_to_load;         /* of them, those that had to be read */
    uint64_t chunks_dispatched;      /* of them, those handed to workers */
    uint64_t chunks_missing;         /* chunks that do not exist */
    uint64_t chunk_uses;             /* pairs of chunk and sample */
    uint64_t reads_issued;           /* reads of chunks, after merging */
    uint64_t files_opened;
    uint64_t worker_steps;           /* steps that did work */
    uint64_t host_bytes_committed;   /* taken at open */
    uint64_t pinned_bytes_committed;
    uint64_t gpu_bytes_committed;
    uint32_t backend;                /* WAVETRAIN_BACKEND_HOST or _CUDA: which was taken */
    uint32_t batches_held;           /* slots that popped batches, or tensors of such, keep */
    char backend_reason[WAVETRAIN_NAME_BYTES]; /* backend_text, cut to fit */
    uint64_t chunk_cache_hits;        /* chunks found decoded in the chunk cache */
    uint64_t chunk_cache_misses;      /* chunks decoded although there is a chunk cache */
    uint64_t chunk_cache_evictions;   /* chunks that left it for others */
    uint64_t chunk_cache_bytes_saved; /* decoded bytes of the hits */
    uint64_t chunk_cache_bytes_held;  /* decoded bytes in it now */
    uint32_t reserved3;              /* 0 */
    uint32_t reserved;               /* 0 */
    char reserved_text[WAVETRAIN_NAME_BYTES]; /* empty */
    uint64_t gpu_overhead_bytes; /* device memory that the driver took at open for kernels and
                                    streams, in addition to gpu_bytes_committed. wavetrain cannot
                                    cap it, and memory that others took in that moment is in it. 0
                                    on the host */
    /* Chunks that threads of the CPU decoded, at the place of what compresses them: into batches in
     * host memory, or, where backend is CUDA, for the device. Counted when a job of some chunks of
     * an array ends; together they are decode.count. Chunks that are missing, fail or come from the
     * chunk cache are not among them. */
    uint64_t chunks_decoded[WAVETRAIN_CODEC_PLACES];
    uint64_t chunks_decoded_in_slab; /* of them, those decoded where the copy to the device takes
                                        them from, without scratch and copy: compressed, and over
                                        7/8 of the chunk is read. 0 on the host */
    uint64_t chunks_left_filtered;   /* of these, blosc chunks whose shuffle or bitshuffle the
                                        device undoes as it assembles. 0 on the host */
    char backend_text[WAVETRAIN_ERROR_TEXT_BYTES]; /* why that backend: "host: auto, .." and what
                                        was wrong with the device. UTF-8 with a NUL */
    wavetrain_metric digest; /* full batches read for the digests of their samples, by pieces; on a
                                device by batches and its clock. In: their bytes, out: digests */
    wavetrain_metric device_decode; /* compressed bytes that the device decoded, by waves and its
                                clock. In: encoded bytes, out: decoded bytes. All 0 on the host */
    /* Chunks that the device decoded, at the place of what compresses them. They are not among
     * chunks_decoded. 0 on the host. */
    uint64_t chunks_decoded_on_device[WAVETRAIN_CODEC_PLACES];
    uint64_t chunks_redone[WAVETRAIN_CODEC_PLACES]; /* chunks that were to be, and were read again
                                for threads of the CPU, who have the last word */
    uint64_t chunks_not_on_device[WAVETRAIN_BY_WORKER_PLACES]; /* compressed chunks of arrays on
                                their way to a device that threads of the CPU decode. 0 on the
                                host */
    uint32_t device_decode_mode;     /* WAVETRAIN_DECODE_: what is decoded on the device; OFF too
                                if AUTO decodes nothing there, and on the host */
    uint32_t reserved2;             /* 0 */
    uint64_t files_changed; /* files, documents and folders that had another version at the first
                                touch of a batch, so that what was cached of them was forgotten */
    uint64_t batches_lost;          /* of consumers that were lost: popped by one that ended, or
                                       left in its list; see wavetrain_node.h */
    uint64_t mapped_bytes;          /* bytes of files that are mapped now */
    uint64_t bytes_copied_out;      /* of batches, by copies of the library's: copy_to of Rust */
    uint64_t metadata_latency_ops;  /* requests that slept by config.metadata_latency: */
    uint64_t metadata_latency_stat_ops;   /* those that open, look or list .. */
    uint64_t metadata_latency_submit_ops; /* .. and those that read documents and indexes */
    uint64_t metadata_latency_active;     /* those that sleep now */
    uint64_t metadata_latency_max_active; /* most that slept at a time */
    uint64_t metadata_latency_total_sleep_ns; /* sleeps as they were drawn, all .. */
    uint64_t metadata_latency_max_sleep_ns;   /* .. and the longest */
    uint64_t metadata_backend_read_jobs; /* reads of documents and indexes; also without latency */
    uint64_t metadata_backend_read_active;     /* those that the store works on now */
    uint64_t metadata_backend_read_max_active; /* most that it worked on at a time */
    char limit_text[WAVETRAIN_SHORT_TEXT_BYTES]; /* what bounds the run since open or stats_reset,
                                       and the one setting to try next; empty before the fourth
                                       batch. With shared batches that of the owner is about its
                                       stages, that of a consumer about the owner */
    char placement_text[WAVETRAIN_SHORT_TEXT_BYTES]; /* how many threads there are, on which CPUs,
                                       and why; the log has it, too, at level INFO */
    uint64_t oldest_held_batch;     /* the batch that is held the longest, by you or by tensors: its
                                       number, 0 also where none is .. */
    uint64_t oldest_held_since_ns;  /* .. and when it was popped, by CLOCK_MONOTONIC; 0: none is */
    uint32_t memories_lent;         /* that you do not have back: wavetrain_lend */
    uint32_t consumers_missing;     /* of share_consumers: those that have not attached yet and are
                                       waited for; on a consumer those that are not attached now */
    uint64_t bad_chunks;            /* chunks that could not be read, each time that a batch needed
                                       one: see wavetrain_bad_chunk */
} wavetrain_stats_view;

/* The kinds of a node at a path. Images, plates and wells are groups whose attributes make them so
 * (OME-NGFF 0.1 to 0.5). */
enum {
    WAVETRAIN_NODE_UNKNOWN = 0, /* its document could not be looked at */
    WAVETRAIN_NODE_ARRAY = 1,
    WAVETRAIN_NODE_GROUP = 2, /* a group; in a list of entries: a group of any kind */
    WAVETRAIN_NODE_IMAGE = 3, /* a group of arrays, the levels of a multiscale image */
    WAVETRAIN_NODE_PLATE = 4, /* a group of wells */
    WAVETRAIN_NODE_WELL = 5,  /* a group of images, the fields of a well */
    WAVETRAIN_NODE_FORCE32 = 0x7FFFFFFF
};

/* The sources of the entries of a group: bits of entry_sources. */
enum {
    WAVETRAIN_SOURCE_NGFF = 1,         /* OME-NGFF attributes: levels, wells, fields, labels */
    WAVETRAIN_SOURCE_CONSOLIDATED = 2, /* consolidated metadata, .zmetadata */
    WAVETRAIN_SOURCE_FOLDER = 4,       /* the group's folder, where neither of them names a node */
    WAVETRAIN_SOURCE_FORCE32 = 0x7FFFFFFF
};

/* Attributes by which other readers, such as xarray, make other numbers of an array's elements:
 * bits of packing. wavetrain applies them if the uri ends with #cf=1. If not, elements are
 * delivered as they are stored, and a WARN reports it, once per array, if the attributes change
 * something. */
enum {
    WAVETRAIN_PACKING_SCALE = 1,    /* scale_factor: elements are multiplied by it */
    WAVETRAIN_PACKING_OFFSET = 2,   /* add_offset: then it is added */
    WAVETRAIN_PACKING_FILL = 4,     /* _FillValue or missing_value: elements equal to it are holes.
                                       In zarr v2 xarray keeps it in fill: this bit is set then,
                                       too */
    WAVETRAIN_PACKING_UNSIGNED = 8, /* _Unsigned: integers have the other sign */
    WAVETRAIN_PACKING_UNKNOWN = 16, /* the attributes, .zattrs, could not be read */
    WAVETRAIN_PACKING_FORCE32 = 0x7FFFFFFF
};

/* An axis of an image. UTF-8 with a NUL, never NULL, empty where the store does not say. */
typedef struct wavetrain_axis {
    const char *name; /* "z" */
    const char *kind; /* "space", "time", "channel" */
    const char *unit; /* "micrometer" */
} wavetrain_axis;

/* A node in a group. Its pointers lead into the scratch block of the call. */
typedef struct wavetrain_group_entry {
    const char *path;           /* below the group, "labels/cells/0": the uri of the node is the uri
                                   of the group, a '/' and this. Never leads out of the group */
    const char *image_name;     /* of a level: the name of its image; empty where it has none */
    const wavetrain_axis *axes; /* of a level: rank axes; else NULL */
    uint32_t kind;              /* WAVETRAIN_NODE_ */
    uint32_t rank;              /* axes of a level; else 0 */
    uint32_t image;             /* of a level: which image of the group; else WAVETRAIN_NO_INDEX */
    uint32_t level;             /* of a level: 0 is the finest; else WAVETRAIN_NO_INDEX */
    uint32_t row;               /* of a well, if the store has it; else WAVETRAIN_NO_INDEX */
    uint32_t column;            /* the same */
    uint32_t acquisition;       /* of a field, if the store has it; else WAVETRAIN_NO_INDEX */
    uint32_t has_transform;     /* of a level. 1: the store has one, which these two arrays give. 0:
                                   it has none. 2: it has one that leads across axes, or that is not
                                   read, and all numbers of both arrays are NaN */
    double scale[WAVETRAIN_RANK_MAX];       /* element i is at i * scale + translation, in units */
    double translation[WAVETRAIN_RANK_MAX]; /* of its axis; 1 and 0 for has_transform 0 */
} wavetrain_group_entry;

/* The description of an array or a group. Your memory; set struct_size before the call. */
typedef struct wavetrain_array_view {
    size_t struct_size;
    uint32_t rank;
    uint32_t dtype;       /* WAVETRAIN_F32 .. */
    uint32_t dtype_bytes; /* bytes of an element */
    uint32_t byte_order;  /* in the store: 0 little, 1 big */
    /* Shapes and grids are in the array's own axis order, however its chunks are transposed. */
    uint64_t shape[WAVETRAIN_RANK_MAX];
    uint64_t chunk_shape[WAVETRAIN_RANK_MAX]; /* where is_rectilinear, of the LARGEST chunk; so are
                                               * file_shape and chunk_bytes */
    uint64_t file_shape[WAVETRAIN_RANK_MAX]; /* of a shard, or of a chunk without shards */
    uint32_t shard_levels;   /* 0: files are chunks, 1: shards of chunks, 2: shards of shards */
    uint32_t index_at_start; /* 1: the index of a shard file lies before its chunks */
    uint64_t chunk_bytes;                    /* of a decoded chunk */
    uint8_t fill[16];                        /* one element, in this machine's byte order */
    char dtype_name[WAVETRAIN_NAME_BYTES];   /* as the store spells it: "uint16", of v2 "<u2";
        of times "numpy.datetime64[ns]", "<M8[ns]", and dtype is I64 */
    char codecs[WAVETRAIN_CODECS_TEXT_BYTES]; /* "bytes(little) zstd"; in order of encoding,
        shards as "sharding_indexed[...](index at end, crc32c)", "transpose(1,0)" where it stands,
        filters by name: "delta bytes(little) shuffle zstd"; of zarr v2 "delta zstd order F" */
    uint32_t kind;            /* WAVETRAIN_NODE_ARRAY; else a group, and all above is 0 */
    uint32_t entry_count;     /* that entries has */
    uint64_t entry_total;     /* that were found; more than entry_count: take a larger scratch */
    const wavetrain_group_entry *entries; /* what is in the group, in the scratch block; NULL where
                                             nothing is */
    uint32_t entry_sources;   /* WAVETRAIN_SOURCE_ bits; 0: a files hook lists no folders, and
                                 nothing else lists the nodes of the group */
    uint32_t entries_are_cut; /* 1: there are more than entry_total: the folder has more than 65,536
                                 names, or names that are no text */
    uint32_t image_count;     /* multiscale images of an IMAGE */
    uint32_t row_count;       /* of a PLATE */
    uint32_t column_count;    /* of a PLATE */
    uint32_t field_count;     /* most fields in a well of a PLATE, if it has that */
    char ngff_version[WAVETRAIN_NGFF_VERSION_BYTES]; /* "0.5"; empty if it has none */
    char name[WAVETRAIN_NAME_BYTES]; /* of the plate or the first image that has one; may be cut */
    uint32_t is_rectilinear;                 /* 1: files have different extents along some axis */
    uint32_t reserved;                       /* 0 */
    uint64_t file_shape_min[WAVETRAIN_RANK_MAX]; /* of the smallest file */
    uint64_t file_counts[WAVETRAIN_RANK_MAX];    /* files along each axis, missing ones included */
    uint32_t packing;   /* WAVETRAIN_PACKING_ bits: attributes, applied with #cf=1 */
    uint32_t reserved2; /* 0 */
    /* The ends of numbered .npy files along axis 0, file_counts[0] of them, in the scratch block.
     * NULL of other arrays, and if the block has less than 16 bytes for each file. */
    const uint64_t *file_ends;
} wavetrain_array_view;

/* ---- 10. Hooks ---------------------------------------------------------------------------- */
/* Stack: on wavetrain's own threads (thread_mode = OWN) each hook has hook_stack_bytes, 256 KiB
 * unless you set it. A hook that overflows it meets a guard of 128 KiB, which nobody can touch: the
 * process ends by SIGSEGV. With PUMP and HOOK, and inside of your calls, a hook has what the
 * calling thread has left, less what wavetrain takes (section 5).
 *
 * Each is a field of wavetrain_config that wavetrain_config_default fills with struct_size and
 * zeros; zeros mean the built-in behaviour. Every call gets `user`, which wavetrain does not look
 * at. A hook must not call into the loader that it serves (wavetrain_read_done excepted), must
 * return on the thread that it was called on, and must not unwind or longjmp out. */

/* The source of open's memory: host_block if it is not NULL, else alloc, else the system. With
 * thread_mode = OWN the guards below the stacks are inaccessible parts of it from open to close,
 * and readable and writable afterwards. A guard is a page below each stack, or 128 KiB if hooks are
 * called on it. Guards count in the memory budget, but no page of them is touched, except for huge
 * pages of the system. There are no guards if the system refuses them, as it does in your huge
 * pages; a WARN reports it. */
typedef struct wavetrain_memory_hook {
    size_t struct_size;
    void *user;
    /* A block of host_bytes of the budget or more, aligned to its host_align. It is in use until
     * close returned WAVETRAIN_OK, or open failed. Too small is WAVETRAIN_BUDGET, misaligned
     * WAVETRAIN_INVALID. */
    void *host_block;
    uint64_t host_block_bytes;
    /* Returns `bytes` bytes aligned to `align`, or NULL: open then is WAVETRAIN_OUT_OF_MEMORY.
     * Called on the thread that calls open. Set both functions or neither. */
    void *(*alloc)(void *user, uint64_t bytes, uint64_t align);
    /* Takes back what alloc gave, with the same numbers. Called on the thread that calls close, or
     * open where it fails. */
    void (*free)(void *user, void *block, uint64_t bytes, uint64_t align);
} wavetrain_memory_hook;

/* Results of functions of wavetrain_files_hook that fail. Absent and failed are two things: an
 * absent chunk is data (the fill value), a failed one is WAVETRAIN_IO. */
enum {
    WAVETRAIN_FILE_ABSENT = -1,
    WAVETRAIN_FILE_FAILED = -2,
    WAVETRAIN_FILE_CHANGED = -3, /* it is of another version than is asked for (store) */
    WAVETRAIN_FILE_UNLISTED = -4, /* nothing is listed there (store.list) */
    WAVETRAIN_FILE_FORCE32 = 0x7FFFFFFF
};

/* Files that only you can read: archives, stores in memory, encrypted disks. `name` is the uri as
 * it was pushed (without file:// and the slash at its end), a '/' and the key:
 * "/data/a.zarr/c/0/1". The keys of metadata are zarr.json, and if that is absent .zarray, then
 * .zgroup. Uris of other schemes come as they are: "s3://bucket/a.zarr/c/0/1". The name is borrowed
 * during the call. All functions may wait, and are called from several threads at once. If
 * wavetrain has no threads, these are the ones that pump, pop, push and run jobs. Set size and
 * read, or neither. A size or a read that fails is asked for once more, unless store.retries_itself
 * is set. The size of a file is its version: see "Files may change" in section 1. */
typedef struct wavetrain_files_hook {
    size_t struct_size;
    void *user;
    /* Returns the bytes of the file, WAVETRAIN_FILE_ABSENT or WAVETRAIN_FILE_FAILED. */
    int64_t (*size)(void *user, const char *name);
    /* Copies exactly `bytes` bytes from `offset` on to `target`. Returns 0, WAVETRAIN_FILE_ABSENT
     * or WAVETRAIN_FILE_FAILED; everything else counts as failed. */
    int64_t (*read)(void *user, const char *name, uint64_t offset, void *target, uint64_t bytes);
    /* NULL, or begins the same read and returns before it is over; needs size and read, too. Chunks
     * are then read through it, metadata and shard indexes through read as before. Returns 0: your
     * program has the read, and calls wavetrain_read_done(loader, ticket, result) exactly once,
     * from any thread, in any order, also before this returns. Else as read: it is not, and nothing
     * follows. `name` is borrowed until this returns, `target` until the completion. At most 2 *
     * n_io_threads reads are in flight at a time. One that fails either way is tried once more
     * through read, and that result counts.
     *
     * Reset does not wait for reads in flight: you may still write to their targets, and each is to
     * be completed as if nothing had happened. Close waits for them. A read that is never completed
     * stalls the loader in the end. If the thread that pops is the one that completes, it must not
     * wait in pop, push or close. */
    int64_t (*read_async)(void *user, wavetrain_loader loader, uint64_t ticket, const char *name,
                          uint64_t offset, void *target, uint64_t bytes);
} wavetrain_files_hook;

/* The description of an array that your program supplies, for wavetrain_source_hook. All zeros but
 * struct_size when describe gets it. */
typedef struct wavetrain_source_info {
    size_t struct_size;
    uint32_t rank;            /* 0: one element; then begin and end of read have no numbers */
    uint32_t dtype;           /* WAVETRAIN_ element type, in this machine's byte order */
    uint32_t dtype_bytes;     /* as of a config */
    uint32_t reserved;        /* 0 */
    uint64_t shape[16];       /* at most 2^63 - 1 elements in all */
    uint64_t chunk_shape[16]; /* Reads never cross a chunk, and bring all of it that lies in the
                               * array: it is read once for all boxes that need it, and may be kept.
                               * At most max_chunk_uncompressed_bytes. All 0: any box is one read,
                               * of what it needs from its first element to its last, or several
                               * where that is more than a chunk may have. */
    uint8_t fill[16];         /* one element that absent chunks read as */
} wavetrain_source_info;

/* Arrays that only you can read, element by element: HDF5 files, databases, what is computed. Uri
 * "hook:NAME" is the array that you know as NAME, a UTF-8 text without the slash at its end,
 * borrowed during the call. Both functions return 0, WAVETRAIN_FILE_ABSENT or
 * WAVETRAIN_FILE_FAILED; everything else counts as failed. They may wait, and are called from
 * several threads at once, the same as a files hook. If wavetrain has no threads, these are the
 * ones that pump, pop, push and run jobs. The elements must not change while the loader is open.
 * Reset and close wait for a call. Set both, or neither. */
typedef struct wavetrain_source_hook {
    size_t struct_size;
    void *user;
    /* Describes the array. Absent: WAVETRAIN_NOT_FOUND. Called once for each array, and again where
     * it was forgotten for others (n_array_meta_cache). */
    int64_t (*describe)(void *user, const char *name, wavetrain_source_info *info);
    /* Writes the elements from begin to before end, `rank` numbers each, row-major to `target`,
     * which has `bytes` bytes: as many as they are. Absent: they are missing data, `fill` or, with
     * missing_chunks = ERROR, WAVETRAIN_NOT_FOUND. */
    int64_t (*read)(void *user, const char *name, const uint64_t *begin, const uint64_t *end,
                    void *target, uint64_t bytes);
} wavetrain_source_hook;

/* Members that wavetrain_files_hook lacks. Functions get files.user, are called from the same
 * threads as its functions, and may wait as those do. They need files.size and files.read; each may
 * be NULL. They return 0, WAVETRAIN_FILE_ABSENT, WAVETRAIN_FILE_FAILED or WAVETRAIN_FILE_CHANGED;
 * everything else counts as failed. A version is 32 bytes that are another 32 bytes for other
 * contents, and the same in all functions, like an ETag or a hash of one. Zeros are no version. */
typedef struct wavetrain_store_hook {
    size_t struct_size;
    /* Copies the last `bytes` bytes of a file, 1 at least, to target, or all of a shorter file.
     * Sets *got to the number of these bytes, *size to the bytes of the file, and its version. It
     * takes the place of files.size. One request each reads a document, the index at the end of a
     * shard (up to 4 MiB), and a file that is one chunk. For such a chunk `bytes` is the most that
     * it can have, and takes as much staging, because its size is not known before. If it is
     * uncompressed and boxes need a part, read_version reads that part, and the size of the file is
     * not checked. With chunk_cache_bytes, or on a device, its size is asked for first. */
    int64_t (*read_tail)(void *user, const char *name, void *target, uint64_t bytes, uint64_t *got,
                         uint64_t *size, uint8_t version[32]);
    /* As files.read, of that version alone, else WAVETRAIN_FILE_CHANGED, which is not tried once
     * more and is WAVETRAIN_IO for the samples; all zeros: any version, which it writes there. It
     * takes the place of files.read. If it changes a version that is not zeros, the read counts as
     * changed. Without read_tail, the first byte of an object is read for its version, then its
     * size. */
    int64_t (*read_version)(void *user, const char *name, uint8_t version[32], uint64_t offset,
                            void *target, uint64_t bytes);
    /* As files.read_async, of that version alone, or of any; no version is written. `version` is
     * borrowed until this returns. It takes the place of files.read_async and needs read_version,
     * through which one that fails is read once more; with read_version, files.read_async alone is
     * INVALID. Documents, indexes, and files that are one chunk are read by threads that wait,
     * through read_tail and read_version: metadata_io_concurrency and n_io_threads bound those. */
    int64_t (*read_version_async)(void *user, wavetrain_loader loader, uint64_t ticket,
                                  const char *name, uint8_t version[32], uint64_t offset,
                                  void *target, uint64_t bytes);
    /* Calls found for each child of a folder, any number of them in any order. Returns 0,
     * WAVETRAIN_FILE_ABSENT or WAVETRAIN_FILE_FAILED; a folder without children may be either 0 or
     * absent. Numbered .npy files are found by it, and the arrays that the refusal of a group
     * names; NULL: a hook has no numbered files. `name` is a uri without the slash at its end.
     * `child` is the last part of a name, UTF-8 up to its NUL, borrowed until found returns. A
     * child that is empty, has a '/', is not UTF-8, or makes a uri of more than 4,095 bytes is
     * WAVETRAIN_IO with its name. is_folder: 0 if nothing lies below it. Found is to be called by
     * the thread that list was called on, before list returns; any other call does nothing.
     * WAVETRAIN_FILE_UNLISTED, before any call of found, is for a store that lists nothing, as a
     * plain web server. Numbered .npy files that a uri with a star names are then asked for by
     * name, one after the other, until one and the next 8 are absent. Those that are added later
     * are seen after wavetrain_forget. */
    int64_t (*list)(void *user, const char *name,
                    void (*found)(void *context, const char *child, int is_folder), void *context);
    /* Bytes between two chunks of a file that are read with them, below 4 GiB. More than an eighth
     * of the staging of a wave counts as that eighth, because each chunk with such a gap takes
     * staging. 0: only touching chunks are one read. */
    uint64_t merge_gap_bytes;
    uint64_t merge_bytes_max; /* of a read of several chunks, below 4 GiB; 0: max_read_op_bytes */
    /* Reads that end later and are in flight, up to 16,384; 0: 2 * n_io_threads. Each takes a
     * record of n_chunk_layout_cache if it is of another file. Their tickets are in the line
     * "reads in flight" of the budget. INVALID without read_version_async and files.read_async. */
    uint32_t reads_max;
    uint32_t retries_itself;  /* 1: no second try by wavetrain, but of what read_async failed */
} wavetrain_store_hook;

/* Gets log lines. Called on any thread, in and outside of calls. `text` is UTF-8 of text_bytes
 * bytes and a NUL, borrowed during the call. It is one line, as the texts of errors are: control
 * characters of names are escaped, as \n or \u{1b}. `tag` is the sample's, else 0. */
typedef struct wavetrain_log_hook {
    size_t struct_size;
    void *user;
    void (*log)(void *user, uint32_t level, uint64_t tag, const char *text, uint64_t text_bytes);
} wavetrain_log_hook;

/* Last words before a defect of wavetrain, an assertion that does not hold, ends the process.
 * `text` has the place, "assertion failed at +0x1a2b +0x3c4d ...": the calls that led there,
 * innermost first, as places in the archive's code (tools/archive.sh explains how they become
 * lines). `file` is the library and its version, `line` 0. All are borrowed during the call. Called
 * on the thread that met the defect, once, for every open loader, the one opened first first: the
 * defect may be in any of them. Locks of wavetrain may be held, so it must not call into any
 * loader. It is to end the process; if it returns, the hooks of other loaders are called, a line is
 * written to stderr, and abort() follows. A defect that is met meanwhile by the same thread aborts
 * at once; other threads that meet one sleep. No input is known to lead here. */
typedef struct wavetrain_fatal_hook {
    size_t struct_size;
    void *user;
    void (*fatal)(void *user, const char *file, uint32_t line, const char *text);
} wavetrain_fatal_hook;

/* Your job system, with thread_mode = HOOK, and only there. run takes a job: job(argument) is to be
 * called once, on any thread, at any time, in any order, or at once, before run returns. A job
 * works for about a millisecond (one step at least, see wavetrain_pump), then ends, and its last
 * act is to hand itself in again if work is left. It never waits for another job, but it waits for
 * files. Waiting and working jobs together are n_decode_threads at most, and as many threads work
 * at a time, those that wait in pop or push included.
 *
 * A program that only looks for batches, by wavetrain_pop with a timeout of 0, needs no other call.
 * Each call, before it returns, hands in a job if there is work for one. On a device that work is
 * to look what is done there and to give it more. No thread looks between calls, so a device
 * advances by a step per call.
 *
 * run is called by one thread at a time: by those that call into the loader, wavetrain_read_done
 * included, and by those that run a job. It should return soon, and must not wait for a job. If run
 * calls job at once, these calls work until there is nothing left to do before they return.
 *
 * To run a job twice harms nothing. One that you drop counts as handed out until close: drop some,
 * and fewer threads work; drop all, and only pump and calls that wait do. Close waits for jobs that
 * work, not for those that you did not begin; after it has returned WAVETRAIN_OK a job may still be
 * called, and does nothing. */
typedef struct wavetrain_workers_hook {
    size_t struct_size;
    void *user;
    void (*run)(void *user, void (*job)(void *argument), void *argument);
} wavetrain_workers_hook;

/* Ranges of a thread, for a profiler: begin before something is done, end after it, on the thread
 * that does it, properly nested, with no lock held. `name` lives as long as the program, and is
 * that of a metric in wavetrain_stats_view: "plan", "meta", "io", "decode", "assemble", "digest".
 * The range of a read through read_async is the call that begins it; digests on a device have none.
 * Set both functions or neither. */
typedef struct wavetrain_profiler_hook {
    size_t struct_size;
    void *user;
    void (*begin)(void *user, const char *name);
    void (*end)(void *user);
} wavetrain_profiler_hook;

/* ---- 11. Configuration -------------------------------------------------------------------- */

/* backend */
enum {
    WAVETRAIN_BACKEND_AUTO = 0, /* CUDA where there is a device that will do, else the host: which
                                 * and why is in stats and, at INFO, in the log. A device whose
                                 * memory is too small or taken is an error, as is a config that is
                                 * wrong, a device number that there is not for one. With device =
                                 * -1 and no current context it is the host. */
    WAVETRAIN_BACKEND_HOST = 1, /* batches in host memory */
    WAVETRAIN_BACKEND_CUDA = 2, /* batches in device memory */
    WAVETRAIN_BACKEND_FORCE32 = 0x7FFFFFFF
};

/* thread_mode */
enum {
    WAVETRAIN_THREADS_OWN = 0,  /* open starts threads, close ends them */
    WAVETRAIN_THREADS_PUMP = 1, /* none; work happens in wavetrain_pump and in pops that wait */
    WAVETRAIN_THREADS_HOOK = 2, /* none; work runs as jobs of config.workers, and as in PUMP */
    WAVETRAIN_THREADS_FORCE32 = 0x7FFFFFFF
};

/* on_error */
enum {
    WAVETRAIN_ON_ERROR_FAIL = 0, /* the first failing batch ends the stream, until reset */
    WAVETRAIN_ON_ERROR_SKIP = 1, /* a failing sample holds pad_value, and has its status */
    WAVETRAIN_ON_ERROR_NAN = 2,  /* as SKIP, but fields that can hold it get NaN for pad_value. A
                                  * chunk that cannot be read is NaN by itself: its samples have
                                  * its status, and all of their other elements. A box with a map
                                  * holds NaN where it reads such a chunk, and is all NaN if its
                                  * array has none. wavetrain_read_into fails as ever */
    WAVETRAIN_ON_ERROR_FORCE32 = 0x7FFFFFFF
};

/* missing_chunks */
enum {
    WAVETRAIN_MISSING_FILL = 0,  /* a chunk that does not exist reads as the fill value */
    WAVETRAIN_MISSING_ERROR = 1, /* it is WAVETRAIN_NOT_FOUND */
    WAVETRAIN_MISSING_FORCE32 = 0x7FFFFFFF
};

/* pad_mode: what a box reads outside of its array; as numpy.pad */
enum {
    WAVETRAIN_PAD_NONE = 0,     /* such a box is WAVETRAIN_INVALID */
    WAVETRAIN_PAD_CONSTANT = 1, /* pad_value if pad_value_set, else the array's fill value */
    WAVETRAIN_PAD_EDGE = 2,     /* the nearest element */
    WAVETRAIN_PAD_REFLECT = 3,  /* the mirror image, edge not repeated; box and array must meet */
    WAVETRAIN_PAD_FORCE32 = 0x7FFFFFFF
};

/* enable_gds: GPUDirect Storage, which reads from storage into device memory */
enum {
    WAVETRAIN_GDS_AUTO = 0, /* where the device and the files can; not built yet */
    WAVETRAIN_GDS_OFF = 1,  /* through host memory */
    WAVETRAIN_GDS_ON = 2,   /* else open fails; not built yet */
    WAVETRAIN_GDS_FORCE32 = 0x7FFFFFFF
};

/* device_decode: what a device decodes of what it can, which is LZ4, zstd, and blosc of both */
enum {
    WAVETRAIN_DECODE_AUTO = 0, /* nothing if more than two threads decode (n_decode_threads), or a
                                  cap has no room to decode to. Else LZ4 chunks that have no more
                                  bytes in their file than boxes read of them; those of one LZ4
                                  block up to 256 KiB */
    WAVETRAIN_DECODE_OFF = 1,  /* nothing */
    WAVETRAIN_DECODE_ON = 2,   /* all but chunks that are kept, or that it refuses; open fails
                                  where a cap has no room. Not with WAVETRAIN_BACKEND_HOST */
    WAVETRAIN_DECODE_FORCE32 = 0x7FFFFFFF
};

/* on_consumer_lost: the effect of a consumer that ends without a close, closes while batches wait
 * for it, or does not attach in time; see wavetrain_node.h */
enum {
    WAVETRAIN_LOST_FAIL = 0, /* the stream ends for all */
    WAVETRAIN_LOST_SKIP = 1, /* its batches are dropped, and counted as stats.batches_lost */
    WAVETRAIN_LOST_FORCE32 = 0x7FFFFFFF
};

/* share_order: which consumer gets which batch */
enum {
    WAVETRAIN_SHARE_ROUND = 0, /* for consumer batch_id modulo their number */
    WAVETRAIN_SHARE_FIRST = 1, /* a batch is for the consumer that pops first */
    WAVETRAIN_SHARE_ALL = 2,   /* each consumer gets every batch */
    WAVETRAIN_SHARE_FORCE32 = 0x7FFFFFFF
};

/* numa_strategy */
enum {
    WAVETRAIN_NUMA_AUTO = 0, /* the node of the device, else that of the thread that opens; nothing
                                is placed if it is not known */
    WAVETRAIN_NUMA_OFF = 1,  /* memory and threads are where the system puts them */
    WAVETRAIN_NUMA_PIN = 2,  /* numa_node; a warning is logged if the system refuses */
    WAVETRAIN_NUMA_FORCE32 = 0x7FFFFFFF
};

/* log_level, and the level that a log hook gets */
enum {
    WAVETRAIN_LOG_TRACE = 0, /* the planner's reads: their bytes, chunks and boxes */
    WAVETRAIN_LOG_DEBUG = 1, /* the sizes that open has solved, and the memory for them */
    WAVETRAIN_LOG_INFO = 2,
    WAVETRAIN_LOG_WARN = 3,  /* skipped data, what memory a BUDGET of open is about, and what else
                              * somebody should look at */
    WAVETRAIN_LOG_ERROR = 4, /* what ends a stream */
    WAVETRAIN_LOG_FATAL = 5, /* what ends the process */
    WAVETRAIN_LOG_OFF = 6,
    WAVETRAIN_LOG_FORCE32 = 0x7FFFFFFF
};

/* device: whose memory the batches are in, and the context of the driver that all is done in.
 *
 * -1 takes the context that is current on the thread that opens: you own it, and it must live until
 * close has returned OK. If none is current, backend CUDA is WAVETRAIN_INVALID, and AUTO takes the
 * host: make one current, or give a number. A number takes the primary context of that device,
 * which is what the CUDA runtime and most frameworks use, and retains it until close. A current
 * context that is another one, of this device or not, is WAVETRAIN_INVALID then. Every call, on any
 * thread, leaves the context and the stream capture mode of the thread as it found them. The driver
 * must be R525 or later (CUDA 12.0), the device of compute capability 8.0 or above.
 *
 * Graphs: your threads may capture their streams at any time, in any mode, and call wavetrain
 * meanwhile. wavetrain calls the driver in relaxed mode, on streams that no default stream orders.
 * It queues nothing in a stream that is being captured, nor in the legacy default stream while a
 * stream that it orders is being captured. So a batch that is given back WHILE A STREAM THAT IT IS
 * USED ON IS BEING CAPTURED keeps its slot. It does so until the capture is over and the work
 * queued before has run. The text of pop reports it if pop waits for that, and A CAPTURE THAT
 * CONTINUES ONLY WITH FURTHER BATCHES MAY NEVER END. SUCH A STREAM MUST LIVE UNTIL CLOSE. Work in a
 * graph counts where the graph is launched, not where it is captured. A GRAPH THAT READS A BATCH
 * READS ITS SLOT, WHATEVER BATCH IS THERE THEN: let it read your own memory, and copy batches
 * there. */

/* Synthetic latency of metadata, for benches: each request to the store sleeps before it is made,
 * if it is not a read of chunks. A request opens a file or folder, looks at its size or version,
 * lists its names, or reads a document or an index. Request number n of a loader sleeps for
 *
 *     baseline_ns + min(exp(lognormal_mu_ln_ns + lognormal_sigma_ln_ns * z), cap_ns)
 *
 * nanoseconds; z is the normal number of wavetrain_augment for noise_key = seed and place n. The
 * random part is 0 if mu and sigma are, and has no cap if cap_ns is 0. No lock is held during a
 * sleep, and close ends all of them. The latency of a store is hidden as far as other threads have
 * work meanwhile: n_io_threads requests sleep at a time, for samples that lookahead_samples lets
 * wavetrain know of. INVALID: mu or sigma is not finite, or sigma is negative. */
typedef struct wavetrain_metadata_latency {
    uint64_t baseline_ns;
    double lognormal_mu_ln_ns;    /* mean of the logarithm of the random part */
    double lognormal_sigma_ln_ns; /* its standard deviation */
    uint64_t cap_ns;
    uint64_t seed;
} wavetrain_metadata_latency;

/* All settings of a loader. Fill it with wavetrain_config_default and change what you need:
 * sample_rank and sample_shape, or fields, must be set, all else works as it is. In brackets: the
 * default. 0 means zero, unless the comment has "0 = derived". A member that is marked "Not built
 * yet" is WAVETRAIN_UNSUPPORTED at open, by name, when it differs from its default. */
typedef struct wavetrain_config {
    size_t struct_size;

    /* tools/settings.py writes the members from here: change src/setup/config.rs. */
    /* The batch. */
    uint32_t samples_per_batch; /* Samples in a batch. 1 to 1,048,576. [1] */
    /* Axes of a sample. It must be set, unless the config has a table of fields. Up to 16. [0] */
    uint32_t sample_rank;
    uint64_t sample_shape[WAVETRAIN_RANK_MAX]; /* Extents of a sample, each at least 1. [none] */
    /* Type of its elements. F32, BF16 and F16 take all real numbers; F64 takes integers. A wider
     * integer type takes integers if it loses nothing: U16 to U64 take unsigned ones, I32 and
     * I64 both. BOOL becomes any of these, U8, I8 or I16, as 0 or 1. The array's own type, or
     * RAW, is a copy of the bits. With saturate = 1 every integer type takes all real numbers.
     * [F32] */
    uint32_t dtype;
    uint32_t dtype_bytes; /* Bytes of an element if dtype is RAW, 1 to 16; else 0. [0] */

    /* Caps. */
    /* Device bytes. 0 = derived: output pool + 1 GiB. If it is set, a wave may decode to 512
     * MiB, not 128. Like device, consumer_stream and cuda_driver it speaks of a device: with
     * backend HOST it is INVALID to set one of them, with AUTO they count if a device is taken.
     * [0] */
    uint64_t max_gpu_memory_bytes;
    /* Host and pinned bytes. 0 = derived: batch slots + chunk cache + 256 MiB, or 16 x
     * max_chunk_uncompressed_bytes if that is more, + what stacks and tables take beyond 32 MiB
     * (and decoders, if n_decode_threads is set). On a device 256 MiB + 1,056 x
     * samples_per_batch x host_buffer_waves stand for the slots. [0] */
    uint64_t max_host_memory_bytes;
    /* Samples that push takes before their batch is planned, a batch or more. 0 = derived: two
     * batches, 64 at least; with a chunk cache as many as fill it four times over, at most
     * 4,096. Their arrays are looked up in advance. Up to 1,048,576. [0] */
    uint32_t lookahead_samples;
    /* Batches that are filled, ready or held at a time. Chunks of later ones are read as well
     * while reads have to be waited for. With share_name the default stands for 2 for each
     * consumer and 1, at most 64. 1 to 64. [3] */
    uint32_t n_batch_slots;
    /* Largest decoded chunk: a larger one is BUDGET at pop, unless nothing compresses or checks
     * it, so that only parts of it are read. 1 to 2 GiB. [16 MiB] */
    uint64_t max_chunk_uncompressed_bytes;
    /* Largest read that neighbouring reads are merged to; a single chunk may be larger. 1 to
     * 4,294,967,295. [4 MiB] */
    uint64_t max_read_op_bytes;
    /* Waves that are staged at a time. On a device these are pinned slabs, which come from the
     * NUMA node of the thread that calls open, or that of numa_strategy. 2 to 64. [4] */
    uint32_t host_buffer_waves;
    uint32_t max_chunks_per_wave; /* Chunks in a wave. 1 to 65,535. [512] */
    uint32_t max_substreams_per_chunk; /* Most blosc streams of a chunk. 0 = no limit. [0] */

    /* Workers and caches. */
    uint32_t n_io_threads; /* Threads that wait for storage. 1 to 1,024. [16] */
    /* Threads that decode, or, if wavetrain has none, the number of your threads that work at a
     * time. 0 = derived: the least of the affinity mask, the cgroup's CPU quota and the CPUs
     * online. That is divided by the ranks of the node if a launcher names their number. On a
     * device it is less two, for your thread and the driver's, and 1 at least. It is fewer if
     * the cap on CPU memory has no room for their scratch. Up to 1,024. [0] */
    uint32_t n_decode_threads;
    uint32_t metadata_io_concurrency; /* Metadata and index reads in flight. 1 to 4,096. [64] */
    /* Arrays whose metadata is cached; fewer if their rectilinear grids change the edge length
     * more than 192 times each. 1 to 1,048,576. [64] */
    uint32_t n_array_meta_cache;
    /* Index pages that are cached, of 256 chunks each. 1 to 16,777,216. [1,024] */
    uint32_t n_shard_index_cache;
    /* Files whose presence, size and index checksums are cached. 1 to 16,777,216. [1,024] */
    uint32_t n_chunk_layout_cache;
    uint32_t max_shards_per_sample; /* Most shards that a box may touch. 0 = no limit. [0] */
    /* Bytes for decoded chunks that are cached, a part in 32 of them for tables; 0, or 65,536 or
     * more. The chunks whose next use is farthest away leave first, so let lookahead_samples be
     * large. Chunks are then decoded whole. Uncompressed chunks are cached, too, if a read of
     * the whole costs little more than one of the part that boxes need. [0] */
    uint64_t chunk_cache_bytes;

    /* Behaviour. */
    uint32_t backend; /* WAVETRAIN_BACKEND_: the place of batches. [HOST] */
    /* Number of the CUDA device; -1 = the one of the context that is current, see above. [-1] */
    int32_t device;
    uint32_t thread_mode; /* WAVETRAIN_THREADS_: whose threads do the work. [OWN] */
    uint32_t drop_last; /* 1: flush discards a batch that is not full. [0] */
    uint32_t on_error; /* WAVETRAIN_ON_ERROR_: the effect of a sample that fails. [FAIL] */
    /* WAVETRAIN_MISSING_: the meaning of a chunk that does not exist. [FILL] */
    uint32_t missing_chunks;
    uint32_t pad_mode; /* WAVETRAIN_PAD_: the elements outside of an array. [NONE] */
    /* 1: constant padding takes pad_value; 0: the array's fill value. [0] */
    uint32_t pad_value_set;
    double pad_value; /* The value that padding and skipped samples hold; it must fit dtype. [0] */
    /* The meaning of WAVETRAIN_POP_TIMEOUT, pop's default in C++. [30 s] */
    uint64_t pop_timeout_ns;
    uint32_t enable_gds; /* WAVETRAIN_GDS_: GPUDirect Storage. Not built yet. [OFF] */
    /* WAVETRAIN_NUMA_: the NUMA node of memory and threads. Memory prefers the node: if it is
     * full, others give theirs. wavetrain's threads run on those CPUs of the node that are in
     * cpus, or in the mask of the thread that opens, and are derived for them. Your memory and
     * your threads stay as they are. placement_text has what was placed, and why not. [OFF] */
    uint32_t numa_strategy;
    /* The node for PIN, INVALID at open if it is not there or has no memory; else -1. [-1] */
    int32_t numa_node;
    uint32_t log_level; /* WAVETRAIN_LOG_: the least severe level that is logged. [WARN] */
    uint32_t log_quiet; /* 1: log lines go to the hook alone; 0: to stderr too. [1] */
    uint32_t reserved; /* Always 0. */
    /* CUstream that you use batches on, until close: release waits for it. (void *)1 is the
     * legacy default stream, (void *)2 that of the thread that pops, see wavetrain_dlpack.
     * [none] */
    void *consumer_stream;
    /* Synthetic latency of requests for metadata. [none] */
    wavetrain_metadata_latency metadata_latency;

    /* Hooks; all built-in by default. Copied by open; what they point to is in use until close. */
    wavetrain_memory_hook memory; /* Allocates memory. [none] */
    wavetrain_files_hook files; /* Reads files. [none] */
    wavetrain_log_hook log; /* Gets log lines. [none] */
    /* Last words before a defect of wavetrain ends the process. [none] */
    wavetrain_fatal_hook fatal;
    wavetrain_workers_hook workers; /* Your job system, with thread_mode HOOK. [none] */
    wavetrain_profiler_hook profiler; /* Your profiler. [none] */

    /* The driver. */
    uint32_t reserved6; /* Always 0. */
    uint32_t reserved2; /* Always 0. */
    /* Path of the CUDA driver, up to 4,095 bytes and a NUL, read during the call alone; for
     * tests. NULL is libcuda.so.1. [none] */
    const char *cuda_driver;

    /* Several tensors in a batch, or several boxes in a sample. */
    /* The fields of a batch, read during the call alone. sample_rank, sample_shape, dtype,
     * dtype_bytes, pad_mode, pad_value_set and pad_value keep their defaults then. [none] */
    const wavetrain_field *fields;
    uint32_t n_fields; /* Their number, up to WAVETRAIN_FIELDS_MAX. [0] */
    uint32_t field_bytes; /* sizeof(wavetrain_field), if there are fields. [0] */
    /* Most boxes of a sample. 0 = derived: one for each field. With 0 and no fields the box of a
     * sample has all of its shape; else it may be a part of it. Up to 255. [0] */
    uint32_t max_boxes_per_sample;
    /* Numbered .npy files that all arrays in use have together; 64 bytes each. Up to 16,777,216.
     * [0] */
    uint32_t max_npy_files;
    uint32_t digest; /* 1: each sample of each field gets a digest, see below. [0] */
    /* 1: boxes may have a wavetrain_augment and a wavetrain_affine, which push copies. [0] */
    uint32_t augment;
    /* Host memory for the voxels of boxes that have a wavetrain_affine, until they are
     * resampled. A box whose map reads more is BUDGET at pop. 0 = derived: eight times the
     * largest field, at least 1 MiB, if augment is 1. Up to 16384 GiB. [0] */
    uint64_t max_resample_bytes;
    /* Arrays that only you can read: hook:NAME. Copied by open. [none] */
    wavetrain_source_hook source;
    /* WAVETRAIN_DECODE_: the chunks that are decoded on the device. [AUTO] */
    uint32_t device_decode;
    /* 1: arrays that boxes name are decoded by the CF conventions, as if their uris ended with
     * #cf=1. With fields each field has its own cf. [0] */
    uint32_t cf;
    wavetrain_store_hook store; /* Functions that the files hook lacks. [none] */
    /* Stack of a hook on each of wavetrain's own threads; below it is a guard of 128 KiB. 0 =
     * derived: 256 KiB. Stacks have no part for hooks, and guards of a page, if no hook but
     * memory and workers is set. Up to 1 GiB. [0] */
    uint64_t hook_stack_bytes;
    /* Data files that are kept open. 0 = derived: an eighth of RLIMIT_NOFILE, at least 64. Never
     * more than n_chunk_layout_cache. Metadata and folders take a few descriptors more, for a
     * moment. [0] */
    uint32_t max_open_files;
    /* 1: the library or plugin that holds wavetrain stays loaded until the process ends, once a
     * loader was opened; 0: you close before you unload it. A program always stays. [1] */
    uint32_t keep_loaded;
    uint64_t reset_timeout_ns; /* How long reset waits for what runs, before it is AGAIN. [30 s] */
    /* 1: boxes of uncompressed chunks, .npy and raw files are copied out of mappings, if the
     * file is on ext4, xfs, btrfs, tmpfs or overlayfs; other files are read. TRUNCATION OR A
     * READ ERROR OF A MAPPED FILE ENDS THE PROCESS BY SIGBUS. The storage of a file that is
     * removed is freed once other files have taken its windows. The page tables are the
     * system's, and no part of a budget. [0] */
    uint32_t map_uncompressed;
    /* 1: bool, integers and floats of any size become those of an integer dtype, as
     * numpy.clip(numpy.trunc(x), least, greatest) of exact numbers gives them; NaN is 0. 0: only
     * integers that fit without it. [0] */
    uint32_t saturate;
    /* Address space for mapped files, taken at open if map_uncompressed = 1: windows of 1 GiB,
     * which pass to other files by last use. 1 GiB to 65536 GiB. [64 GiB] */
    uint64_t map_bytes_max;
    /* Calls of read_into that work at a time; others wait in order. 0: read_into is INVALID, and
     * takes no memory. Up to 1,024. [8] */
    uint32_t n_readers;
    /* n: batches lie in memory that is lent alone, n of them at a time, and n_batch_slots does
     * not count. 0: batches lie in lent memory first, n_batch_slots at a time, and then in the
     * slots. The tool lends nothing, and has no flag for it. [0] */
    uint32_t lent_slots;
    /* Places in the ring of events that wavetrain_trace copies, of 56 bytes; 0: no event is
     * kept. Up to 16,777,216. [0] */
    uint32_t trace_events;
    /* Most indices in the lists of the boxes of a sample; of a box of several lists their
     * product counts. Each is room for one more box. Above 0 the box of a sample may be a part
     * of it, as with max_boxes_per_sample. Up to 65,536. [0] */
    uint32_t max_indices_per_sample;
    /* 1: open is OUT_OF_MEMORY, before it touches a page, if the budget is more than the system
     * allots. That is the least of the rest of the cgroup's memory limit, MemAvailable +
     * SwapFree, the rest of CommitLimit if the system keeps to it, and the rest of RLIMIT_AS. 0:
     * nothing is checked. [1] */
    uint32_t check_memory;
    /* WAVETRAIN_LOST_: the effect of a consumer that ends without a close, closes while batches
     * for it are left, or does not attach in time. [FAIL] */
    uint32_t on_consumer_lost;
    /* Name under which other processes attach (wavetrain_node.h), read during the call alone:
     * letters, digits, '-', '_' and '.', one of this user's on this machine; with '/' the path
     * of a socket. NULL: batches are this process's alone. [none] */
    const char *share_name;
    uint32_t share_consumers; /* Processes that attach, 1 to 64 with share_name. [0] */
    uint32_t share_order; /* WAVETRAIN_SHARE_: which consumer gets which batch. [ROUND] */
    /* 1: the owner pops as consumer 0; 0: its pop gives no batch, and is END once consumers have
     * taken all there was. [0] */
    uint32_t share_owner;
    uint32_t reserved4; /* Always 0. */
    /* A consumer that has not attached by then, counted from open, is lost. [60 s] */
    uint64_t attach_timeout_ns;
    /* Bits of the CPUs that wavetrain's threads may use, whatever the mask of the thread that
     * opens; read during the call alone. One that is not online, or that the process may not
     * use, is INVALID. NULL: the mask of that thread. [none] */
    const uint64_t *cpus;
    uint32_t cpu_words; /* Their words: CPU n is bit n % 64 of word n / 64. [0] */
    uint32_t reserved5; /* Always 0. */
    /* Metadata that WAVETRAIN_wavetrain_metadata looked up, on whatever machine: the parts it
     * wrote, one after the other, in use until close. Documents and indexes that it has are not
     * read: their files are looked at once. A file that has another size or another time of
     * change than at the look-up is IO (an object that has another version). Others are read as
     * ever. [none] */
    const void *metadata;
    uint64_t metadata_bytes; /* Their number. [0] */
    /* To here. */
} wavetrain_config;

/* A part of the metadata of an array: see wavetrain_metadata. */
typedef struct wavetrain_metadata_part {
    size_t struct_size;   /* In: sizeof(wavetrain_metadata_part). */
    uint64_t first_shard; /* In: the first shard whose index is looked up; 0: documents, too. */
    uint64_t shard_count; /* In: most shards whose indexes are. */
    void *out;            /* In: your memory, .. */
    size_t out_bytes;     /* In: .. and its bytes. */
    uint64_t written;     /* Out: bytes of out that are written. */
    uint64_t shards;      /* Out: shards that the array has; 0: its files have no index. */
} wavetrain_metadata_part;

/* Digests. With digest = 1 a batch has 64 bits for each of its samples and fields, over the bytes
 * of the sample there. These are row-major, of the output type, padding and fill included. For a
 * sample that failed they are over the bytes that stand in its place. They do not depend on
 * threads, batches or backend.
 *
 *     mix(position, digest), which wavetrain_epoch.h has as wavetrain_mix:
 *         x = digest ^ (position * 0x9E3779B97F4A7C15)
 *         x ^= x >> 32;  x *= 0xD6E8FEB86659FD93
 *         x ^= x >> 32;  x *= 0xD6E8FEB86659FD93
 *         x ^= x >> 32
 *
 *     digest of a sample of n bytes = mix(n, sum over i of mix(i + 1, word i))
 *     digest of a batch = sum over its samples of mix(position of the sample, its digest)
 *
 * All of it modulo 2^64. Word i is bytes 8 i to 8 i + 7 of the sample, the first the lowest; the
 * last word is filled up with zeros. The position of a sample is how many samples push took before
 * it since open, or since the last reset that returned OK. Samples that failed count, and so do
 * those of a batch that drop_last discards. So the sum over the batches of a stream is that over
 * its samples, however they are cut into batches. For loaders that share an epoch, add up
 * mix(position in the epoch, digest of the sample) yourself.
 *
 * Equal bytes have equal digests; of different ones two agree about once in 2^64 pairs. An attacker
 * can find such bytes: a digest detects accidents, not attacks. */

/* ---- 12. Functions ------------------------------------------------------------------------ */
/* For all: any thread, at any time. "Does not wait" means that it takes a lock for a short while at
 * most. With a loader that is not open each function returns WAVETRAIN_SHUTDOWN and writes nothing
 * but an error; the comments do not repeat it. NULL is WAVETRAIN_INVALID unless its comment allows
 * it. Every struct that is handed in must have its struct_size set: below sizeof(size_t) is
 * WAVETRAIN_INVALID (an optional wavetrain_error is then left alone instead). */

/* The version of the archive: (major << 16) | (minor << 8) | patch. Compare it with
 * WAVETRAIN_VERSION; with another major the structs differ. Does not wait. */
uint32_t wavetrain_version(void);

/* The name of a status as this header spells it, without the prefix: "NOT_FOUND"; "UNKNOWN" for
 * other numbers. Never NULL; lives as long as the program. Does not wait. */
const char *wavetrain_status_str(wavetrain_status status);

/* Fills the first struct_size bytes of *config with the defaults and sets config->struct_size. Pass
 * sizeof(wavetrain_config). Bytes beyond the fields that the archive knows become 0.
 * OK; INVALID: config is NULL or struct_size is below sizeof(size_t). Does not wait. */
wavetrain_status wavetrain_config_default(wavetrain_config *config, size_t struct_size);

/* Raises caps of *config to what the named arrays need. These are max_chunk_uncompressed_bytes, the
 * memory caps if they are set and too small, and max_npy_files, to the number of their .npy files
 * together. Never lowers one. Reads the metadata of each array
 * through config->files, so it waits for storage. Needs no loader.
 * uris: uri_count strings with a NUL; NULL only where uri_count is 0. scratch: scratch_bytes bytes
 * of your memory, WAVETRAIN_SCRATCH_BYTES or more, of any alignment, in use until return. error:
 * NULL or your struct.
 * OK; else what is wrong with an array or an argument, and *config is as before. */
wavetrain_status wavetrain_config_fit(wavetrain_config *config, const char *const *uris,
                                      uint32_t uri_count, void *scratch, size_t scratch_bytes,
                                      wavetrain_error *error);

/* The memory that open will take for this config. Allocates nothing. With backend AUTO it looks, as
 * open does, whether there is a device, for which the driver is loaded and begun; else it opens
 * nothing.
 * need, error: your structs; error may be NULL. OK; INVALID, UNSUPPORTED: the config is wrong;
 * BUDGET: a cap is too small, *need holds the budget of the smallest geometry. Does not wait. */
wavetrain_status wavetrain_memory_need(const wavetrain_config *config, wavetrain_memory *need,
                                       wavetrain_error *error);

/* Makes a loader: checks the config, takes all memory, starts all threads. *config is copied. On
 * failure *loader is untouched and everything is given back. error: NULL or your struct.
 * OK; INVALID, UNSUPPORTED, BUDGET: as memory_need; OUT_OF_MEMORY: no memory, no thread, or 64
 * loaders are open. Takes as long as touching the memory takes. */
wavetrain_status wavetrain_open(const wavetrain_config *config, wavetrain_loader *loader,
                                wavetrain_error *error);

/* Ends a loader: stops work, wakes all waiting calls with SHUTDOWN, waits up to timeout_ns, ends
 * the threads, gives the memory back. It waits for reads in flight (read_async's too) and, on a
 * device, for all that is queued on batches that were released. held: NULL or your number; set to
 * the number of slots that a batch keeps, popped and not released, or a tensor, exported and not
 * deleted; also on AGAIN.
 * OK: all is over, no hook is called any more, the handle is dead. AGAIN: batches are held, tensors
 * live, or reads, calls or queued work are still in flight. Release and delete them and call close
 * again; until then close, release, read_done, batch_info, stats, stats_reset, last_error and
 * deleters work, all else returns SHUTDOWN. While work is in flight, memory and hooks stay in use,
 * and a WARN reports it once if the timeout ran out on it.
 * Close does not wait for batches and tensors. If they alone are left, it returns AGAIN before
 * timeout_ns is over, and a WARN reports once how many of each. Threads have then ended,
 * descriptors are closed, memory that push borrowed is no longer used, and no hook is called any
 * more, but memory.free by the close that is OK. Memory of the system was given back, except the
 * pages of the slots that are kept and of their records. Each further close gives back those of
 * slots that were released since. Your block, blocks from memory.alloc, and pinned and device
 * memory are given back only with OK. stats keeps the numbers that open took.
 * timeout_ns WAVETRAIN_UNTIL_RELEASED: the same, but in place of that AGAIN close waits until the
 * last batch is released and the last tensor deleted, and is OK. FOR A THREAD THAT IS TO RELEASE OR
 * DELETE NONE OF THEM.
 * NOTHING ELSE ENDS A LOADER: if a caller drops the handle on AGAIN, the memory that was not given
 * back stays in use for as long as the process runs. */
wavetrain_status wavetrain_close(wavetrain_loader loader, uint64_t timeout_ns, uint32_t *held);

/* Queues samples, in order. Waits up to timeout_ns for room (0 = not at all). sample_bytes is
 * sizeof(wavetrain_sample). Samples, boxes and uris are not used after the return. samples may be
 * NULL if count is 0. taken: your number; how many samples were taken, also on failure.
 * OK: all. AGAIN: *taken < count, the lookahead is full. INVALID, RANK, UNSUPPORTED, and for memory
 * boxes DTYPE, BUDGET: sample *taken is wrong by itself (text in last_error), those before it were
 * taken. After the stream has failed: its error. Errors that depend on the store follow at pop. */
wavetrain_status wavetrain_push(wavetrain_loader loader, const wavetrain_sample *samples,
                                size_t count, size_t sample_bytes, uint64_t timeout_ns,
                                size_t *taken);

/* Queues the rows of a table, in order: sample n has one box of each column, from row n of its
 * arrays. It does what wavetrain_push does with the same boxes, and costs less: a uri is checked
 * where a row has another one than the row before it. If more than 3 columns have uris, some
 * are checked for each row.
 * columns: n_columns columns, 1 to max_boxes_per_sample, column_bytes apart, which is
 * sizeof(wavetrain_column); may be NULL where count is 0. tags: [count], or NULL: all 0. taken: as
 * of push; to go on, advance the arrays by *taken rows. Waits as push does.
 * Results as of push. The text of what is wrong with a row begins with its number in this call,
 * which is *taken, and, where there are several, its column: "row 3: column 1: ". A column that is
 * wrong as such is INVALID at row 0. */
wavetrain_status wavetrain_push_table(wavetrain_loader loader, const wavetrain_column *columns,
                                      uint32_t n_columns, uint32_t column_bytes, size_t count,
                                      const uint64_t *tags, uint64_t timeout_ns, size_t *taken);

/* Reads one box into your CPU memory, from any thread, and waits for it. No slot, batch or order
 * has a part in it, and on the backend of a device the device has none either. A runtime that owns
 * the memory a box must end in fills it in place this way.
 * box: a box of a uri, box_bytes is sizeof(wavetrain_box). Its field gives the element type and the
 * padding; of RAW each array's own elements are copied, whatever dtype_bytes is. Its extents are
 * any, its axes may be index lists, and at, axes and tensor must be 0. target: the address of its
 * first place, of any alignment. strides: bytes from one place to the next along each axis of the
 * box, in any order, below 0 backwards; NULL: row-major without gaps. Places must not overlap.
 * target_bytes: how many bytes may be written, from the lowest place to the end of the highest. No
 * other byte is written, nor read; after a failure the places hold anything.
 * Uncompressed chunks are read straight into the target, and all others are decoded and scattered
 * there. The call is a batch of its own where versions of files are looked at. n_readers calls work
 * at a time, others wait in order. The calling thread works as well, with the scratch of a decoding
 * thread that sleeps; without wavetrain's threads (PUMP, HOOK) as in pop. Decoded chunks are cached
 * after those that queued samples will use. A chunk of more encoded bytes than half of the staging
 * may wait for batches that are read early, until you have popped and released those before them.
 * After timeout_ns (WAVETRAIN_POP_TIMEOUT: that of the config), a reset or close it returns as soon
 * as nothing writes to the target any more, and nothing does later. So it waits for copies and
 * reads into the target, but for no other read.
 * OK. STARVED: not complete in time, or AGAIN if timeout_ns is 0. AGAIN: a reset ended the read, or
 * must be called again first. INVALID, RANK, UNSUPPORTED: the box, the target or the strides will
 * not do, or n_readers is 0. Errors that depend on the store are those of pop, but do not end the
 * stream; an error of the stream, on the other hand, does not affect a read. SHUTDOWN. */
wavetrain_status wavetrain_read_into(wavetrain_loader loader, const wavetrain_box *box,
                                     size_t box_bytes, void *target, uint64_t target_bytes,
                                     const int64_t *strides, uint64_t timeout_ns,
                                     wavetrain_error *error);

/* Lends your memory for one batch, a target for each field in the order of their numbers. So a
 * batch ends in a tensor, a ring or a store of another runtime without a copy. It is CPU memory on
 * the host backend, memory of the loader's device on a device. The batch that gets memory next is
 * written to the memory that was lent first, in the order of these calls. It is written to a slot
 * of the loader's only if nothing is lent; with lent_slots > 0 there are no such slots, and batches
 * wait. A batch that is being filled already, or is ready, stays where it is, so lend before you
 * push to be sure of the first. batch_info has is_lent, lend_tag (your tag) and the same address in
 * data.
 * targets: copied; target_bytes is sizeof(wavetrain_target). event: on the host NULL; on a device
 * NULL, or a CUevent after which the memory may be written. You may destroy the event when this
 * returns. Until it is over batches wait, also for memory that was lent later.
 * The memory is the loader's from the return on. IT IS GIVEN BACK when the batch in it is released
 * and its tensors are deleted, whatever event release was given. If no popped batch lies in it, it
 * is given back when a reset or close has returned OK; so is that of a batch that failed. Until
 * then it must stay, and until its batch is popped nobody else may use it. No other batch gets it.
 * OK. AGAIN: as many are lent as can be (lent_slots, or n_batch_slots where that is 0), or a reset
 * is under way or must be called again. INVALID: the targets are too few, too small, not aligned,
 * not of the device, overlap each other or what is lent. UNSUPPORTED: an event on the host, or one
 * of a capture. In these cases the memory is not lent. CUDA: a driver call failed, and the stream
 * has ended; the memory is given back at the next reset or close. The text is in last_error. Does
 * not wait. */
wavetrain_status wavetrain_lend(wavetrain_loader loader, const wavetrain_target *targets,
                                uint32_t n_targets, uint32_t target_bytes, void *event,
                                uint64_t tag);

/* Declares that the samples so far are all, for now. A batch that is not full is popped with fewer
 * samples (drop_last = 1: is discarded), and after the last batch pop returns END. The next push
 * starts a new batch. OK, or the error of a failed stream. Does not wait. */
wavetrain_status wavetrain_flush(wavetrain_loader loader);

/* Takes the next batch, in push order. Waits up to timeout_ns (0 = not at all, WAVETRAIN_FOREVER,
 * WAVETRAIN_POP_TIMEOUT).
 * You hold the batch until release. error: NULL or your struct, filled if the result is negative,
 * AGAIN or STARVED.
 * OK. AGAIN: none is ready and timeout_ns is 0. STARVED: the timeout ran out; a later pop gets the
 * same batch. The text has the reason. Either all slots are held: how many of them by tensors
 * alone, and which batch the longest. Or reads are pending: for how long, and of which file the
 * longest. Or samples are missing. END: flushed and every batch popped, at once, until the next
 * push. SHUTDOWN: close was called. Else: the error of this batch, after all batches before it; it
 * stays until reset. Without wavetrain's threads (PUMP, HOOK) a pop that waits works meanwhile. */
wavetrain_status wavetrain_pop(wavetrain_loader loader, uint64_t timeout_ns, wavetrain_batch *batch,
                               wavetrain_error *error);

/* Describes a batch that is held. field: which tensor of it, counted from 0. info: your struct.
 * OK; INVALID: batch is not held, or there is no such field. Does not wait. */
wavetrain_status wavetrain_batch_info(wavetrain_loader loader, wavetrain_batch batch,
                                      uint32_t field, wavetrain_batch_view *info);

/* Gives a batch back; its pointers are dead, its tensors live on, and the slot is free when the
 * last of them is deleted. In any order, from any thread. On the host event must be NULL, and YOUR
 * READS AND WRITES OF THE BATCH MUST BE OVER, except through tensors. On a device they may be
 * queued. The slot is used again after event (a CUevent that you recorded, or NULL), and after all
 * work that is queued until now on three kinds of streams. These are its ready_stream,
 * consumer_stream, and every stream that it was exported to. WORK ON OTHER STREAMS IS NOT COVERED,
 * NOR IS WORK THAT IS QUEUED LATER: record it in event, or wait for it. These streams and the event
 * must live until release returns (streams that are being captured: longer, see device). The next
 * batch of another slot does not wait for any of it. AN EVENT THAT WAS RECORDED IN A CAPTURE STANDS
 * FOR NO WORK, AND TO LOOK AT IT MAY BREAK THE CAPTURE.
 * OK. INVALID: batch is not held (released before, or of another loader). UNSUPPORTED: an event on
 * the host backend, or one of a capture, the batch is still held. CUDA: a driver call failed, the
 * batch is given back and the stream has ended. The text is in last_error. Does not wait. */
wavetrain_status wavetrain_release(wavetrain_loader loader, wavetrain_batch batch, void *event);

/* Hands a held batch to another library as a DLPack tensor, without a copy: shape [sample_count,
 * sample_shape...], row-major, strides filled in, writable, aligned to 256 bytes, on kDLCPU or
 * kDLCUDA.
 * Element types are DLPack's of the same name; of RAW they are uint8, with one more axis of
 * dtype_bytes after the others. field: which tensor of the batch, from 0 on. stream: on the host
 * backend NULL; on a device the CUstream that the consumer will work on, which release waits for.
 * DLPack numbers streams: NULL and (void *)1 are the legacy default stream, (void *)2 is the
 * default stream of the calling thread, (void *)-1 no stream. It must live until the batch is
 * released AND ALL TENSORS OF THE BATCH ARE DELETED; with (void *)2 the thread must live as long.
 * IF THE RELEASE HAPPENS ON ANOTHER THREAD, THE BLOCKING STREAMS OF THE CONTEXT WAIT FOR EACH OTHER
 * ONCE, because only the legacy stream knows that one. The data is complete on every stream:
 * nothing is queued on it.
 * tensor: your pointer. The tensor, whose memory is wavetrain's, is the consumer's until it calls
 * tensor->deleter(tensor), once, on any thread, at any time before the close that returns OK. The
 * deleter allocates nothing and does not wait. It ignores a tensor that it has deleted, until the
 * same record is exported again, and it does nothing after that close and in a child made by fork.
 * Each field may be exported up to WAVETRAIN_TENSORS_PER_SLOT times at a time, in either form, and
 * the batch be released before its tensors are deleted: then they keep the slot. For Python, wrap
 * the tensor in a capsule named "dltensor_versioned".
 * OK. AGAIN: as many tensors of the field live as can: delete one; or the batch was exported to as
 * many different streams: use one of them. INVALID: batch is not held, there is no such field, or
 * stream is of another context than the loader's. UNSUPPORTED: a stream on the host backend. CUDA:
 * a driver call failed, and the stream has ended. Does not wait. */
wavetrain_status wavetrain_dlpack(wavetrain_loader loader, wavetrain_batch batch, uint32_t field,
                                  void *stream, struct DLManagedTensorVersioned **tensor);

/* The same for consumers that know only DLPack before 1.0. The capsule is named "dltensor".
 * UNSUPPORTED, too: the batch is read-only (SHARE_ALL of wavetrain_node.h), and this form has no
 * flag for that. */
wavetrain_status wavetrain_dlpack_legacy(wavetrain_loader loader, wavetrain_batch batch,
                                         uint32_t field, void *stream,
                                         struct DLManagedTensor **tensor);

/* Drops every sample that is not popped, forgets the error of the stream and a flush, and counts
 * batches from 0 again. Held batches stay held, tensors live on. Metadata and indexes stay cached,
 * but every version is asked for again before it is used; decoded chunks do not stay. Nothing is
 * allocated. Waits for steps that run, such as a read, for reset_timeout_ns at most, but not for
 * reads that files.read_async has begun. These keep their part of the staging memory until they are
 * completed, and a stream that needs all of it waits for them. An error of the CUDA driver is not
 * forgotten: only close helps.
 * OK. AGAIN: steps still run; last_error has their number and the step that is waited for the
 * longest. Nothing was dropped, and push, flush and pop are AGAIN until a reset has returned OK:
 * call it again, or close. Borrowed memory (WAVETRAIN_BOX_MEMORY) stays borrowed. */
wavetrain_status wavetrain_reset(wavetrain_loader loader);

/* Forgets what is cached of the array at `uri`: its documents, descriptors, index pages and decoded
 * chunks. `uri` is copied and spelled as it was pushed; NULL: all arrays. The next sample that
 * names the array finds it as it is then. Samples that are planned keep what they have; queued ones
 * do not. It serves programs that have just rewritten one asset, above all with a files hook, whose
 * objects have no version but their size. Does not wait, and may be called from any thread. OK,
 * also where nothing was cached; INVALID or UNSUPPORTED: the uri; SHUTDOWN. */
wavetrain_status wavetrain_forget(wavetrain_loader loader, const char *uri);

/* Works on the calling thread for about budget_ns: ends after the step in which the budget ran out
 * (0: after one step), or when there is nothing to do. A step is one bounded task: one read, or
 * chunks of one file, a mebibyte or one chunk. Several threads may pump at once.
 * In HOOK mode it lends the calling thread to the loader, in addition to the jobs.
 * OK: it did something. AGAIN: there was nothing to do, or as many threads as may work do so.
 * INVALID: thread_mode is OWN. SHUTDOWN: close was called. */
wavetrain_status wavetrain_pump(wavetrain_loader loader, uint64_t budget_ns);

/* The completion of a read that files.read_async has begun: ticket as it was given there, result as
 * files.read returns it. Any thread, also inside of read_async, and also after a close that
 * returned AGAIN. wavetrain sees all that was written to the target before.
 * OK; INVALID: no read of that ticket is in flight (completed before, or never begun). Does not
 * wait; in HOOK mode it may call workers.run. */
wavetrain_status wavetrain_read_done(wavetrain_loader loader, uint64_t ticket, int64_t result);

/* Copies the figures. stats: your struct. They are read one by one while work continues, so that
 * two of them may be a moment apart. OK. Does not wait; cheap enough for every frame. */
wavetrain_status wavetrain_stats(wavetrain_loader loader, wavetrain_stats_view *stats);

/* Sets the figures to 0, except what is committed or held now, and empties the ring of events. OK.
 * Does not wait. */
wavetrain_status wavetrain_stats_reset(wavetrain_loader loader);

/* Copies the last events of stages, event_count at most, the oldest first; config.trace_events are
 * kept. Each observation of a stage is an event, so that, until the ring is full, durations and
 * bytes add up to the stage's ns and output_bytes in the figures. events: your array, event_bytes =
 * sizeof(wavetrain_event) apart, NULL only if event_count = 0. written: your number; how many were
 * copied; events that are written meanwhile are not. Events of one thread are nested; those of
 * thread 0 overlap. INVALID: trace_events = 0. OK. Does not wait. */
wavetrain_status wavetrain_trace(wavetrain_loader loader, wavetrain_event *events,
                                 size_t event_count, size_t event_bytes, size_t *written);

/* Why a chunk could not be read: number of those that failed, from 0, in the order in which they
 * did, each once, with the first sample that needed it. on_error = SKIP or NAN; 64 are kept, until
 * reset, and stats.bad_chunks counts all. Chunks of wavetrain_read_into are not listed. error: your
 * struct. OK;
 * END: there are not so many; INVALID: error is NULL, or its struct_size. Does not wait. */
wavetrain_status wavetrain_bad_chunk(wavetrain_loader loader, uint32_t number,
                                     wavetrain_error *error);

/* Why a call on this loader failed last, on whatever thread. It is the last call that returned a
 * negative status, AGAIN of dlpack, or STARVED because all batch slots are held; close and this one
 * are not looked at. If none failed, it is the error that ended the stream. If the stream continues
 * and all slots are held now, it is STARVED with the batch held longest; else OK and an empty text.
 * Reset clears it. error: your struct, filled also if there is no such loader, with SHUTDOWN and
 * the fix. OK. Does not wait. */
wavetrain_status wavetrain_last_error(wavetrain_loader loader, wavetrain_error *error);

/* Describes the array or group at uri (with a NUL). Needs no loader. files: NULL or a hook to read
 * through. scratch as in config_fit; the entries of a group lie in it, as many as it has room for,
 * WAVETRAIN_SCRATCH_BYTES hold some eight thousand. info: your struct. error: NULL
 * or your struct.
 * The entries of an image are its levels, the finest first, those of a plate its wells, those of a
 * well its fields. The arrays that consolidated metadata lists follow. If a group has neither
 * OME-NGFF attributes nor consolidated metadata, its entries are the nodes in its folder, in the
 * order of their names. Entries name what the metadata names, whether it is there or not.
 * OK; NOT_FOUND, IO, DECODE, UNSUPPORTED: with the reason. With the struct_size of a header that
 * had no entries a group is NOT_FOUND, and the text names its arrays. Reads metadata, so it waits
 * for storage. */
wavetrain_status wavetrain_array_info(const char *uri, const wavetrain_files_hook *files,
                                      void *scratch, size_t scratch_bytes,
                                      wavetrain_array_view *info, wavetrain_error *error);

/* As array_info, read through the hooks of *config: files, store and source; of its other members
 * metadata alone is looked at. store.list finds numbered .npy files, and the nodes of a group that
 * has no list of its own. Statuses, scratch and info as in array_info; INVALID too for a files hook
 * with one of size and read alone. */
wavetrain_status wavetrain_node_info(const char *uri, const wavetrain_config *config,
                                     void *scratch, size_t scratch_bytes,
                                     wavetrain_array_view *info, wavetrain_error *error);

/* Looks up the metadata of an array for loaders elsewhere: documents, headers of .npy files and
 * shard indexes. Each has the size and the time of change of its file, or the version. Loaders take
 * it as config.metadata, and read none of it. Needs no loader. The hooks of *config read it,
 * for the fields of *config (cf). A relative uri is of the current folder: loaders elsewhere find
 * the array by the path that it has here. part: your struct, with what is looked up, and room
 * for it. A call with first_shard = 0 sets shards; others go on from its shard_count.
 * Parts follow each other in config.metadata in any order, as do those of several arrays. An index
 * that is broken is left out, and is an error where it is needed. Sizes alone are compared if a
 * hook has no read_version. scratch as in config_fit. error: NULL or your struct.
 * OK; BUDGET: out_bytes is too little, nothing is written to *part; NOT_FOUND, IO, DECODE,
 * UNSUPPORTED, INVALID: as for a sample of the array. Waits for storage, and for up to 2 s after a
 * file was written. */
wavetrain_status wavetrain_metadata(const char *uri, const wavetrain_config *config,
                                    void *scratch, size_t scratch_bytes,
                                    wavetrain_metadata_part *part, wavetrain_error *error);

#ifdef __cplusplus
}
#endif

#endif /* WAVETRAIN_H */
