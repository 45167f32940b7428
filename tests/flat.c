/* Memory does not grow with the number of different shapes that a process has run. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <dsconv/dsconv.h>

enum { SHAPES = 20000, WARM_UP = SHAPES / 4, TENSOR_SIZE = 1 << 22 };

/* Growth allowed over three quarters of the shapes; one leaked plan each would be far more. */
static const long allowed_kib = 1024;

static long resident_kib(void) {
    long kib = -1;
    char line[128];
    FILE *file = fopen("/proc/self/status", "r");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "VmRSS: %ld kB", &kib) == 1)
            break;
    if (file)
        (void)fclose(file);
    return kib;
}

/* Every index gives another shape: its digits in mixed radix are c, k, h and w. */
static dsconv_problem shape_of(int64_t index) {
    static const int64_t kernels[] = {1, 3, 5, 7};
    dsconv_problem problem = DSCONV_PROBLEM_INIT;
    problem.n = 1;
    problem.c = 1 + index % 29;
    problem.k = 1 + index / 29 % 31;
    problem.h = 7 + index / (29 * 31) % 11;
    problem.w = 7 + index / (29 * 31 * 11) % 13;
    problem.r = problem.s = kernels[index % 4];
    problem.stride_h = problem.stride_w = 1 + index % 2;
    problem.pad_top = problem.pad_bottom = problem.pad_left = problem.pad_right = problem.r / 2;
    problem.layout = (dsconv_layout)(index / 2 % 2);
    problem.dtype = (dsconv_dtype)(index % 3);
    return problem;
}

static dsconv_status run_shape(dsconv_context *context, int64_t index, float *memory) {
    const dsconv_problem problem = shape_of(index);
    dsconv_weights weights = DSCONV_WEIGHTS_INIT;
    dsconv_plan_info info = DSCONV_PLAN_INFO_INIT;
    dsconv_run_params run = DSCONV_RUN_PARAMS_INIT;
    dsconv_plan *plan = NULL;
    void *workspace = NULL;
    weights.w_dw = weights.w_pw = run.x = memory;
    run.y = memory + TENSOR_SIZE / 2;
    dsconv_status status = dsconv_plan_create(context, &problem, NULL, &plan);
    if (status == DSCONV_OK)
        status = dsconv_plan_set_weights(plan, &weights);
    if (status == DSCONV_OK)
        status = dsconv_plan_query(plan, &info);
    if (status == DSCONV_OK)
        status = dsconv_alloc(context, info.workspace_size, &workspace);
    run.workspace = workspace;
    run.workspace_size = info.workspace_size;
    if (status == DSCONV_OK)
        status = dsconv_run(plan, &run);
    dsconv_free(context, workspace);
    dsconv_plan_destroy(plan);
    return status;
}

int main(void) {
    dsconv_context_params params = DSCONV_CONTEXT_PARAMS_INIT;
    dsconv_context *context = NULL;
    long before = 0;
    float *memory = calloc(TENSOR_SIZE, sizeof *memory);
    params.backend = "cpu";
    dsconv_status status = dsconv_context_create(&params, &context);
    for (int64_t i = 0; i < SHAPES && memory && status == DSCONV_OK; i++) {
        if (i == WARM_UP)
            before = resident_kib();
        status = run_shape(context, i, memory);
        if (status != DSCONV_OK)
            printf("shape %" PRId64 ": %s\n", i, dsconv_last_message());
    }
    const long after = resident_kib();
    dsconv_context_destroy(context);
    free(memory);
    printf("resident after %d shapes %ld KiB, after %d %ld KiB\n", WARM_UP, before, SHAPES, after);
    return status == DSCONV_OK && memory && before > 0 && after - before <= allowed_kib ? 0 : 1;
}
