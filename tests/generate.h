/*
 * Random problems over everything the library offers, small enough that hundreds take seconds.
 */
#ifndef DSCONV_TESTS_GENERATE_H
#define DSCONV_TESTS_GENERATE_H

#include "tensor.h"

/** A valid problem, of `outputs` output channels unless 0. exact: only activations that keep small
 *  integers exact. */
dsconv_problem generate_problem(rng *random, bool exact, int64_t outputs);

#endif
