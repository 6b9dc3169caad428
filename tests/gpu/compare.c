#include "executor/backend.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The CUDA back end against the CPU's on shapes of real models, and how long it takes: one line of
// JSON a case. Ends with 1 when a result is too far off, with 4 when there is no device.
//   compare fp32|bf16 [tiny]
//   compare first [tiny]
//   compare probe
// first: what is known within seconds, and is worth no more of them where it fails. tiny: fewer
// tokens and one call each, for what emulates a device. probe: what the device is, as
// the members of an object.

struct side {
    const struct backend *backend;
    struct device *device;
    bool is_tiny;
};

struct tried {
    const char *name;
    struct op op;
    int input_count, output_count;
    struct kernel_array inputs[OP_INPUT_MAX], outputs[OP_OUTPUT_MAX];
    double flop;  // 0: bound by memory
};

#define ARRAY2(d0, n0, d1, n1)                                              \
    {                                                                       \
        .rank = 2, .dims = {d0, d1}, .sizes = {n0, n1}, .whole = { n0, n1 } \
    }
#define ARRAY3(d0, n0, d1, n1, d2, n2)                                                  \
    {                                                                                   \
        .rank = 3, .dims = {d0, d1, d2}, .sizes = {n0, n1, n2}, .whole = { n0, n1, n2 } \
    }
#define ARRAY4(d0, n0, d1, n1, d2, n2, d3, n3)                                     \
    {                                                                              \
        .rank = 4, .dims = {d0, d1, d2, d3}, .sizes = {n0, n1, n2, n3}, .whole = { \
            n0,                                                                    \
            n1,                                                                    \
            n2,                                                                    \
            n3                                                                     \
        }                                                                          \
    }
#define ARRAY1(d0, n0)                                          \
    {                                                           \
        .rank = 1, .dims = {d0}, .sizes = {n0}, .whole = { n0 } \
    }
// What the optimizer reads is of fp32, labels are integers.
#define REALS1(d0, n0)                                                                   \
    {                                                                                    \
        .rank = 1, .element = ELEMENT_FP32, .dims = {d0}, .sizes = {n0}, .whole = { n0 } \
    }
#define OF_TOKENS(of)                                                                         \
    {                                                                                         \
        .rank = 2, .element = of, .dims = {DIM_BATCH, DIM_SEQ}, .sizes = {1, 512}, .whole = { \
            1,                                                                                \
            512                                                                               \
        }                                                                                     \
    }
#define TOKENS(width) ARRAY3(DIM_BATCH, 1, DIM_SEQ, 512, DIM_HIDDEN, width)
#define HEADS(dim, count) ARRAY4(DIM_BATCH, 1, DIM_SEQ, 512, dim, count, DIM_HEAD_DIM, 64)
#define LSE                                                                         \
    {                                                                               \
        .rank = 3, .element = ELEMENT_FP32, .dims = {DIM_BATCH, DIM_SEQ, DIM_HEAD}, \
        .sizes = {1, 512, 8}, .whole = {                                            \
            1,                                                                      \
            512,                                                                    \
            8                                                                       \
        }                                                                           \
    }

enum { VOCAB = 5000 };
#define NORM_BACK(text, of, width, results)                                                        \
    {                                                                                              \
        .name = text,                                                                              \
        .op = {.kind = OP_NORM_BACKWARD, .phase = PHASE_BACKWARD, .function = of, .scalar = 1e-5}, \
        .input_count = 3, .output_count = results,                                                 \
        .inputs = {TOKENS(width), TOKENS(width), ARRAY1(DIM_HIDDEN, width)},                       \
        .outputs = {TOKENS(width), REALS1(DIM_HIDDEN, width), REALS1(DIM_HIDDEN, width)},          \
    }

#define KEYS HEADS(DIM_HEAD, 8), HEADS(DIM_KV_HEAD, 2), HEADS(DIM_KV_HEAD, 2)
#define ATTENTION(title, ...)                                                        \
    {                                                                                \
        .name = (title), .op = {.kind = OP_ATTENTION, .scalar = 0.125, __VA_ARGS__}, \
        .input_count = 3, .output_count = 2, .inputs = {KEYS},                       \
        .outputs = {HEADS(DIM_HEAD, 8), LSE}, .flop = 2.0 * 512 * 512 * 64 * 8       \
    }
