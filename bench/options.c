#include "options.h"

#include <argp.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <dsconv/dsconv.h>

enum {
    KEY_BACKEND = 256,
    KEY_DEVICE,
    KEY_THREADS,
    KEY_ALGO,
    KEY_MODE,
    KEY_BASELINE,
    KEY_SET,
    KEY_FILE,
    KEY_SEED,
    KEY_REPS,
    KEY_FORMAT,
    KEY_LIST,
    KEY_PRINT,
    KEY_PLOT,
    KEY_BATCH,
    KEY_DTYPE,
    KEY_LAYOUT,
    KEY_MATH,
    KEY_VERSION,
    KEY_HELP = 'h'
};

static const struct argp_option option_table[] = {
    {"backend", KEY_BACKEND, "NAME", 0, "Backend by name, auto, or all (default: DSCONV_BACKEND)",
     1},
    {"device", KEY_DEVICE, "I", 0, "Device of the backend, from 0", 1},
    {"threads", KEY_THREADS, "T", 0, "CPU threads (default: as OpenMP has it)", 1},
    {"algo", KEY_ALGO, "NAME", 0, "Algorithm by name (default: the backend chooses)", 1},
    {"mode", KEY_MODE, "MODE", 0, "verify, time or both (default)", 2},
    {"baseline", KEY_BASELINE, NULL, 0, "Also time what a user would otherwise call", 2},
    {"seed", KEY_SEED, "S", 0, "Seed of the tensors (default 1)", 2},
    {"reps", KEY_REPS, "R", 0, "Samples to take of each candidate", 2},
    {"set", KEY_SET, "NAME", 0, "Layers of the networks whose name begins so; all: every one", 3},
    {"file", KEY_FILE, "F", 0, "Problems from a file, one a line; # begins a comment", 3},
    {"batch", KEY_BATCH, "N", 0, "Replaces n of every problem", 3},
    {"dtype", KEY_DTYPE, "TYPE", 0, "Replaces dtype of every problem", 3},
    {"layout", KEY_LAYOUT, "LAYOUT", 0, "Replaces layout of every problem", 3},
    {"math", KEY_MATH, "MATH", 0, "Replaces math of every problem", 3},
    {"format", KEY_FORMAT, "FORMAT", 0, "table (default), csv or json (one object a line)", 4},
    {"plot", KEY_PLOT, "FILE.svg", 0, "Draw the roofline of what was timed (needs gnuplot)", 4},
    {"list", KEY_LIST, NULL, 0, "Print every known backend and its devices", 5},
    {"print", KEY_PRINT, NULL, 0, "Print set, layer and string of every problem, do no work", 5},
    {"version", KEY_VERSION, NULL, 0, "Print the library's version", 6},
    {"help", KEY_HELP, NULL, 0, "Print this text", 6},
    {0},
};

static const char description[] =
    "Verifies and times libdsconv.\v"
    "PROBLEM is kernelbench86 (the default) or a string such as\n"
    "  n=16,c=64,h=512,w=512,k=128,r=3,s=3,stride=1,pad=1,dil=1,mult=1,dtype=f32,layout=nchw,\n"
    "  math=strict,bias=0,mid=none,out=none,res=none\n"
    "where missing keys take these values.\n\n"
    "Exit status: 0 all well, 1 a result out of bounds, 2 wrong usage, 77 the backend cannot be\n"
    "used here.";

static int refuse(const char *option, const char *value, const char *expected) {
    fprintf(stderr, "dsconv-bench: --%s %s: expected %s\n", option, value, expected);
    return EINVAL;
}

static int read_int(const char *option, const char *text, int64_t least, int64_t most,
                    int64_t *value) {
    char *end;
    char expected[64];
    errno = 0;
    *value = strtoll(text, &end, 10);
    if (end != text && *end == '\0' && errno == 0 && *value >= least && *value <= most)
        return 0;
    snprintf(expected, sizeof expected, "a whole number from %lld to %lld", (long long)least,
             (long long)most);
    return refuse(option, text, expected);
}

