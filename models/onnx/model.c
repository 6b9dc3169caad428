#include "models/onnx/model.h"

#include "core/plain.h"
#include "models/onnx/operators.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

// 2^50 bytes: far above any machine, far below where sums over tensors overflow.
static const int64_t TENSOR_BYTES_MOST = INT64_C(1) << 50;

int element_bytes(enum onnx_element element)
{
    switch (element) {
    case ELEMENT_UINT8:
    case ELEMENT_INT8:
    case ELEMENT_BOOL:
        return 1;
    case ELEMENT_UINT16:
    case ELEMENT_INT16:
    case ELEMENT_FLOAT16:
    case ELEMENT_BFLOAT16:
        return 2;
    case ELEMENT_FLOAT:
    case ELEMENT_INT32:
    case ELEMENT_UINT32:
        return 4;
    case ELEMENT_INT64:
    case ELEMENT_UINT64:
    case ELEMENT_DOUBLE:
        return 8;
    }
    return 0;
}

bool element_is_float(enum onnx_element element)
{
    return element == ELEMENT_FLOAT || element == ELEMENT_FLOAT16 || element == ELEMENT_DOUBLE ||
           element == ELEMENT_BFLOAT16;
}

const char *printable(struct arena *arena, const char *name)
{
    char *copy = arena_copy(arena, name);
    for (char *at = copy; *at; at++) {
        if (*at < 0x20 || *at > 0x7e) *at = '?';
        if (at - copy == TEXT_BYTES_MAX) *at = '\0';
    }
    return copy;
}

bool call_fail(const struct onnx_model *model, const struct onnx_call *call, const char *format,
               ...)
{
    va_list args;
    va_start(args, format);
    const char *text = arena_vprint(model->arena, format, args);
    va_end(args);
    return err_set(model->err, ERR_INPUT, "%s: node %.200s (%.60s): %s", model->path, call->name,
                   printable(model->arena, call->type), text);
}

static const Onnx__AttributeProto *attribute_find(const struct onnx_call *call, const char *name)
{
    for (size_t i = 0; i < call->proto->n_attribute; i++) {
        const Onnx__AttributeProto *attribute = call->proto->attribute[i];
        if (attribute->name && strcmp(attribute->name, name) == 0) return attribute;
    }
    return NULL;
}

bool attribute_has(const struct onnx_call *call, const char *name)
{
    return attribute_find(call, name) != NULL;
}

int64_t attribute_int(const struct onnx_call *call, const char *name, int64_t fallback)
{
    const Onnx__AttributeProto *attribute = attribute_find(call, name);
    return attribute && attribute->has_i ? attribute->i : fallback;
}

double attribute_float(const struct onnx_call *call, const char *name, double fallback)
{
    const Onnx__AttributeProto *attribute = attribute_find(call, name);
    return attribute && attribute->has_f ? (double)attribute->f : fallback;
}

bool attribute_is(const struct onnx_call *call, const char *name, const char *text)
{
    const Onnx__AttributeProto *attribute = attribute_find(call, name);
    return attribute && attribute->has_s && attribute->s.len == strlen(text) &&
           memcmp(attribute->s.data, text, attribute->s.len) == 0;
}

const Onnx__TensorProto *attribute_tensor(const struct onnx_call *call, const char *name)
{
    const Onnx__AttributeProto *attribute = attribute_find(call, name);
    return attribute ? attribute->t : NULL;
}

const int64_t *attribute_ints(const struct onnx_call *call, const char *name, int *count)
{
    const Onnx__AttributeProto *attribute = attribute_find(call, name);
    *count = attribute ? (int)attribute->n_ints : 0;
    return *count ? attribute->ints : NULL;
}

const struct onnx_value *call_input(const struct onnx_model *model, const struct onnx_call *call,
                                    int i)
{
    return i >= 0 && i < call->input_count && call->inputs[i] >= 0 ? &model->values[call->inputs[i]]
                                                                   : NULL;
}

bool call_reads(const struct onnx_call *call, int i)
{
    return i < call->input_count && call->inputs[i] >= 0 &&
           !(i < 32 && (call->row->values >> i & 1) != 0);
}

// INT64_MAX stands for "to the end" in slices, which as a double is one too many.
static int64_t to_int(double number)
{
    if (!(number > -0x1p62)) return -(INT64_C(1) << 62);
    if (number > 0x1p62) return INT64_C(1) << 62;
    return (int64_t)number;
}