#define ATTENTION_BACK(title, ...)                                                        \
    {                                                                                     \
        .name = (title),                                                                  \
        .op = {.kind = OP_ATTENTION_BACKWARD,                                             \
               .phase = PHASE_BACKWARD,                                                   \
               .scalar = 0.125,                                                           \
               __VA_ARGS__},                                                              \
        .input_count = 6, .output_count = 3,                                              \
        .inputs = {HEADS(DIM_HEAD, 8), KEYS, HEADS(DIM_HEAD, 8), LSE}, .outputs = {KEYS}, \
        .flop = 5.0 * 512 * 512 * 64 * 8                                                  \
    }
static const struct tried CASES[] = {
    {.name = "product",
     .op = {.kind = OP_CONTRACT, .scalar = 1},
     .input_count = 2,
     .output_count = 1,
     .inputs = {TOKENS(1024), ARRAY2(DIM_HIDDEN, 1024, DIM_FFN, 2048)},
     .outputs = {ARRAY3(DIM_BATCH, 1, DIM_SEQ, 512, DIM_FFN, 2048)},
     .flop = 2.0 * 512 * 1024 * 2048},
    {.name = "rms norm",
     .op = {.kind = OP_NORM, .function = FUNCTION_RMS_NORM, .scalar = 1e-5},
     .input_count = 1,
     .output_count = 1,
     .inputs = {TOKENS(1024)},
     .outputs = {TOKENS(1024)}},
    {.name = "layer norm",
     .op = {.kind = OP_NORM, .function = FUNCTION_LAYER_NORM, .scalar = 1e-5},
     .input_count = 1,
     .output_count = 1,
     .inputs = {TOKENS(1024)},
     .outputs = {TOKENS(1024)}},
    {.name = "swiglu",
     .op = {.kind = OP_ELEMENTWISE, .function = FUNCTION_SILU},
     .input_count = 2,
     .output_count = 1,
     .inputs = {TOKENS(1024), TOKENS(1024)},
     .outputs = {TOKENS(1024)}},
    {.name = "rope",
     .op = {.kind = OP_ELEMENTWISE, .function = FUNCTION_ROPE, .scalar = 1e4, .rotary_dims = 64},
     .input_count = 1,
     .output_count = 1,
     .inputs = {HEADS(DIM_HEAD, 8)},
     .outputs = {HEADS(DIM_HEAD, 8)}},
    ATTENTION("attention", .causal = true),
    ATTENTION_BACK("attention backward", .causal = true),
    ATTENTION("attention in a window", .causal = true, .window = 20),
    ATTENTION_BACK("attention in a window backward", .causal = true, .window = 20),
    ATTENTION("capped attention", .causal = true, .window = 20, .softcap = 0.5),
    ATTENTION_BACK("capped attention backward", .causal = true, .window = 20, .softcap = 0.5),
    ATTENTION("attention with slopes", .causal = true, .alibi = 1),
    ATTENTION_BACK("attention with slopes backward", .causal = true, .alibi = 1),
    ATTENTION("attention both ways in a window", .window = 20),
    ATTENTION_BACK("attention both ways in a window backward", .window = 20),
    {.name = "attention with sinks",
     .op = {.kind = OP_ATTENTION, .scalar = 0.125, .causal = true, .window = 20},
     .input_count = 4,
     .output_count = 2,
     .inputs = {KEYS, ARRAY1(DIM_HEAD, 8)},
     .outputs = {HEADS(DIM_HEAD, 8), LSE},
     .flop = 2.0 * 512 * 512 * 64 * 8},
    {.name = "attention with sinks backward",
     .op = {.kind = OP_ATTENTION_BACKWARD,
            .phase = PHASE_BACKWARD,
            .scalar = 0.125,
            .causal = true,
            .window = 20},
     .input_count = 7,
     .output_count = 4,
     .inputs = {HEADS(DIM_HEAD, 8), KEYS, ARRAY1(DIM_HEAD, 8), HEADS(DIM_HEAD, 8), LSE},
     .outputs = {KEYS, REALS1(DIM_HEAD, 8)},
     .flop = 5.0 * 512 * 512 * 64 * 8},
    // Rows that stay in registers, and wider ones.
    {.name = "layer norm of wide rows",
     .op = {.kind = OP_NORM, .function = FUNCTION_LAYER_NORM, .scalar = 1e-5},
     .input_count = 3,
     .output_count = 1,
     .inputs = {TOKENS(9000), ARRAY1(DIM_HIDDEN, 9000), ARRAY1(DIM_HIDDEN, 9000)},
     .outputs = {TOKENS(9000)}},
    NORM_BACK("layer norm backward", FUNCTION_LAYER_NORM, 1000, 3),
    NORM_BACK("rms norm backward", FUNCTION_RMS_NORM, 1024, 2),
    NORM_BACK("layer norm backward of wide rows", FUNCTION_LAYER_NORM, 9000, 3),
    NORM_BACK("rms norm backward of wide rows", FUNCTION_RMS_NORM, 9000, 2),
    {.name = "swiglu backward",
     .op = {.kind = OP_ELEMENTWISE, .phase = PHASE_BACKWARD, .function = FUNCTION_SILU},
     .input_count = 3,
     .output_count = 2,
     .inputs = {TOKENS(1024), TOKENS(1024), TOKENS(1024)},
     .outputs = {TOKENS(1024), TOKENS(1024)}},
    {.name = "loss",
     .op = {.kind = OP_LOSS},
     .input_count = 2,
     .output_count = 2,
     .inputs = {ARRAY3(DIM_BATCH, 1, DIM_SEQ, 512, DIM_VOCAB, VOCAB), OF_TOKENS(ELEMENT_INT64)},
     .outputs = {OF_TOKENS(ELEMENT_FP32), OF_TOKENS(ELEMENT_FP32)}},
};

