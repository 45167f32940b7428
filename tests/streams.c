/*
 * Streams, graphs and the current context of a GPU backend:
 *
 *   streams BACKEND [ALGO]
 *
 * The driver is CUDA's, opened at run time, which backend `hip` built for NVIDIA devices uses too.
 * Exit status: 0 all holds, 1 a failure, 77 no such device, driver or algorithm here.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "problem.h"
#include "trial.h"

enum { STREAMS = 4, RUNS = 8, EXIT_USAGE = 2, EXIT_SKIP = 77 };
enum { NON_BLOCKING = 1, CAPTURE_GLOBAL = 0 };

/* A large one, one of each layout and type, one that small tiles suit. */
static const char *const problems[] = {
    "n=4,c=64,h=160,w=160,k=128,r=3",
    "n=2,c=64,h=160,w=160,k=128,r=3,math=tf32",
    "n=2,c=48,h=61,w=64,k=80,r=3,dtype=f16,mid=relu,out=relu6,bias=both",
    "n=3,c=64,h=33,w=31,k=96,r=3,layout=nhwc,dtype=bf16,bias=both",
    "n=2,c=768,h=14,w=14,k=512,r=3,dtype=f16",
    "n=2,c=24,h=29,w=30,k=40,r=5,stride=2,pad=2,res=after,out=silu",
};
enum { PROBLEMS = sizeof problems / sizeof *problems };

/* Entries of libcuda.so.1 in the order of `entry_names`; 0 is success in all of them. */
static struct driver {
    int (*current)(void **context);
    int (*stream_create)(void **stream, unsigned flags);
    int (*stream_destroy)(void *stream);
    int (*stream_synchronize)(void *stream);
    int (*capture_begin)(void *stream, int mode);
    int (*capture_end)(void *stream, void **graph);
    int (*instantiate)(void **executable, void *graph, unsigned long long flags);
    int (*graph_launch)(void *executable, void *stream);
    int (*executable_destroy)(void *executable);
    int (*graph_destroy)(void *graph);
    int (*retain)(void **context, int device);
    int (*push)(void *context);
    int (*pop)(void **context);
    int (*release)(int device);
} cu;

static const char *const entry_names[] = {
    "cuCtxGetCurrent",
    "cuStreamCreate",
    "cuStreamDestroy_v2",
    "cuStreamSynchronize",
    "cuStreamBeginCapture_v2",
    "cuStreamEndCapture",
    "cuGraphInstantiateWithFlags",
    "cuGraphLaunch",
    "cuGraphExecDestroy",
    "cuGraphDestroy",
    "cuDevicePrimaryCtxRetain",
    "cuCtxPushCurrent_v2",
    "cuCtxPopCurrent_v2",
    "cuDevicePrimaryCtxRelease_v2",
};
enum { ENTRIES = sizeof entry_names / sizeof *entry_names };
_Static_assert(sizeof cu == ENTRIES * sizeof(void (*)(void)), "one name per entry");

static bool load_driver(void) {
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    void **entry = (void **)&cu;
    for (int i = 0; library && i < ENTRIES; i++)
        if ((entry[i] = dlsym(library, entry_names[i])) == NULL)
            return false;
    return library != NULL;
}

/* One problem on the device: a plan, its inputs, and an output for each stream. */
typedef struct work {
    const target *t;
    material m;
    dsconv_plan *plan;
    dsconv_plan_info info;
    void *x, *residual, *y[STREAMS], *workspace[STREAMS];
    size_t y_size;
    char *expected, *got;
} work;

static bool copy(const work *w, void *to, const void *from, size_t size, dsconv_copy_kind kind) {
    return dsconv_copy(w->t->contexts[0], to, from, size, kind, NULL) == DSCONV_OK &&
           dsconv_synchronize(w->t->contexts[0], NULL) == DSCONV_OK;
}

static bool send(const work *w, const tensor *t, void **to) {
    const size_t size = (size_t)tensor_span(t) * dtype_size(t->dtype);
    return size == 0 || (dsconv_alloc(w->t->contexts[0], size, to) == DSCONV_OK &&
                         copy(w, *to, t->data, size, DSCONV_HOST_TO_DEVICE));
}

