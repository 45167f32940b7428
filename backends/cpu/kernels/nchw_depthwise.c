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

/* Adds columns [begin, end) of the tile as a part; returns the scratch left. */
static float *add_part(nchw_depthwise *s, int64_t begin, int64_t end, bool direct, float *memory) {
    const dsconv_problem *p = &s->plan->shape.problem;
    const int64_t x = (s->tile->q + begin) * p->stride_w - p->pad_left;
    const int64_t count = (end - begin - 1) * p->stride_w + (p->s - 1) * p->dil_w + 1;
    nchw_part *part = &s->part[s->parts];
    if (begin >= end)
        return memory;
    *part = (nchw_part){
        .begin = begin,
        .end = end,
        .direct = direct,
        .x = x,
        .first = clamp(-x, 0, count),
        .last = clamp(p->w - x, 0, count),
    };
    for (int i = 0; i < 2; i++)
        part->slot[i] = (const float **)(void *)(s->row + (1 + 2 * s->parts + i) * s->plan->slots);
    s->parts++;
    if (direct)
        return memory;
    part->pitch = p->stride_w == 1 ? (count + 3 * VL - 1) / VL * VL : s->plan->slot_pitch;
    memset(memory, 0, (size_t)(2 * s->slots * part->pitch) * sizeof(float));
    for (int i = 0; i < 2; i++, memory += s->slots * part->pitch) {
        part->memory[i] = memory;
        for (int64_t slot = 0; slot < s->slots; slot++)
            part->slot[i][slot] = memory + slot * part->pitch;
    }
    return memory;
}

void CPU_NAME(nchw_depthwise_begin)(nchw_depthwise *s, const nchw_plan *plan, const nchw_tile *tile,
                                    void *scratch) {
    const dsconv_problem *p = &plan->shape.problem;
    *s = (nchw_depthwise){
        .plan = plan,
        .tile = tile,
        .row = scratch,
        .slots = (tile->rows - 1) * plan->step_p + (p->r - 1) * plan->step_r + 1,
        .loaded = {-1, -1},
        .rows = CPU_NAME(nchw_rows_for)(p),
        .call = {.step_p = plan->step_p,
                 .step_r = plan->step_r,
                 .tap = plan->tap,
                 .phase_pitch = plan->phase_pitch,
                 .overrun = tile->cols <= VL,
                 .pitch = tile->pitch},
    };
    s->call.clamp = epilogue_clamp(&plan->mid, &s->call.low, &s->call.high) &&
                    plan->mid.act.kind != DSCONV_ACT_NONE;
    for (int64_t i = 0; i < s->slots; i++)
        s->row[i] = row_offset(plan, tile, i);
    /* The columns whose taps are all inside the image, in whole vectors. */
    int64_t begin = 0, end = 0;
    if (p->dtype == DSCONV_F32 && p->x_strides[3] == 1 && p->stride_w == 1) {
        int64_t x = tile->q - p->pad_left;
        int64_t inside = p->w - (p->s - 1) * p->dil_w - x;
        begin = x < 0 ? (-x + VL - 1) / VL * VL : 0;
        end = begin + ((inside < tile->cols ? inside : tile->cols) - begin) / VL * VL;
    }
    float *memory = (float *)(void *)(s->row + 7 * plan->slots);
    if (end - begin < 4 * VL) {
        (void)add_part(s, 0, tile->cols, false, memory);
        return;
    }
    memory = add_part(s, 0, begin, false, memory);
    memory = add_part(s, begin, end, true, memory);
    (void)add_part(s, end, tile->cols, false, memory);
}

CPU_INLINE float load_one(const char *p, const dsconv_dtype type) {
    float lanes[VL];
    vf_store(lanes, vf_load_as(p, type, 1));
    return lanes[0];
}

/* What the slots of a part hold inside the image; the zeros around it are there already, and
 * vectors past its end write zeros again. */
CPU_INLINE void copy_rows(const nchw_depthwise *s, float *memory, const nchw_part *part,
                          const char *plane, const dsconv_dtype type) {
    const dsconv_problem *p = &s->plan->shape.problem;
    const int64_t size = (int64_t)dtype_size(type), stride = p->stride_w, step = p->x_strides[3];
    const int64_t phase_pitch = s->plan->phase_pitch, last = part->last;
    for (int64_t i = 0; i < s->slots; i++) {
        if (s->row[i] < 0 || last <= part->first)
            continue;
        const char *from = plane + (s->row[i] + (part->x + part->first) * step) * size;
        float *to = memory + i * part->pitch;
        int64_t at = part->first;
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

static void copy_part(const nchw_depthwise *s, int buffer, const nchw_part *part,
                      const char *plane) {
    float *memory = part->memory[buffer];
    switch (s->plan->shape.problem.dtype) {
    case DSCONV_F16:
        copy_rows(s, memory, part, plane, DSCONV_F16);
        break;
    case DSCONV_BF16:
        copy_rows(s, memory, part, plane, DSCONV_BF16);
        break;
    default:
        copy_rows(s, memory, part, plane, DSCONV_F32);
    }
}

static void point_part(const nchw_depthwise *s, int buffer, const nchw_part *part,
                       const char *plane) {
    const float *from = (const float *)(const void *)plane + part->x;
    for (int64_t i = 0; i < s->slots; i++)
        part->slot[buffer][i] = s->row[i] < 0 ? s->plan->zeros : from + s->row[i];
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
    for (int i = 0; i < s->parts; i++)
        if (s->part[i].direct)
            point_part(s, buffer, &s->part[i], plane);
        else
            copy_part(s, buffer, &s->part[i], plane);
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
    for (int i = 0; i < s->parts; i++) {
        const nchw_part *part = &s->part[i];
        a->slot = part->slot[channel % 2];
        a->d = d + part->begin;
        a->cols = part->end - part->begin;
        s->rows(a, p, s->tile->rows);
    }
}