// As it is tried here.
static struct kernel_array array_of(const struct side *side, const struct kernel_array *array)
{
    enum { TINY = 32, TINY_COLUMNS = 256 };
    struct kernel_array made = *array;
    for (int i = 0; i < made.rank && side->is_tiny; i++) {
        if (made.dims[i] == DIM_SEQ) made.sizes[i] = made.whole[i] = TINY;
        if (made.dims[i] == DIM_FFN) made.sizes[i] = made.whole[i] = TINY_COLUMNS;
    }
    return made;
}

static const char *must(const char *fault)
{
    if (!fault) return NULL;
    fprintf(stderr, "compare: %s\n", fault);
    exit(1);
}

static int64_t elements_of(const struct kernel_array *array)
{
    int64_t elements = 1;
    for (int i = 0; i < array->rank; i++)
        elements *= array->sizes[i];
    return elements;
}

static int64_t bytes_of(const struct side *side, const struct kernel_array *array)
{
    if (array->element == ELEMENT_INT64) return sizeof(int64_t);
    bool is_wide = array->element == ELEMENT_FP32;
    return is_wide ? side->backend->real_bytes : side->backend->compute_bytes;
}

static uint16_t to_bf16(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (uint16_t)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}
static float from_bf16(uint16_t x)
{
    uint32_t bits = (uint32_t)x << 16;
    float wide;
    memcpy(&wide, &bits, sizeof wide);
    return wide;
}

// Numbers that bf16 holds, so that both sides begin with the same.
static float *draw(int64_t count)
{
    static uint64_t seed = 1;
    float *values = malloc((size_t)count * sizeof *values);
    for (int64_t i = 0; i < count; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        values[i] = from_bf16(to_bf16((float)(seed >> 40) / (float)(1 << 24) - 0.5f));
    }
    return values;
}

static void put(const struct side *side, struct kernel_array *array, const float *values)
{
    int64_t count = elements_of(array), bytes = bytes_of(side, array);
    uint16_t *narrow = malloc((size_t)count * sizeof *narrow);
    int64_t *labels = malloc((size_t)count * sizeof *labels);
    for (int64_t i = 0; i < count; i++) {
        narrow[i] = to_bf16(values[i]);
        labels[i] = (int64_t)((values[i] + 0.5F) * (VOCAB - 1));
    }
    const void *from = bytes == 2   ? (const void *)narrow
                       : bytes == 4 ? (const void *)values
                                    : labels;
    must(side->backend->allocate(side->device, count * bytes, &array->data));
    must(side->backend->copy(side->device, STREAM_COMPUTE, COPY_FROM_HOST, array->data, from,
                             count * bytes));
    free(narrow);
    free(labels);
}

static float *get(const struct side *side, const struct kernel_array *array)
{
    int64_t count = elements_of(array), bytes = bytes_of(side, array);
    float *values = malloc((size_t)count * sizeof *values);
    uint16_t *narrow = malloc((size_t)count * sizeof *narrow);
    must(side->backend->copy(side->device, STREAM_COMPUTE, COPY_TO_HOST,
                             bytes == 2 ? (void *)narrow : values, array->data, count * bytes));
    for (int64_t i = 0; i < count && bytes == 2; i++)
        values[i] = from_bf16(narrow[i]);
    free(narrow);
    return values;
}

