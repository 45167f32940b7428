#include "problem.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TOKEN_SIZE = 160 };

static const char *const dtype_words[] = {"f32", "f16", "bf16", "i8", NULL};
static const char *const layout_words[] = {"nchw", "nhwc", NULL};
static const char *const math_words[] = {"strict", "tf32", NULL};
static const char *const bias_words[] = {"0", "dw", "pw", "both", NULL};
static const char *const residual_words[] = {"none", "before", "after", NULL};
static const char *const flag_words[] = {"0", "1", NULL};
static const char *const activation_words[] = {"none", "relu",      "relu6",       "leaky_relu",
                                               "silu", "hardswish", "hardsigmoid", "sigmoid",
                                               "gelu", "gelu_tanh", NULL};

/* A key fills `count` adjacent int64_t, or one 32-bit enum by its word, or an activation. */
typedef enum key_kind { NUMBERS, WORD, ACTIVATION } key_kind;

typedef struct problem_key {
    const char *name;
    key_kind kind;
    int count;
    size_t offset;
    const char *const *words;
    bool optional; /* printed only when not zero */
} problem_key;

#define FIELD(field) offsetof(dsconv_problem, field)

static const problem_key keys[] = {
    {"n", NUMBERS, 1, FIELD(n), NULL, false},
    {"c", NUMBERS, 1, FIELD(c), NULL, false},
    {"h", NUMBERS, 1, FIELD(h), NULL, false},
    {"w", NUMBERS, 1, FIELD(w), NULL, false},
    {"k", NUMBERS, 1, FIELD(k), NULL, false},
    {"r", NUMBERS, 1, FIELD(r), NULL, false},
    {"s", NUMBERS, 1, FIELD(s), NULL, false},
    {"stride", NUMBERS, 2, FIELD(stride_h), NULL, false},
    {"pad", NUMBERS, 4, FIELD(pad_top), NULL, false},
    {"dil", NUMBERS, 2, FIELD(dil_h), NULL, false},
    {"mult", NUMBERS, 1, FIELD(multiplier), NULL, false},
    {"dtype", WORD, 1, FIELD(dtype), dtype_words, false},
    {"layout", WORD, 1, FIELD(layout), layout_words, false},
    {"math", WORD, 1, FIELD(math), math_words, false},
    {"bias", WORD, 1, FIELD(bias), bias_words, false},
    {"mid", ACTIVATION, 1, FIELD(act_mid), activation_words, false},
    {"out", ACTIVATION, 1, FIELD(act_out), activation_words, false},
    {"res", WORD, 1, FIELD(residual), residual_words, false},
    {"midout", WORD, 1, FIELD(output_mid), flag_words, true},
    {"xstrides", NUMBERS, 4, FIELD(x_strides), NULL, true},
    {"ystrides", NUMBERS, 4, FIELD(y_strides), NULL, true},
    {"rstrides", NUMBERS, 4, FIELD(residual_strides), NULL, true},
};
enum { KEYS = sizeof keys / sizeof keys[0] };

typedef struct named_problem {
    const char *name, *text;
} named_problem;

static const named_problem names[] = {
    {"kernelbench86", "n=16,c=64,h=512,w=512,k=128,r=3,s=3,stride=1,pad=1,dil=1"},
};
enum { NAMES = sizeof names / sizeof names[0] };

__attribute__((format(printf, 2, 3))) static bool fail(char error[PROBLEM_ERROR_SIZE],
                                                       const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error, PROBLEM_ERROR_SIZE, format, arguments);
    va_end(arguments);
    return false;
}

/* Reads up to 4 numbers separated by `x` or `:`; gives how many, 0 when malformed. */
static int read_numbers(const char *text, int64_t values[4], char *separator) {
    int count = 0;
    *separator = '\0';
    while (count < 4) {
        char *end;
        errno = 0;
        values[count++] = strtoll(text, &end, 10);
        if (end == text || errno != 0)
            return 0;
        if (*end == '\0')
            return count;
        if ((*end != 'x' && *end != ':') || (*separator != '\0' && *separator != *end))
            return 0;
        *separator = *end;
        text = end + 1;
    }
    return 0;
}

