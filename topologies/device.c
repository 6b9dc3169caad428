#include "topologies/device.h"
#include "core/file.h"
#include "topologies/kernels.h"
#include "topologies/provenance.h"

#include <assert.h>
#include <string.h>

static const char *const PRECISION_NAMES[PRECISION_COUNT] = {"fp32", "fp16", "bf16", "fp8", "fp4"};
static const double PRECISION_BYTES[PRECISION_COUNT] = {4, 2, 2, 1, 0.5};

// An object with one optional number a precision; what is absent stays 0.
#define PRECISION_ROW(name, precision, low, high)                                  \
    {                                                                              \
        name, JSON_TYPE_F64, (size_t)(precision) * sizeof(double), low, high, true \
    }
#define PRECISION_ROWS(low, high)                             \
    {                                                         \
        PRECISION_ROW("fp32", PRECISION_FP32, low, high),     \
            PRECISION_ROW("fp16", PRECISION_FP16, low, high), \
            PRECISION_ROW("bf16", PRECISION_BF16, low, high), \
            PRECISION_ROW("fp8", PRECISION_FP8, low, high),   \
            PRECISION_ROW("fp4", PRECISION_FP4, low, high),   \
        {                                                     \
            0                                                 \
        }                                                     \
    }
static const struct json_field PEAK_FIELDS[] = PRECISION_ROWS(1, DEVICE_PEAK_HIGH);
static const struct json_field RATIO_FIELDS[] = PRECISION_ROWS(DEVICE_RATIO_LOW, 1);

static const struct json_field DEVICE_FIELDS[] = {
    {JSON_TEXT(struct device, name)},
    {JSON_OPT_TEXT(struct device, kind)},
    {JSON_ANY("peak_flop_per_s")},
    {JSON_I64(struct device, memory_bytes, 1, 1e15)},
    {JSON_F64(struct device, memory_bandwidth_bytes_per_s, DEVICE_RATE_LOW, 1e15)},
    {JSON_OPT_INT(struct device, multiprocessor_count, 1, 1e6)},
    {JSON_OPT_I64(struct device, cache_bytes, 0, 1e12)},
    {JSON_OPT_F64(struct device, exponential_per_s, DEVICE_RATE_LOW, 1e18)},
    {JSON_OPT_F64(struct device, launch_latency_s, 0, 1)},
    {JSON_OPT_F64(struct device, idle_power_w, 1e-3, 1e5)},
    {JSON_OPT_F64(struct device, busy_power_w, 1e-3, 1e5)},
    {JSON_OPT_ANY("efficiency")},
    {JSON_OPT_ANY("efficiency_alone")},
    {JSON_OPT_ANY("kernels")},
    {JSON_OPT_ANY("provenance")},
    {0},
};

// Ratios are shares of a peak: above 1 the peak would be wrong.
static const struct json_field EFFICIENCY_FIELDS[] = {
    {JSON_OPT_ANY("gemm_ratio")},
    {JSON_OPT_F64(struct device_efficiency, gemm_tile_exponent, 0, 4)},
    {JSON_OPT_F64(struct device_efficiency, gemm_k_ramp, 0, 1e6)},
    {JSON_OPT_F64(struct device_efficiency, gemm_wave_smooth_ratio, 0, 1)},
    {JSON_OPT_F64(struct device_efficiency, gemm_memory_ratio, DEVICE_RATIO_LOW, 1)},
    {JSON_OPT_F64(struct device_efficiency, memory_ratio, DEVICE_RATIO_LOW, 1)},
    {JSON_OPT_F64(struct device_efficiency, attention_forward_ratio, DEVICE_RATIO_LOW, 1)},
    {JSON_OPT_F64(struct device_efficiency, attention_backward_ratio, DEVICE_RATIO_LOW, 1)},
    {JSON_OPT_F64(struct device_efficiency, attention_half_seq, 0, 1e6)},
    {JSON_OPT_F64(struct device_efficiency, attention_tail_ratio, 0, 10)},
    {JSON_OPT_F64(struct device_efficiency, attention_clock_ratio, DEVICE_RATIO_LOW, 1)},
    {0},
};

static const struct json_shape PEAK_SHAPE = {PEAK_FIELDS, NULL};
static const struct json_shape RATIO_SHAPE = {RATIO_FIELDS, NULL};
static const struct json_part EFFICIENCY_PARTS[] = {
    {"gemm_ratio", JSON_PART_OBJECT, &RATIO_SHAPE, NULL},
    {0},
};
static const struct json_shape EFFICIENCY_SHAPE = {EFFICIENCY_FIELDS, EFFICIENCY_PARTS};