static void release(const struct side *side, struct kernel_call *call)
{
    for (int i = 0; i < call->input_count; i++)
        side->backend->release(side->device, call->inputs[i].data);
    for (int i = 0; i < call->output_count; i++)
        side->backend->release(side->device, call->outputs[i].data);
}

// Fastest of some runs, in seconds.
static double time_call(const struct side *side, const struct kernel_call *call)
{
    const struct backend *b = side->backend;
    int runs = side->is_tiny ? 1 : 20;
    struct event *begin = b->event_new(side->device), *end = b->event_new(side->device);
    double best = HUGE_VAL;
    for (int i = 0; i < runs; i++) {
        must(b->event_record(side->device, STREAM_COMPUTE, begin));
        must(b->run(side->device, STREAM_COMPUTE, call));
        must(b->event_record(side->device, STREAM_COMPUTE, end));
        must(b->synchronize(side->device, STREAM_COMPUTE));
        best = fmin(best, b->event_seconds(side->device, begin, end));
    }
    b->event_free(side->device, begin);
    b->event_free(side->device, end);
    return best;
}

// Relative distance of all results together, |x - y| / |y| by the norm.
static double distance(const float *x, const float *y, int64_t count)
{
    double apart = 0, size = 0;
    for (int64_t i = 0; i < count; i++) {
        apart += pow((double)x[i] - (double)y[i], 2);
        size += pow((double)y[i], 2);
    }
    return size > 0 ? sqrt(apart / size) : sqrt(apart);
}

struct inputs {
    float *values[OP_INPUT_MAX];
};

// Results and log-sum-exp of attention are the last inputs of its backward: made by the forward.
static void make_forward(const struct side *cpu, const struct tried *backward,
                         struct inputs *inputs)
{
    struct op op = backward->op;
    int count = backward->input_count - 3;
    struct kernel_call call = {.op = &op, .input_count = count, .output_count = 2, .head_count = 8};
    op.kind = OP_ATTENTION;
    op.phase = PHASE_FORWARD;
    for (int i = 0; i < count; i++) {
        call.inputs[i] = array_of(cpu, &backward->inputs[1 + i]);
        put(cpu, &call.inputs[i], inputs->values[1 + i]);
    }
    for (int i = 0; i < 2; i++) {
        call.outputs[i] = array_of(cpu, &backward->inputs[1 + count + i]);
        put(cpu, &call.outputs[i], inputs->values[1 + count + i]);
    }
    must(cpu->backend->run(cpu->device, STREAM_COMPUTE, &call));
    for (int i = 0; i < 2; i++) {
        free(inputs->values[1 + count + i]);
        inputs->values[1 + count + i] = get(cpu, &call.outputs[i]);
    }
    release(cpu, &call);
}

static struct kernel_call call_on(const struct side *side, const struct tried *tried,
                                  const struct inputs *inputs)
{
    struct kernel_call call = {.op = &tried->op,
                               .input_count = tried->input_count,
                               .output_count = tried->output_count,
                               .head_count = 8,
                               .is_linear = tried->op.kind == OP_CONTRACT};
    for (int i = 0; i < call.input_count; i++) {
        call.inputs[i] = array_of(side, &tried->inputs[i]);
        put(side, &call.inputs[i], inputs->values[i]);
    }
    for (int i = 0; i < call.output_count; i++) {
        call.outputs[i] = array_of(side, &tried->outputs[i]);
        float *room = draw(elements_of(&call.outputs[i]));
        put(side, &call.outputs[i], room);
        free(room);
    }
    return call;
}

static bool compare(const struct side *cpu, const struct side *cuda, const struct tried *tried,
                    double tolerance)
{
    struct inputs inputs;
    double worst = 0;
    for (int i = 0; i < tried->input_count; i++) {
        struct kernel_array array = array_of(cpu, &tried->inputs[i]);
        inputs.values[i] = draw(elements_of(&array));
    }
    if (tried->op.kind == OP_ATTENTION_BACKWARD) make_forward(cpu, tried, &inputs);
    struct kernel_call expected = call_on(cpu, tried, &inputs);
    struct kernel_call found = call_on(cuda, tried, &inputs);
    must(cpu->backend->run(cpu->device, STREAM_COMPUTE, &expected));
    double seconds = time_call(cuda, &found);
    for (int i = 0; i < tried->output_count; i++) {
        float *x = get(cuda, &found.outputs[i]), *y = get(cpu, &expected.outputs[i]);
        worst = fmax(worst, distance(x, y, elements_of(&found.outputs[i])));
        free(x);
        free(y);
    }
    release(cuda, &found);
    release(cpu, &expected);
    for (int i = 0; i < tried->input_count; i++)
        free(inputs.values[i]);
    printf("{\"case\": \"%s\", \"relative_error\": %.3g, \"limit\": %g, \"s\": %.3g, "
           "\"flop_per_s\": %.4g}\n",
           tried->name, worst, tolerance, seconds, cuda->is_tiny ? 0 : tried->flop / seconds);
    return worst <= tolerance;
}

