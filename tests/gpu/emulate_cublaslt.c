#include "executor/cuda/gemm.h"

#include "tests/gpu/emulate_gemm.h"
#include "tests/gpu/emulate_streams.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

// cuBLASLt of the emulation. Its algorithms differ as the true ones do: in how sums are split, and
// so in their last bits, and in speed. MESHWRIGHT_EMULATED_FAST names the one that is faster than
// the others; with no such word all are as fast as the host is.

struct algorithm {
    int scheme;
    struct emulate_split split;
};
// By what the heuristics think of them. Those that add in place do so in the order of turns.
static const struct algorithm ALGORITHMS[] = {
    {CUBLASLT_REDUCTION_SCHEME_NONE, {.parts = 1}},
    {CUBLASLT_REDUCTION_SCHEME_INPLACE, {.parts = 3}},
    {CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE, {.parts = 4}},
    {CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE, {.parts = 4, .is_narrow = true}},
    {CUBLASLT_REDUCTION_SCHEME_NONE, {.parts = 1}},
    {CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE, {.parts = 2}},
};
enum { ALGORITHM_COUNT = sizeof ALGORITHMS / sizeof *ALGORITHMS, SLOW_NS = 300000 };
static const uint64_t MAGIC = 0x656D756C61746564;

struct cublas_lt {
    int unused;
};
struct cublas_lt_product {
    cublasOperation_t turned[2];  // of cuBLASLt's a and b
    cublasLtEpilogue_t epilogue;
    void *bias, *aux;
    int64_t aux_stride;
    const float *factors[2];
};
struct cublas_lt_layout {
    cudaDataType_t type;
    int64_t rows, columns, stride, step;
    int32_t batch;
};
struct cublas_lt_preference {
    uint32_t reductions;
    uint64_t workspace_bytes;
};

static uint64_t counts[ALGORITHM_COUNT];
// How many products ran by an algorithm since the last time it was asked for.
__attribute__((visibility("default"))) uint64_t emulated_algorithm_runs(int algorithm);
uint64_t emulated_algorithm_runs(int algorithm)
{
    uint64_t count = counts[algorithm];
    counts[algorithm] = 0;
    return count;
}

const char *cublasLtGetStatusString(cublasStatus_t status)
{
    return status == CUBLAS_STATUS_NOT_SUPPORTED ? "CUBLAS_STATUS_NOT_SUPPORTED"
                                                 : "CUBLAS_STATUS_INVALID_VALUE";
}
size_t cublasLtGetVersion(void)
{
    return 0;
}

static cublasStatus_t make(void **made, size_t bytes)
{
    *made = calloc(1, bytes);
    return *made ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_ALLOC_FAILED;
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle)
{
    return make((void **)handle, sizeof **handle);
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle)
{
    free(handle);
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *product, int compute,
                                        cudaDataType_t scale)
{
    assert(compute == CUBLAS_COMPUTE_32F && scale == CUDA_R_32F);
    cublasStatus_t status = make((void **)product, sizeof **product);
    if (*product) (*product)->epilogue = CUBLASLT_EPILOGUE_DEFAULT;
    return status;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t product)
{
    free(product);
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t set(void *to, size_t bytes, const void *value, size_t size)
{
    if (size != bytes) return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(to, value, size);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t p,
                                              cublasLtMatmulDescAttributes_t name,
                                              const void *value, size_t size)
{
    switch (name) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
        return set(&p->turned[0], sizeof p->turned[0], value, size);
    case CUBLASLT_MATMUL_DESC_TRANSB:
        return set(&p->turned[1], sizeof p->turned[1], value, size);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
        return set(&p->epilogue, sizeof p->epilogue, value, size);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
        return set(&p->bias, sizeof p->bias, value, size);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER:
        return set(&p->aux, sizeof p->aux, value, size);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD:
        return set(&p->aux_stride, sizeof p->aux_stride, value, size);
    case CUBLASLT_MATMUL_DESC_A_SCALE_POINTER:
        return set(&p->factors[0], sizeof p->factors[0], value, size);
    case CUBLASLT_MATMUL_DESC_B_SCALE_POINTER:
        return set(&p->factors[1], sizeof p->factors[1], value, size);
    default:
        return CUBLAS_STATUS_INVALID_VALUE;
    }
}
cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *layout, cudaDataType_t type,
                                          uint64_t rows, uint64_t columns, int64_t stride)
{
    cublasStatus_t status = make((void **)layout, sizeof **layout);
    if (*layout)
        **layout = (struct cublas_lt_layout){.type = type,
                                             .rows = (int64_t)rows,
                                             .columns = (int64_t)columns,
                                             .stride = stride,
                                             .batch = 1};
    return status;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout)
{
    free(layout);
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout, int name,
                                                const void *value, size_t size)
{
    if (name == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT)
        return set(&layout->batch, sizeof layout->batch, value, size);
    return set(&layout->step, sizeof layout->step, value, size);
}
cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *preference)
{
    cublasStatus_t status = make((void **)preference, sizeof **preference);
    if (*preference) (*preference)->reductions = 7;
    return status;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference)
{
    free(preference);
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t p,
                                                    cublasLtMatmulPreferenceAttributes_t name,
                                                    const void *value, size_t size)
{
    uint32_t alignment = 0;
    if (name == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK)
        return set(&p->reductions, sizeof p->reductions, value, size);
    if (name == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES)
        return set(&p->workspace_bytes, sizeof p->workspace_bytes, value, size);
    return set(&alignment, sizeof alignment, value, size);
}