static bool set_numbers(const problem_key *key, const char *value, int64_t *field) {
    int64_t v[4];
    char separator;
    const int count = read_numbers(value, v, &separator);
    if (count == 1 && !key->optional) {
        for (int i = 0; i < key->count; i++)
            field[i] = v[0];
        return true;
    }
    if (count == 2 && separator == 'x' && key->count == 2) {
        memcpy(field, v, 2 * sizeof *v);
        return true;
    }
    if (count == 2 && separator == 'x' && key->count == 4 && !key->optional) {
        field[0] = field[1] = v[0];
        field[2] = field[3] = v[1];
        return true;
    }
    if (count == 4 && separator == ':' && key->count == 4) {
        memcpy(field, v, 4 * sizeof *v);
        return true;
    }
    return false;
}

static bool find_word(const char *const *words, const char *text, size_t length, int32_t *index) {
    for (int32_t i = 0; words[i] != NULL; i++) {
        if (strlen(words[i]) == length && strncmp(words[i], text, length) == 0) {
            *index = i;
            return true;
        }
    }
    return false;
}

static bool set_activation(const problem_key *key, const char *value, dsconv_activation *field) {
    const size_t length = strcspn(value, ":");
    int32_t kind;
    if (!find_word(key->words, value, length, &kind))
        return false;
    *field = (dsconv_activation){(dsconv_activation_kind)kind, 0.0F};
    if (kind == DSCONV_ACT_LEAKY_RELU)
        field->alpha = 0.01F;
    if (value[length] == '\0')
        return true;
    char *end;
    field->alpha = strtof(value + length + 1, &end);
    return kind == DSCONV_ACT_LEAKY_RELU && end != value + length + 1 && *end == '\0';
}

static bool set_value(const problem_key *key, const char *value, dsconv_problem *problem) {
    char *field = (char *)problem + key->offset;
    int32_t index;
    switch (key->kind) {
    case NUMBERS:
        return set_numbers(key, value, (int64_t *)(void *)field);
    case ACTIVATION:
        return set_activation(key, value, (dsconv_activation *)(void *)field);
    case WORD:
        break;
    }
    if (!find_word(key->words, value, strlen(value), &index))
        return false;
    memcpy(field, &index, sizeof index);
    return true;
}

static void expected_values(const problem_key *key, char *text, size_t size) {
    static const char *const numbers[] = {"", "a number", "a number or HxW", "",
                                          "a number, HxW or top:bottom:left:right"};
    if (key->kind == NUMBERS) {
        snprintf(text, size, "%s", key->optional ? "N:C:H:W" : numbers[key->count]);
        return;
    }
    size_t length = 0;
    for (int i = 0; key->words[i] != NULL && length < size; i++)
        length +=
            (size_t)snprintf(text + length, size - length, i ? " %s" : "one of %s", key->words[i]);
}

static bool set_key(char *token, dsconv_problem *problem, bool *s_given,
                    char error[PROBLEM_ERROR_SIZE]) {
    char *value = strchr(token, '=');
    if (value == NULL)
        return fail(error, "'%.60s' is neither key=value nor a named problem", token);
    *value++ = '\0';
    for (int i = 0; i < KEYS; i++) {
        if (strcmp(keys[i].name, token) != 0)
            continue;
        if (!set_value(&keys[i], value, problem)) {
            char expected[120];
            expected_values(&keys[i], expected, sizeof expected);
            return fail(error, "%s=%.40s: expected %s", token, value, expected);
        }
        *s_given |= keys[i].offset == FIELD(s);
        if (keys[i].offset == FIELD(r) && !*s_given)
            problem->s = problem->r;
        return true;
    }
    return fail(error, "%.40s=%.40s: no such key", token, value);
}

