/*
 * Tensors whose offsets pass 2^31 elements:
 *
 *   large BACKEND [ALGO]
 *
 * Host memory is reserved, not used: a few rows or images lie far apart, or a large image is
 * sampled by a large stride. Of a device's memory as much is taken, up to 17 GB a tensor. Exit
 * status: 0 all agree, 1 a failure, 77 no such device or algorithm here, or one that offers no such
 * problem.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "problem.h"
#include "trial.h"

enum { EXIT_USAGE = 2 };

/* In turn: images, rows, channels and pixels far apart; more than 2^32 elements without strides. */
static const char *const problems[] = {
    "n=2,c=5,h=6,w=19,k=7,r=3,res=after,xstrides=2147483659:114:19:1,"
    "ystrides=2147483661:114:19:1,rstrides=2147483663:114:19:1",
    "n=1,c=1,h=6,w=19,k=1,r=3,xstrides=3221225472:3221225472:536870929:1,"
    "ystrides=3221225472:3221225472:536870937:1",
    "n=1,c=6,h=5,w=19,k=7,r=3,xstrides=4294967296:536870929:19:1,"
    "ystrides=4294967296:429496733:19:1,dtype=bf16",
    "n=1,c=16,h=3,w=18,k=16,r=3,layout=nhwc,xstrides=4294967296:1:2147483660:16,"
    "ystrides=8589934592:1:2415919122:134217729,dtype=f16",
    "n=1,c=1,h=65537,w=65536,k=3,r=3,stride=8192,dtype=f16",
    "n=1,c=2,h=46341,w=32768,k=3,r=3,stride=8192,dtype=f16,layout=nhwc",
};
enum { PROBLEMS = sizeof problems / sizeof problems[0] };

static size_t byte_span(const tensor *t) {
    return (size_t)tensor_span(t) * dtype_size(t->dtype);
}

