/* Which backend a context gets, and what is said when it gets none. */
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Hides whatever is installed on this machine: only a test's own modules exist. */
int __wrap_access(const char *path, int mode);
int __real_access(const char *path, int mode);

int __wrap_access(const char *path, int mode) {
    return strncmp(path, "/tmp/dsconv_unit_", 17) == 0 ? __real_access(path, mode) : -1;
}

typedef struct lines {
    int count;
    char text[1024];
} lines;

static void collect(void *user, dsconv_log_level level, const char *text) {
    lines *log = user;
    assert_true(level >= DSCONV_LOG_ERROR && level <= DSCONV_LOG_DEBUG);
    assert_null(strchr(text, '\n'));
    log->count++;
    strncat(log->text, text, sizeof log->text - strlen(log->text) - 1);
}

static void gets(const char *argument, const char *backend) {
    dsconv_context *context = unit_context(argument);
    assert_string_equal(dsconv_context_backend(context), backend);
    dsconv_context_destroy(context);
}

static void gets_none(const char *argument, dsconv_status status, const char *text) {
    dsconv_context_params params = DSCONV_CONTEXT_PARAMS_INIT;
    dsconv_context *context = (dsconv_context *)&params;
    params.backend = argument;
    expect_failure(dsconv_context_create(&params, &context), status, text);
    assert_null(context);
}

static void variable(const char *name, const char *value) {
    assert_int_equal(value ? setenv(name, value, 1) : unsetenv(name), 0);
}

static void argument_variable_and_auto(void **state) {
    (void)state;
    gets(NULL, "cpu");
    gets("auto", "cpu");
    gets("ref", "ref");
    variable("DSCONV_BACKEND", "ref");
    gets(NULL, "ref");
    gets("cpu", "cpu");
    gets("auto", "cpu");
    variable("DSCONV_BACKEND", "auto");
    gets(NULL, "cpu");
    variable("DSCONV_BACKEND", "");
    gets(NULL, "cpu");
    variable("DSCONV_BACKEND", "nonsense");
    gets_none(NULL, DSCONV_ERROR_UNKNOWN_BACKEND, "nonsense: no such backend");
    gets("cpu", "cpu");
    variable("DSCONV_BACKEND", NULL);
    dsconv_context *context;
    expect_ok(dsconv_context_create(NULL, &context));
    dsconv_context_destroy(context);
}

