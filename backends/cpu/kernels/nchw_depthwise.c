#include "nchw_depthwise.h"

static int64_t clamp(int64_t v, int64_t low, int64_t high) {
    return v < low ? low : v > high ? high : v;
}

/* Element offset of the input row that a slot stands for, -1 outside the image. */
static int64_t row_offset(const nchw_plan *plan, const nchw_tile *tile, int64_t slot) {
    const dsconv_problem *p = &plan->shape.problem;
    int64_t y = tile->p * p->stride_h - p->pad_top;
    if (plan->together)
        y += slot;
    else
        y += slot / plan->step_r * p->dil_h + slot % plan->step_r * p->stride_h;
    return y < 0 || y >= p->h ? -1 : y * p->x_strides[2];
}

void CPU_NAME(nchw_depthwise_begin)(nchw_depthwise *s, const nchw_plan *plan, const nchw_tile *tile,
                                    void *scratch) {
    const dsconv_problem *p = &plan->shape.problem;
    const int64_t x = tile->q * p->stride_w - p->pad_left;
    const int64_t count = (tile->cols - 1) * p->stride_w + (p->s - 1) * p->dil_w + 1;
    *s = (nchw_depthwise){
        .plan = plan,
        .tile = tile,
        .row = scratch,
        .slots = (tile->rows - 1) * plan->step_p + (p->r - 1) * plan->step_r + 1,
        .x = x,
        .first = clamp(-x, 0, count),
        .last = clamp(p->w - x, 0, count),
        .loaded = {-1, -1},
        .call = {.step_p = plan->step_p,
                 .step_r = plan->step_r,
                 .tap = plan->tap,
                 .overrun = tile->cols <= VL,
                 .pitch = tile->pitch,
                 .cols = tile->cols},
    };
    s->rows = CPU_NAME(nchw_rows_for)(p, &s->phases);
    s->direct = p->dtype == DSCONV_F32 && p->x_strides[3] == 1 && !s->phases;
    s->call.x = s->direct ? x : 0;
    s->call.width = s->direct ? p->w : plan->slot_pitch;
    s->call.clamp = epilogue_clamp(&plan->mid, &s->call.low, &s->call.high) &&
                    plan->mid.act.kind != DSCONV_ACT_NONE;
    for (int64_t i = 0; i < s->slots; i++)
        s->row[i] = row_offset(plan, tile, i);
    for (int i = 0; i < 2; i++) {
        s->slot[i] = (const float **)(void *)(s->row + (1 + i) * plan->slots);
        s->memory[i] =
            (float *)(void *)(s->row + 3 * plan->slots) + i * plan->slots * plan->slot_pitch;
        for (int64_t slot = 0; slot < s->slots && !s->direct; slot++)
            s->slot[i][slot] = s->memory[i] + slot * plan->slot_pitch;
        if (!s->direct)
            memset(s->memory[i], 0, (size_t)(s->slots * plan->slot_pitch) * sizeof(float));
    }
}

CPU_INLINE float load_one(const char *p, const dsconv_dtype type) {
    float lanes[VL];
    vf_store(lanes, vf_load_as(p, type, 1));
    return lanes[0];
}

/* What the slots hold inside the image; the zeros around it are there already, and
 * vectors past its end write zeros again. */
CPU_INLINE void copy_rows(const nchw_depthwise *s, float *memory, const char *plane,
                          const dsconv_dtype type) {
    const dsconv_problem *p = &s->plan->shape.problem;
    const int64_t size = (int64_t)dtype_size(type), step = p->x_strides[3];
    const int64_t stride = s->phases ? p->stride_w : 1;
    const int64_t phase_pitch = s->plan->phase_pitch, last = s->last;
    for (int64_t i = 0; i < s->slots; i++) {
        if (s->row[i] < 0 || last <= s->first)
            continue;
        const char *from = plane + (s->row[i] + (s->x + s->first) * step) * size;
        float *to = memory + i * s->plan->slot_pitch;
        int64_t at = s->first;
        if (step == 1 && stride == 1) {
            for (; at < last; at += VL, from += VL * size)
                vf_store(to + at, vf_load_as(from, type, last - at));
            continue;
        }
        if (step == 1 && stride == 2) {
            if (at % 2) {
                to[phase_pitch + at / 2] = load_one(from, type);
                at++;
                from += size;
            }
            for (; at < last; at += 2 * VL, from += 2 * VL * size) {
                vf even, odd;
                vf_split(vf_load_as(from, type, last - at),
                         vf_load_as(from + VL * size, type, last - at - VL), &even, &odd);
                vf_store(to + at / 2, even);
                vf_store(to + phase_pitch + at / 2, odd);
            }
            continue;
        }
        for (; at < last; at++, from += step * size)
            to[at % stride * phase_pitch + at / stride] = load_one(from, type);
    }
}

