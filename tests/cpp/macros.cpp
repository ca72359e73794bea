/* macros.cpp: all headers among other people's macros. Is compiled, and not run; templates that a
 * program instantiates have the tokens that are checked here. */
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <new>
#include <pthread.h>
#include <stdexcept>
#include <string>
#include <time.h>
#include <type_traits>
#include <utility>
#include <vector>

#include "macros.h"

#include "wavetrain.h"
#include "wavetrain.hpp"
#include "wavetrain_epoch.h"
#ifdef __cpp_exceptions
#include "wavetrain_exceptions.hpp"
#endif
#include "wavetrain_recipes.h"
#include "wavetrain_source.hpp"
#include "wavetrain_tiles.h"
