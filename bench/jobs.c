#include "jobs.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool fail(char error[PROBLEM_ERROR_SIZE], const char *text) {
    (void)snprintf(error, PROBLEM_ERROR_SIZE, "%s", text);
    return false;
}

static bool grow(bench_jobs *jobs) {
    if (jobs->count < jobs->room)
        return true;
    const size_t room = 2 * jobs->room + 16;
    bench_job *items = realloc(jobs->items, room * sizeof *items);
    if (!items)
        return false;
    jobs->items = items;
    jobs->room = room;
    return true;
}

/* Later keys replace earlier ones, so overrides go last. */
static bool join(const bench_options *options, const char *text, char *joined, size_t size) {
    const char *const keys[] = {"n", "dtype", "layout", "math"};
    const char *const values[] = {options->batch, options->dtype, options->layout, options->math};
    size_t length = (size_t)snprintf(joined, size, "%s", text);
    for (int i = 0; i < 4 && length < size; i++)
        if (values[i])
            length += (size_t)snprintf(joined + length, size - length, "%s%s=%s", length ? "," : "",
                                       keys[i], values[i]);
    return length < size;
}

bool jobs_add(bench_jobs *jobs, const bench_options *options, const char *set, const char *layer,
              const char *text, char error[PROBLEM_ERROR_SIZE]) {
    char joined[PROBLEM_TEXT_SIZE];
    if (!grow(jobs))
        return fail(error, "out of host memory");
    if (!join(options, text, joined, sizeof joined))
        return fail(error, "the problem string is too long");
    bench_job *job = &jobs->items[jobs->count];
    *job = (bench_job){.info = DSCONV_PROBLEM_INFO_INIT};
    if (!problem_parse(joined, &job->problem, error))
        return false;
    if (dsconv_problem_query(&job->problem, &job->info) != DSCONV_OK)
        return fail(error, dsconv_last_message());
    problem_print(&job->problem, job->text);
    (void)snprintf(job->set, sizeof job->set, "%s", set);
    (void)snprintf(job->layer, sizeof job->layer, "%s", layer);
    jobs->count++;
    return true;
}

static int add_or_say(bench_jobs *jobs, const bench_options *options, const char *text) {
    char error[PROBLEM_ERROR_SIZE];
    if (jobs_add(jobs, options, "", strchr(text, '=') ? "" : text, text, error))
        return 0;
    fprintf(stderr, "dsconv-bench: %s: %s\n", text, error);
    return EXIT_USAGE;
}

/* Without the comment, and the blanks around. */
static const char *trim(char *line) {
    static const char blanks[] = " \t\r\n";
    line[strcspn(line, "#")] = '\0';
    line += strspn(line, blanks);
    for (size_t length = strlen(line); length > 0 && strchr(blanks, line[length - 1]); length--)
        line[length - 1] = '\0';
    return line;
}

static int add_file(bench_jobs *jobs, const bench_options *options) {
    char line[PROBLEM_TEXT_SIZE];
    int status = 0;
    FILE *file = fopen(options->file, "r");
    if (!file) {
        fprintf(stderr, "dsconv-bench: --file %s: %s\n", options->file, strerror(errno));
        return EXIT_USAGE;
    }
    const size_t before = jobs->count;
    while (status == 0 && fgets(line, sizeof line, file)) {
        const char *text = trim(line);
        if (text[0] != '\0')
            status = add_or_say(jobs, options, text);
    }
    if (status == 0 && (ferror(file) || jobs->count == before)) {
        fprintf(stderr, "dsconv-bench: --file %s: %s\n", options->file,
                ferror(file) ? strerror(errno) : "no problem in it");
        status = EXIT_USAGE;
    }
    (void)fclose(file);
    return status;
}

int jobs_collect(const bench_options *options, bench_jobs *jobs) {
    int status = 0;
    for (size_t i = 0; i < options->problem_count && status == 0; i++)
        status = add_or_say(jobs, options, options->problems[i]);
    if (status == 0 && options->file)
        status = add_file(jobs, options);
    if (status == 0 && options->set)
        status = jobs_add_set(jobs, options);
    if (status == 0 && options->problem_count == 0 && !options->file && !options->set)
        status = add_or_say(jobs, options, "kernelbench86");
    return status;
}

void jobs_free(bench_jobs *jobs) {
    free(jobs->items);
    *jobs = (bench_jobs){0};
}
