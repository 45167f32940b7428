#include "small_variant.h"

SMALL_VARIANT(f32_tf32);