static const struct json_part DEVICE_PARTS[] = {
    {"peak_flop_per_s", JSON_PART_OBJECT, &PEAK_SHAPE, NULL},
    {"efficiency", JSON_PART_OBJECT, &EFFICIENCY_SHAPE, NULL},
    {"efficiency_alone", JSON_PART_OBJECT, &EFFICIENCY_SHAPE, NULL},
    {0},
};
static const struct json_shape DEVICE_SHAPE = {DEVICE_FIELDS, DEVICE_PARTS};

const struct json_shape *device_shape(void)
{
    return &DEVICE_SHAPE;
}

const struct json_field *device_fields(void)
{
    return DEVICE_FIELDS;
}

const struct json_field *device_efficiency_fields(void)
{
    return EFFICIENCY_FIELDS;
}

struct device *device_copy(struct arena *arena, const struct device *device)
{
    assert(device && device->name);
    struct device *copy = ARENA_NEW(arena, struct device, 1);
    *copy = *device;
    return copy;
}

bool device_may_lack(const char *efficiency)
{
    return strcmp(efficiency, "attention_tail_ratio") == 0 ||
           strcmp(efficiency, "attention_clock_ratio") == 0;
}

static double *member(struct device_efficiency *efficiency, const struct json_field *field)
{
    return (double *)(void *)((char *)efficiency + field->offset);
}

struct device *device_alone(struct arena *arena, const struct device *device,
                            enum precision precision)
{
    struct device_efficiency alone = device->alone;
    if (alone.gemm_ratio[precision] <= 0) return NULL;
    struct device *copy = device_copy(arena, device);
    memcpy(copy->efficiency.gemm_ratio, alone.gemm_ratio, sizeof alone.gemm_ratio);
    for (const struct json_field *field = EFFICIENCY_FIELDS; field->key; field++) {
        if (field->type != JSON_TYPE_F64 || *member(&alone, field) <= 0) continue;
        *member(&copy->efficiency, field) = *member(&alone, field);
    }
    copy->launch_latency_s = 0;
    return copy;
}

const char *precision_name(enum precision precision)
{
    assert((unsigned)precision < PRECISION_COUNT);
    assert(precision < PRECISION_COUNT);
    return PRECISION_NAMES[precision];
}

bool precision_from_name(const char *name, enum precision *precision)
{
    for (int i = 0; i < PRECISION_COUNT; i++) {
        if (strcmp(name, PRECISION_NAMES[i]) == 0) return *precision = (enum precision)i, true;
    }
    return false;
}

double device_training_peak(const struct device *device)
{
    const double *peak = device->peak_flop_per_s;
    if (peak[PRECISION_BF16] > 0) return peak[PRECISION_BF16];
    if (peak[PRECISION_FP16] > 0) return peak[PRECISION_FP16];
    for (int i = 0; i < PRECISION_COUNT; i++) {
        if (peak[i] > 0) return peak[i];
    }
    return 0;
}

double device_distance(double a, double b)
{
    assert(a >= 0 && b >= 0);
    assert(a > 0 && b > 0);
    return a > b ? a / b : b / a;
}

double precision_bytes(enum precision precision)
{
    assert((unsigned)precision < PRECISION_COUNT);
    assert(precision < PRECISION_COUNT);
    return PRECISION_BYTES[precision];
}

const struct provenance *device_provenance(const struct device *device, const char *key)
{
    assert(device && key);
    const struct provenance_list list = {device->provenance, device->provenance_count};
    return provenance_find(&list, key);
}

static bool field_equals(const struct json_field *field, const void *a, const void *b)
{
    const char *left = (const char *)a + field->offset, *right = (const char *)b + field->offset;
    switch (field->type) {
    case JSON_TYPE_TEXT:
        return strcmp(*(const char *const *)left, *(const char *const *)right) == 0;
    case JSON_TYPE_I64:
        return *(const int64_t *)left == *(const int64_t *)right;
    case JSON_TYPE_INT:
        return *(const int *)left == *(const int *)right;
    case JSON_TYPE_F64:
        return *(const double *)left == *(const double *)right;
    case JSON_TYPE_BOOL:
        return *(const bool *)left == *(const bool *)right;
    case JSON_TYPE_ANY:
        break;
    }
    return true;
}

static bool fields_equal(const struct json_field *fields, const void *a, const void *b)
{
    for (const struct json_field *field = fields; field->key; field++) {
        if (!field_equals(field, a, b)) return false;
    }
    return true;
}

