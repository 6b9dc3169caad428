#include "executor/cuda/gemm.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Which algorithm a GEMM runs by. cuBLASLt orders what it has by a model of its own, which is not
// always right, least where sums are split: a calibration measures the first eight once a shape
// and keeps the fastest, by which runs go from then on. Runs measure nothing: equal runs are to
// have equal bits.
//
// Sums may be split, where the parts are added up in a step behind, in fp32 and in their order.
// Schemes that add in the order in which blocks come, or round parts to 16 bits, are left out.

enum { CANDIDATES = 8, ROUNDS = 3 };
// An algorithm further down the list has to be faster by more than a measurement is off.
static const float LEAST_GAIN = 0.98F;

// What the library knows of a call. The same algorithms do with and without beta.
static void write_shape(const struct gemm_key *k, char *text, size_t bytes)
{
    int length = snprintf(
        text, bytes,
        "%lldx%lldx%lld batch %lld numbers %d %d %d turned %d %d strides %lld %lld %lld "
        "%lld %lld %lld epilogue %d %lld alignments %d %d %d",
        (long long)k->rows, (long long)k->columns, (long long)k->inner, (long long)k->batch,
        k->number, k->b_number, k->c_number, k->is_a_turned, k->is_b_turned, (long long)k->a_stride,
        (long long)k->b_stride, (long long)k->c_stride, (long long)k->a_batch,
        (long long)k->b_batch, (long long)k->c_batch, k->epilogue, (long long)k->aux_stride,
        k->a_alignment, k->b_alignment, k->c_alignment);
    assert(length > 0 && (size_t)length < bytes && "shapes that are cut off would be alike");
}

enum { WORDS = sizeof(cublasLtMatmulAlgo_t) / sizeof(uint64_t) };

// The header has algorithms written down and read again, for the very same version of the library.
static void write_algorithm(const cublasLtMatmulAlgo_t *algorithm, char *text, size_t bytes)
{
    size_t at = 0;
    for (int i = 0; i < WORDS; i++)
        at += (size_t)snprintf(text + at, bytes - at, "%016llx",
                               (unsigned long long)algorithm->data[i]);
    assert(at < bytes);
}

static bool read_algorithm(const char *text, cublasLtMatmulAlgo_t *algorithm)
{
    if (strlen(text) != (size_t)WORDS * 16) return false;
    for (int i = 0; i < WORDS; i++) {
        char word[17] = "", *end = word;
        memcpy(word, text + (ptrdiff_t)16 * i, 16);
        algorithm->data[i] = strtoull(word, &end, 16);
        if (*end) return false;
    }
    return true;
}

static const struct gemm_choice *find(const struct gemm_cache *cache, const char *shape)
{
    const struct gemm_choice *choice = cache->choices;
    while (choice && strcmp(choice->shape, shape) != 0)
        choice = choice->next;
    return choice;
}

static bool keep(struct gemm_cache *cache, const char *shape, const char *algorithm, double s)
{
    struct gemm_choice *choice = calloc(1, sizeof *choice);
    if (!choice) return false;
    snprintf(choice->shape, sizeof choice->shape, "%s", shape);
    snprintf(choice->algorithm, sizeof choice->algorithm, "%s", algorithm);
    choice->s = s;
    choice->next = cache->choices;
    cache->choices = choice;
    cache->choice_count++;
    return true;
}

void gemm_choices_free(struct gemm_cache *cache)
{
    while (cache->choices) {
        struct gemm_choice *choice = cache->choices;
        cache->choices = choice->next;
        free(choice);
    }
    free(cache->told);
}

static cublasStatus_t ask_for(struct gemm_cache *cache, const struct gemm_plan *plan,
                              uint32_t reductions, int wanted,
                              cublasLtMatmulHeuristicResult_t *found, int *count)
{
    cublasLtMatmulPreference_t preference;
    uint64_t workspace = GEMM_WORKSPACE_BYTES;
    uint32_t alignments[3] = {(uint32_t)plan->key.b_alignment, (uint32_t)plan->key.a_alignment,
                              (uint32_t)plan->key.c_alignment};
    cublasStatus_t status = cublasLtMatmulPreferenceCreate(&preference);
    if (status != CUBLAS_STATUS_SUCCESS) return status;
    const struct {
        cublasLtMatmulPreferenceAttributes_t name;
        const void *value;
        size_t size;
    } wishes[] = {
        {CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof workspace},
        {CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &reductions, sizeof reductions},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &alignments[0], sizeof *alignments},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &alignments[1], sizeof *alignments},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &alignments[2], sizeof *alignments},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &alignments[2], sizeof *alignments},
    };
    for (size_t i = 0; i < sizeof wishes / sizeof *wishes && status == CUBLAS_STATUS_SUCCESS; i++) {
        status = cublasLtMatmulPreferenceSetAttribute(preference, wishes[i].name, wishes[i].value,
                                                      wishes[i].size);
    }
    if (status == CUBLAS_STATUS_SUCCESS) {
        status = cublasLtMatmulAlgoGetHeuristic(cache->handle, plan->product, plan->b, plan->a,
                                                plan->c, plan->c, preference, wanted, found, count);
    }
    cublasLtMatmulPreferenceDestroy(preference);
    if (status == CUBLAS_STATUS_SUCCESS && *count == 0) status = CUBLAS_STATUS_NOT_SUPPORTED;
    return status;
}

