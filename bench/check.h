/* Verification of outputs against the double-precision reference. */
#ifndef DSCONV_BENCH_CHECK_H
#define DSCONV_BENCH_CHECK_H

#include "../tests/verify.h"
#include "tensors.h"

typedef struct bench_check {
    verdict y, mid;                /* mid.count is 0 where mid is no output */
    int64_t pixels, pixels_of_all; /* of y, over all images; each with all its channels */
} bench_check;

/* Checks y (in host memory, with the problem's strides) and the tensors' mid. Small problems are
 * checked whole; of larger ones a sample of pixels of every image, with corners and borders. False
 * when out of memory. */
bool check_outputs(const bench_tensors *tensors, void *y, bool with_mid, bool tf32,
                   bench_check *check);

bool check_passes(const bench_check *check);

/* Whether the check was whole, as text: "all 3136 pixels" or "4096 of 262144 pixels ...". */
void check_describe(const bench_check *check, char *text, size_t size);

#endif
