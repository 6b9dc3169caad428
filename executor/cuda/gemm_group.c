#include "executor/cuda/cuda.h"

#include <assert.h>
#include <cublas_v2.h>
#include <stdlib.h>

// GEMMs in groups by cuBLAS, which is opened when the first is wanted: runs without experts need
// none of it. cuBLASLt has no such call. Partial sums are added up in fp32.
//
// cuBLAS takes 16 bits in and out, or fp32 in and out, and no others (its documentation of
// cublasGemmGroupedBatchedEx, and what it says to CUBLAS_STATUS_NOT_SUPPORTED); a later one may.

#if CUBLAS_VERSION >= 120500
enum { WORKSPACE_BYTES = 32 << 20 };  // gemm.c's: a stream does one after the other

static const char *fault_of(cublasStatus_t status)
{
    return status == CUBLAS_STATUS_SUCCESS ? NULL : cublasGetStatusString(status);
}

static cublasStatus_t open_library(struct cuda_device *device)
{
    if (device->groups) return CUBLAS_STATUS_SUCCESS;
    cublasStatus_t status = cublasCreate(&device->groups);
    if (status != CUBLAS_STATUS_SUCCESS) {
        device->groups = NULL;
        return status;
    }
    return cublasSetMathMode(device->groups, CUBLAS_DEFAULT_MATH |
                                                 CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION);
}

static cudaDataType_t type_of(int number)
{
    return number == NUMBER_FP32 ? CUDA_R_32F : number == NUMBER_BF16 ? CUDA_R_16BF : CUDA_R_16F;
}

// Every GEMM a group of its own. C turned = B turned . A turned, as gemm.c has it.
struct groups {
    cublasOperation_t *a_turned, *b_turned;
    int64_t *rows, *columns, *inner, *a_stride, *b_stride, *c_stride, *sizes;
    float *alpha, *beta;
};

enum { GROUP_BYTES = 7 * sizeof(int64_t) + 2 * sizeof(float) + 2 * sizeof(cublasOperation_t) };

// The widest numbers first, so that each array is aligned.
static struct groups groups_in(void *memory, int count)
{
    int64_t *numbers = memory;
    assert(count > 0);
    struct groups g = {.rows = numbers,
                       .columns = numbers + count,
                       .inner = numbers + 2 * count,
                       .a_stride = numbers + 3 * count,
                       .b_stride = numbers + 4 * count,
                       .c_stride = numbers + 5 * count,
                       .sizes = numbers + 6 * count};
    g.alpha = (float *)(numbers + 7 * count);
    g.beta = g.alpha + count;
    g.a_turned = (cublasOperation_t *)(g.beta + count);
    g.b_turned = g.a_turned + count;
    return g;
}

static void read_groups(const struct cuda_gemm *gemms, int count, const struct groups *g)
{
    for (int i = 0; i < count; i++) {
        const struct cuda_gemm *gemm = &gemms[i];
        g->a_turned[i] = gemm->is_a_turned ? CUBLAS_OP_T : CUBLAS_OP_N;
        g->b_turned[i] = gemm->is_b_turned ? CUBLAS_OP_T : CUBLAS_OP_N;
        g->rows[i] = gemm->rows, g->columns[i] = gemm->columns, g->inner[i] = gemm->inner;
        g->a_stride[i] = gemm->a_stride, g->b_stride[i] = gemm->b_stride;
        g->c_stride[i] = gemm->c_stride;
        g->alpha[i] = gemm->alpha, g->beta[i] = gemm->beta;
        g->sizes[i] = 1;
    }
}

static cublasStatus_t run_groups(const struct cuda_device *device, const struct cuda_gemm *gemms,
                                 int count, void *const *table, const struct groups *g)
{
    const void *const *a = (const void *const *)table, *const *b = a + count;
    cudaDataType_t type = type_of(gemms[0].a.number);
    return cublasGemmGroupedBatchedEx_64(
        device->groups, g->b_turned, g->a_turned, g->columns, g->rows, g->inner, g->alpha, b, type,
        g->b_stride, a, type, g->a_stride, g->beta, table + 2 * (ptrdiff_t)count,
        type_of(gemms[0].c.number), g->c_stride, count, g->sizes, CUBLAS_COMPUTE_32F);
}

// The workspace is lost when the stream changes.
static cublasStatus_t take_stream(struct cuda_device *device, enum stream stream, void *workspace)
{
    cublasStatus_t status = cublasSetStream(device->groups, device->streams[stream]);
    if (status != CUBLAS_STATUS_SUCCESS) return status;
    return cublasSetWorkspace(device->groups, workspace, WORKSPACE_BYTES);
}

const char *gemm_run_group(struct cuda_device *device, enum stream stream,
                           const struct cuda_gemm *gemms, int count, void *const *table,
                           bool *is_refused)
{
    void *workspace = cuda_scratch(device, stream, SCRATCH_GEMM, WORKSPACE_BYTES);
    if (!workspace) return CUDA_NO_MEMORY;
    void *memory = malloc((size_t)count * GROUP_BYTES);
    if (!memory) return "no memory left on this host";
    struct groups groups = groups_in(memory, count);
    read_groups(gemms, count, &groups);
    cublasStatus_t status = open_library(device);
    if (status == CUBLAS_STATUS_SUCCESS) status = take_stream(device, stream, workspace);
    if (status == CUBLAS_STATUS_SUCCESS) status = run_groups(device, gemms, count, table, &groups);
    free(memory);
    *is_refused = status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_ARCH_MISMATCH;
    // A refusal is no fault: the caller takes the GEMMs one by one.
    return *is_refused ? NULL : fault_of(status);
}

void gemm_group_close(struct cuda_device *device)
{
    if (device->groups) cublasDestroy(device->groups);
    device->groups = NULL;
}
#else
const char *gemm_run_group(struct cuda_device *device, enum stream stream,
                           const struct cuda_gemm *gemms, int count, void *const *table,
                           bool *is_refused)
{
    (void)device, (void)stream, (void)gemms, (void)count, (void)table;
    *is_refused = true;
    return NULL;
}

void gemm_group_close(struct cuda_device *device)
{
    (void)device;
}
#endif