static bool parse_keys(const char *text, dsconv_problem *problem, char error[PROBLEM_ERROR_SIZE]) {
    bool s_given = false;
    while (*text != '\0') {
        char token[TOKEN_SIZE];
        const size_t length = strcspn(text, ",");
        if (length >= sizeof token)
            return fail(error, "'%.60s...' is too long", text);
        memcpy(token, text, length);
        token[length] = '\0';
        if (!set_key(token, problem, &s_given, error))
            return false;
        text += length;
        if (*text == ',' && *++text == '\0')
            return fail(error, "a key is missing after the last comma");
    }
    return true;
}

bool problem_parse(const char *text, dsconv_problem *problem, char error[PROBLEM_ERROR_SIZE]) {
    *problem = (dsconv_problem)DSCONV_PROBLEM_INIT;
    problem->n = 16;
    problem->c = 64;
    problem->h = problem->w = 512;
    problem->k = 128;
    problem->pad_top = problem->pad_bottom = problem->pad_left = problem->pad_right = 1;
    for (int i = 0; i < NAMES; i++) {
        const size_t length = strlen(names[i].name);
        if (strncmp(text, names[i].name, length) == 0 && strchr(",", text[length]) != NULL) {
            if (!parse_keys(names[i].text, problem, error))
                return false;
            text += length + (text[length] == ',');
        }
    }
    return parse_keys(text, problem, error);
}

static int print_numbers(const problem_key *key, const int64_t *v, char *text, size_t size) {
    bool equal = true;
    for (int i = 1; i < key->count; i++)
        equal &= v[i] == v[0];
    if (equal && !key->optional)
        return snprintf(text, size, "%lld", (long long)v[0]);
    if (key->count == 2)
        return snprintf(text, size, "%lldx%lld", (long long)v[0], (long long)v[1]);
    return snprintf(text, size, "%lld:%lld:%lld:%lld", (long long)v[0], (long long)v[1],
                    (long long)v[2], (long long)v[3]);
}

/* The fewest digits that read back as the same float. */
static int print_leaky_relu(float alpha, char *text, size_t size) {
    char digits[32];
    for (int precision = 1; precision <= 9; precision++) {
        snprintf(digits, sizeof digits, "%.*g", precision, (double)alpha);
        if (strtof(digits, NULL) == alpha)
            break;
    }
    return snprintf(text, size, "leaky_relu:%s", digits);
}

static int print_value(const problem_key *key, const dsconv_problem *problem, char *text,
                       size_t size) {
    const char *field = (const char *)problem + key->offset;
    if (key->kind == NUMBERS)
        return print_numbers(key, (const int64_t *)(const void *)field, text, size);
    uint32_t index;
    memcpy(&index, field, sizeof index);
    uint32_t words = 0;
    while (key->words[words] != NULL)
        words++;
    if (index >= words)
        return snprintf(text, size, "?%u", index);
    const dsconv_activation *activation = (const dsconv_activation *)(const void *)field;
    if (key->kind == ACTIVATION && activation->kind == DSCONV_ACT_LEAKY_RELU)
        return print_leaky_relu(activation->alpha, text, size);
    return snprintf(text, size, "%s", key->words[index]);
}

static bool is_zero(const problem_key *key, const dsconv_problem *problem) {
    static const int64_t zeros[4];
    const size_t size = key->kind == NUMBERS ? sizeof(int64_t) * (size_t)key->count : 4;
    return memcmp((const char *)problem + key->offset, zeros, size) == 0;
}

void problem_print(const dsconv_problem *problem, char text[PROBLEM_TEXT_SIZE]) {
    size_t length = 0;
    for (int i = 0; i < KEYS; i++) {
        if (keys[i].optional && is_zero(&keys[i], problem))
            continue;
        const size_t space = PROBLEM_TEXT_SIZE - length;
        length += (size_t)snprintf(text + length, space, i ? ",%s=" : "%s=", keys[i].name);
        length += (size_t)print_value(&keys[i], problem, text + length, PROBLEM_TEXT_SIZE - length);
    }
}
