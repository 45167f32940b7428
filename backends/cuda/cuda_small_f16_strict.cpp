#include "small_variant.h"

SMALL_VARIANT(f16_strict);
