#include "exchange/log_read.h"

#include "core/file.h"
#include "core/plain.h"

#include <assert.h>
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

// A number behind a key; `factor` turns it into our unit.
struct log_key {
    const char *key;
    double factor;
};

// A line is of a framework if it has all of its marks. What a framework's lines do not say has no
// key.
static const struct log_format {
    const char *framework, *marks[3];
    enum log_measure measure;
    struct log_key value, batch, flop, allocated, reserved;
} FORMATS[] = {
    {"megatron-lm",
     {"iteration ", "consumed samples:", "elapsed time per iteration (ms):"},
     LOG_STEP_MS,
     {"elapsed time per iteration (ms):", 1},
     {"global batch size:", 1},
     {"throughput per GPU (TFLOP/s/GPU):", 1e12},
     {NULL, 0},
     {NULL, 0}},
    {"gpt-neox",
     {"samples/sec:", "iteration ", "elapsed time per iteration (ms):"},
     LOG_STEP_MS,
     {"elapsed time per iteration (ms):", 1},
     {NULL, 0},
     {"approx flops per GPU:", 1e12},
     {NULL, 0},
     {NULL, 0}},
    {"nemo",
     {"train_step_timing in s:", "global_step:", NULL},
     LOG_STEP_S,
     {"train_step_timing in s:", 1},
     {"global_batch_size:", 1},
     {"TFLOPS_per_GPU:", 1e12},
     {"max_memory_allocated:", 1},
     {"max_memory_reserved:", 1}},
    {"nemo",
     {"train_step_timing in s=", NULL, NULL},
     LOG_STEP_S,
     {"train_step_timing in s=", 1},
     {NULL, 0},
     {NULL, 0},
     {NULL, 0},
     {NULL, 0}},
    {"deepspeed",
     {"RunningAvgSamplesPerSec=", "CurrSamplesPerSec=", NULL},
     LOG_SAMPLES_PER_S,
     {"CurrSamplesPerSec=", 1},
     {NULL, 0},
     {NULL, 0},
     {"MaxMemAllocated=", 1 << 30},
     {NULL, 0}},
    {"torchtitan",
     {"loss:", "memory:", "tps:"},
     LOG_TOKENS_PER_S_PER_GPU,
     {"tps:", 1},
     {NULL, 0},
     {"tflops:", 1e12},
     {NULL, 0},
     {"memory:", 1 << 30}},
    {"nanotron",
     {"consumed_tokens:", "elapsed_time_per_iteration_ms:", NULL},
     LOG_STEP_MS,
     {"elapsed_time_per_iteration_ms:", 1},
     {"global_batch_size:", 1},
     {"model_tflops_per_gpu:", 1e12},
     {NULL, 0},
     {NULL, 0}},
    {"megatron-bridge",
     {"Step Time :", "GPU utilization:", NULL},
     LOG_STEP_S,
     {"Step Time :", 1},
     {NULL, 0},
     {"GPU utilization:", 1e12},
     {NULL, 0},
     {NULL, 0}},
    {"colossalai",
     {"colossalai", "Step time:", NULL},
     LOG_STEP_S,
     {"Step time:", 1},
     {NULL, 0},
     {NULL, 0},
     {NULL, 0},
     {NULL, 0}},
};
enum { FORMAT_COUNT = sizeof FORMATS / sizeof *FORMATS };

// Takes the colours out (ESC [ ... letter), and makes the rest plain.
static void clean_line(char *line)
{
    char *to = line;
    for (const char *from = line; *from;) {
        if (*from == '\033' && from[1] == '[') {
            from += 2;
            while (*from && !isalpha((unsigned char)*from))
                from++;
            from += *from != '\0';
        } else {
            *to++ = *from++;
        }
    }
    *to = '\0';
}

