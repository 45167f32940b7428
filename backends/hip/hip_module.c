/* The symbol that makes the backend a module. */
#include <dsconv/backend.h>

extern const dsconv_backend dsconv_backend_hip;

const dsconv_backend *dsconv_backend_entry(void);

__attribute__((visibility("default"))) const dsconv_backend *dsconv_backend_entry(void) {
    return &dsconv_backend_hip;
}
