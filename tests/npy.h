/*
 * Reads arrays of the .npy format, version 1, little-endian float32 and float64 in C order
 * (https://numpy.org/neps/nep-0001-npy-format.html).
 */
#ifndef DSCONV_TESTS_NPY_H
#define DSCONV_TESTS_NPY_H

#include <stdint.h>

/** The `count` values of an array, to be freed; NULL unless the file holds exactly that many. */
double *npy_read(const char *path, int64_t count);

#endif