static int number_of(cudaDataType_t type)
{
    switch (type) {
    case CUDA_R_16BF:
        return NUMBER_BF16;
    case CUDA_R_16F:
        return NUMBER_FP16;
    case CUDA_R_8F_E4M3:
        return NUMBER_E4M3;
    case CUDA_R_8F_E5M2:
        return NUMBER_E5M2;
    default:
        return NUMBER_FP32;
    }
}

static enum gemm_epilogue epilogue_of(cublasLtEpilogue_t epilogue)
{
    switch (epilogue) {
    case CUBLASLT_EPILOGUE_BIAS:
        return GEMM_BIAS;
    case CUBLASLT_EPILOGUE_GELU_AUX_BIAS:
        return GEMM_BIAS_GELU;
    case CUBLASLT_EPILOGUE_DGELU:
        return GEMM_D_GELU;
    case CUBLASLT_EPILOGUE_BGRADB:
        return GEMM_SUM_A;
    case CUBLASLT_EPILOGUE_BGRADA:
        return GEMM_SUM_B;
    default:
        return GEMM_PLAIN;
    }
}

// Row-major as gemm.c has it: what column-major calls a is our b, and turned.
static struct cuda_gemm gemm_of(const struct cublas_lt_product *p, const struct cublas_lt_layout *a,
                                const struct cublas_lt_layout *b, const struct cublas_lt_layout *d)
{
    struct cuda_gemm g = {.rows = d->columns,
                          .columns = d->rows,
                          .batch = d->batch,
                          .is_a_turned = p->turned[1] == CUBLAS_OP_T,
                          .is_b_turned = p->turned[0] == CUBLAS_OP_T,
                          .a = {NULL, number_of(b->type)},
                          .b = {NULL, number_of(a->type)},
                          .c = {NULL, number_of(d->type)},
                          .a_stride = b->stride,
                          .b_stride = a->stride,
                          .c_stride = d->stride,
                          .a_batch = b->step,
                          .b_batch = a->step,
                          .c_batch = d->step,
                          .epilogue = epilogue_of(p->epilogue),
                          .bias = {p->bias, number_of(d->type)},
                          .aux = {p->aux, number_of(d->type)},
                          .aux_stride = p->aux_stride,
                          .a_factor = p->factors[1],
                          .b_factor = p->factors[0]};
    g.inner = g.is_a_turned ? b->columns : b->rows;
    assert(g.inner == (g.is_b_turned ? a->rows : a->columns));
    assert(g.rows == (g.is_a_turned ? b->rows : b->columns));
    assert(g.columns == (g.is_b_turned ? a->columns : a->rows));
    return g;
}

static cublasLtMatmulHeuristicResult_t result_of(int algorithm)
{
    return (cublasLtMatmulHeuristicResult_t){
        .algo = {{(uint64_t)algorithm, MAGIC}}, .state = CUBLAS_STATUS_SUCCESS, .wavesCount = 1};
}

