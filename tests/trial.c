#include "trial.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "buffer.h"
#include "problem.h"
#include "verify.h"

/* The line that repeats the trial in progress, kept ready for a crash. */
static char current[PROBLEM_TEXT_SIZE + 128];

static void set_current(const target *t, const material *m) {
    char text[PROBLEM_TEXT_SIZE];
    problem_print(&m->problem, text);
    snprintf(current, sizeof current,
             "  repeat: conform %s %s --seed %llu --fill %s --problem %s\n", t->backend,
             t->algo != NULL ? t->algo : "", (unsigned long long)m->seed, material_name(m->kind),
             text);
}

static void on_crash(int signal_number) {
    static const char message[] = "FAIL: crashed (a stray access, if it is a signal 11 or 7)\n";
    if (write(STDOUT_FILENO, message, sizeof message - 1) < 0 ||
        write(STDOUT_FILENO, current, strlen(current)) < 0)
        _exit(EXIT_FAILURE);
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

void trial_watch_crashes(void) {
    static const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++)
        signal(signals[i], on_crash);
}

void trial_complain(const target *t, const material *m, const char *what) {
    set_current(t, m);
    printf("FAIL %s/%s: %s\n%s", t->backend, target_algo(t), what, current);
}

void outputs_free(outputs *out) {
    free(out->y.data);
    free(out->mid.data);
    *out = (outputs){0};
}

/* A plan with the weights in it and its workspace. Zeroed, it is a valid empty one. */
typedef struct planned {
    dsconv_context *context;
    dsconv_plan *plan;
    dsconv_plan_info info;
    buffer workspace;
} planned;

static void planned_free(planned *p) {
    dsconv_plan_destroy(p->plan);
    buffer_free(&p->workspace);
}

static bool make_vector(buffer *b, dsconv_context *device, const void *data, int64_t count,
                        dsconv_dtype dtype, placement place) {
    const size_t size = dtype_size(dtype);
    return data == NULL || (buffer_make(b, device, (size_t)count * size, size, place) &&
                            buffer_reset(b, data) && buffer_seal(b));
}

/* Weights come from guarded memory, on a device for one placement, that is gone before the run. */
static bool set_weights(const planned *p, dsconv_context *device, const material *m,
                        placement place) {
    const dsconv_problem *problem = &m->problem;
    const int64_t channels = problem_mid_channels(problem);
    const void *data[4] = {m->in.w_dw, m->in.w_pw, m->in.bias_dw, m->in.bias_pw};
    const int64_t counts[4] = {channels * problem->r * problem->s, problem->k * channels, channels,
                               problem->k};
    const void *addresses[4] = {NULL};
    buffer buffers[4] = {{0}};
    dsconv_context *where = place == PLACE_START ? device : NULL;
    bool ok = true;
    for (int i = 0; ok && i < 4; i++) {
        ok = make_vector(&buffers[i], where, data[i], counts[i], problem->dtype, place);
        addresses[i] = data[i] != NULL ? buffer_address(&buffers[i]) : NULL;
    }
    dsconv_weights weights = DSCONV_WEIGHTS_INIT;
    weights.w_dw = addresses[0];
    weights.w_pw = addresses[1];
    weights.bias_dw = addresses[2];
    weights.bias_pw = addresses[3];
    weights.memory = where != NULL ? DSCONV_MEMORY_DEVICE : DSCONV_MEMORY_HOST;
    ok = ok && dsconv_plan_set_weights(p->plan, &weights) == DSCONV_OK;
    for (int i = 0; i < 4; i++)
        buffer_free(&buffers[i]);
    return ok;
}

/* Whether the library derives the same extents and spans. */
static bool describes(const dsconv_plan_info *info, const dsconv_problem *problem) {
    const tensor x = problem_x(problem), y = problem_y(problem), mid = problem_mid(problem);
    const tensor residual = problem_residual(problem);
    dsconv_problem_info derived = DSCONV_PROBLEM_INFO_INIT;
    return dsconv_problem_query(problem, &derived) == DSCONV_OK && info->p == y.dims[2] &&
           info->q == y.dims[3] && derived.p == info->p && derived.q == info->q &&
           derived.mid_channels == mid.dims[1] && derived.x_span == tensor_span(&x) &&
           derived.y_span == tensor_span(&y) &&
           (problem->residual == DSCONV_RESIDUAL_NONE ||
            derived.residual_span == tensor_span(&residual)) &&
           (!problem->output_mid || derived.mid_span == tensor_span(&mid));
}

