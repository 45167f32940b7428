/*
 * Between planes (NCHW: a channel's pixels side by side) and pixels (NHWC: a pixel's channels side
 * by side, fp32), a square of VL x VL values at a time.
 */
#ifndef DSCONV_CPU_PLANES_H
#define DSCONV_CPU_PLANES_H

#include "epilogue.h"

/** Channels c0 ... c1-1 of `planes`, each `plane` elements from the last, to pixels of `pitch`
 *  floats. c0 is a multiple of VL; up to the next multiple behind c1 the pixels get zeros. */
typedef void planes_in_fn(const void *planes, dsconv_dtype dtype, int64_t plane, int64_t c0,
                          int64_t c1, int64_t pixels, float *to, int64_t pitch);
extern planes_in_fn dsconv_planes_in_avx512, dsconv_planes_in_avx2, dsconv_planes_in_portable;

/** The way back, rounded to e->dtype, with the residual added where e has one; its activation is
 *  left alone. pitch is a multiple of VL. */
typedef void planes_out_fn(const epilogue *e, const float *from, int64_t pitch, int64_t k0,
                           int64_t k1, int64_t pixels, const void *residual, int64_t residual_plane,
                           void *planes, int64_t plane);
extern planes_out_fn dsconv_planes_out_avx512, dsconv_planes_out_avx2, dsconv_planes_out_portable;

#endif