static bool plan(work *w) {
    dsconv_plan_params params = DSCONV_PLAN_PARAMS_INIT;
    dsconv_weights weights = DSCONV_WEIGHTS_INIT;
    params.algo = w->t->algo;
    weights.w_dw = w->m.in.w_dw;
    weights.w_pw = w->m.in.w_pw;
    weights.bias_dw = w->m.in.bias_dw;
    weights.bias_pw = w->m.in.bias_pw;
    w->info = (dsconv_plan_info)DSCONV_PLAN_INFO_INIT;
    return dsconv_plan_create(w->t->contexts[0], &w->m.problem, &params, &w->plan) == DSCONV_OK &&
           dsconv_plan_set_weights(w->plan, &weights) == DSCONV_OK &&
           dsconv_plan_query(w->plan, &w->info) == DSCONV_OK;
}

static bool work_make(work *w, const target *t, const dsconv_problem *problem) {
    *w = (work){.t = t};
    if (!material_make(&w->m, problem, MATERIAL_UNIFORM, 1) || !plan(w) ||
        !send(w, &w->m.in.x, &w->x))
        return false;
    if (problem->residual != DSCONV_RESIDUAL_NONE && !send(w, &w->m.in.residual, &w->residual))
        return false;
    const tensor y = problem_y(problem);
    w->y_size = (size_t)tensor_span(&y) * dtype_size(y.dtype);
    w->expected = malloc(w->y_size);
    w->got = malloc(w->y_size);
    for (int i = 0; i < STREAMS; i++)
        if (dsconv_alloc(t->contexts[0], w->y_size, &w->y[i]) != DSCONV_OK ||
            dsconv_alloc(t->contexts[0], w->info.workspace_size, &w->workspace[i]) != DSCONV_OK)
            return false;
    return w->expected && w->got;
}

static void work_free(work *w) {
    dsconv_context *context = w->t->contexts[0];
    for (int i = 0; i < STREAMS; i++) {
        dsconv_free(context, w->y[i]);
        dsconv_free(context, w->workspace[i]);
    }
    dsconv_free(context, w->x);
    dsconv_free(context, w->residual);
    dsconv_plan_destroy(w->plan);
    material_free(&w->m);
    free(w->expected);
    free(w->got);
}

static bool run(const work *w, int i, void *stream) {
    dsconv_run_params params = DSCONV_RUN_PARAMS_INIT;
    params.x = w->x;
    params.y = w->y[i];
    params.residual = w->residual;
    params.workspace = w->workspace[i];
    params.workspace_size = w->info.workspace_size;
    params.stream = stream;
    return dsconv_run(w->plan, &params) == DSCONV_OK;
}

static bool poison(const work *w, int i) {
    memset(w->got, 0xff, w->y_size);
    return copy(w, w->y[i], w->got, w->y_size, DSCONV_HOST_TO_DEVICE);
}

static bool same(const work *w, int i) {
    return copy(w, w->got, w->y[i], w->y_size, DSCONV_DEVICE_TO_HOST) &&
           memcmp(w->got, w->expected, w->y_size) == 0;
}

typedef struct lane {
    const work *w;
    int index;
    bool ok;
} lane;

/* A thread's runs in a stream of its own; nothing is current in the thread when it ends. */
static void *run_lane(void *argument) {
    lane *l = argument;
    void *primary = NULL, *stream = NULL, *current = NULL;
    l->ok =
        !cu.retain(&primary, 0) && !cu.push(primary) && !cu.stream_create(&stream, NON_BLOCKING);
    (void)cu.pop(&current);
    for (int i = 0; l->ok && i < RUNS; i++)
        l->ok = run(l->w, l->index, stream);
    l->ok = l->ok && !cu.current(&current) && current == NULL;
    l->ok = l->ok && dsconv_synchronize(l->w->t->contexts[0], stream) == DSCONV_OK;
    (void)cu.push(primary);
    l->ok = !cu.stream_destroy(stream) && l->ok;
    (void)cu.pop(&current);
    (void)cu.release(0);
    return NULL;
}

static bool streams_agree(const work *w) {
    pthread_t threads[STREAMS];
    lane lanes[STREAMS];
    bool ok = true;
    for (int i = 0; i < STREAMS; i++) {
        lanes[i] = (lane){w, i, false};
        ok = poison(w, i) && ok;
    }
    int started = 0;
    while (started < STREAMS &&
           pthread_create(&threads[started], NULL, run_lane, &lanes[started]) == 0)
        started++;
    for (int i = 0; i < started; i++) {
        pthread_join(threads[i], NULL);
        ok = lanes[i].ok && same(w, i) && ok;
    }
    return ok && started == STREAMS;
}

