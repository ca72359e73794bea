/* cube.c: one batch of one box, popped and checked; for programs of tests/ship/link.rs.
 *
 * Copies of this file, of check.h and of the header in which "wavetrain" is another word go with an
 * archive that was made with that PREFIX.
 */
#include "check.h"

int cube_wavetrain(const char *array);

/* The version of the library; the box of `array` (a cube of tests/common/store.rs) is right. */
int cube_wavetrain(const char *array) {
    enum { BOX = 20 };
    const wavetrain_config config = cube_config(BOX);
    wavetrain_error error;
    wavetrain_loader loader;
    wavetrain_batch batch;
    wavetrain_batch_view view;

    error.struct_size = sizeof error;
    CHECK_OK(wavetrain_open(&config, &loader, &error), error);
    push_cube(loader, array, 3, 17, 40, BOX, 0);
    CHECK_OK(wavetrain_pop(loader, LONG_NS, &batch, &error), error);
    view = view_of(loader, batch);
    CHECK(row_is_cube(&view, 0, 0, 3, 17, 40, BOX));
    CHECK_STATUS(wavetrain_release(loader, batch, NULL), WAVETRAIN_OK);
    CHECK_STATUS(wavetrain_close(loader, LONG_NS, NULL), WAVETRAIN_OK);
    return (int)wavetrain_version();
}