bool call_ints(const struct onnx_model *model, const struct onnx_call *call, const char *name,
               int input, const int64_t **ints, int *count)
{
    *ints = NULL;
    *count = -1;
    if (attribute_has(call, name)) {
        *ints = attribute_ints(call, name, count);
        return true;
    }
    const struct onnx_value *value = call_input(model, call, input);
    if (!value) return true;
    if (!value->numbers) {
        return call_fail(model, call, "the values of input %s are needed and are no small constant",
                         value->name);
    }
    *count = (int)value->elements;
    int64_t *copy = ARENA_NEW(model->arena, int64_t, *count);
    for (int i = 0; i < *count; i++)
        copy[i] = to_int(value->numbers[i]);
    *ints = copy;
    return true;
}

bool element_fits(enum onnx_element element, int rank, const int64_t *dims)
{
    int64_t limit = 1, bytes = element_bytes(element);
    for (int i = 0; i < rank; i++) {
        int64_t factor = dims[i] ? dims[i] : 1;
        assert(dims[i] >= 0);
        if (__builtin_mul_overflow(limit, factor, &limit) || limit > TENSOR_BYTES_MOST)
            return false;
    }
    return bytes == 0 || limit <= TENSOR_BYTES_MOST / bytes;
}

bool value_set(const struct onnx_model *model, struct onnx_value *value, const char *place,
               enum onnx_element element, int rank, const int64_t *dims)
{
    if (!element_bytes(element)) {
        return err_set(model->err, ERR_INPUT,
                       "%s: %.400s: %s has element type %d, which has no "
                       "size in whole bytes",
                       model->path, place, value->name, (int)element);
    }
    if (rank > RANK_MOST) {
        return err_set(model->err, ERR_INPUT,
                       "%s: %.400s: %s has %d dimensions, at most %d are "
                       "wanted",
                       model->path, place, value->name, rank, RANK_MOST);
    }
    int64_t *copy = ARENA_NEW(model->arena, int64_t, rank), elements = 1;
    for (int i = 0; i < rank; i++) {
        copy[i] = dims[i];
        if (dims[i] < 0) {
            return err_set(model->err, ERR_INPUT, "%s: %.400s: dimension %d of %s is %" PRId64,
                           model->path, place, i, value->name, dims[i]);
        }
    }
    if (!element_fits(element, rank, dims))
        return err_set(model->err, ERR_INPUT, "%s: %.400s: %s has more than 2^50 bytes",
                       model->path, place, value->name);
    for (int i = 0; i < rank; i++)
        elements *= dims[i];
    value->element = element;
    value->rank = rank;
    value->dims = copy;
    value->elements = elements;
    value->is_known = true;
    return true;
}

bool set_output(const struct onnx_model *model, const struct onnx_call *call, int output,
                enum onnx_element element, int rank, const int64_t *dims)
{
    if (output >= call->output_count || call->outputs[output] < 0) return true;
    const char *place = arena_print(model->arena, "node %.200s (%.60s)", call->name, call->type);
    return value_set(model, &model->values[call->outputs[output]], place, element, rank, dims);
}

double half_number(uint16_t bits, enum onnx_element element)
{
    union {
        uint32_t bits;
        float number;
    } wide = {(uint32_t)bits << 16};
    if (element == ELEMENT_BFLOAT16) return (double)wide.number;
    enum { FRACTION = 10, BIAS = 15, EXPONENTS = 31, ONE = 1 << FRACTION };
    int exponent = bits >> FRACTION & EXPONENTS, fraction = bits & (ONE - 1);
    double number = exponent == EXPONENTS ? (fraction ? nan("") : HUGE_VAL)
                    : exponent            ? ldexp(ONE + fraction, exponent - BIAS - FRACTION)
                                          : ldexp(fraction, 1 - BIAS - FRACTION);
    return bits >> 15 ? -number : number;
}

uint16_t half_bits(double number, enum onnx_element element)
{
    enum { FRACTION = 10, BIAS = 15, ONE = 1 << FRACTION, INFINITE = 0x7c00, NONE = 0x7e00 };
    union {
        float number;
        uint32_t bits;
    } wide = {(float)number};
    if (element == ELEMENT_BFLOAT16) {
        if (isnan(number)) return 0x7fc0;
        // To the nearest, of two the even one.
        return (uint16_t)((wide.bits + 0x7fff + (wide.bits >> 16 & 1)) >> 16);
    }
    int sign = signbit(number) ? 1 << 15 : 0, exponent = 0;
    if (isnan(number)) return NONE;
    if (fabs(number) >= 65520) return (uint16_t)(sign | INFINITE);
    (void)frexp(number, &exponent);
    exponent = exponent - 1 < 1 - BIAS ? 1 - BIAS : exponent - 1;
    int units = (int)nearbyint(ldexp(fabs(number), FRACTION - exponent));
    int bits = units < ONE ? units : ((exponent + BIAS) << FRACTION) + units - ONE;
    return (uint16_t)(sign | bits);
}