static void copy(const nchw_depthwise *s, float *memory, const char *plane) {
    switch (s->plan->shape.problem.dtype) {
    case DSCONV_F16:
        copy_rows(s, memory, plane, DSCONV_F16);
        break;
    case DSCONV_BF16:
        copy_rows(s, memory, plane, DSCONV_BF16);
        break;
    default:
        copy_rows(s, memory, plane, DSCONV_F32);
    }
}

static const char *plane_of(const nchw_depthwise *s, const void *x, int64_t channel) {
    const dsconv_problem *p = &s->plan->shape.problem;
    const int64_t offset = s->tile->n * p->x_strides[0] + channel * p->x_strides[1];
    return (const char *)x + offset * (int64_t)dtype_size(p->dtype);
}

void CPU_NAME(nchw_depthwise_load)(nchw_depthwise *s, const void *x, int64_t channel) {
    const char *plane = plane_of(s, x, channel);
    const int buffer = (int)(channel % 2);
    if (s->loaded[buffer] == channel)
        return;
    s->loaded[buffer] = channel;
    if (!s->direct) {
        copy(s, s->memory[buffer], plane);
        return;
    }
    const float *from = (const float *)(const void *)plane + s->x;
    for (int64_t i = 0; i < s->slots; i++)
        s->slot[buffer][i] = s->row[i] < 0 ? s->plan->zeros : from + s->row[i];
}

/* Tap by tap with bounds checks: a zero outside the image must not meet an Inf or NaN weight. */
static void checked(const nchw_depthwise *s, const char *plane, nchw_rows a) {
    const nchw_tile *tile = s->tile;
    const dsconv_problem *p = &s->plan->shape.problem;
    const int64_t size = (int64_t)dtype_size(p->dtype);
    for (int64_t row = 0; row < tile->rows; row++, a.d += a.pitch)
        for (int64_t q = 0; q < tile->cols; q++) {
            vf sum = vf_set1(a.bias);
            for (int64_t r = 0; r < p->r; r++)
                for (int64_t c = 0; c < p->s; c++) {
                    int64_t y = (tile->p + row) * p->stride_h + r * p->dil_h - p->pad_top;
                    int64_t x = (tile->q + q) * p->stride_w + c * p->dil_w - p->pad_left;
                    if (y < 0 || y >= p->h || x < 0 || x >= p->w)
                        continue;
                    const char *at = plane + (y * p->x_strides[2] + x * p->x_strides[3]) * size;
                    sum = vf_fma(vf_load_as(at, p->dtype, 1), vf_set1(a.w[r * p->s + c]), sum);
                }
            if (a.clamp)
                sum = vf_min(vf_set1(a.high), vf_max(vf_set1(a.low), sum));
            vf_store_n(a.d + q, sum, 1);
        }
}

void CPU_NAME(nchw_depthwise_channel)(nchw_depthwise *s, const void *x, int64_t j, float *d) {
    const nchw_plan *plan = s->plan;
    const dsconv_problem *p = &plan->shape.problem;
    const int64_t channel = j / p->multiplier;
    nchw_rows *a = &s->call;
    a->w = plan->w_dw + j * p->r * p->s;
    a->bias = plan->bias_dw[j];
    a->d = d;
    if (plan->non_finite[j]) {
        checked(s, plane_of(s, x, channel), *a);
        return;
    }
    a->slot = s->slot[channel % 2];
    s->rows(a, p, s->tile->rows);
}
