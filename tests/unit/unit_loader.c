/* Modules that are broken in one way each, and how the dynamic loader is called. */
#include "unit.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "loader.h"

static char opened[512];
static int open_flags, opens;
static const char *hidden_symbol;

void *__wrap_dlopen(const char *path, int flags);
void *__real_dlopen(const char *path, int flags);
void *__wrap_dlsym(void *handle, const char *symbol);
void *__real_dlsym(void *handle, const char *symbol);

void *__wrap_dlopen(const char *path, int flags) {
    (void)snprintf(opened, sizeof opened, "%s", path);
    open_flags = flags;
    opens++;
    /* The address sanitizer would end the process. */
    return __real_dlopen(path, flags & ~RTLD_DEEPBIND);
}

void *__wrap_dlsym(void *handle, const char *symbol) {
    return hidden_symbol && strcmp(symbol, hidden_symbol) == 0 ? NULL
                                                               : __real_dlsym(handle, symbol);
}

static void gets_none(const char *backend, dsconv_status status, const char *text) {
    dsconv_context_params params = DSCONV_CONTEXT_PARAMS_INIT;
    dsconv_context *context = (dsconv_context *)&params;
    params.backend = backend;
    expect_failure(dsconv_context_create(&params, &context), status, text);
    assert_null(context);
}

static void faulty_modules(void **state) {
    (void)state;
    static const struct {
        const char *name, *text;
        dsconv_status status;
    } faults[] = {
        {"no_symbol", "has no symbol dsconv_backend_entry", DSCONV_ERROR_UNAVAILABLE},
        {"no_table", "gives no table", DSCONV_ERROR_UNAVAILABLE},
        {"abi", "its ABI is 2, this libdsconv needs 1", DSCONV_ERROR_UNAVAILABLE},
        {"short", "its table has ", DSCONV_ERROR_UNAVAILABLE},
        {"name", "calls itself \"someone_else\"", DSCONV_ERROR_UNAVAILABLE},
        {"function", "lacks a function", DSCONV_ERROR_UNAVAILABLE},
        {"no_device", "no_device: the driver sees no device", DSCONV_ERROR_UNAVAILABLE},
        {"too_old", "too_old: device 0 is too old", DSCONV_ERROR_UNAVAILABLE},
        {"open", "open: the device does not answer", DSCONV_ERROR_DEVICE},
    };
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        char file[64], expected[512];
        dsconv_device_info info = DSCONV_DEVICE_INFO_INIT;
        (void)snprintf(file, sizeof file, "mock_%s", faults[i].name);
        (void)snprintf(expected, sizeof expected, "%s/dsconv_%s.so", unit_module_dir(),
                       faults[i].name);
        unit_install(file, faults[i].name);
        gets_none(faults[i].name, faults[i].status, faults[i].text);
        assert_string_equal(opened, expected);
        if (faults[i].status == DSCONV_ERROR_UNAVAILABLE)
            expect_failure(dsconv_device_query(faults[i].name, 0, &info), faults[i].status,
                           faults[i].text);
    }
}

static void not_a_shared_object(void **state) {
    (void)state;
    char path[128];
    (void)snprintf(path, sizeof path, "%s/dsconv_text.so", unit_module_dir());
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    (void)fputs("this is no shared object, only a line of text that is long enough\n", file);
    (void)fclose(file);
    gets_none("text", DSCONV_ERROR_UNAVAILABLE, "invalid ELF header");
    gets_none("text", DSCONV_ERROR_UNAVAILABLE, path);
}

static void module_that_appears_later(void **state) {
    (void)state;
    int before = opens;
    gets_none("mock", DSCONV_ERROR_UNKNOWN_BACKEND, "mock: no such backend");
    assert_int_equal(opens, before);
    unit_install("mock", "mock");
    hidden_symbol = DSCONV_BACKEND_ENTRY;
    gets_none("mock", DSCONV_ERROR_UNAVAILABLE, "has no symbol");
    hidden_symbol = NULL;
    dsconv_context_destroy(unit_context("mock"));
    assert_int_equal(open_flags, RTLD_NOW | RTLD_LOCAL);
    assert_int_equal(opens, before + 2);
    dsconv_context_destroy(unit_context("mock"));
    assert_int_equal(opens, before + 2);
}

static void private_modules(void **state) {
    (void)state;
    void *address = NULL;
    dsconv_message message = {""};
    assert_int_equal(dsconv_module_open("absent", "symbol", true, &address, &message),
                     DSCONV_MODULE_NOT_FOUND);
    assert_non_null(strstr(message.text, "dsconv_absent.so is in none of "));
    assert_non_null(strstr(message.text, unit_module_dir()));
    unit_install("mock_run", "private");
    assert_int_equal(dsconv_module_open("private", "absent", true, &address, &message),
                     DSCONV_MODULE_REFUSED);
    assert_non_null(strstr(message.text, "has no symbol absent"));
    assert_int_equal(dsconv_module_open("private", DSCONV_BACKEND_ENTRY, true, &address, &message),
                     DSCONV_MODULE_OPENED);
    assert_non_null(address);
    int alone = dlsym(RTLD_DEFAULT, "__sanitizer_print_stack_trace") ? 0 : RTLD_DEEPBIND;
    assert_int_equal(open_flags, RTLD_NOW | RTLD_LOCAL | alone);
}

static void failures_after_opening(void **state) {
    (void)state;
    dsconv_problem problem = unit_problem();
    dsconv_weights weights = DSCONV_WEIGHTS_INIT;
    float values[64] = {0.0F};
    dsconv_plan *plan = (dsconv_plan *)&problem;
    weights.w_dw = weights.w_pw = values;

    unit_install("mock_plan", "plan");
    dsconv_context *context = unit_context("plan");
    expect_failure(dsconv_plan_create(context, &problem, NULL, &plan), DSCONV_ERROR_OUT_OF_MEMORY,
                   "plan: no room for the plan");
    assert_null(plan);
    dsconv_context_destroy(context);

    unit_install("mock_weights", "weights");
    context = unit_context("weights");
    expect_ok(dsconv_plan_create(context, &problem, NULL, &plan));
    for (int i = 0; i < 2; i++)
        expect_failure(dsconv_plan_set_weights(plan, &weights), DSCONV_ERROR_DEVICE,
                       "weights: the weights got lost");
    dsconv_plan_destroy(plan);
    dsconv_context_destroy(context);

    unit_install("mock_run", "run");
    context = unit_context("run");
    plan = unit_plan(context, &problem, NULL);
    expect_failure(unit_run(plan, &problem, values), DSCONV_ERROR_DEVICE,
                   "run: the device has fallen off the bus");
    dsconv_plan_destroy(plan);
    dsconv_context_destroy(context);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(faulty_modules),
        cmocka_unit_test(not_a_shared_object),
        cmocka_unit_test(module_that_appears_later),
        cmocka_unit_test(private_modules),
        cmocka_unit_test(failures_after_opening),
    };
    return cmocka_run_group_tests(tests, unit_setup, unit_teardown);
}
