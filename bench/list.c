#include "list.h"

#include <stdio.h>

#include <dsconv/dsconv.h>

static const char *yes_no(int value) {
    return value ? "yes" : "no";
}

static void list_devices(const char *backend) {
    int32_t count = 1;
    for (int32_t i = 0; i < count; i++) {
        dsconv_device_info info = DSCONV_DEVICE_INFO_INIT;
        if (dsconv_device_query(backend, i, &info) != DSCONV_OK) {
            printf("  device %d: %s\n", i, dsconv_last_message());
            return;
        }
        count = info.device_count;
        printf("  device %d: %s, %s, %d units", i, info.name, info.arch, info.compute_units);
        if (info.memory_size > 0)
            printf(", %.1f GiB", (double)info.memory_size / 0x1p30);
        printf("\n");
    }
}

int list_backends(void) {
    for (size_t i = 0; i < dsconv_backend_count(); i++) {
        dsconv_backend_info info = DSCONV_BACKEND_INFO_INIT;
        if (dsconv_backend_query(i, &info) != DSCONV_OK) {
            fprintf(stderr, "dsconv-bench: %s\n", dsconv_last_message());
            return -1;
        }
        printf("%-8s built %-3s  found %-3s  usable %s%s%s\n", info.name, yes_no(info.built),
               yes_no(info.found), yes_no(info.usable), info.reason[0] ? ": " : "", info.reason);
        if (info.usable)
            list_devices(info.name);
    }
    return 0;
}
