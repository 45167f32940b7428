/* Threads as fibers, and who waits for whom. */
#include "gpu_shim_block.h"

#include <boost/context/fiber.hpp>
#include <boost/context/protected_fixedsize_stack.hpp>

#include <cxxabi.h>
#include <dlfcn.h>
#include <mutex>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu_shim_asan.h"

gpu_shim_position gpu_shim_at;

namespace {

namespace context = boost::context;

enum { MAX_WAVES = GPU_SHIM_MAX_THREADS / GPU_SHIM_WAVE };
enum { STACK_SIZE = GPU_SHIM_ASAN ? 256 << 10 : 64 << 10 };

enum state { READY, AT_BLOCK, AT_WAVE, ENDED };

struct thread {
    context::fiber fiber; /* goes from block to block, from launch to launch */
    gpu_shim_stack stack;
    state now;
    gpu_shim_operation at; /* what it waits for */
    unsigned exchanges;
};

/* Thrown in threads that are given up. */
struct abandoned {};

/* Never destroyed: a fiber that were would be unwound. */
thread *const threads = new thread[GPU_SHIM_MAX_THREADS];
std::mutex *const lock = new std::mutex;

/* By wave; in turn, as lanes may still read what was exchanged before. */
char exchanged[MAX_WAVES][2][GPU_SHIM_WAVE * GPU_SHIM_EXCHANGE_SIZE];

gpu_shim_task task; /* the running one */
char failure[1024];
bool failed;
context::fiber scheduler;
gpu_shim_stack scheduler_stack;

/* ---- in a thread ---- */

void yield() {
    void *saved = gpu_shim_leave_stack(scheduler_stack);
    scheduler = std::move(scheduler).resume();
    gpu_shim_enter_stack(saved, &scheduler_stack);
}

void wait(state now, const gpu_shim_operation &operation) {
    thread &self = threads[gpu_shim_at.thread.x];
    self.now = now;
    self.at = operation;
    yield();
    if (failed)
        throw abandoned();
}

context::fiber thread_main(context::fiber &&from) {
    scheduler = std::move(from);
    gpu_shim_enter_stack(NULL, &scheduler_stack);
    for (;;) {
        try {
            if (!failed)
                task.thread(task.data);
        } catch (const abandoned &) {
        }
        threads[gpu_shim_at.thread.x].now = ENDED;
        yield();
    }
}

/* ---- the scheduler ---- */

void start_fiber(thread *t) {
    context::protected_fixedsize_stack allocator(STACK_SIZE);
    const context::stack_context stack = allocator.allocate();
    t->stack = {(const char *)stack.sp - stack.size, stack.size};
    t->fiber =
        context::fiber(std::allocator_arg, context::preallocated(stack.sp, stack.size, stack),
                       allocator, thread_main);
}

void resume(int index) {
    thread &t = threads[index];
    gpu_shim_stack from;
    gpu_shim_at.thread.x = (unsigned)index;
    void *saved = gpu_shim_leave_stack(t.stack);
    t.fiber = std::move(t.fiber).resume();
    gpu_shim_enter_stack(saved, &from);
    gpu_shim_shared_check();
}

void name_kernel(char *name, size_t size) {
    Dl_info info;
    if (!dladdr(task.kernel, &info))
        (void)snprintf(name, size, "at %p", task.kernel);
    else if (!info.dli_sname || info.dli_saddr != task.kernel)
        (void)snprintf(name, size, "at %s+0x%zx", info.dli_fname,
                       (size_t)((const char *)task.kernel - (const char *)info.dli_fbase));
    else {
        char *readable = abi::__cxa_demangle(info.dli_sname, NULL, NULL, NULL);
        (void)snprintf(name, size, "%s", readable ? readable : info.dli_sname);
        free(readable);
    }
}

void where(int index, char *text, size_t size) {
    const thread &t = threads[index];
    if (t.now == ENDED)
        (void)snprintf(text, size, "thread %d has ended", index);
    else
        (void)snprintf(text, size, "thread %d is at %s (%s:%d)", index, t.at.name, t.at.site.file,
                       t.at.site.line);
}

/* Whether two threads that cannot go on by themselves wait for the same. */
bool together(const thread &a, const thread &b) {
    return a.now == b.now && (a.now == ENDED || (a.at.site.line == b.at.site.line &&
                                                 strcmp(a.at.site.file, b.at.site.file) == 0));
}

/* Whether threads first to end - 1 do; a failure if not. */
bool all_together(int first, int end) {
    for (int i = first + 1; i < end; i++)
        if (!together(threads[first], threads[i])) {
            char one[256], other[256];
            where(first, one, sizeof one);
            where(i, other, sizeof other);
            gpu_shim_at.thread.x = (unsigned)i;
            gpu_shim_fail("threads part: %s, %s", one, other);
            return false;
        }
    return true;
}

void release(int first, int end) {
    for (int i = first; i < end; i++)
        threads[i].now = READY;
}

/* Goes on until the lanes have ended or wait for their block. Several orders are right. */
void run_wave(int first, int end, bool down) {
    for (;;) {
        for (int i = first; i < end && !failed; i++)
            resume(down ? end - 1 - (i - first) : i);
        bool waits = false;
        for (int i = first; i < end; i++)
            waits |= threads[i].now == AT_WAVE;
        if (failed || !waits || !all_together(first, end))
            return;
        release(first, end);
    }
}

void run_block(bool down) {
    const int count = task.threads, waves = (count - 1) / GPU_SHIM_WAVE + 1;
    release(0, count);
    gpu_shim_shared_begin_block();
    do {
        release(0, count);
        for (int i = 0; i < waves && !failed; i++) {
            const int first = (down ? waves - 1 - i : i) * GPU_SHIM_WAVE;
            run_wave(first, first + GPU_SHIM_WAVE < count ? first + GPU_SHIM_WAVE : count, down);
        }
    } while (!failed && all_together(0, count) && threads[0].now != ENDED);
    for (int i = 0; failed && i < count; i++)
        if (threads[i].now != ENDED)
            resume(i);
    gpu_shim_shared_end_block();
}

} // namespace

