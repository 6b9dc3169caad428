#include "executor/backend.h"
#include "models/autodiff.h"
#include "models/import.h"
#include "models/op.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

// The kernels of GPT-2 124M on one core, each beside what bounds it, measured in the same run:
// products beside sgemm of their own shape, the others beside memcpy. The layer as a whole beside
// the time that its products would take at the rate of sgemm.

enum { BATCH = 4, REPEATS = 5 };

struct cpu_kernels_bench {
    const struct backend *backend;
    struct device *device;
    struct arena *arena;
    const struct block *block;
    struct kernel_array *arrays;  // by tensor
    int64_t batch, seq;
    double copy_bytes_per_s, sgemm_flop_per_s;
};

static double now_s(void)
{
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static double measure_copy(void)
{
    enum { BYTES = 256 << 20 };
    char *from = malloc(BYTES), *to = malloc(BYTES);
    double best_s = 1e9;
    if (!from || !to) return 0;
    memset(from, 1, BYTES);
    for (int i = 0; i < REPEATS; i++) {
        double start_s = now_s();
        memcpy(to, from, BYTES);
        double taken_s = now_s() - start_s;
        if (taken_s < best_s) best_s = taken_s;
    }
    free(from);
    free(to);
    return 2.0 * BYTES / best_s;  // read and written
}

static void (*sgemm)(int order, int turn_a, int turn_b, int m, int n, int k, float alpha,
                     const float *a, int lda, const float *b, int ldb, float beta, float *c,
                     int ldc);

// Best time of C = A B^T at one shape, by the library itself.
static double measure_sgemm(int m, int n, int k)
{
    float *a = calloc((size_t)m * (size_t)k, 4), *b = calloc((size_t)n * (size_t)k, 4);
    float *c = calloc((size_t)m * (size_t)n, 4);
    double best_s = 1e9;
    for (int i = 0; i < REPEATS && a && b && c; i++) {
        double start_s = now_s();
        sgemm(101, 111, 112, m, n, k, 1, a, k, b, k, 0, c, n);
        double taken_s = now_s() - start_s;
        if (taken_s < best_s) best_s = taken_s;
    }
    free(a);
    free(b);
    free(c);
    return best_s;
}

static void add_array(struct cpu_kernels_bench *bench, int tensor)
{
    const struct tensor *t = &bench->block->tensors[tensor];
    struct kernel_array *array = &bench->arrays[tensor];
    array->rank = t->rank;
    array->element = t->role == TENSOR_IDS ? ELEMENT_INT64 : t->element;
    int64_t elements = 1;
    for (int i = 0; i < t->rank; i++) {
        array->dims[i] = t->extents[i].dim;
        array->sizes[i] = array->whole[i] = extent_size(&t->extents[i], bench->batch, bench->seq);
        elements *= array->sizes[i];
    }
    array->data = arena_alloc(bench->arena, (size_t)elements, 8);
    uint64_t state = 1;
    for (int64_t i = 0; i < elements && array->element != ELEMENT_INT64; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        ((float *)array->data)[i] = (float)(state >> 40) * 0x1p-24f - 0.5f;
    }
}

static struct kernel_call call_of(const struct cpu_kernels_bench *bench, const struct op *op)
{
    struct kernel_call call = {
        .op = op, .input_count = op->input_count, .output_count = op->output_count, .key = 1};
    for (int i = 0; i < op->input_count; i++)
        call.inputs[i] = bench->arrays[op->inputs[i]];
    for (int i = 0; i < op->output_count; i++)
        call.outputs[i] = bench->arrays[op->outputs[i]];
    return call;
}

static double bytes_of(const struct kernel_array *array)
{
    double bytes = array->element == ELEMENT_INT64 ? 8 : array->element == ELEMENT_BYTE ? 1 : 4;
    for (int i = 0; i < array->rank; i++)
        bytes *= (double)array->sizes[i];
    return bytes;
}

static double time_call(const struct cpu_kernels_bench *bench, const struct kernel_call *call)
{
    double best_s = 1e9;
    for (int i = 0; i < REPEATS; i++) {
        double start_s = now_s();
        const char *fault = bench->backend->run(bench->device, STREAM_COMPUTE, call);
        double taken_s = now_s() - start_s;
        if (fault) {
            printf("%s: %s\n", call->op->name, fault);
            exit(1);
        }
        if (taken_s < best_s) best_s = taken_s;
    }
    return best_s;
}

struct sums {
    double taken_s, bound_s;
};

// One line an operator.
static void bench_op(const struct cpu_kernels_bench *bench, const struct op *op, struct sums *sums)
{
    struct kernel_call call = call_of(bench, op);
    int64_t size[DIM_COUNT] = {0};
    double taken_s = time_call(bench, &call), bytes = 0;
    for (int i = 0; i < call.input_count + call.output_count; i++) {
        const struct kernel_array *array =
            i < call.input_count ? &call.inputs[i] : &call.outputs[i - call.input_count];
        bytes += bytes_of(array);
        for (int e = 0; e < array->rank; e++)
            size[array->dims[e]] = array->sizes[e];
    }
    sums->taken_s += taken_s;
    if (op->kind == OP_CONTRACT) {
        struct gemm gemm = op_gemm(bench->block, op, size);
        double flop = gemm_flop(&gemm);
        double bound_s = measure_sgemm((int)gemm.m, (int)gemm.n, (int)gemm.k);
        printf("  %-26s %8.3f ms  %6.1f GFLOP/s, %3.0f %% of sgemm %lldx%lldx%lld\n", op->name,
               1e3 * taken_s, 1e-9 * flop / taken_s, 100 * bound_s / taken_s, (long long)gemm.m,
               (long long)gemm.n, (long long)gemm.k);
        sums->bound_s += flop / bench->sgemm_flop_per_s;
    } else if (op->kind == OP_ATTENTION || op->kind == OP_ATTENTION_BACKWARD) {
        double flop = op_rule(op->kind)->flop(bench->block, op, size);
        printf("  %-26s %8.3f ms  %6.1f GFLOP/s, %3.0f %% of sgemm\n", op->name, 1e3 * taken_s,
               1e-9 * flop / taken_s, 100 * flop / taken_s / bench->sgemm_flop_per_s);
        sums->bound_s += flop / bench->sgemm_flop_per_s;
    } else {
        printf("  %-26s %8.3f ms  %6.1f GB/s,    %3.0f %% of memcpy\n", op->name, 1e3 * taken_s,
               1e-9 * bytes / taken_s, 100 * bytes / taken_s / bench->copy_bytes_per_s);
    }
}

static struct sums bench_block(struct cpu_kernels_bench *bench, const struct block *forward)
{
    struct block_gradients gradients;
    struct sums sums = {0, 0};
    bench->block = autodiff_block(bench->arena, forward, &gradients);
    bench->arrays = ARENA_NEW(bench->arena, struct kernel_array, bench->block->tensor_count);
    for (int t = 0; t < bench->block->tensor_count; t++)
        add_array(bench, t);
    printf("%s, batch %lld, sequence %lld\n", forward->name, (long long)bench->batch,
           (long long)bench->seq);
    for (int o = 0; o < bench->block->op_count; o++)
        bench_op(bench, &bench->block->ops[o], &sums);
    printf("  in all %.2f ms, its products at the rate of sgemm %.2f ms: %.0f %%\n",
           1e3 * sums.taken_s, 1e3 * sums.bound_s, 100 * sums.bound_s / sums.taken_s);
    return sums;
}

static double bench_update(const struct cpu_kernels_bench *bench, int64_t count)
{
    float *reals = arena_alloc(bench->arena, (size_t)count * 4, 4);
    struct update_call call = {.optimizer = OPTIMIZER_ADAMW,
                               .count = count,
                               .weights = reals,
                               .gradients = reals + count,
                               .first_moments = reals + 2 * count,
                               .second_moments = reals + 3 * count,
                               .gradient_scale = 1,
                               .learning_rate = 1e-4,
                               .beta1 = 0.9,
                               .beta2 = 0.95,
                               .epsilon = 1e-8,
                               .weight_decay = 0.1,
                               .step = 1};
    double best_s = 1e9;
    for (int i = 0; i < REPEATS; i++) {
        double start_s = now_s();
        bench->backend->update(bench->device, STREAM_COMPUTE, &call);
        double taken_s = now_s() - start_s;
        if (taken_s < best_s) best_s = taken_s;
    }
    printf("AdamW of %lld parameters %.2f ms, %.1f GB/s, %.0f %% of memcpy\n", (long long)count,
           1e3 * best_s, 28e-9 * (double)count / best_s,
           100 * 28 * (double)count / best_s / bench->copy_bytes_per_s);
    return best_s / (double)count;
}

static void bench_step(struct cpu_kernels_bench *bench, const struct graph *graph, int64_t seq)
{
    struct sums all = {0, 0};
    struct arena_mark mark = arena_mark(bench->arena);
    bench->seq = seq;
    for (int b = 0; b < graph->block_count; b++) {
        struct sums sums = bench_block(bench, &graph->blocks[b]);
        int uses = 0;
        for (int i = 0; i < graph->sequence_count; i++)
            uses += graph->sequence[i] == b;
        all.taken_s += uses * sums.taken_s;
        all.bound_s += uses * sums.bound_s;
        arena_reset(bench->arena, mark);
    }
    double update_s = bench_update(bench, INT64_C(16) << 20) * (double)graph->parameter_count;
    arena_reset(bench->arena, mark);
    double update_bound_s = 28.0 * (double)graph->parameter_count / bench->copy_bytes_per_s;
    double step_s = all.taken_s + update_s;
    printf("a step of batch %lld x %lld: %.3f s, %.0f tokens/s, %.0f %% of the roofline\n\n",
           (long long)bench->batch, (long long)seq, step_s, (double)(bench->batch * seq) / step_s,
           100 * (all.bound_s + update_bound_s) / step_s);
}

int main(void)
{
    struct arena arena = {0};
    struct err err = {0};
    struct cpu_kernels_bench bench = {.arena = &arena, .batch = BATCH};
    struct backend_device_facts facts;
    bench.backend = backend_open("cpu", &err);
    struct model_config *config = model_load(&arena, "gpt2", NULL, NULL, &err);
    void *blas = dlopen("libopenblas.so.0", RTLD_NOW);
    void *symbol = blas ? dlsym(blas, "cblas_sgemm") : NULL;
    if (!bench.backend || !config || !symbol) {
        printf("%s\n", err.kind ? err.text : "no libopenblas.so.0");
        return 1;
    }
    memcpy(&sgemm, &symbol, sizeof sgemm);
    bench.backend->probe(&facts);
    const char *fault = bench.backend->open(0, &bench.device);
    bench.copy_bytes_per_s = measure_copy();
    bench.sgemm_flop_per_s = 2.0 * 1024 * 3072 * 768 / measure_sgemm(1024, 3072, 768);
    printf("%s, %s: sgemm %.1f GFLOP/s, memcpy %.1f GB/s\n", facts.name, facts.libraries,
           1e-9 * bench.sgemm_flop_per_s, 1e-9 * bench.copy_bytes_per_s);
    struct graph *graph = model_graph(&arena, config, &(struct import_options){.flash = true});
    for (int64_t seq = 64; seq <= 256 && !fault; seq *= 4)
        bench_step(&bench, graph, seq);
    bench.backend->close(bench.device);
    arena_free(&arena);
    return 0;
}