// The number behind a key, blanks between: 5,593 and 11.5K are numbers. NAN: there is none.
static double number_behind(const char *line, const struct log_key *key)
{
    const char *at = key->key ? strstr(line, key->key) : NULL;
    if (!at) return NAN;
    at += strlen(key->key);
    at += strspn(at, " \t");
    char text[48];
    size_t length = 0;
    for (; *at && length + 1 < sizeof text; at++) {
        bool is_digit = strchr("0123456789.-+", *at) != NULL;
        bool is_exponent = (*at == 'e' || *at == 'E') && length > 0;
        if (is_digit || is_exponent)
            text[length++] = *at;
        else if (*at != ',' || !isdigit((unsigned char)at[1]))
            break;
    }
    text[length] = '\0';
    char *end = text;
    double value = strtod(text, &end);
    if (end == text || *end) return NAN;
    // GB and GiB of a quantity whose unit the key says already are no factor.
    bool is_factor = at[0] && !isalpha((unsigned char)at[1]);
    double factor = !is_factor ? 1 : *at == 'K' ? 1e3 : *at == 'M' ? 1e6 : *at == 'G' ? 1e9 : 1;
    return value * factor * key->factor;
}

// All marks of a line: one alone stands in lines of other trainers as well.
static bool has_marks(const char *line, const struct log_format *format)
{
    for (int i = 0; i < 3 && format->marks[i]; i++)
        if (!strstr(line, format->marks[i])) return false;
    return true;
}

static void keep_most(const char *line, const struct log_key *key, double *most)
{
    double value = number_behind(line, key);
    if (value > *most) *most = value;
}

static void read_line(struct arena *arena, const char *line, const struct log_format *format,
                      struct log_run *run)
{
    double value = number_behind(line, &format->value);
    // What no step takes, in any measure: steps that were not timed, or overflown.
    if (!(value >= 1e-9 && value <= 1e15)) return;
    ARENA_GROW(arena, run->values, run->count, run->capacity);
    run->values[run->count++] = value;
    double batch = number_behind(line, &format->batch);
    double flop_per_s = number_behind(line, &format->flop);
    if (batch > 0) run->global_batch = batch;
    // The last line's: the first steps are slower than the rest.
    if (flop_per_s > 0) run->flop_per_s_per_gpu = flop_per_s;
    keep_most(line, &format->allocated, &run->allocated_bytes);
    keep_most(line, &format->reserved, &run->reserved_bytes);
}

// Megatron's own line about memory, which stands apart: mebibytes, of one rank.
static void read_memory(const char *line, double *allocated, double *reserved)
{
    static const struct log_key ALLOCATED = {"max allocated:", 1 << 20};
    static const struct log_key RESERVED = {"max reserved:", 1 << 20};
    if (!strstr(line, "memory (MB)")) return;
    keep_most(line, &ALLOCATED, allocated);
    keep_most(line, &RESERVED, reserved);
}

bool log_read(struct arena *arena, const char *path, struct log_run *run, struct err *err)
{
    enum { LOG_BYTES_MAX = 1 << 30 };
    size_t bytes = 0;
    char *text = file_read(arena, path, LOG_BYTES_MAX, &bytes, err);
    if (!text) return false;
    struct log_run runs[FORMAT_COUNT] = {{0}};
    double allocated = 0, reserved = 0;
    for (char *line = text, *next; line < text + bytes; line = next) {
        char *end = memchr(line, '\n', (size_t)(text + bytes - line));
        next = end ? end + 1 : text + bytes;
        if (end) *end = '\0';
        clean_line(line);
        read_memory(line, &allocated, &reserved);
        for (int i = 0; i < FORMAT_COUNT; i++) {
            if (!has_marks(line, &FORMATS[i])) continue;
            read_line(arena, line, &FORMATS[i], &runs[i]);
            break;
        }
    }
    int best = 0;
    for (int i = 1; i < FORMAT_COUNT; i++)
        if (runs[i].count > runs[best].count) best = i;
    *run = runs[best];
    run->path = plain_copy(arena, path);
    run->framework = FORMATS[best].framework;
    run->measure = FORMATS[best].measure;
    run->allocated_bytes = fmax(run->allocated_bytes, allocated);
    run->reserved_bytes = fmax(run->reserved_bytes, reserved);
    assert(run->allocated_bytes >= 0 && run->reserved_bytes >= 0);
    if (run->count > 0) return true;
    return err_set(err, ERR_INPUT,
                   "%s: no step line of megatron-lm, gpt-neox, nemo, deepspeed, torchtitan, "
                   "nanotron, megatron-bridge or colossalai",
                   run->path);
}