static bool is_half(enum onnx_element element)
{
    return element == ELEMENT_FLOAT16 || element == ELEMENT_BFLOAT16;
}

static double raw_number(const uint8_t *bytes, enum onnx_element element)
{
    union {
        float f;
        double d;
        int8_t i8;
        int16_t i16;
        uint16_t u16;
        int32_t i32;
        uint32_t u32;
        int64_t i64;
        uint64_t u64;
    } raw = {0};
    memcpy(&raw, bytes, (size_t)element_bytes(element));
    switch (element) {
    case ELEMENT_FLOAT:
        return (double)raw.f;
    case ELEMENT_DOUBLE:
        return raw.d;
    case ELEMENT_INT8:
        return raw.i8;
    case ELEMENT_INT16:
        return raw.i16;
    case ELEMENT_UINT16:
        return raw.u16;
    case ELEMENT_FLOAT16:
    case ELEMENT_BFLOAT16:
        return half_number(raw.u16, element);
    case ELEMENT_INT32:
        return raw.i32;
    case ELEMENT_UINT32:
        return raw.u32;
    case ELEMENT_INT64:
        return (double)raw.i64;
    case ELEMENT_UINT64:
        return (double)raw.u64;
    default:
        return bytes[0];
    }
}

// The list that holds an element type's numbers where they are not raw; its length, or 0.
static int64_t typed_count(const Onnx__TensorProto *tensor, enum onnx_element element)
{
    if (element == ELEMENT_FLOAT) return (int64_t)tensor->n_float_data;
    if (element == ELEMENT_DOUBLE) return (int64_t)tensor->n_double_data;
    if (element == ELEMENT_INT64) return (int64_t)tensor->n_int64_data;
    return (int64_t)tensor->n_int32_data;
}

static double typed_number(const Onnx__TensorProto *tensor, enum onnx_element element, int64_t i)
{
    if (element == ELEMENT_FLOAT) return (double)tensor->float_data[i];
    if (element == ELEMENT_DOUBLE) return tensor->double_data[i];
    if (element == ELEMENT_INT64) return (double)tensor->int64_data[i];
    if (is_half(element)) return half_number((uint16_t)tensor->int32_data[i], element);
    return tensor->int32_data[i];
}

static bool is_followed(const struct onnx_value *value)
{
    bool is_float = element_is_float(value->element);
    return value->elements <= (is_float ? FLOAT_NUMBERS_MOST : NUMBERS_MOST);
}

bool value_set_tensor(const struct onnx_model *model, struct onnx_value *value,
                      const Onnx__TensorProto *tensor)
{
    enum onnx_element element = (enum onnx_element)tensor->data_type;
    const char *place = "constant";
    if (tensor->n_dims > RANK_MOST) {
        return err_set(model->err, ERR_INPUT,
                       "%s: constant %s has %zu dimensions, at most %d are "
                       "wanted",
                       model->path, value->name, tensor->n_dims, RANK_MOST);
    }
    if (!value_set(model, value, place, element, (int)tensor->n_dims, tensor->dims)) return false;
    value->is_constant = true;
    if (!is_followed(value)) return true;
    int64_t bytes = element_bytes(element), count = typed_count(tensor, element);
    bool is_raw = tensor->has_raw_data && tensor->raw_data.len > 0;
    if (is_raw) count = (int64_t)tensor->raw_data.len / bytes;
    if (tensor->has_data_location && tensor->data_location == 1) return true;
    if (count == 0 && value->elements > 0) return true;  // data elsewhere, or dropped
    if (count != value->elements || (is_raw && tensor->raw_data.len % (size_t)bytes != 0)) {
        return err_set(model->err, ERR_INPUT,
                       "%s: constant %s holds %" PRId64 " elements, its shape wants %" PRId64,
                       model->path, value->name, count, value->elements);
    }
    double *numbers = ARENA_NEW(model->arena, double, count);
    for (int64_t i = 0; i < count; i++) {
        numbers[i] = is_raw ? raw_number(tensor->raw_data.data + i * bytes, element)
                            : typed_number(tensor, element, i);
    }
    value->numbers = numbers;
    return true;
}
