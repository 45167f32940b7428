/* A program as an application writes it: a convolution of ones on the CPU. Each argument names an
 * algorithm that must be there. */
#include <dsconv/dsconv.h>

#include <stdio.h>
#include <stdlib.h>

static int failed(const char *what) {
    fprintf(stderr, "%s: %s\n", what, dsconv_last_message());
    return 1;
}

int main(int argc, char **argv) {
    static float x[4 * 8 * 8], y[8 * 6 * 6], w_dw[4 * 9], w_pw[8 * 4];
    dsconv_context_params context_params = DSCONV_CONTEXT_PARAMS_INIT;
    dsconv_problem problem = DSCONV_PROBLEM_INIT;
    dsconv_weights weights = DSCONV_WEIGHTS_INIT;
    dsconv_plan_info info = DSCONV_PLAN_INFO_INIT;
    dsconv_run_params run = DSCONV_RUN_PARAMS_INIT;
    dsconv_context *context;
    dsconv_plan *plan;
    int i;

    for (i = 0; i < 4 * 8 * 8; i++)
        x[i] = 1.0F;
    for (i = 0; i < 4 * 9; i++)
        w_dw[i] = 1.0F;
    for (i = 0; i < 8 * 4; i++)
        w_pw[i] = 1.0F;
    problem.c = 4;
    problem.h = problem.w = 8;
    problem.k = 8;
    weights.w_dw = w_dw;
    weights.w_pw = w_pw;
    context_params.backend = "cpu";

    if (dsconv_context_create(&context_params, &context))
        return failed("context");
    for (i = 1; i < argc; i++)
        if (dsconv_supports(context, &problem, argv[i]))
            return failed(argv[i]);
    if (dsconv_plan_create(context, &problem, NULL, &plan) ||
        dsconv_plan_set_weights(plan, &weights) || dsconv_plan_query(plan, &info))
        return failed("plan");
    run.x = x;
    run.y = y;
    run.workspace = malloc(info.workspace_size);
    run.workspace_size = info.workspace_size;
    if (dsconv_run(plan, &run))
        return failed("run");
    free(run.workspace);
    dsconv_plan_destroy(plan);
    dsconv_context_destroy(context);

    for (i = 0; i < 8 * 6 * 6; i++)
        if (y[i] != 36.0F) {
            fprintf(stderr, "y[%d] = %g, expected 36\n", i, (double)y[i]);
            return 1;
        }
    printf("libdsconv %s, %s on %s: right\n", dsconv_version(), info.algo, info.backend);
    return 0;
}