static int read_int32(const char *option, const char *text, int32_t least, int32_t *value) {
    int64_t wide = 0;
    const int error = read_int(option, text, least, INT32_MAX, &wide);
    *value = (int32_t)wide;
    return error;
}

static int read_mode(const char *text, bench_options *options) {
    const bool both = strcmp(text, "both") == 0;
    options->verify = both || strcmp(text, "verify") == 0;
    options->time = both || strcmp(text, "time") == 0;
    return options->verify || options->time ? 0 : refuse("mode", text, "verify, time or both");
}

static int read_format(const char *text, bench_format *format) {
    static const char *const names[] = {"table", "csv", "json"};
    for (int i = 0; i < 3; i++) {
        if (strcmp(text, names[i]) == 0) {
            *format = (bench_format)i;
            return 0;
        }
    }
    return refuse("format", text, "table, csv or json");
}

/* What the parser fills besides the options. */
typedef struct parse_state {
    bench_options *options;
    int done; /* exit status once known, -1 before */
} parse_state;

static error_t parse_number(int key, const char *arg, bench_options *options) {
    int64_t seed = 0;
    error_t error = 0;
    switch (key) {
    case KEY_DEVICE:
        return read_int32("device", arg, 0, &options->device);
    case KEY_THREADS:
        return read_int32("threads", arg, 1, &options->threads);
    case KEY_REPS:
        return read_int32("reps", arg, 1, &options->reps);
    case KEY_SEED:
        error = read_int("seed", arg, 0, INT64_MAX, &seed);
        options->seed = (uint64_t)seed;
        return error;
    case KEY_BATCH:
        options->batch = arg;
        return read_int("batch", arg, 0, INT64_MAX, &seed);
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const char **text_option(int key, bench_options *options) {
    switch (key) {
    case KEY_BACKEND:
        return &options->backend;
    case KEY_ALGO:
        return &options->algo;
    case KEY_SET:
        return &options->set;
    case KEY_FILE:
        return &options->file;
    case KEY_PLOT:
        return &options->plot;
    case KEY_DTYPE:
        return &options->dtype;
    case KEY_LAYOUT:
        return &options->layout;
    case KEY_MATH:
        return &options->math;
    default:
        return NULL;
    }
}

static error_t parse_option(int key, char *arg, struct argp_state *state) {
    parse_state *parse = state->input;
    bench_options *options = parse->options;
    const char **text = text_option(key, options);
    if (text) {
        *text = arg;
        return 0;
    }
    switch (key) {
    case KEY_MODE:
        return read_mode(arg, options);
    case KEY_FORMAT:
        return read_format(arg, &options->format);
    case KEY_BASELINE:
        options->baseline = true;
        return 0;
    case KEY_LIST:
        options->list = true;
        return 0;
    case KEY_PRINT:
        options->print = true;
        return 0;
    case KEY_VERSION:
        printf("dsconv-bench %s\n", dsconv_version());
        parse->done = 0;
        return ECANCELED;
    case KEY_HELP:
        argp_help(state->root_argp, stdout, ARGP_HELP_STD_HELP, state->name);
        parse->done = 0;
        return ECANCELED;
    case ARGP_KEY_INIT:
        state->err_stream = NULL; /* getopt has said it in one line already */
        return 0;
    case ARGP_KEY_ARGS:
        options->problems = state->argv + state->next;
        options->problem_count = (size_t)(state->argc - state->next);
        return 0;
    default:
        return parse_number(key, arg, options);
    }
}

int options_parse(int argc, char **argv, bench_options *options) {
    static const struct argp parser = {
        option_table, parse_option, "[PROBLEM ...]", description, NULL, NULL, NULL};
    parse_state state = {options, -1};
    *options = (bench_options){.verify = true, .time = true, .seed = 1};
    const error_t error =
        argp_parse(&parser, argc, argv, ARGP_NO_EXIT | ARGP_NO_HELP, NULL, &state);
    if (error == 0)
        return -1;
    return state.done >= 0 ? state.done : EXIT_USAGE;
}