static outcome planned_make(planned *p, const target *t, const material *m, int variant) {
    const placement place = (placement)(variant % PLACEMENTS);
    dsconv_context *context = t->contexts[variant], *device = t->host ? NULL : context;
    dsconv_plan_params params = DSCONV_PLAN_PARAMS_INIT;
    params.algo = t->algo;
    p->context = context;
    p->info = (dsconv_plan_info)DSCONV_PLAN_INFO_INIT;
    const dsconv_status supported = dsconv_supports(context, &m->problem, t->algo);
    if (supported == DSCONV_ERROR_UNSUPPORTED)
        return OUTCOME_UNSUPPORTED;
    const bool ok = supported == DSCONV_OK &&
                    dsconv_plan_create(context, &m->problem, &params, &p->plan) == DSCONV_OK &&
                    dsconv_plan_query(p->plan, &p->info) == DSCONV_OK &&
                    describes(&p->info, &m->problem) &&
                    (t->kernel == NULL || strcmp(t->kernel, p->info.kernel) == 0) &&
                    set_weights(p, device, m, place) &&
                    buffer_make(&p->workspace, device, p->info.workspace_size, 1, place);
    return ok ? OUTCOME_PASS : OUTCOME_FAIL;
}

typedef struct memory {
    buffer x, y, residual, mid;
} memory;

static void memory_free(memory *mem) {
    buffer_free(&mem->x);
    buffer_free(&mem->y);
    buffer_free(&mem->residual);
    buffer_free(&mem->mid);
}

/* Makes a tensor's memory and fills it from the dense `from`, which may have no data. */
static bool make_tensor(buffer *b, dsconv_context *device, tensor view, const tensor *from,
                        placement place) {
    const size_t size = dtype_size(view.dtype);
    if (!buffer_make(b, device, (size_t)tensor_span(&view) * size, size, place))
        return false;
    if (from->data == NULL)
        return true;
    view.data = buffer_host(b);
    tensor_copy(&view, from);
    return buffer_send(b);
}

/* With `alias`, y begins as the residual. */
static bool memory_make(memory *mem, const target *t, const material *m, int variant, bool alias) {
    static const tensor nothing;
    const dsconv_problem *problem = &m->problem;
    const placement place = (placement)(variant % PLACEMENTS);
    dsconv_context *device = t->host ? NULL : t->contexts[variant];
    return make_tensor(&mem->x, device, problem_x(problem), &m->in.x, place) &&
           buffer_seal(&mem->x) &&
           make_tensor(&mem->residual, device, problem_residual(problem), &m->in.residual, place) &&
           buffer_seal(&mem->residual) &&
           make_tensor(&mem->mid, device, problem_mid(problem), &nothing, place) &&
           make_tensor(&mem->y, device, problem_y(problem), alias ? &m->in.residual : &nothing,
                       place);
}

static void *image_address(const buffer *b, const tensor *t, int64_t image) {
    return (char *)buffer_address(b) + image * t->strides[0] * (int64_t)dtype_size(t->dtype);
}

/* Runs `problem` on the images of `mem` from `first` on. */
static bool run(const planned *p, const memory *mem, const dsconv_problem *problem, int64_t first,
                bool alias) {
    const tensor x = problem_x(problem), y = problem_y(problem), mid = problem_mid(problem);
    const tensor residual = problem_residual(problem);
    dsconv_run_params params = DSCONV_RUN_PARAMS_INIT;
    params.x = image_address(&mem->x, &x, first);
    params.y = image_address(&mem->y, &y, first);
    if (problem->output_mid)
        params.mid = image_address(&mem->mid, &mid, first);
    if (problem->residual != DSCONV_RESIDUAL_NONE)
        params.residual = alias ? params.y : image_address(&mem->residual, &residual, first);
    params.workspace = p->info.workspace_size > 0 ? buffer_address(&p->workspace) : NULL;
    params.workspace_size = p->info.workspace_size;
    return dsconv_run(p->plan, &params) == DSCONV_OK &&
           dsconv_synchronize(p->context, NULL) == DSCONV_OK;
}

