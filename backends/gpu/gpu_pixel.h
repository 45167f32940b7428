/* Output pixels, numbered through the whole batch. */
#ifndef DSCONV_GPU_PIXEL_H
#define DSCONV_GPU_PIXEL_H

#include "gpu_conv.h"
#include "gpu_rt.h"

/* An output pixel by its number; those beyond the last one repeat it. */
struct gpu_pixel {
    int64_t n, p, q;

    __device__ gpu_pixel(const gpu_conv &a, int64_t number) {
        if (number >= a.pixels)
            number = a.pixels - 1;
        if (a.pixels <= INT32_MAX) { /* so are its factors; division is four times as fast */
            int row = (int)number / (int)a.q;
            q = (int)number % (int)a.q;
            n = row / (int)a.p;
            p = row % (int)a.p;
        } else {
            int64_t row = number / a.q;
            q = number % a.q;
            n = row / a.p;
            p = row % a.p;
        }
    }
};

#endif