static struct side open_side(const char *name, enum precision precision, bool is_tiny)
{
    struct err err = {0};
    struct side side = {.backend = backend_open(name, &err), .is_tiny = is_tiny};
    if (side.backend && side.backend->at) side.backend = side.backend->at(precision);
    if (!side.backend) {
        fprintf(stderr, "compare: %s\n", err.text);
        exit(4);
    }
    must(side.backend->open(0, &side.device));
    return side;
}

static int probe(void)
{
    struct err err = {0};
    struct backend_device_facts facts = {0};
    const struct backend *backend = backend_open("cuda", &err);
    const char *fault = backend ? backend->probe(&facts) : err.text;
    if (fault) {
        fprintf(stderr, "compare: %s\n", fault);
        return 4;
    }
    printf("\"name\": \"%s\"\n\"driver\": \"%s\"\n\"libraries\": \"%s\"\n", facts.name,
           facts.driver, facts.libraries);
    printf("\"memory_bytes\": %lld\n\"multiprocessor_count\": %d\n\"capability\": %d\n",
           (long long)facts.memory_bytes, facts.multiprocessor_count, facts.capability);
    printf("\"clock_hz\": %g\n\"cache_bytes\": %lld\n\"device_count\": %d\n", facts.clock_hz,
           (long long)facts.cache_bytes, facts.device_count);
    return 0;
}

// Which way attention went; where fused kernels refused what is theirs, that is a fault.
static int tell_paths(const struct side *cuda)
{
    static struct attention_path paths[ATTENTION_PATH_MAX];
    int faults = 0, count = 0;
    if (cuda->backend->attention_paths) count = cuda->backend->attention_paths(cuda->device, paths);
    for (int i = 0; i < count; i++) {
        printf("{\"attention\": \"%s\", \"path\": \"%.*s\", \"reason\": \"%.*s\"}\n",
               paths[i].is_backward ? "backward" : "forward", (int)sizeof paths[i].path,
               paths[i].path, (int)sizeof paths[i].reason, paths[i].reason);
        faults += paths[i].is_refused != 0;
    }
    return faults;
}

// A GEMM of each precision, and attention.
static int first_look(bool is_tiny)
{
    static const struct {
        enum precision precision;
        double limit;  // fp8 has 3 bits behind the point: 1/16 of a number at most, once an operand
    } LOOKS[] = {{PRECISION_BF16, 1e-2}, {PRECISION_FP32, 1e-5}, {PRECISION_FP8, 0.125}};
    enum { ATTENTION = 5, ATTENTION_END = 7 };
    struct side cpu = open_side("cpu", PRECISION_FP32, is_tiny);
    int faults = 0;
    for (size_t i = 0; i < sizeof LOOKS / sizeof *LOOKS; i++) {
        struct side cuda = open_side("cuda", LOOKS[i].precision, is_tiny);
        faults += !compare(&cpu, &cuda, &CASES[0], LOOKS[i].limit);
        for (int c = ATTENTION; c < ATTENTION_END && i == 0; c++)
            faults += !compare(&cpu, &cuda, &CASES[c], LOOKS[i].limit);
        faults += tell_paths(&cuda);
        cuda.backend->close(cuda.device);
    }
    cpu.backend->close(cpu.device);
    return faults > 0;
}

int main(int argc, char **argv)
{
    bool is_tiny = argc > 2 && strcmp(argv[2], "tiny") == 0;
    if (argc > 1 && strcmp(argv[1], "probe") == 0) return probe();
    if (argc > 1 && strcmp(argv[1], "first") == 0) return first_look(is_tiny);
    bool is_narrow = argc > 1 && strcmp(argv[1], "bf16") == 0;
    struct side cuda = open_side("cuda", is_narrow ? PRECISION_BF16 : PRECISION_FP32, is_tiny);
    struct side cpu = open_side("cpu", PRECISION_FP32, is_tiny);
    int faults = 0;
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++)
        faults += !compare(&cpu, &cuda, &CASES[i], is_narrow ? 1e-2 : 1e-5);
    cuda.backend->close(cuda.device);
    cpu.backend->close(cpu.device);
    return faults > 0;
}
