/* Shape logic: every check of a problem and all that follows from it. */
#ifndef DSCONV_SRC_PROBLEM_H
#define DSCONV_SRC_PROBLEM_H

#include "dsconv/backend.h"

/** Checks a caller's problem and fills *shape and *info (may be NULL). Allocates nothing. */
dsconv_status dsconv_problem_check(const dsconv_problem *problem, dsconv_shape *shape,
                                   dsconv_problem_info *info);

/** Bytes of one element of a checked problem's dtype. */
size_t dsconv_element_size(dsconv_dtype dtype);

#endif
