#include "small_variant.h"

SMALL_VARIANT(bf16_strict);
