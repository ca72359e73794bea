/* macros.c: the C headers among other people's macros. Is compiled, and not run. */
#include <stddef.h>
#include <stdint.h>

#include "macros.h"

#include "wavetrain.h"
#include "wavetrain_epoch.h"
#include "wavetrain_recipes.h"
#include "wavetrain_tiles.h"

uint32_t macros_version(void);
uint32_t macros_version(void) {
    return wavetrain_version();
}
