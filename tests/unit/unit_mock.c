/* A third party's backend works without a change to the core: several devices, their memory out
 * of the host's reach, streams. */
#include "unit.h"

#include <string.h>

#include "mock_backend.h"

enum { X = 2 * 4 * 9 * 10, Y = 2 * 6 * 9 * 10, W_DW = 4 * 9, W_PW = 6 * 4 };

static dsconv_context *on_device(int32_t device) {
    dsconv_context_params params = DSCONV_CONTEXT_PARAMS_INIT;
    dsconv_context *context;
    params.backend = "mock";
    params.device = device;
    expect_ok(dsconv_context_create(&params, &context));
    return context;
}

static void *upload(dsconv_context *context, const float *values, size_t count) {
    void *device;
    expect_ok(dsconv_alloc(context, count * sizeof *values, &device));
    assert_int_equal((uintptr_t)device % 256, 0);
    expect_ok(
        dsconv_copy(context, device, values, count * sizeof *values, DSCONV_HOST_TO_DEVICE, NULL));
    return device;
}

static void check(const float *y) {
    dsconv_problem problem = unit_problem();
    for (int64_t p = 0; p < 9; p++)
        for (int64_t q = 0; q < 10; q++)
            assert_true(y[p * 10 + q] == unit_expected(&problem, p, q));
}

/* From upload to download on one device, enqueued in a stream of its own. */
static void run_on(int32_t device, dsconv_memory memory) {
    float values[Y];
    for (int i = 0; i < Y; i++)
        values[i] = 1.0F;
    dsconv_problem problem = unit_problem();
    dsconv_plan_info info = DSCONV_PLAN_INFO_INIT;
    dsconv_weights weights = DSCONV_WEIGHTS_INIT;
    dsconv_run_params run = DSCONV_RUN_PARAMS_INIT;
    mock_stream stream = {0};
    dsconv_context *context = on_device(device);
    dsconv_plan *plan;
    expect_ok(dsconv_plan_create(context, &problem, NULL, &plan));
    expect_ok(dsconv_plan_query(plan, &info));
    assert_string_equal(info.backend, "mock");
    assert_string_equal(info.algo, "direct");
    assert_string_equal(info.kernel, "plain loops");
    assert_true(info.p == 9 && info.q == 10 && info.workspace_size >= 512);

    void *w_dw = upload(context, values, W_DW), *w_pw = upload(context, values, W_PW);
    weights.w_dw = memory == DSCONV_MEMORY_HOST ? values : w_dw;
    weights.w_pw = memory == DSCONV_MEMORY_HOST ? values : w_pw;
    weights.memory = memory;
    expect_ok(dsconv_plan_set_weights(plan, &weights));

    float y[Y] = {0.0F};
    void *x_device = upload(context, values, X), *y_device = upload(context, y, Y);
    void *workspace, *y_copy = upload(context, y, Y);
    expect_ok(dsconv_alloc(context, info.workspace_size + 4, &workspace));
    run.x = x_device;
    run.y = y_device;
    run.workspace = (char *)workspace + 4; /* the core aligns it */
    run.workspace_size = info.workspace_size;
    run.stream = &stream;
    expect_ok(dsconv_run(plan, &run));
    assert_int_equal(stream.count, 1);
    expect_ok(dsconv_copy(context, y, y_device, sizeof y, DSCONV_DEVICE_TO_HOST, NULL));
    assert_true(y[0] == 0.0F);
    expect_ok(dsconv_synchronize(context, &stream));
    assert_int_equal(stream.count, 0);
    expect_ok(dsconv_copy(context, y_copy, y_device, sizeof y, DSCONV_DEVICE_TO_DEVICE, NULL));
    expect_ok(dsconv_copy(context, y, y_copy, sizeof y, DSCONV_DEVICE_TO_HOST, NULL));
    check(y);

    void *all[] = {w_dw, w_pw, x_device, y_device, y_copy, workspace};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        dsconv_free(context, all[i]);
    dsconv_plan_destroy(plan);
    dsconv_context_destroy(context);
}

static void runs_on_every_device(void **state) {
    (void)state;
    dsconv_device_info info = DSCONV_DEVICE_INFO_INIT;
    expect_ok(dsconv_device_query("mock", 0, &info));
    assert_int_equal(info.device_count, 2);
    for (int32_t device = 0; device < info.device_count; device++) {
        run_on(device, DSCONV_MEMORY_HOST);
        run_on(device, DSCONV_MEMORY_DEVICE);
    }
}

static void device_out_of_range(void **state) {
    (void)state;
    dsconv_device_info info = DSCONV_DEVICE_INFO_INIT;
    dsconv_context_params params = DSCONV_CONTEXT_PARAMS_INIT;
    dsconv_context *context;
    params.backend = "mock";
    params.device = 2;
    expect_failure(dsconv_context_create(&params, &context), DSCONV_ERROR_INVALID_ARGUMENT,
                   "mock: device: there are 2");
    expect_failure(dsconv_device_query("mock", 2, &info), DSCONV_ERROR_INVALID_ARGUMENT,
                   "there are 2");
    context = on_device(1);
    expect_ok(dsconv_context_device(context, &info));
    assert_string_equal(info.name, "mock device 1");
    dsconv_context_destroy(context);
}

static void refusals_carry_the_reason(void **state) {
    (void)state;
    dsconv_context *context = on_device(0);
    dsconv_problem problem = unit_problem();
    dsconv_plan *plan;
    dsconv_plan_params params = DSCONV_PLAN_PARAMS_INIT;
    void *pointer = &problem;
    problem.bias = DSCONV_BIAS_PW;
    expect_failure(dsconv_supports(context, &problem, NULL), DSCONV_ERROR_UNSUPPORTED,
                   "mock: only plain f32 problems");
    expect_failure(dsconv_plan_create(context, &problem, NULL, &plan), DSCONV_ERROR_UNSUPPORTED,
                   "mock: only plain f32 problems");
    problem.bias = 0;
    expect_ok(dsconv_supports(context, &problem, "direct"));
    params.algo = "winograd";
    expect_failure(dsconv_plan_create(context, &problem, &params, &plan),
                   DSCONV_ERROR_INVALID_ARGUMENT, "algo");
    assert_string_equal(dsconv_context_algo(context, 0), "direct");
    assert_null(dsconv_context_algo(context, 1));
    assert_null(dsconv_context_algo(context, SIZE_MAX));
    expect_failure(dsconv_alloc(context, SIZE_MAX, &pointer), DSCONV_ERROR_OUT_OF_MEMORY,
                   "mock: out of device memory");
    assert_null(pointer);
    expect_failure(dsconv_copy(context, &problem, &plan, 1, DSCONV_HOST_TO_DEVICE, NULL),
                   DSCONV_ERROR_DEVICE, "not memory of this device");
    dsconv_context_destroy(context);
}

static int install_mock(void **state) {
    int failed = unit_setup(state);
    unit_install("mock", "mock");
    return failed;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs_on_every_device),
        cmocka_unit_test(device_out_of_range),
        cmocka_unit_test(refusals_carry_the_reason),
    };
    return cmocka_run_group_tests(tests, install_mock, unit_teardown);
}