void gpu_shim_describe(char *text, size_t size) {
    char name[400];
    name_kernel(name, sizeof name);
    const int64_t block = (int64_t)gpu_shim_at.block.y * gpu_shim_at.blocks.x + gpu_shim_at.block.x;
    (void)snprintf(text, size, "kernel %s, block %lld, thread %u", name, (long long)block,
                   gpu_shim_at.thread.x);
}

const char *gpu_shim_failure() {
    return failure;
}

void gpu_shim_fail(const char *format, ...) {
    if (failed)
        return;
    failed = true;
    gpu_shim_describe(failure, sizeof failure);
    const size_t length = strlen(failure);
    va_list arguments;
    va_start(arguments, format);
    (void)snprintf(failure + length, sizeof failure - length, ": ");
    (void)vsnprintf(failure + length + 2, sizeof failure - length - 2, format, arguments);
    va_end(arguments);
}

void gpu_shim_abandon() {
    throw abandoned();
}

void gpu_shim_wait_block(const gpu_shim_operation &operation) {
    wait(AT_BLOCK, operation);
}

const void *gpu_shim_exchange(const void *mine, size_t size, const gpu_shim_operation &operation) {
    thread &self = threads[gpu_shim_at.thread.x];
    if (size > GPU_SHIM_EXCHANGE_SIZE) {
        gpu_shim_fail("%s exchanges %zu bytes", operation.name, size);
        gpu_shim_abandon();
    }
    char *all = exchanged[gpu_shim_at.thread.x / GPU_SHIM_WAVE][self.exchanges++ % 2];
    memcpy(all + (size_t)gpu_shim_lane() * size, mine, size);
    wait(AT_WAVE, operation);
    return all;
}

bool gpu_shim_launch(const gpu_shim_task &what) {
    const std::lock_guard<std::mutex> guard(*lock);
    static bool down;
    task = what;
    failed = false;
    gpu_shim_at = {{0, 0, 0}, {0, 0, 0}, {(unsigned)task.threads, 1, 1}, task.grid};
    const gpu_shim_index grid = task.grid;
    if (task.threads < 1 || task.threads > GPU_SHIM_MAX_THREADS || grid.x < 1 || grid.y < 1 ||
        grid.y > GPU_SHIM_MAX_ROWS || grid.z != 1 ||
        (int64_t)grid.x * task.threads > GPU_MAX_THREADS) {
        gpu_shim_fail("%u x %u x %u blocks of %d threads", grid.x, grid.y, grid.z, task.threads);
        return false;
    }
    gpu_shim_shared_enter();
    for (int i = 0; i < task.threads; i++) {
        if (!threads[i].fiber)
            start_fiber(&threads[i]);
        threads[i].exchanges = 0;
    }
    const int64_t blocks = (int64_t)grid.x * grid.y;
    for (int64_t block = 0; block < blocks && !failed; block++) {
        gpu_shim_at.block = {(unsigned)(block % grid.x), (unsigned)(block / grid.x), 0};
        run_block(down = !down);
    }
    gpu_shim_shared_leave();
    return !failed;
}
