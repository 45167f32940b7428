/* Results on stdout, as a table, as CSV, or as one JSON object a line. */
#ifndef DSCONV_BENCH_REPORT_H
#define DSCONV_BENCH_REPORT_H

#include "options.h"
#include "result.h"

/* Prints one result. A table gives one problem a paragraph and several a line each. */
void report_result(const bench_options *options, const bench_result *result, bool several);

/* Prints the geometric mean of the speedups of each set on each backend, and the least one: to
 * stdout after a table, to stderr otherwise. */
void report_sets(const bench_options *options, const bench_result *results, size_t count);

/* Used by report_result. */
void report_table(const bench_result *result, bool several);

#endif