bool device_equals(const struct device *a, const struct device *b)
{
    for (int i = 0; i < PRECISION_COUNT; i++) {
        if (a->peak_flop_per_s[i] != b->peak_flop_per_s[i]) return false;
        if (a->efficiency.gemm_ratio[i] != b->efficiency.gemm_ratio[i]) return false;
        if (a->alone.gemm_ratio[i] != b->alone.gemm_ratio[i]) return false;
    }
    return fields_equal(DEVICE_FIELDS, a, b) &&
           fields_equal(EFFICIENCY_FIELDS, &a->efficiency, &b->efficiency) &&
           fields_equal(EFFICIENCY_FIELDS, &a->alone, &b->alone);
}

// A precision has a peak and a GEMM ratio, or neither; of kernels alone not all were timed.
static void check_precisions(const struct device *device, const double *ratios, bool is_alone,
                             const struct json *ratio, struct err *err)
{
    for (int i = 0; i < PRECISION_COUNT; i++) {
        bool has_peak = device->peak_flop_per_s[i] > 0;
        bool has_ratio = ratios[i] > 0;
        if (has_peak && !has_ratio && !is_alone) {
            json_fail(ratio, err, "expected a ratio for %s, which has a peak", PRECISION_NAMES[i]);
        }
        if (has_ratio && !has_peak) {
            json_fail(ratio, err, "found a ratio for %s, which has no peak", PRECISION_NAMES[i]);
        }
    }
}

static void read_kernels(struct arena *arena, const struct json *object, struct device *device,
                         struct err *err)
{
    if (err->kind || !json_has(object, "kernels")) return;
    struct json at = json_get(object, "kernels", err);
    struct kernel_table *table = kernels_read(arena, &at, err);
    if (!table) return;
    if (strcmp(table->device, device->name) != 0) {
        json_fail(&at, err, "table %s was measured on %s, not on %s", table->name, table->device,
                  device->name);
    }
    device->kernels = table;
}

static void check_kind(const struct json *object, const struct device *device, struct err *err)
{
    static const char *const KINDS[] = {"gpu", "npu", "cpu", "tpu", "hpu"};
    for (size_t i = 0; i < sizeof KINDS / sizeof *KINDS; i++) {
        if (err->kind || strcmp(device->kind, KINDS[i]) == 0) return;
    }
    struct json kind = json_get(object, "kind", err);
    json_fail(&kind, err, "expected gpu, npu, cpu, tpu or hpu, found \"%s\"", device->kind);
}

// Without a provenance of its own, what a device says of itself is a sheet's.
static void read_provenance(struct arena *arena, const struct json *object, struct device *device,
                            struct err *err)
{
    static const char *const FACTS[] = {
        "peak_flop_per_s", "memory_bytes",      "memory_bandwidth_bytes_per_s",
        "cache_bytes",     "exponential_per_s", "multiprocessor_count",
        "idle_power_w",    "busy_power_w",      "launch_latency_s",
        "efficiency",      "efficiency_alone"};
    struct provenance_list list = {0};
    if (json_has(object, "provenance")) {
        list = provenance_read_of(arena, object, "device", &DEVICE_SHAPE, err);
    } else {
        for (size_t i = 0; i < sizeof FACTS / sizeof *FACTS; i++) {
            if (!json_has(object, FACTS[i])) continue;
            provenance_assume(arena, &list, FACTS[i], "as the file says, which names no source");
            list.entries[list.count - 1].kind = PROVENANCE_DATASHEET;
        }
    }
    device->provenance = list.entries;
    device->provenance_count = list.count;
}

// "efficiency" or "efficiency_alone".
static void read_efficiency(const struct json *object, const char *key, struct device *device,
                            struct err *err)
{
    if (err->kind || !json_has(object, key)) return;
    bool is_alone = strcmp(key, "efficiency") != 0;
    struct device_efficiency *into = is_alone ? &device->alone : &device->efficiency;
    struct json efficiency = json_get(object, key, err);
    json_read(&efficiency, EFFICIENCY_FIELDS, into, err);
    if (err->kind || (!is_alone && !json_has(&efficiency, "gemm_ratio"))) return;
    struct json ratio = json_get(&efficiency, "gemm_ratio", err);
    json_read(&ratio, RATIO_FIELDS, into->gemm_ratio, err);
    if (!err->kind) check_precisions(device, into->gemm_ratio, is_alone, &ratio, err);
}