// The library's own signature.
// NOLINTNEXTLINE(readability-function-size)
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t product,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int wanted,
                                              cublasLtMatmulHeuristicResult_t *found, int *count)
{
    (void)handle, (void)c;
    *count = 0;
    const struct cuda_gemm g = gemm_of(product, a, b, d);
    if (emulate_check_gemm(&g)) return CUBLAS_STATUS_NOT_SUPPORTED;
    // As an H200 answered, see gemm_choice.c.
    if (number_is_byte(g.a.number) && preference->reductions != CUBLASLT_REDUCTION_SCHEME_MASK)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    for (int i = 0; i < ALGORITHM_COUNT && *count < wanted; i++) {
        int scheme = ALGORITHMS[i].scheme;
        bool is_allowed = scheme == 0 || ((uint32_t)scheme & preference->reductions);
        if (is_allowed) found[(*count)++] = result_of(i);
    }
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t *algorithm,
                                                    cublasLtMatmulAlgoConfigAttributes_t name,
                                                    void *value, size_t size, size_t *written)
{
    assert(name == CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME && size == sizeof(uint32_t));
    const uint32_t scheme = (uint32_t)ALGORITHMS[algorithm->data[0]].scheme;
    memcpy(value, &scheme, size);
    *written = size;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t handle, cublasLtMatmulDesc_t product,
                                       cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                       cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                       const cublasLtMatmulAlgo_t *algorithm,
                                       cublasLtMatmulHeuristicResult_t *result)
{
    (void)handle, (void)c;
    const struct cuda_gemm g = gemm_of(product, a, b, d);
    bool is_there = algorithm->data[1] == MAGIC && algorithm->data[0] < ALGORITHM_COUNT;
    if (emulate_check_gemm(&g) || !is_there) return CUBLAS_STATUS_NOT_SUPPORTED;
    *result = result_of((int)algorithm->data[0]);
    return CUBLAS_STATUS_SUCCESS;
}

struct product {
    struct cuda_gemm gemm;
    int algorithm;
};

static void run_product(const void *args)
{
    const struct product *product = args;
    struct emulate_split split = ALGORITHMS[product->algorithm].split;
    const char *fast = getenv("MESHWRIGHT_EMULATED_FAST");
    const struct timespec pause = {0, SLOW_NS};
    split.is_falling = ALGORITHMS[product->algorithm].scheme == CUBLASLT_REDUCTION_SCHEME_INPLACE &&
                       counts[product->algorithm] % 2;
    counts[product->algorithm]++;
    emulate_launched("cublasLtMatmul");
    emulate_gemm(&product->gemm, split);
    if (fast && atoi(fast) != product->algorithm) nanosleep(&pause, NULL);
}

// NOLINTNEXTLINE(readability-function-size)
cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t product,
                              const void *alpha, const void *a_data, cublasLtMatrixLayout_t a,
                              const void *b_data, cublasLtMatrixLayout_t b, const void *beta,
                              const void *c_data, cublasLtMatrixLayout_t c, void *d_data,
                              cublasLtMatrixLayout_t d, const cublasLtMatmulAlgo_t *algorithm,
                              void *workspace, size_t workspace_bytes, cudaStream_t stream)
{
    (void)handle, (void)c, (void)workspace_bytes;
    struct product call = {gemm_of(product, a, b, d), (int)algorithm->data[0]};
    assert(algorithm->data[1] == MAGIC && workspace);
    call.gemm.alpha = *(const float *)alpha, call.gemm.beta = *(const float *)beta;
    memcpy(&call.gemm.a.data, &b_data, sizeof b_data);  // read only
    memcpy(&call.gemm.b.data, &a_data, sizeof a_data);
    call.gemm.c.data = d_data;
    call.gemm.addend.number = call.gemm.c.number;
    memcpy(&call.gemm.addend.data, &c_data, sizeof c_data);
    if (emulate_check_gemm(&call.gemm)) return CUBLAS_STATUS_INVALID_VALUE;
    emulate_put(stream, run_product, &call, sizeof call);
    return CUBLAS_STATUS_SUCCESS;
}