/* Copies an output out of its buffer and checks that nothing else in the buffer was written. */
static bool collect(buffer *b, tensor view, int64_t first, tensor *dense) {
    view.data = (char *)buffer_host(b) + first * view.strides[0] * (int64_t)dtype_size(view.dtype);
    dense->data = calloc((size_t)tensor_count(&view) + 1, dtype_size(view.dtype));
    if (dense->data == NULL || !buffer_fetch(b))
        return false;
    tensor_copy(dense, &view);
    return buffer_intact(b, &view);
}

static bool collect_outputs(memory *mem, const planned *p, const dsconv_problem *problem,
                            int64_t first, outputs *out) {
    dsconv_problem dense = *problem;
    memset(dense.y_strides, 0, sizeof dense.y_strides);
    *out = (outputs){problem_y(&dense), problem_mid(&dense), p->info.uses_tf32 != 0};
    if (!problem->output_mid)
        out->mid.dims[0] = 0;
    tensor mid = problem_mid(problem);
    mid.dims[0] = out->mid.dims[0];
    return collect(&mem->y, problem_y(problem), first, &out->y) &&
           collect(&mem->mid, mid, first, &out->mid);
}

outcome trial_execute(const target *t, const material *m, int variant, outputs *out) {
    planned plan = {0};
    memory mem = {0};
    *out = (outputs){0};
    set_current(t, m);
    outcome result = planned_make(&plan, t, m, variant);
    if (result == OUTCOME_PASS && !memory_make(&mem, t, m, variant, false))
        result = OUTCOME_FAIL;
    if (result == OUTCOME_PASS && !run(&plan, &mem, &m->problem, 0, false))
        result = OUTCOME_FAIL;
    if (result == OUTCOME_FAIL)
        trial_complain(t, m, dsconv_last_message());
    if (result == OUTCOME_PASS && !collect_outputs(&mem, &plan, &m->problem, 0, out)) {
        trial_complain(t, m, "wrote outside y or mid");
        result = OUTCOME_FAIL;
    }
    planned_free(&plan);
    memory_free(&mem);
    return result;
}

/* Puts a given value in place of the reference's own, which must be all but the same. */
static bool override(point *expected, const double *given, const tensor *dense, int64_t n,
                     int64_t channel, int64_t p, int64_t q) {
    if (given == NULL)
        return true;
    const double value = given[tensor_offset(dense, n, channel, p, q)];
    const bool close = fabs(value - expected->value) <= 0.05 * expected->bound;
    expected->value = value;
    return close;
}

/* All channels of one pixel. False when the reference disagrees with what is given. */
static bool verify_pixel(const reference *ref, const outputs *out, const expectation *given,
                         const int64_t at[3], point *points, verdict *y, verdict *mid) {
    const int64_t n = at[0], p = at[1], q = at[2];
    bool close = true;
    reference_mid(ref, n, p, q, points);
    for (int64_t j = 0; out->mid.dims[0] > 0 && j < out->mid.dims[1]; j++) {
        point expected = points[j];
        close &= override(&expected, given->mid, &out->mid, n, j, p, q);
        verdict_add(mid, n, j, p, q, expected, tensor_get(&out->mid, n, j, p, q));
    }
    for (int64_t k = 0; k < out->y.dims[1]; k++) {
        point expected = reference_y(ref, n, k, p, q, points);
        close &= override(&expected, given->y, &out->y, n, k, p, q);
        verdict_add(y, n, k, p, q, expected, tensor_get(&out->y, n, k, p, q));
    }
    return close;
}

bool trial_verify(const target *t, const material *m, const outputs *out,
                  const expectation *given) {
    static const expectation none;
    verdict y = {.dtype = m->problem.dtype, .exact = m->kind == MATERIAL_EXACT, .tf32 = out->tf32};
    verdict mid = y;
    mid.tf32 = false;
    reference *ref = reference_create(&m->problem, &m->in, out->tf32);
    point *points = calloc((size_t)problem_mid_channels(&m->problem), sizeof *points);
    bool close = ref != NULL && points != NULL;
    const int64_t height = out->y.dims[2], width = out->y.dims[3];
    for (int64_t i = 0; close && i < out->y.dims[0] * height * width; i++) {
        const int64_t at[3] = {i / width / height, i / width % height, i % width};
        close = verify_pixel(ref, out, given != NULL ? given : &none, at, points, &y, &mid);
    }
    if (!close)
        trial_complain(t, m, "the reference itself is off, or out of memory");
    const bool pass = verdict_pass(&y) && verdict_pass(&mid);
    if (close && !pass) {
        trial_complain(t, m, "differs from the reference");
        verdict_print(&y, "y");
        verdict_print(&mid, "mid");
    }
    reference_destroy(ref);
    free(points);
    return close && pass;
}

