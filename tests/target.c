#include "target.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EXIT_UNKNOWN = 2, EXIT_SKIP = 77 };

static bool is_host_backend(const char *backend) {
    return strcmp(backend, "cpu") == 0 || strcmp(backend, "ref") == 0;
}

static bool has_algo(const target *t) {
    for (size_t i = 0; dsconv_context_algo(t->contexts[0], i) != NULL; i++)
        if (t->algo == NULL || strcmp(dsconv_context_algo(t->contexts[0], i), t->algo) == 0)
            return true;
    return false;
}

int target_open(target *t, const char *backend, const char *algo) {
    *t = (target){.backend = backend, .algo = algo, .host = is_host_backend(backend)};
    for (int i = 0; i < TARGET_CONTEXTS; i++) {
        dsconv_context_params params = DSCONV_CONTEXT_PARAMS_INIT;
        params.backend = backend;
        params.threads = i + 1;
        const dsconv_status status = dsconv_context_create(&params, &t->contexts[i]);
        if (status != DSCONV_OK) {
            printf("%s\n", dsconv_last_message());
            target_close(t);
            return status == DSCONV_ERROR_UNAVAILABLE ? EXIT_SKIP : EXIT_UNKNOWN;
        }
    }
    if (has_algo(t))
        return -1;
    printf("%s has no algorithm '%s' here\n", backend, algo);
    target_close(t);
    return EXIT_SKIP;
}

void target_close(target *t) {
    for (int i = 0; i < TARGET_CONTEXTS; i++)
        dsconv_context_destroy(t->contexts[i]);
    *t = (target){0};
}

const char *target_algo(const target *t) {
    return t->algo != NULL ? t->algo : "auto";
}

int target_conclude(const target *t, long passed, long failed, long unsupported) {
    printf("%s/%s: %ld passed, %ld failed, %ld unsupported\n", t->backend, target_algo(t), passed,
           failed, unsupported);
    if (failed > 0)
        return EXIT_FAILURE;
    if (passed > 0)
        return EXIT_SUCCESS;
    printf("nothing ran: %s\n", dsconv_last_message());
    return EXIT_SKIP;
}