static void unknown_names(void **state) {
    (void)state;
    static const char *const names[] = {
        "nonsense",  "",      "CPU",     "../mock",
        "/tmp/mock", "mo ck", "mock.so", "a_name_that_is_too_long_by_one__"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        gets_none(names[i], DSCONV_ERROR_UNKNOWN_BACKEND,
                  "no such backend; known are auto, cuda, hip, cpu, ref");
}

static void known_but_absent(void **state) {
    (void)state;
    int absent = 0;
    for (size_t i = 0; i < dsconv_backend_count(); i++) {
        dsconv_backend_info info = DSCONV_BACKEND_INFO_INIT;
        expect_ok(dsconv_backend_query(i, &info));
        assert_true(info.found || !info.usable);
        assert_int_equal(info.usable, info.reason[0] == '\0');
        if (info.found)
            continue;
        const char *text = info.built ? "built, but not installed" : "not built into this";
        assert_non_null(strstr(info.reason, text));
        gets_none(info.name, DSCONV_ERROR_UNAVAILABLE, text);
        if (info.built)
            gets_none(info.name, DSCONV_ERROR_UNAVAILABLE, unit_module_dir());
        absent++;
    }
    assert_true(absent >= 1);
}

static void listing(void **state) {
    (void)state;
    dsconv_backend_info info = DSCONV_BACKEND_INFO_INIT;
    size_t count = dsconv_backend_count();
    assert_true(count >= 4);
    expect_failure(dsconv_backend_query(count, &info), DSCONV_ERROR_INVALID_ARGUMENT, "index = ");
    expect_failure(dsconv_backend_query(0, NULL), DSCONV_ERROR_INVALID_ARGUMENT, "info = NULL");
    info.struct_size = 0;
    expect_failure(dsconv_backend_query(0, &info), DSCONV_ERROR_INVALID_ARGUMENT,
                   "info.struct_size = 0");
}

static void devices(void **state) {
    (void)state;
    dsconv_device_info info = DSCONV_DEVICE_INFO_INIT;
    expect_ok(dsconv_device_query("cpu", 0, &info));
    assert_int_equal(info.device_count, 1);
    assert_true(info.compute_units >= 1);
    assert_true(info.name[0] && info.arch[0]);
    expect_failure(dsconv_device_query("cpu", 1, &info), DSCONV_ERROR_INVALID_ARGUMENT, "1");
    expect_failure(dsconv_device_query("cpu", -1, &info), DSCONV_ERROR_INVALID_ARGUMENT,
                   "device = -1");
    expect_failure(dsconv_device_query(NULL, 0, &info), DSCONV_ERROR_INVALID_ARGUMENT,
                   "backend = NULL");
    expect_failure(dsconv_device_query("nonsense", 0, &info), DSCONV_ERROR_UNKNOWN_BACKEND, NULL);
    expect_failure(dsconv_device_query("cpu", 0, NULL), DSCONV_ERROR_INVALID_ARGUMENT,
                   "info = NULL");
}

static void bad_parameters(void **state) {
    (void)state;
    dsconv_context_params params = DSCONV_CONTEXT_PARAMS_INIT;
    dsconv_context *context;
    expect_failure(dsconv_context_create(&params, NULL), DSCONV_ERROR_INVALID_ARGUMENT,
                   "context = NULL");
    params.device = -1;
    expect_failure(dsconv_context_create(&params, &context), DSCONV_ERROR_INVALID_ARGUMENT,
                   "device = -1");
    params.device = 0;
    params.threads = -2;
    expect_failure(dsconv_context_create(&params, &context), DSCONV_ERROR_INVALID_ARGUMENT,
                   "threads = -2");
    params.threads = 0;
    params.backend = "cpu";
    params.device = 7;
    expect_failure(dsconv_context_create(&params, &context), DSCONV_ERROR_INVALID_ARGUMENT, "7");
    params.struct_size = 0;
    expect_failure(dsconv_context_create(&params, &context), DSCONV_ERROR_INVALID_ARGUMENT,
                   "params.struct_size = 0");
    /* A caller of an older version that had no log yet. */
    params.struct_size = offsetof(dsconv_context_params, threads);
    params.device = 0;
    params.threads = -2;
    expect_ok(dsconv_context_create(&params, &context));
    dsconv_context_destroy(context);
}

static void module_directories(void **state) {
    (void)state;
    const char *own = unit_module_dir();
    unit_install_into(".", "mock_hostile", "cuda");
    unit_install_into(".", "mock_hostile", "hip");
    static const char *const relative[] = {".", "modules", "./", "../x"};
    for (size_t i = 0; i < sizeof relative / sizeof *relative; i++) {
        variable("DSCONV_BACKEND_DIR", relative[i]);
        gets_none("cuda", DSCONV_ERROR_INVALID_ARGUMENT, "DSCONV_BACKEND_DIR = ");
        gets_none(NULL, DSCONV_ERROR_INVALID_ARGUMENT, relative[i]);
    }
    static const char *const absent[] = {"", NULL, "/nonexistent"};
    for (size_t i = 0; i < 3; i++) {
        variable("DSCONV_BACKEND_DIR", absent[i]);
        gets_none("cuda", DSCONV_ERROR_UNAVAILABLE, "cuda: ");
        gets(NULL, "cpu");
    }
    variable("DSCONV_BACKEND_DIR", own);
}

static int open_hostile(void *argument) {
    dsconv_context *context;
    (void)argument;
    return dsconv_context_create(NULL, &context) != DSCONV_OK;
}

/* The module above does what it should when it is opened. */
static void hostile_module_works(void **state) {
    (void)state;
    char working_dir[256];
    assert_non_null(getcwd(working_dir, sizeof working_dir));
    variable("DSCONV_BACKEND_DIR", working_dir);
    assert_int_equal(unit_in_child(open_hostile, NULL), 86);
    variable("DSCONV_BACKEND_DIR", unit_module_dir());
}

static void log_levels(void **state) {
    (void)state;
    static const struct {
        const char *value;
        int info_lines, error_lines;
    } levels[] = {{NULL, 0, 1},    {"", 0, 1},     {"off", 0, 0},
                  {"error", 0, 1}, {"info", 1, 1}, {"debug", 1, 1}};
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
        lines good = {0, ""}, bad = {0, ""};
        dsconv_context_params params = DSCONV_CONTEXT_PARAMS_INIT;
        dsconv_context *context;
        variable("DSCONV_LOG", levels[i].value);
        params.log = collect;
        params.log_user = &good;
        params.backend = "cpu";
        expect_ok(dsconv_context_create(&params, &context));
        dsconv_context_destroy(context);
        params.log_user = &bad;
        params.backend = "nonsense";
        expect_failure(dsconv_context_create(&params, &context), DSCONV_ERROR_UNKNOWN_BACKEND,
                       NULL);
        assert_int_equal(good.count > 0, levels[i].info_lines);
        assert_int_equal(bad.count > 0, levels[i].error_lines);
    }
    variable("DSCONV_LOG", "loud");
    gets_none("cpu", DSCONV_ERROR_INVALID_ARGUMENT, "DSCONV_LOG = \"loud\"");
    variable("DSCONV_LOG", NULL);
}

