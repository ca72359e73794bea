/* nvToolsExt.h: stands for NVTX where CUDA is not installed. It checks that ranges of a thread are
 * nested, and, at the end of the program, prints how many there were. */
#pragma once

#include <atomic>
#include <cstdio>
#include <cstdlib>

struct nvtx_count {
    std::atomic<unsigned> pushed{ 0 }, popped{ 0 };
    ~nvtx_count() {
        std::printf("%u ranges, %u of them over\n", pushed.load(), popped.load());
    }
};

inline nvtx_count nvtx_ranges_seen;
inline thread_local int nvtx_depth = 0;

inline int nvtxRangePushA(const char *name) {
    if (name == nullptr || name[0] == '\0')
        std::abort();
    nvtx_ranges_seen.pushed++;
    return nvtx_depth++;
}

inline int nvtxRangePop() {
    if (nvtx_depth == 0)
        std::abort();
    nvtx_ranges_seen.popped++;
    return --nvtx_depth;
}
