/* count_alloc.h: this program's own malloc family, which counts its calls.
 *
 * Definitions in a program come before libc's, for libc's own calls too, so nothing that the
 * process allocates by these names goes uncounted. Blocks are cut from one static pool and never
 * reused: the programs that include this allocate a few times or not at all.
 *
 * With KEEP_MALLOC nothing is replaced and nothing counted, for tools that take malloc's place
 * themselves.
 */
#ifndef COUNT_ALLOC_H
#define COUNT_ALLOC_H

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { ALLOC_POOL_BYTES = 16 << 20, ALLOC_HEADER_BYTES = 16 };

static _Atomic uint64_t alloc_calls;

#ifndef KEEP_MALLOC
static _Alignas(4096) unsigned char alloc_pool[ALLOC_POOL_BYTES];
static _Atomic size_t alloc_used;

/* A block, its size in the 16 bytes before it. */
static void *alloc_cut(size_t bytes, size_t align) {
    if (align < ALLOC_HEADER_BYTES)
        align = ALLOC_HEADER_BYTES;
    if (bytes > ALLOC_POOL_BYTES || align > ALLOC_POOL_BYTES)
        return NULL;
    const size_t room = bytes + align + ALLOC_HEADER_BYTES;
    const size_t first = atomic_fetch_add(&alloc_used, room);
    if (first + room > ALLOC_POOL_BYTES)
        return NULL;
    uintptr_t at = (uintptr_t)alloc_pool + first + ALLOC_HEADER_BYTES;
    at = (at + align - 1) / align * align;
    memcpy((void *)(at - ALLOC_HEADER_BYTES), &bytes, sizeof bytes);
    return (void *)at;
}

void *malloc(size_t bytes) {
    atomic_fetch_add(&alloc_calls, 1);
    return alloc_cut(bytes, 0);
}

void *calloc(size_t count, size_t bytes) {
    atomic_fetch_add(&alloc_calls, 1);
    if (bytes != 0 && count > SIZE_MAX / bytes)
        return NULL;
    return alloc_cut(count * bytes, 0); /* the pool starts as zeros and is never reused */
}

void *realloc(void *block, size_t bytes) {
    atomic_fetch_add(&alloc_calls, 1);
    void *grown = alloc_cut(bytes, 0);
    if (grown != NULL && block != NULL) {
        size_t before;
        memcpy(&before, (unsigned char *)block - ALLOC_HEADER_BYTES, sizeof before);
        memcpy(grown, block, before < bytes ? before : bytes);
    }
    return grown;
}

void free(void *block) {
    (void)block;
    atomic_fetch_add(&alloc_calls, 1);
}

int posix_memalign(void **block, size_t align, size_t bytes) {
    atomic_fetch_add(&alloc_calls, 1);
    *block = alloc_cut(bytes, align);
    return *block == NULL ? ENOMEM : 0;
}

void *aligned_alloc(size_t align, size_t bytes) {
    atomic_fetch_add(&alloc_calls, 1);
    return alloc_cut(bytes, align);
}

void *memalign(size_t align, size_t bytes);
void *memalign(size_t align, size_t bytes) {
    atomic_fetch_add(&alloc_calls, 1);
    return alloc_cut(bytes, align);
}
#endif

#endif
