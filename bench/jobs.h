/* The problems to work on: from the command line, from a file, or layers of known networks. */
#ifndef DSCONV_BENCH_JOBS_H
#define DSCONV_BENCH_JOBS_H

#include "../tests/problem.h"
#include "options.h"

typedef struct bench_job {
    char set[48]; /* network, "" for a problem given by itself */
    char layer[48];
    char text[PROBLEM_TEXT_SIZE]; /* canonical problem string */
    dsconv_problem problem;
    dsconv_problem_info info;
} bench_job;

typedef struct bench_jobs {
    bench_job *items;
    size_t count, room;
} bench_jobs;

/* Collects what the options ask for and says on stderr which layers are left out and why. 0, or
 * the exit status after one line on stderr. The caller frees the list whatever the result. */
int jobs_collect(const bench_options *options, bench_jobs *jobs);
void jobs_free(bench_jobs *jobs);

/* Adds one problem, with the overrides of the options. False with the reason in `error`. */
bool jobs_add(bench_jobs *jobs, const bench_options *options, const char *set, const char *layer,
              const char *text, char error[PROBLEM_ERROR_SIZE]);

/* Adds the layers of layers.csv whose network begins with options->set. As jobs_collect. */
int jobs_add_set(bench_jobs *jobs, const bench_options *options);

#endif
