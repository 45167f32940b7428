/*
 * The backend and algorithm that a test program is about.
 */
#ifndef DSCONV_TESTS_TARGET_H
#define DSCONV_TESTS_TARGET_H

#include <stdbool.h>

#include <dsconv/dsconv.h>

enum { TARGET_CONTEXTS = 3 };

/** A backend opened with 1, 2 and 3 threads, the algorithm to force and the kernel that every plan
 *  has to name (NULL: its own choice). */
typedef struct target {
    const char *backend, *algo, *kernel;
    bool host; /* its tensors are ordinary host memory */
    dsconv_context *contexts[TARGET_CONTEXTS];
} target;

/** Opens a backend; gives -1, or else prints why not and gives the exit status to end with: 77
 *  without such a device or algorithm here, 2 for a backend that does not exist. */
int target_open(target *t, const char *backend, const char *algo);
void target_close(target *t);

/** Prints how many problems passed, failed and were refused; gives the exit status: 0, 1 for a
 *  failure, or 77 with the last refusal where none could run. */
int target_conclude(const target *t, long passed, long failed, long unsupported);

/** The algorithm for people to read: "auto" when none is forced. */
const char *target_algo(const target *t);

#endif