// Whether equal calls by it have equal bits.
static bool keeps_order(const cublasLtMatmulAlgo_t *algorithm)
{
    uint32_t scheme = CUBLASLT_REDUCTION_SCHEME_INPLACE;
    size_t written = 0;
    cublasStatus_t status = cublasLtMatmulAlgoConfigGetAttribute(
        algorithm, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, &scheme, sizeof scheme, &written);
    return status == CUBLAS_STATUS_SUCCESS && (scheme == CUBLASLT_REDUCTION_SCHEME_NONE ||
                                               scheme == CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);
}

// Operands of 8 bits were refused when only some schemes were asked for (an H200, cuBLASLt 13.1,
// 2026-11-27; it does not say why): they are asked for again with all, of which the others are left
// out here.
static cublasStatus_t ask(struct gemm_cache *cache, const struct gemm_plan *plan, int wanted,
                          cublasLtMatmulHeuristicResult_t *found, int *count)
{
    cublasLtMatmulHeuristicResult_t all[CANDIDATES];
    int all_count = 0;
    cublasStatus_t status =
        ask_for(cache, plan, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE, wanted, found, count);
    if (status != CUBLAS_STATUS_NOT_SUPPORTED || !number_is_byte(plan->key.number)) return status;
    status = ask_for(cache, plan, CUBLASLT_REDUCTION_SCHEME_MASK, CANDIDATES, all, &all_count);
    *count = 0;
    for (int i = 0; i < all_count && *count < wanted && status == CUBLAS_STATUS_SUCCESS; i++) {
        if (all[i].state == CUBLAS_STATUS_SUCCESS && keeps_order(&all[i].algo))
            found[(*count)++] = all[i];
    }
    if (status == CUBLAS_STATUS_SUCCESS && *count == 0) status = CUBLAS_STATUS_NOT_SUPPORTED;
    return status;
}

// Of the calls by one algorithm the fastest, in milliseconds.
static cublasStatus_t measure(struct cuda_device *device, enum stream stream,
                              const struct gemm_plan *plan, const struct cuda_gemm *gemm,
                              const cublasLtMatmulAlgo_t *algorithm, void *workspace,
                              cudaEvent_t *marks, float *best)
{
    cudaStream_t on = device->streams[stream];
    cublasStatus_t status = gemm_launch(device, stream, plan, gemm, algorithm, workspace);
    bool is_fine = true;
    *best = 1e30F;
    for (int round = 0; round < ROUNDS && is_fine && status == CUBLAS_STATUS_SUCCESS; round++) {
        float took = 0;
        is_fine = cudaEventRecord(marks[0], on) == cudaSuccess;
        status = gemm_launch(device, stream, plan, gemm, algorithm, workspace);
        is_fine = is_fine && cudaEventRecord(marks[1], on) == cudaSuccess &&
                  cudaStreamSynchronize(on) == cudaSuccess &&
                  cudaEventElapsedTime(&took, marks[0], marks[1]) == cudaSuccess;
        if (took < *best) *best = took;
    }
    return is_fine ? status : CUBLAS_STATUS_EXECUTION_FAILED;
}

