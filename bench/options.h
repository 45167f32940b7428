/* The command line of dsconv-bench. */
#ifndef DSCONV_BENCH_OPTIONS_H
#define DSCONV_BENCH_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { EXIT_OUT_OF_BOUNDS = 1, EXIT_USAGE = 2, EXIT_UNAVAILABLE = 77 };

typedef enum bench_format { FORMAT_TABLE, FORMAT_CSV, FORMAT_JSON } bench_format;

typedef struct bench_options {
    const char *backend; /* NULL: DSCONV_BACKEND, else auto; "all": every usable one */
    int32_t device, threads;
    const char *algo;
    bool verify, time, baseline, list, print;
    bench_format format;
    const char *set, *file, *plot;
    uint64_t seed;
    int reps;                                  /* 0: as the device's timer proposes */
    const char *batch, *dtype, *layout, *math; /* override those of every problem */
    char *const *problems;
    size_t problem_count;
} bench_options;

/* Reads the command line. -1 to go on, otherwise the exit status: 0 after --help or --version, or
 * EXIT_USAGE after one line on stderr. */
int options_parse(int argc, char **argv, bench_options *options);

#endif
