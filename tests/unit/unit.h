/* What the unit tests share. */
#ifndef DSCONV_UNIT_H
#define DSCONV_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "dsconv/dsconv.h"

/** Checks a status and that the thread's message contains a text (NULL: any but an empty one). */
#define expect_failure(call, status, text) unit_expect((call), status, text, __FILE__, __LINE__)
void unit_expect(dsconv_status status, dsconv_status expected, const char *text, const char *file,
                 int line);

/** Checks DSCONV_OK, and prints the message otherwise. */
#define expect_ok(call) unit_expect_ok((call), __FILE__, __LINE__)
void unit_expect_ok(dsconv_status status, const char *file, int line);

/** A small valid f32 problem with padding 1: 2x4x9x10 to 6 channels. */
dsconv_problem unit_problem(void);

/** A context on a backend by name. */
dsconv_context *unit_context(const char *backend);

/** A plan of unit_problem() with its weights set; its weights are one. */
dsconv_plan *unit_plan(dsconv_context *context, const dsconv_problem *problem, const char *algo);

/** Runs the plan in host memory on an x of ones and checks y. */
void unit_check_run(const dsconv_plan *plan, const dsconv_problem *problem);
dsconv_status unit_run(const dsconv_plan *plan, const dsconv_problem *problem, float *y);

/** What y must be in output channel 0 of image 0 at (p, q) when all is one. */
float unit_expected(const dsconv_problem *problem, int64_t p, int64_t q);

/** Setup of every group: no variable of the library's is set, the working directory is a new
 *  empty one, and DSCONV_BACKEND_DIR names another new one. Teardown removes both. */
int unit_setup(void **state);
int unit_teardown(void **state);

/** Copies a mock that was built as FILE.so into DSCONV_BACKEND_DIR as dsconv_NAME.so. */
void unit_install(const char *file, const char *name);
/** The same into any directory. */
void unit_install_into(const char *directory, const char *file, const char *name);

/** Directory of modules of this test. */
const char *unit_module_dir(void);

/** Runs a function in a forked child and returns its exit status; 0 is success. */
int unit_in_child(int (*function)(void *argument), void *argument);

#endif
