/* wavetrain_remote.h - hooks of wavetrain for data that lies far away.
 *
 * SPDX-License-Identifier: MIT
 *
 * A client reads s3://, gs://, az:// (abfs://, abfss://), http://, https:// and files, and zip
 * archives in any of them. Its two hooks go into the config of a loader; any number of loaders
 * share a client:
 *
 *     wavetrain_remote_config remote;
 *     wavetrain_remote_config_default(&remote, sizeof remote);
 *     remote.read_done = wavetrain_read_done;
 *     wavetrain_remote_client *client;
 *     char text[1024];
 *     if (wavetrain_remote_open(&remote, &client, text, sizeof text) != WAVETRAIN_REMOTE_OK) ...
 *
 *     wavetrain_remote_files_hook(client, &config.files);
 *     wavetrain_remote_store_hook(client, &config.store);
 *     wavetrain_open(&config, &loader, &error);
 *     ... push "s3://bucket/a.zarr", pop ...
 *     wavetrain_close(loader);
 *     wavetrain_remote_close(client);
 *
 * The library does not link wavetrain: it calls back through `read_done` alone.
 *
 * Names. A uri is what a loader gets: s3://BUCKET/KEY, gs://BUCKET/KEY, az://CONTAINER/KEY,
 * abfs://CONTAINER@ACCOUNT.dfs.core.windows.net/KEY, http(s)://HOST/PATH?QUERY, file:///PATH or a
 * path. Keys of stores are not percent-encoded, paths of http are. A query (a signature) goes with
 * each request of the array; it must not have a '/' (%2F instead). The first part of a path that
 * ends with .zip and has another part after it is an archive, whose entries follow:
 * s3://b/a.zip/zarr.json. "zip:" before a uri says the same, and is a failure where no part ends
 * so. A local folder called x.zip is a folder; a prefix of a bucket called x.zip/ cannot be read.
 *
 * Archives. Stored entries are read by range; deflated ones are read and inflated whole, once, up
 * to max_entry_bytes, and cached. Entries that are read whole have their CRC-32 checked. The last
 * entry of the directory counts where two have one name. Encrypted entries, and other methods than
 * deflate, are failures. Names that are not UTF-8 are not found.
 *
 * Versions. The version of an object is its ETag, else its Last-Modified and size; that of a file
 * is its device, inode, size and time of change; that of an entry is its archive's. A read that
 * follows a size is of the version that the size was of, or a failure: no read has bytes of two
 * versions. A loader that has no versions (files.size alone) does not see a change that keeps the
 * size: call wavetrain_forget then.
 *
 * Failures. Absent (404, see `absent`) is told from failed. 429, 408, 5xx, resets, time-outs and
 * bodies that break off are tried again, with waits that double; a failure has a text that names
 * the object and the reason, without keys, tokens, users and queries of addresses.
 *
 * Credentials are those that the users of each cloud set: AWS_*, GOOGLE_* and AZURE_* variables,
 * web identity, and the metadata of instances. Files of profiles (~/.aws) and SSO are read where the
 * library was built with the feature profiles, as archive.sh does. Proxies are those of the environment, or proxy_url.
 *
 * Threads and memory. A client has n_threads threads that move bytes (wtremote-io-N), up to
 * n_threads more that read local files and inflate, and one that calls read_done (wtremote-done).
 * It holds at most cache_bytes of cached bytes and directories; about 1 KiB for each of n_objects;
 * n_threads * 2 * max_entry_bytes while it inflates; for each archive that is being opened 256 KiB
 * and its directory; and for each request in flight the buffers of a connection, 64 KiB to 1 MiB.
 *
 * Fork. A child has none of the threads: each call on the client fails there, with a text, and
 * close only forgets the client. Open one in the child.
 */
#ifndef WAVETRAIN_REMOTE_H
#define WAVETRAIN_REMOTE_H

#include "wavetrain.h"

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Results of the functions. */
enum {
    WAVETRAIN_REMOTE_OK = 0,
    WAVETRAIN_REMOTE_INVALID = 1, /* an argument or the config */
    WAVETRAIN_REMOTE_FAILED = 2,  /* a defect */
    WAVETRAIN_REMOTE_FORCE32 = 0x7FFFFFFF
};

/* An open client. */
typedef struct wavetrain_remote_client wavetrain_remote_client;