static void debug_tells_what_a_plan_costs(void **state) {
    (void)state;
    static const char *const levels[] = {"info", "debug"};
    for (int i = 0; i < 2; i++) {
        lines log = {0, ""};
        dsconv_context_params params = DSCONV_CONTEXT_PARAMS_INIT;
        dsconv_problem problem = DSCONV_PROBLEM_INIT;
        dsconv_context *context;
        dsconv_plan *plan;
        problem.n = problem.c = problem.h = problem.w = problem.k = problem.r = problem.s = 1;
        variable("DSCONV_LOG", levels[i]);
        params.log = collect;
        params.log_user = &log;
        params.backend = "cpu";
        expect_ok(dsconv_context_create(&params, &context));
        expect_ok(dsconv_plan_create(context, &problem, NULL, &plan));
        assert_int_equal(strstr(log.text, "cpu: 4 flops") != NULL, i);
        dsconv_plan_destroy(plan);
        dsconv_context_destroy(context);
    }
    variable("DSCONV_LOG", NULL);
}

/* From here on the modules opened stay known to the process. */
static void auto_passes_over_the_unusable(void **state) {
    (void)state;
    lines log = {0, ""};
    dsconv_context_params params = DSCONV_CONTEXT_PARAMS_INIT;
    dsconv_context *context;
    unit_install("mock_cuda_no_driver", "cuda");
    variable("DSCONV_LOG", "info");
    params.log = collect;
    params.log_user = &log;
    expect_ok(dsconv_context_create(&params, &context));
    assert_string_equal(dsconv_context_backend(context), "cpu");
    assert_non_null(strstr(log.text, "cuda: the driver is not installed"));
    assert_non_null(strstr(log.text, "hip: "));
    dsconv_context_destroy(context);
    variable("DSCONV_LOG", NULL);
}

static void named_never_falls_back(void **state) {
    (void)state;
    gets_none("cuda", DSCONV_ERROR_UNAVAILABLE, "cuda: the driver is not installed");
    variable("DSCONV_BACKEND", "cuda");
    gets_none(NULL, DSCONV_ERROR_UNAVAILABLE, "cuda: the driver is not installed");
    variable("DSCONV_BACKEND", NULL);
    dsconv_backend_info info = DSCONV_BACKEND_INFO_INIT;
    expect_ok(dsconv_backend_query(0, &info));
    assert_string_equal(info.name, "cuda");
    assert_true(info.found && !info.usable);
    assert_string_equal(info.reason, "the driver is not installed");
}

static void auto_takes_the_first_usable(void **state) {
    (void)state;
    unit_install("mock_hip", "hip");
    gets(NULL, "hip");
    gets("cpu", "cpu");
    dsconv_context_params params = DSCONV_CONTEXT_PARAMS_INIT;
    dsconv_context *context;
    params.device = 2;
    expect_failure(dsconv_context_create(&params, &context), DSCONV_ERROR_INVALID_ARGUMENT,
                   "hip: device");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(argument_variable_and_auto),
        cmocka_unit_test(unknown_names),
        cmocka_unit_test(known_but_absent),
        cmocka_unit_test(listing),
        cmocka_unit_test(devices),
        cmocka_unit_test(bad_parameters),
        cmocka_unit_test(module_directories),
        cmocka_unit_test(hostile_module_works),
        cmocka_unit_test(log_levels),
        cmocka_unit_test(debug_tells_what_a_plan_costs),
        cmocka_unit_test(auto_passes_over_the_unusable),
        cmocka_unit_test(named_never_falls_back),
        cmocka_unit_test(auto_takes_the_first_usable),
    };
    return cmocka_run_group_tests(tests, unit_setup, unit_teardown);
}
