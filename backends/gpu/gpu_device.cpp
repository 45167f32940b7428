/* Devices, memory and errors. */
#include "gpu_internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

dsconv_status gpu_fail(dsconv_message *message, dsconv_status status, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(message->text, sizeof message->text, format, arguments);
    va_end(arguments);
    return status;
}

dsconv_status gpu_check(gpuError_t error, const char *what, dsconv_message *message) {
    if (error == gpuSuccess)
        return DSCONV_OK;
    (void)gpuGetLastError();
    return gpu_fail(message,
                    error == gpuErrorMemoryAllocation ? DSCONV_ERROR_OUT_OF_MEMORY
                                                      : DSCONV_ERROR_DEVICE,
                    "%s: %s (%s)", what, gpuGetErrorName(error), gpuGetErrorString(error));
}

static dsconv_status count_devices(int *count, dsconv_message *message) {
    int driver = 0;
    *count = 0;
    if (gpuDriverGetVersion(&driver) != gpuSuccess || driver == 0) {
        (void)gpuGetLastError();
        return gpu_fail(message, DSCONV_ERROR_UNAVAILABLE, "no %s on this machine",
                        gpu_driver_name);
    }
    gpuError_t error = gpuGetDeviceCount(count);
    (void)gpuGetLastError();
    if (error == gpuErrorInsufficientDriver)
        return gpu_fail(message, DSCONV_ERROR_UNAVAILABLE,
                        "the %s, version %d, is too old for this module", gpu_driver_name, driver);
    if (error == gpuErrorNoDevice || (error == gpuSuccess && *count == 0))
        return gpu_fail(message, DSCONV_ERROR_UNAVAILABLE, "the driver sees no device");
    if (error != gpuSuccess)
        return gpu_fail(message, DSCONV_ERROR_UNAVAILABLE, "counting devices: %s (%s)",
                        gpuGetErrorName(error), gpuGetErrorString(error));
    return DSCONV_OK;
}

dsconv_status gpu_probe(int32_t device, dsconv_device_info *info, dsconv_message *message) {
    int count;
    gpuDeviceProp properties;
    dsconv_status status = count_devices(&count, message);
    if (status)
        return status;
    if (device < 0 || device >= count)
        return gpu_fail(message, DSCONV_ERROR_INVALID_ARGUMENT, "device %d: %s has devices 0 to %d",
                        (int)device, gpu_backend_name, count - 1);
    status = gpu_check(gpuGetDeviceProperties(&properties, device), "device properties", message);
    if (status)
        return status;
    (void)snprintf(info->name, sizeof info->name, "%.127s", properties.name);
    info->device_count = count;
    info->compute_units = properties.multiProcessorCount;
    info->memory_size = properties.totalGlobalMem;
    if (!gpu_describe_arch(&properties, info->arch, sizeof info->arch))
        return gpu_fail(message, DSCONV_ERROR_UNAVAILABLE,
                        "this module has no code for device %d, %s (%s)", (int)device, info->name,
                        info->arch);
    return DSCONV_OK;
}

dsconv_status gpu_open(int32_t device, int32_t threads, void **handle, dsconv_message *message) {
    (void)threads;
    gpuDeviceProp properties;
    dsconv_status status =
        gpu_check(gpuGetDeviceProperties(&properties, device), "device properties", message);
    if (status)
        return status;
    gpu_context *context = (gpu_context *)calloc(1, sizeof *context);
    if (!context)
        return gpu_fail(message, DSCONV_ERROR_OUT_OF_MEMORY, "out of host memory");
    context->device = device;
    context->compute_units = properties.multiProcessorCount;
    context->capability = 10 * properties.major + properties.minor;
    status = gpu_check(gpu_attach(context), "opening the device", message);
    if (status)
        free(context);
    else
        *handle = context;
    return status;
}

void gpu_close(void *handle) {
    gpu_detach((gpu_context *)handle);
    free(handle);
}

dsconv_status gpu_alloc(void *handle, size_t size, void **pointer, dsconv_message *message) {
    const gpu_context *context = (const gpu_context *)handle;
    int previous;
    gpuError_t error = gpu_enter(context, &previous);
    if (error == gpuSuccess) {
        error = gpuMalloc(pointer, size);
        gpu_leave(context, previous);
    }
    return gpu_check(error, "allocating device memory", message);
}

void gpu_release(void *handle, void *pointer) {
    const gpu_context *context = (const gpu_context *)handle;
    int previous;
    if (gpu_enter(context, &previous) == gpuSuccess) {
        if (gpuFree(pointer) != gpuSuccess) /* such as a driver that has shut down */
            (void)gpuGetLastError();
        gpu_leave(context, previous);
    }
}

dsconv_status gpu_copy(void *handle, void *destination, const void *source, size_t size,
                       dsconv_copy_kind kind, void *stream, dsconv_message *message) {
    static const gpuMemcpyKind kinds[] = {gpuMemcpyHostToDevice, gpuMemcpyDeviceToHost,
                                          gpuMemcpyDeviceToDevice};
    const gpu_context *context = (const gpu_context *)handle;
    int previous;
    gpuError_t error = gpu_enter(context, &previous);
    if (error == gpuSuccess) {
        error = gpuMemcpyAsync(destination, source, size, kinds[kind], (gpuStream_t)stream);
        if (error == gpuSuccess && kind != DSCONV_DEVICE_TO_DEVICE)
            error = gpuStreamSynchronize((gpuStream_t)stream);
        gpu_leave(context, previous);
    }
    return gpu_check(error, "copying", message);
}

dsconv_status gpu_sync(void *handle, void *stream, dsconv_message *message) {
    const gpu_context *context = (const gpu_context *)handle;
    int previous;
    gpuError_t error = gpu_enter(context, &previous);
    if (error == gpuSuccess) {
        error = gpuStreamSynchronize((gpuStream_t)stream);
        gpu_leave(context, previous);
    }
    return gpu_check(error, "synchronizing", message);
}