static bool same_outputs(const outputs *a, const outputs *b) {
    return tensor_same(&a->y, &b->y) && tensor_same(&a->mid, &b->mid);
}

/* Runs `problem`, a variation of m's, on m's memory from image `first` on, and compares with
 * `expected`, or with the reference where that is NULL. */
static bool check_variation(const target *t, const material *m, const dsconv_problem *problem,
                            int64_t first, bool alias, const outputs *expected) {
    material variation = *m;
    variation.problem = *problem;
    planned plan = {0};
    memory mem = {0};
    outputs out = {0};
    const bool same =
        planned_make(&plan, t, &variation, 0) == OUTCOME_PASS &&
        memory_make(&mem, t, m, 0, alias) && run(&plan, &mem, problem, first, alias) &&
        collect_outputs(&mem, &plan, problem, first, &out) &&
        (expected != NULL ? same_outputs(&out, expected) : trial_verify(t, &variation, &out, NULL));
    planned_free(&plan);
    memory_free(&mem);
    outputs_free(&out);
    return same;
}

/* All strides written out, so that a part of the batch keeps them. */
static dsconv_problem with_strides(const dsconv_problem *problem) {
    const tensor x = problem_x(problem), y = problem_y(problem);
    const tensor residual = problem_residual(problem);
    dsconv_problem full = *problem;
    memcpy(full.x_strides, x.strides, sizeof x.strides);
    memcpy(full.y_strides, y.strides, sizeof y.strides);
    memcpy(full.residual_strides, residual.strides, sizeof residual.strides);
    return full;
}

static tensor image_of(tensor t, int64_t image) {
    t.data = (char *)t.data + image * t.strides[0] * (int64_t)dtype_size(t.dtype);
    if (t.dims[0] > 0)
        t.dims[0] = 1;
    return t;
}

static bool check_last_image_alone(const target *t, const material *m, const outputs *whole) {
    const int64_t last = m->problem.n - 1;
    if (last < 1)
        return true;
    const outputs image = {image_of(whole->y, last), image_of(whole->mid, last), whole->tf32};
    dsconv_problem alone = with_strides(&m->problem);
    alone.n = 1;
    if (check_variation(t, m, &alone, last, false, &image))
        return true;
    trial_complain(t, m, "the last image alone gives other bits than in the batch");
    return false;
}

/* Other bits are allowed: with the strides of y, a backend may choose another algorithm. */
static bool check_residual_in_y(const target *t, const material *m) {
    dsconv_problem alias = with_strides(&m->problem);
    memcpy(alias.residual_strides, alias.y_strides, sizeof alias.y_strides);
    if (m->problem.residual == DSCONV_RESIDUAL_NONE || check_variation(t, m, &alias, 0, true, NULL))
        return true;
    trial_complain(t, m, "wrong, or refused, when the residual lies in y");
    return false;
}

outcome trial_run(const target *t, const material *m) {
    outputs first, other;
    outcome result = trial_execute(t, m, 0, &first);
    for (int variant = 1; result == OUTCOME_PASS && variant < TARGET_CONTEXTS; variant++) {
        result = trial_execute(t, m, variant, &other);
        if (result == OUTCOME_PASS && !same_outputs(&first, &other)) {
            trial_complain(t, m, "bits depend on the number of threads or the place in memory");
            result = OUTCOME_FAIL;
        }
        outputs_free(&other);
    }
    if (result == OUTCOME_PASS &&
        !(trial_verify(t, m, &first, NULL) && check_last_image_alone(t, m, &first) &&
          check_residual_in_y(t, m)))
        result = OUTCOME_FAIL;
    outputs_free(&first);
    return result;
}