/* A larger plan is made, run and gone between the capture and the replays. */
static bool graph_agrees(const work *w, const target *t) {
    work other;
    dsconv_problem larger;
    char error[PROBLEM_ERROR_SIZE];
    void *primary = NULL, *current = NULL, *stream = NULL, *graph = NULL, *executable = NULL;
    bool ok = problem_parse("n=4,c=320,h=40,w=40,k=320,r=3", &larger, error) &&
              !cu.retain(&primary, 0) && !cu.push(primary) &&
              !cu.stream_create(&stream, NON_BLOCKING) && poison(w, 0) &&
              !cu.capture_begin(stream, CAPTURE_GLOBAL);
    ok = run(w, 0, stream) && ok;
    ok = !cu.capture_end(stream, &graph) && ok && !cu.instantiate(&executable, graph, 0);
    ok = work_make(&other, t, &larger) && run(&other, 0, NULL) && ok;
    work_free(&other);
    for (int i = 0; ok && i < 2; i++)
        ok = poison(w, 0) && !cu.graph_launch(executable, stream) &&
             !cu.stream_synchronize(stream) && same(w, 0);
    ok = ok && !cu.current(&current) && current == primary;
    if (executable)
        (void)cu.executable_destroy(executable);
    if (graph)
        (void)cu.graph_destroy(graph);
    if (stream)
        (void)cu.stream_destroy(stream);
    (void)cu.pop(&current);
    (void)cu.release(0);
    return ok;
}

/* Plans that need less of the device, made later and perhaps served by the same kernel, change
 * nothing for a plan that is there. */
static bool lesser_plans_do_not_matter(const work *w) {
    bool ok = true;
    for (int64_t n = 1; n <= 16 && ok; n *= 2) {
        work lesser;
        dsconv_problem problem = w->m.problem;
        problem.n = n;
        problem.c = 16;
        ok = work_make(&lesser, w->t, &problem) && poison(w, 0) && run(w, 0, NULL) && same(w, 0);
        work_free(&lesser);
    }
    return ok;
}

/* A refused run leaves no error behind. */
static bool errors_do_not_stick(const work *w) {
    dsconv_run_params params = DSCONV_RUN_PARAMS_INIT;
    const bool refused = dsconv_run(w->plan, &params) == DSCONV_ERROR_INVALID_ARGUMENT;
    return refused && poison(w, 0) && run(w, 0, NULL) && same(w, 0);
}

static outcome check(const target *t, const char *text) {
    work w = {.t = t};
    dsconv_problem problem;
    char error[PROBLEM_ERROR_SIZE];
    const bool parsed = problem_parse(text, &problem, error);
    if (parsed && dsconv_supports(t->contexts[0], &problem, t->algo) == DSCONV_ERROR_UNSUPPORTED)
        return OUTCOME_UNSUPPORTED;
    const char *failed = "cannot be prepared";
    if (parsed && work_make(&w, t, &problem) && poison(&w, 0) && run(&w, 0, NULL) &&
        copy(&w, w.expected, w.y[0], w.y_size, DSCONV_DEVICE_TO_HOST)) {
        failed = !streams_agree(&w)                ? "streams"
                 : !graph_agrees(&w, t)            ? "graph"
                 : !lesser_plans_do_not_matter(&w) ? "plans made later"
                 : !errors_do_not_stick(&w)        ? "an error before"
                                                   : NULL;
    }
    if (failed)
        printf("FAIL %s/%s: %s: %s: %s\n", t->backend, target_algo(t), text, failed,
               dsconv_last_message());
    work_free(&w);
    return failed ? OUTCOME_FAIL : OUTCOME_PASS;
}

int main(int argc, char **argv) {
    if (argc < 2 || argc > 3) {
        fputs("usage: streams BACKEND [ALGO]\n", stderr);
        return EXIT_USAGE;
    }
    if (!load_driver()) {
        puts("no CUDA driver (libcuda.so.1) here");
        return EXIT_SKIP;
    }
    target t;
    const int status = target_open(&t, argv[1], argc > 2 ? argv[2] : NULL);
    if (status >= 0)
        return status;
    long counts[3] = {0};
    for (int i = 0; i < PROBLEMS; i++)
        counts[check(&t, problems[i])]++;
    const int result = target_conclude(&t, counts[OUTCOME_PASS], counts[OUTCOME_FAIL],
                                       counts[OUTCOME_UNSUPPORTED]);
    target_close(&t);
    return result;
}