/* Settings [default]. Texts are copied by open. */
typedef struct wavetrain_remote_config {
    size_t struct_size;
    /* Set it to wavetrain_read_done. NULL: hooks have no asynchronous reads, and as many reads are
     * in flight as the loader has threads for them (n_io_threads). */
    wavetrain_status (*read_done)(wavetrain_loader loader, uint64_t ticket, int64_t result);
    /* NULL, or called with the text of each failure, on the thread that met it; absent objects are
     * none. The text is borrowed. It must not call into the client. */
    void (*on_error)(void *user, const char *text);
    void *on_error_user;
    uint32_t n_threads;          /* [2] 1 to 64 */
    uint32_t reads_max;          /* [256] requests in flight, 1 to 4096; files take turns */
    uint64_t cache_bytes;        /* [256 MiB] inflated entries, whole files, directories */
    uint64_t max_entry_bytes;    /* [64 MiB] largest entry that is inflated, largest whole file */
    uint32_t n_objects;          /* [65536] objects whose size and version are remembered */
    uint32_t n_stores;           /* [64] buckets and servers that are kept open */
    uint32_t retries_max;        /* [10] tries after the first */
    uint32_t whole_files;        /* [0] 1: files of servers without ranges are read whole, up to
                                  * max_entry_bytes, and kept; 0: they are failures */
    uint64_t backoff_min_ns;     /* [100 ms] least wait before a retry; half of it is by chance */
    uint64_t backoff_max_ns;     /* [15 s] */
    uint64_t connect_timeout_ns; /* [5 s] */
    uint64_t idle_timeout_ns;    /* [30 s] for the head of an answer, and between parts of it */
    uint64_t total_timeout_ns;   /* [180 s] for all tries of one read */
    uint64_t max_age_ns;         /* [0] a size this old is not asked for again */
    uint64_t archive_max_age_ns; /* [1 s] as max_age_ns, of an archive */
    uint64_t merge_gap_bytes;    /* [64 KiB] for store.merge_gap_bytes */
    uint64_t merge_bytes_max;    /* [8 MiB] for store.merge_bytes_max */
    uint32_t anonymous;          /* [0] 1: requests are not signed */
    uint32_t allow_http;         /* [0] 1: endpoints may be http:// */
    uint32_t path_style;         /* [0] of s3: the bucket is 1: in the path, 2: in the host */
    uint32_t n_options;          /* [0] */
    const char *const *options;  /* "key=value", keys as the crate object_store has them:
                                  * aws_access_key_id, azure_storage_account_name,
                                  * google_service_account, ..; without a cloud's prefix for all:
                                  * user_agent, proxy_excludes, pool_idle_timeout, .. */
    const char *endpoint;        /* [NULL] of s3 */
    const char *region;          /* [NULL] of s3 */
    const char *ca_file;         /* [NULL] certificates (PEM) that are trusted too */
    const char *proxy_url;       /* [NULL] the proxy of all requests; it may have a user */
    const char *absent;          /* [NULL = "404"] statuses that mean absent. S3 answers 403 for
                                  * absent keys where the caller may not list the bucket:
                                  * "404,403" then, which hides that access is denied. Wrong keys
                                  * and listings that are denied stay failures; see `denied` */
} wavetrain_remote_config;

/* Figures since open. */
typedef struct wavetrain_remote_stats_view {
    size_t struct_size;
    uint64_t requests;       /* HTTP requests, those for credentials included */
    uint64_t retries;        /* tries after the first */
    uint64_t bytes_received; /* of objects, over connections */
    uint64_t bytes_read;     /* handed to callers */
    uint64_t reads;          /* calls of read, read_async, read_tail and their versions */
    uint64_t sizes;          /* calls of size */
    uint64_t lists;          /* calls of list */
    uint64_t absent;         /* calls that ended with "absent" */
    uint64_t failed;         /* calls that failed */
    uint64_t changed;        /* .. because the object was another version */
    uint64_t cache_hits;     /* sizes, entries and directories that needed no request */
    uint64_t cached_bytes;   /* now */
    uint64_t inflated;       /* entries */
    uint64_t in_flight;      /* requests, now */
    uint64_t in_flight_max;
    uint64_t denied;         /* calls among `absent` that met another status than 404 */
} wavetrain_remote_stats_view;

/* Fills *config, of struct_size bytes, with the defaults. OK, INVALID. */
int wavetrain_remote_config_default(wavetrain_remote_config *config, size_t struct_size);

/* Opens a client: checks the config and starts threads. It makes no request. OK: *client is yours.
 * Else error, of error_bytes bytes, has a text with a NUL; it may be NULL. */
int wavetrain_remote_open(const wavetrain_remote_config *config, wavetrain_remote_client **client,
                          char *error, size_t error_bytes);

/* Fill the hooks of a loader's config; struct_size too. The store hook's functions are for
 * loaders that have versions and listings. The client must live until the loader is closed. */
int wavetrain_remote_files_hook(wavetrain_remote_client *client, wavetrain_files_hook *hook);
int wavetrain_remote_store_hook(wavetrain_remote_client *client, wavetrain_store_hook *hook);

/* Copies the text of the last failure of any call, with a NUL, as far as it fits. Returns its bytes
 * without the NUL; 0: there was none. Any thread. */
size_t wavetrain_remote_last_error(wavetrain_remote_client *client, char *buffer,
                                   size_t buffer_bytes);

/* Copies the figures; set stats->struct_size. OK, INVALID. Any thread. */
int wavetrain_remote_stats(wavetrain_remote_client *client, wavetrain_remote_stats_view *stats);

/* Ends all that is in flight with a failure, within a second; later calls work. It helps a close
 * of a loader that waits for reads of a server that does not answer. Any thread. */
int wavetrain_remote_cancel(wavetrain_remote_client *client);

/* Ends all that is in flight with a failure, waits for that, joins the threads, frees the client.
 * Close the loaders that use it first. Not on a thread that a completion runs on. NULL: nothing. */
int wavetrain_remote_close(wavetrain_remote_client *client);

#ifdef __cplusplus
}
#endif

#endif /* WAVETRAIN_REMOTE_H */
