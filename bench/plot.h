/* The roofline of what was timed, drawn by gnuplot. */
#ifndef DSCONV_BENCH_PLOT_H
#define DSCONV_BENCH_PLOT_H

#include "result.h"

/* Whether gnuplot can be run. */
bool plot_available(void);

/* Writes an SVG file; false with a line on stderr when that failed. */
bool plot_roofline(const char *path, const bench_result *results, size_t count);

#endif