// The sums that an epilogue adds to are scratch while a calibration runs. What fails alone is left
// out.
static cublasStatus_t take_fastest(struct cuda_device *device, enum stream stream,
                                   struct gemm_plan *plan, const struct cuda_gemm *gemm,
                                   void *workspace, const cublasLtMatmulHeuristicResult_t *found,
                                   int count, double *s)
{
    cudaEvent_t marks[2] = {NULL, NULL};
    float least = 1e30F, took = 0;
    bool has_marks =
        cudaEventCreate(&marks[0]) == cudaSuccess && cudaEventCreate(&marks[1]) == cudaSuccess;
    cublasStatus_t status = has_marks ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_ALLOC_FAILED;
    for (int i = 0; i < count && has_marks; i++) {
        if (found[i].state != CUBLAS_STATUS_SUCCESS) continue;
        cublasStatus_t of_this =
            measure(device, stream, plan, gemm, &found[i].algo, workspace, marks, &took);
        if (of_this != CUBLAS_STATUS_SUCCESS) status = of_this;
        if (of_this != CUBLAS_STATUS_SUCCESS || took >= LEAST_GAIN * least) continue;
        least = took;
        plan->algorithm = found[i].algo;
    }
    for (int i = 0; i < 2; i++) {
        if (marks[i]) cudaEventDestroy(marks[i]);
    }
    *s = 1e-3 * (double)least;
    return least < 1e30F ? CUBLAS_STATUS_SUCCESS : status;
}

// Whether the choice is one for this call on this device.
static bool use_choice(const struct gemm_cache *cache, struct gemm_plan *plan,
                       const struct gemm_choice *choice)
{
    cublasLtMatmulAlgo_t algorithm;
    cublasLtMatmulHeuristicResult_t result;
    memset(&result, 0, sizeof result);
    if (!choice || !read_algorithm(choice->algorithm, &algorithm)) return false;
    cublasStatus_t status = cublasLtMatmulAlgoCheck(cache->handle, plan->product, plan->b, plan->a,
                                                    plan->c, plan->c, &algorithm, &result);
    bool fits = status == CUBLAS_STATUS_SUCCESS && result.state == CUBLAS_STATUS_SUCCESS &&
                result.workspaceSize <= GEMM_WORKSPACE_BYTES;
    if (fits) plan->algorithm = algorithm;
    return fits;
}

cublasStatus_t gemm_choose(struct cuda_device *device, enum stream stream, struct gemm_plan *plan,
                           const struct cuda_gemm *gemm, void *workspace)
{
    struct gemm_cache *cache = device->gemm;
    cublasLtMatmulHeuristicResult_t found[CANDIDATES];
    char shape[GEMM_CHOICE_BYTES], algorithm[GEMM_CHOICE_BYTES] = "";
    int count = 0;
    double s = 0;
    write_shape(&plan->key, shape, sizeof shape);
    if (use_choice(cache, plan, find(cache, shape))) return CUBLAS_STATUS_SUCCESS;
    // A graph that is being recorded may not wait, which measuring does.
    bool measures = cache->is_tuning && !device->is_capturing;
    cublasStatus_t status = ask(cache, plan, measures ? CANDIDATES : 1, found, &count);
    if (status != CUBLAS_STATUS_SUCCESS) return status;
    assert(count > 0 && count <= CANDIDATES);
    plan->algorithm = found[0].algo;
    if (!measures) return status;
    status = take_fastest(device, stream, plan, gemm, workspace, found, count, &s);
    write_algorithm(&plan->algorithm, algorithm, sizeof algorithm);
    if (status == CUBLAS_STATUS_SUCCESS && !keep(cache, shape, algorithm, s))
        status = CUBLAS_STATUS_ALLOC_FAILED;
    return status;
}

void gemm_tune(struct device *device)
{
    ((struct cuda_device *)(void *)device)->gemm->is_tuning = true;
}

int gemm_choices(struct device *device, const struct kernel_choice **choices)
{
    struct gemm_cache *cache = ((struct cuda_device *)(void *)device)->gemm;
    int count = cache->choice_count;
    free(cache->told);
    *choices = cache->told = calloc((size_t)count + 1, sizeof *cache->told);
    if (!cache->told) return 0;
    for (const struct gemm_choice *choice = cache->choices; choice; choice = choice->next)
        cache->told[--count] = (struct kernel_choice){choice->shape, choice->algorithm, choice->s};
    assert(count == 0);
    return cache->choice_count;
}

// Texts of a file: what is too long is none of ours.
const char *gemm_take_choices(struct device *device, const struct kernel_choice *choices, int count)
{
    struct gemm_cache *cache = ((struct cuda_device *)(void *)device)->gemm;
    for (int i = 0; i < count; i++) {
        bool fits = strlen(choices[i].shape) < GEMM_CHOICE_BYTES &&
                    strlen(choices[i].algorithm) < GEMM_CHOICE_BYTES;
        if (fits && !keep(cache, choices[i].shape, choices[i].algorithm, choices[i].s))
            return "no memory left on this host";
    }
    return NULL;
}
