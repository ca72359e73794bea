/* clash.c ARRAY: a host that has a zstd and a Rust library of its own keeps them, and we keep ours.
 *
 * The names below are what such a host defines. If the archive defined one of them the program
 * would not link; if it used one of them the program would end here.
 */
#include "check.h"

#define OURS_TO_DEFINE(name)                                                                       \
    size_t name(void);                                                                             \
    size_t name(void) {                                                                            \
        CHECK(!"the archive called " #name " of the host");                                        \
        return 0;                                                                                  \
    }

OURS_TO_DEFINE(ZSTD_versionNumber)
OURS_TO_DEFINE(ZSTD_isError)
OURS_TO_DEFINE(ZSTD_getErrorName)
OURS_TO_DEFINE(ZSTD_estimateDCtxSize)
OURS_TO_DEFINE(ZSTD_initStaticDCtx)
OURS_TO_DEFINE(ZSTD_createDCtx)
OURS_TO_DEFINE(ZSTD_freeDCtx)
OURS_TO_DEFINE(ZSTD_decompress)
OURS_TO_DEFINE(ZSTD_decompressDCtx)
OURS_TO_DEFINE(ZSTD_decompressBegin)
OURS_TO_DEFINE(ZSTD_decompressContinue)
OURS_TO_DEFINE(ZSTD_nextSrcSizeToDecompress)
OURS_TO_DEFINE(ZSTD_decompressStream)
OURS_TO_DEFINE(ZSTD_getFrameHeader)
OURS_TO_DEFINE(ZSTD_getFrameContentSize)
OURS_TO_DEFINE(ZSTD_findFrameCompressedSize)
OURS_TO_DEFINE(ZSTD_trace_decompress_begin)
OURS_TO_DEFINE(ZSTD_trace_decompress_end)
OURS_TO_DEFINE(HUF_decompress4X_hufOnly_wksp)
OURS_TO_DEFINE(XXH64)
OURS_TO_DEFINE(rust_eh_personality)
OURS_TO_DEFINE(rust_begin_unwind)
OURS_TO_DEFINE(rust_panic)
OURS_TO_DEFINE(__rust_alloc)
OURS_TO_DEFINE(__rust_dealloc)
OURS_TO_DEFINE(ZSTD_customMalloc)
OURS_TO_DEFINE(ZSTD_customCalloc)
OURS_TO_DEFINE(ZSTD_customFree)
OURS_TO_DEFINE(FSE_decompress_wksp_bmi2)
OURS_TO_DEFINE(mz_uncompress)
OURS_TO_DEFINE(tinfl_decompress)
OURS_TO_DEFINE(LZ4_decompress_safe)
OURS_TO_DEFINE(blosc_decompress)
OURS_TO_DEFINE(crc32)

int main(int argc, char **argv) {
    enum { BOX = 20 };
    CHECK(argc == 2);
    const wavetrain_config config = cube_config(BOX);
    wavetrain_error error = { .struct_size = sizeof error };
    wavetrain_loader loader;
    wavetrain_batch batch;
    CHECK_OK(wavetrain_open(&config, &loader, &error), error);
    push_cube(loader, argv[1], 3, 17, 40, BOX, 0);
    CHECK_OK(wavetrain_pop(loader, LONG_NS, &batch, &error), error);
    const wavetrain_batch_view view = view_of(loader, batch);
    CHECK(row_is_cube(&view, 0, 0, 3, 17, 40, BOX));
    CHECK_STATUS(wavetrain_release(loader, batch, NULL), WAVETRAIN_OK);
    CHECK_STATUS(wavetrain_close(loader, LONG_NS, NULL), WAVETRAIN_OK);
    return 0;
}
