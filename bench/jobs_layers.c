/* Layers of known networks, from layers.csv, as problem strings. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jobs.h"

/* The lines of layers.csv, as string literals. */
static const char *const lines[] = {
#include "layers.inc"
};

enum column {
    NETWORK,
    LAYER,
    N,
    C_IN,
    C_OUT,
    H,
    W,
    KERNEL_H,
    KERNEL_W,
    STRIDE,
    PAD,
    DILATION,
    MID,
    OUT,
    COLUMNS
};

typedef struct row {
    char text[COLUMNS][48];
} row;

/* Reads one field, quoted or not; gives what follows its comma. What is too long is cut. */
static const char *read_field(const char *text, char *field, size_t size) {
    const bool quoted = *text == '"';
    const char *end = strchr(text + quoted, quoted ? '"' : ',');
    if (!end)
        end = text + strlen(text);
    const char *begin = text + quoted;
    (void)snprintf(field, size, "%.*s", (int)(end - begin), begin);
    end += quoted && *end == '"';
    return end + (*end == ',');
}

static row read_row(const char *line) {
    row r;
    for (int i = 0; i < COLUMNS; i++)
        line = read_field(line, r.text[i], sizeof r.text[i]);
    return r;
}

/* The table has no column for the depth multiplier: the layer's name carries it. */
static long multiplier(const row *r) {
    const char *mark = strstr(r->text[LAYER], "mult");
    return mark ? strtol(mark + 4, NULL, 10) : 1;
}

static const char *activation(const char *name) {
    return strcmp(name, "leakyrelu") == 0 ? "leaky_relu" : name;
}

/* "act", "act+residual", "residual+act", or "act*gate", whose gate is another operation. */
static const char *residual(char *out) {
    const char *before = "residual+";
    char *mark = strpbrk(out, "+*");
    if (strncmp(out, before, strlen(before)) == 0) {
        memmove(out, out + strlen(before), strlen(out) - strlen(before) + 1);
        return "before";
    }
    const char *where = mark && *mark == '+' ? "after" : "none";
    if (mark)
        *mark = '\0';
    return where;
}

/* Biases are there because a deployed network has its batch norms folded into them. */
static void print_problem(row *r, char text[PROBLEM_TEXT_SIZE]) {
    const char *res = residual(r->text[OUT]);
    for (char *comma = r->text[PAD]; (comma = strchr(comma, ',')) != NULL;)
        *comma = ':';
    (void)snprintf(text, PROBLEM_TEXT_SIZE,
                   "n=%s,c=%s,h=%s,w=%s,k=%s,r=%s,s=%s,stride=%s,pad=%s,dil=%s,mult=%ld,"
                   "bias=both,mid=%s,out=%s,res=%s",
                   r->text[N], r->text[C_IN], r->text[H], r->text[W], r->text[C_OUT],
                   r->text[KERNEL_H], r->text[KERNEL_W], r->text[STRIDE], r->text[PAD],
                   r->text[DILATION], multiplier(r), activation(r->text[MID]),
                   activation(r->text[OUT]), res);
}

static bool is_fusable(const char *mid) {
    return !strchr(mid, '+') && strcmp(mid, "layernorm") != 0;
}

int jobs_add_set(bench_jobs *jobs, const bench_options *options) {
    const char *set = options->set;
    const size_t length = strcmp(set, "all") == 0 ? 0 : strlen(set);
    size_t found = 0;
    for (size_t i = 1; i < sizeof lines / sizeof *lines; i++) {
        row r = read_row(lines[i]);
        char text[PROBLEM_TEXT_SIZE], error[PROBLEM_ERROR_SIZE];
        if (strncmp(r.text[NETWORK], set, length) != 0)
            continue;
        found++;
        if (!is_fusable(r.text[MID])) {
            fprintf(stderr, "left out: %s %s: its middle step, %s, is no plain activation\n",
                    r.text[NETWORK], r.text[LAYER], r.text[MID]);
            continue;
        }
        print_problem(&r, text);
        if (!jobs_add(jobs, options, r.text[NETWORK], r.text[LAYER], text, error)) {
            fprintf(stderr, "dsconv-bench: %s %s: %s\n", r.text[NETWORK], r.text[LAYER], error);
            return EXIT_USAGE;
        }
    }
    if (found == 0) {
        fprintf(stderr, "dsconv-bench: --set %s: no network's name begins so\n", set);
        return EXIT_USAGE;
    }
    return 0;
}