static struct device *read_object(struct arena *arena, const struct json *object, struct err *err)
{
    struct device *device = ARENA_NEW(arena, struct device, 1);
    device->kind = "gpu";
    json_check(object, &DEVICE_SHAPE, err);
    json_read(object, DEVICE_FIELDS, device, err);
    check_kind(object, device, err);
    struct json peak = json_get(object, "peak_flop_per_s", err);
    json_read(&peak, PEAK_FIELDS, device->peak_flop_per_s, err);
    if (!err->kind && device_training_peak(device) <= 0)
        json_fail(&peak, err, "a device needs the peak of one precision");
    read_efficiency(object, "efficiency", device, err);
    read_efficiency(object, "efficiency_alone", device, err);
    read_kernels(arena, object, device, err);
    if (err->kind) return NULL;
    read_provenance(arena, object, device, err);
    device_assume(arena, object, device, err);
    return err->kind ? NULL : device;
}

static struct device *load_path(struct arena *arena, const char *path, struct err *err)
{
    struct json_document document;
    if (!json_load(arena, path, &document, err)) return NULL;
    struct json root = json_root(&document);
    return read_object(arena, &root, err);
}

struct device *device_load(struct arena *arena, const char *name, struct err *err)
{
    const char *path = file_find_data(arena, "topologies/devices", name, "device", err);
    return path ? load_path(arena, path, err) : NULL;
}

struct device *device_read(struct arena *arena, const struct json *value, struct err *err)
{
    if (err->kind) return NULL;
    if (json_is_object(value)) return read_object(arena, value, err);
    if (!json_is_text(value)) {
        json_fail(value, err, "expected the name of a device or an object");
        return NULL;
    }
    struct err unknown = {0};
    const char *name = json_text(value, err);
    const char *path = file_find_data(arena, "topologies/devices", name, "device", &unknown);
    if (path) return load_path(arena, path, err);
    // The place in the file that asks for the device helps more than the bare name.
    json_fail(value, err, "%s", unknown.text);
    return NULL;
}

static void write_precisions(struct json_writer *writer, const char *key, const double *values)
{
    json_open_flat(writer, key, '{');
    for (int i = 0; i < PRECISION_COUNT; i++) {
        if (values[i] > 0) json_put_f64(writer, PRECISION_NAMES[i], values[i]);
    }
    json_close(writer, '}');
}

static void write_efficiency(struct json_writer *writer, const char *key,
                             const struct device_efficiency *efficiency)
{
    struct device_efficiency values = *efficiency;
    bool is_whole = strcmp(key, "efficiency") == 0;
    json_open(writer, key, '{');
    write_precisions(writer, "gemm_ratio", values.gemm_ratio);
    for (const struct json_field *field = EFFICIENCY_FIELDS; field->key; field++) {
        if (field->type != JSON_TYPE_F64) continue;
        double value = *member(&values, field);
        if (value > 0 || (is_whole && !device_may_lack(field->key)))
            json_put_f64(writer, field->key, value);
    }
    json_close(writer, '}');
}

static bool has_alone(const struct device *device)
{
    for (int i = 0; i < PRECISION_COUNT; i++) {
        if (device->alone.gemm_ratio[i] > 0) return true;
    }
    return false;
}

void device_write(struct json_writer *writer, const char *key, const struct device *device)
{
    json_open(writer, key, '{');
    json_put_text(writer, "name", device->name);
    json_put_text(writer, "kind", device->kind);
    write_precisions(writer, "peak_flop_per_s", device->peak_flop_per_s);
    json_put_i64(writer, "memory_bytes", device->memory_bytes);
    json_put_f64(writer, "memory_bandwidth_bytes_per_s", device->memory_bandwidth_bytes_per_s);
    json_put_i64(writer, "multiprocessor_count", device->multiprocessor_count);
    json_put_i64(writer, "cache_bytes", device->cache_bytes);
    if (device->exponential_per_s > 0) {
        json_put_f64(writer, "exponential_per_s", device->exponential_per_s);
    }
    json_put_f64(writer, "launch_latency_s", device->launch_latency_s);
    if (device->idle_power_w > 0) json_put_f64(writer, "idle_power_w", device->idle_power_w);
    if (device->busy_power_w > 0) json_put_f64(writer, "busy_power_w", device->busy_power_w);
    write_efficiency(writer, "efficiency", &device->efficiency);
    if (has_alone(device)) write_efficiency(writer, "efficiency_alone", &device->alone);
    if (device->kernels && device->kernels->row_count > 0) {
        kernels_write(writer, "kernels", device->kernels);
    }
    provenance_write(writer, device->provenance, device->provenance_count);
    json_close(writer, '}');
}
