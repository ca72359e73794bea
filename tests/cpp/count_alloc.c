/* count_alloc.c: the counting malloc of tests/c for C++ programs, which cannot include it. */
#include "count_alloc.h"

uint64_t alloc_call_count(void);
uint64_t alloc_call_count(void) {
    return atomic_load(&alloc_calls);
}