/* Memory that takes room only where it is touched; reads as zero. */
static bool reserve(tensor *t) {
    void *memory = mmap(NULL, byte_span(t), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    t->data = memory != MAP_FAILED ? memory : NULL;
    return t->data != NULL;
}

static void release(tensor *t) {
    if (t->data != NULL)
        munmap(t->data, byte_span(t));
}

/* Calls back for the part of x that each output pixel's window covers, where that is whole. */
static bool each_window(const dsconv_problem *problem, const tensor *x,
                        bool (*call)(void *user, const tensor *window), void *user) {
    const tensor y = problem_y(problem);
    bool ok = true;
    tensor window = *x;
    window.dims[2] = problem->r;
    window.dims[3] = problem->s;
    for (int64_t p = 0; p < y.dims[2] && ok; p++) {
        for (int64_t q = 0; q < y.dims[3] && ok; q++) {
            const int64_t h = p * problem->stride_h - problem->pad_top;
            const int64_t w = q * problem->stride_w - problem->pad_left;
            if (h < 0 || w < 0 || h + problem->r > problem->h || w + problem->s > problem->w)
                continue;
            window.data =
                (char *)x->data + (size_t)tensor_offset(x, 0, 0, h, w) * dtype_size(problem->dtype);
            ok = call(user, &window);
        }
    }
    return ok;
}

static bool fill_window(void *user, const tensor *window) {
    const fill f = {FILL_UNIFORM, 1.0};
    tensor_fill(window, f, user);
    return true;
}

/* One problem with its tensors in reserved memory. Its weights come from a small twin's. */
typedef struct sparse {
    material m;
    tensor x, y, residual;
} sparse;

static bool sparse_make(sparse *s, const dsconv_problem *problem) {
    dsconv_problem twin = *problem;
    const bool strided = problem->x_strides[0] != 0;
    if (!strided)
        twin.h = twin.w = problem->r;
    s->x = problem_x(problem);
    s->y = problem_y(problem);
    s->residual = problem_residual(problem);
    if (!material_make(&s->m, &twin, MATERIAL_UNIFORM, 1) || !reserve(&s->x) || !reserve(&s->y) ||
        !reserve(&s->residual))
        return false;
    s->m.problem = *problem;
    if (strided)
        tensor_copy(&s->x, &s->m.in.x);
    else
        (void)each_window(problem, &s->x, fill_window, &(rng){1});
    if (problem->residual != DSCONV_RESIDUAL_NONE)
        tensor_copy(&s->residual, &s->m.in.residual);
    s->m.in.x = s->x;
    s->m.in.residual = s->residual;
    return true;
}

static void sparse_free(sparse *s) {
    release(&s->x);
    release(&s->y);
    release(&s->residual);
    material_free(&s->m);
}

/* A tensor in a device's memory, beside that in the host's. */
typedef struct twin {
    dsconv_context *context;
    const tensor *host;
    void *device;
    dsconv_copy_kind kind;
} twin;

/* Copies the elements of a part of the host's tensor one by one, for they lie far apart. */
static bool copy_elements(void *user, const tensor *part) {
    const twin *t = user;
    const size_t size = dtype_size(part->dtype);
    bool ok = true;
    for (int64_t i = 0; i < tensor_count(part) && ok; i++) {
        const int64_t w = i % part->dims[3], h = i / part->dims[3] % part->dims[2];
        const int64_t row = i / part->dims[3] / part->dims[2];
        char *host =
            (char *)part->data +
            (size_t)tensor_offset(part, row / part->dims[1], row % part->dims[1], h, w) * size;
        char *device = (char *)t->device + (host - (char *)t->host->data);
        const bool to_device = t->kind == DSCONV_HOST_TO_DEVICE;
        ok = dsconv_copy(t->context, to_device ? device : host, to_device ? host : device, size,
                         t->kind, NULL) == DSCONV_OK;
    }
    return ok;
}

/* On a device, the addresses of run are those of its twins. */
static bool run_on_device(const target *t, dsconv_plan *plan, const sparse *s,
                          dsconv_run_params *params) {
    const tensor *tensors[3] = {&s->x, &s->residual, &s->y};
    twin twins[3];
    bool ok = true;
    for (int i = 0; i < 3; i++) {
        twins[i] = (twin){t->contexts[1], tensors[i], NULL, DSCONV_HOST_TO_DEVICE};
        if (ok && tensors[i]->data != NULL)
            ok = dsconv_alloc(t->contexts[1], byte_span(tensors[i]), &twins[i].device) == DSCONV_OK;
    }
    if (s->m.problem.x_strides[0] != 0)
        ok = ok && copy_elements(&twins[0], &s->x);
    else
        ok = ok && each_window(&s->m.problem, &s->x, copy_elements, &twins[0]);
    if (params->residual != NULL)
        ok = ok && copy_elements(&twins[1], &s->residual);
    params->x = twins[0].device;
    params->residual = params->residual != NULL ? twins[1].device : NULL;
    params->y = twins[2].device;
    ok = ok && dsconv_run(plan, params) == DSCONV_OK &&
         dsconv_synchronize(t->contexts[1], NULL) == DSCONV_OK;
    twins[2].kind = DSCONV_DEVICE_TO_HOST;
    ok = ok && copy_elements(&twins[2], &s->y);
    for (int i = 0; i < 3; i++)
        dsconv_free(t->contexts[1], twins[i].device);
    return ok;
}

static bool compute(const target *t, dsconv_plan *plan, const sparse *s) {
    dsconv_weights weights = DSCONV_WEIGHTS_INIT;
    weights.w_dw = s->m.in.w_dw;
    weights.w_pw = s->m.in.w_pw;
    dsconv_plan_info info = DSCONV_PLAN_INFO_INIT;
    if (dsconv_plan_set_weights(plan, &weights) != DSCONV_OK ||
        dsconv_plan_query(plan, &info) != DSCONV_OK)
        return false;
    dsconv_run_params params = DSCONV_RUN_PARAMS_INIT;
    params.x = s->x.data;
    params.y = s->y.data;
    params.residual = s->m.problem.residual != DSCONV_RESIDUAL_NONE ? s->residual.data : NULL;
    params.workspace_size = info.workspace_size;
    if (dsconv_alloc(t->contexts[1], info.workspace_size, &params.workspace) != DSCONV_OK)
        return false;
    const bool ok =
        t->host ? dsconv_run(plan, &params) == DSCONV_OK : run_on_device(t, plan, s, &params);
    dsconv_free(t->contexts[1], params.workspace);
    return ok;
}

/* Compares y, copied out of its wide memory. */
static bool check(const target *t, const sparse *s) {
    dsconv_problem dense = s->m.problem;
    memset(dense.y_strides, 0, sizeof dense.y_strides);
    outputs out = {problem_y(&dense), problem_mid(&dense), false};
    out.mid.dims[0] = 0;
    out.y.data = calloc((size_t)tensor_count(&out.y), dtype_size(out.y.dtype));
    if (out.y.data == NULL)
        return false;
    tensor_copy(&out.y, &s->y);
    const bool pass = trial_verify(t, &s->m, &out, NULL);
    outputs_free(&out);
    return pass;
}

static outcome run_problem(const target *t, const char *text) {
    sparse s = {0};
    dsconv_problem problem;
    dsconv_plan *plan = NULL;
    char error[PROBLEM_ERROR_SIZE];
    dsconv_plan_params params = DSCONV_PLAN_PARAMS_INIT;
    params.algo = t->algo;
    outcome result = OUTCOME_FAIL;
    if (!problem_parse(text, &problem, error) || !sparse_make(&s, &problem)) {
        printf("FAIL: cannot prepare %s\n", text);
    } else if (dsconv_supports(t->contexts[1], &problem, t->algo) == DSCONV_ERROR_UNSUPPORTED) {
        result = OUTCOME_UNSUPPORTED;
    } else if (dsconv_plan_create(t->contexts[1], &problem, &params, &plan) != DSCONV_OK ||
               !compute(t, plan, &s)) {
        trial_complain(t, &s.m, dsconv_last_message());
    } else if (check(t, &s)) {
        result = OUTCOME_PASS;
    }
    dsconv_plan_destroy(plan);
    sparse_free(&s);
    return result;
}

int main(int argc, char **argv) {
    if (argc < 2 || argc > 3) {
        fputs("usage: large BACKEND [ALGO]\n", stderr);
        return EXIT_USAGE;
    }
    target t;
    const int status = target_open(&t, argv[1], argc > 2 ? argv[2] : NULL);
    if (status >= 0)
        return status;
    long counts[3] = {0};
    for (int i = 0; i < PROBLEMS; i++)
        counts[run_problem(&t, problems[i])]++;
    const int result = target_conclude(&t, counts[OUTCOME_PASS], counts[OUTCOME_FAIL],
                                       counts[OUTCOME_UNSUPPORTED]);
    target_close(&t);
    return result;
}
