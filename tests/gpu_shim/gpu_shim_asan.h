/* What the address sanitizer must be told; nothing without it. */
#ifndef GPU_SHIM_ASAN_H
#define GPU_SHIM_ASAN_H

#include <stddef.h>

struct gpu_shim_stack {
    const void *bottom;
    size_t size;
};

#ifdef __SANITIZE_ADDRESS__

#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>

enum { GPU_SHIM_ASAN = 1 };

/* Before control goes to another stack; the result is for when it is back. */
inline void *gpu_shim_leave_stack(const gpu_shim_stack &to) {
    void *saved;
    __sanitizer_start_switch_fiber(&saved, to.bottom, to.size);
    return saved;
}

/* After control has come to this stack: *from is the one that it came from. */
inline void gpu_shim_enter_stack(void *saved, gpu_shim_stack *from) {
    __sanitizer_finish_switch_fiber(saved, &from->bottom, &from->size);
}

inline void gpu_shim_poison(const volatile void *from, size_t size) {
    __asan_poison_memory_region(from, size);
}

inline void gpu_shim_unpoison(const volatile void *from, size_t size) {
    __asan_unpoison_memory_region(from, size);
}

/* `text` is called after each report. */
inline void gpu_shim_on_report(void (*text)(const char *report)) {
    __asan_set_error_report_callback(text);
}

#else

enum { GPU_SHIM_ASAN = 0 };

inline void *gpu_shim_leave_stack(const gpu_shim_stack &) {
    return NULL;
}
inline void gpu_shim_enter_stack(void *, gpu_shim_stack *) {
}
inline void gpu_shim_poison(const volatile void *, size_t) {
}
inline void gpu_shim_unpoison(const volatile void *, size_t) {
}
inline void gpu_shim_on_report(void (*)(const char *)) {
}

#endif

#endif
