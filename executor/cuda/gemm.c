#include "executor/cuda/gemm.h"

#include "core/hash.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

// GEMMs by cuBLASLt: descriptors and the algorithm (gemm_choice.c) are made once for each kind of
// call and kept for the run, so that equal calls run equal kernels. A workspace of a fixed size a
// stream.

static const char *fault_of(cublasStatus_t status)
{
    return status == CUBLAS_STATUS_SUCCESS ? NULL : cublasLtGetStatusString(status);
}

int64_t gemm_library_version(void)
{
    return (int64_t)cublasLtGetVersion();
}

const char *gemm_open(struct cuda_device *device)
{
    device->gemm = calloc(1, sizeof *device->gemm);
    if (!device->gemm) return "no memory left on this host";
    return fault_of(cublasLtCreate(&device->gemm->handle));
}

// Plans may be half made, where making one failed.
static void forget(struct gemm_plan *plan)
{
    if (plan->product) cublasLtMatmulDescDestroy(plan->product);
    if (plan->a) cublasLtMatrixLayoutDestroy(plan->a);
    if (plan->b) cublasLtMatrixLayoutDestroy(plan->b);
    if (plan->c) cublasLtMatrixLayoutDestroy(plan->c);
    free(plan);
}

void gemm_close(struct cuda_device *device)
{
    gemm_group_close(device);
    if (!device->gemm) return;
    for (int i = 0; i < GEMM_BUCKETS; i++) {
        while (device->gemm->plans[i]) {
            struct gemm_plan *plan = device->gemm->plans[i];
            device->gemm->plans[i] = plan->next;
            forget(plan);
        }
    }
    gemm_choices_free(device->gemm);
    if (device->gemm->handle) cublasLtDestroy(device->gemm->handle);
    free(device->gemm);
    device->gemm = NULL;
}

static cudaDataType_t type_of(int number)
{
    static const cudaDataType_t TYPES[] = {
        [NUMBER_FP32] = CUDA_R_32F,     [NUMBER_BF16] = CUDA_R_16BF,    [NUMBER_FP16] = CUDA_R_16F,
        [NUMBER_E4M3] = CUDA_R_8F_E4M3, [NUMBER_E5M2] = CUDA_R_8F_E5M2,
    };
    assert(number >= 0 && (size_t)number < sizeof TYPES / sizeof *TYPES);
    return TYPES[number];
}

// Of an address and of what batches add to it: the kernels that load the most at once want 16. In 8
// bits all that is known is said, up to the 256 that the library takes for granted.
static int alignment_of(const void *data, int64_t batch_bytes, uintptr_t most)
{
    uintptr_t bits = (uintptr_t)data | (uintptr_t)batch_bytes | most;
    return (int)(bits & -bits);
}

static struct gemm_key key_of(const struct cuda_gemm *g)
{
    struct gemm_key key;
    memset(&key, 0, sizeof key);  // compared as bytes
    key.rows = g->rows, key.columns = g->columns, key.inner = g->inner, key.batch = g->batch;
    key.a_stride = g->a_stride, key.b_stride = g->b_stride, key.c_stride = g->c_stride;
    key.a_batch = g->a_batch, key.b_batch = g->b_batch, key.c_batch = g->c_batch;
    key.number = g->a.number, key.b_number = g->b.number, key.c_number = g->c.number;
    key.epilogue = (int)g->epilogue, key.aux_stride = g->aux_stride;
    key.is_a_turned = g->is_a_turned, key.is_b_turned = g->is_b_turned;
    uintptr_t most = number_is_byte(g->a.number) ? 256 : 16;
    key.a_alignment = alignment_of(g->a.data, g->a_batch * number_bytes(g->a.number), most);
    key.b_alignment = alignment_of(g->b.data, g->b_batch * number_bytes(g->b.number), most);
    key.c_alignment = alignment_of(g->c.data, g->c_batch * number_bytes(g->c.number), most);
    int addend_alignment = alignment_of(g->addend.data, 0, most);
    if (addend_alignment < key.c_alignment) key.c_alignment = addend_alignment;
    key.bias_alignment = alignment_of(g->bias.data, 0, 16);
    key.is_sum = g->beta != 0;
    return key;
}

// Row-major stored matrices are column-major ones turned.
static cublasStatus_t make_layout(cublasLtMatrixLayout_t *layout, int number, int64_t rows,
                                  int64_t columns, int64_t stride, int64_t batch, int64_t step)
{
    int32_t count = (int32_t)batch;
    assert(batch > 0 && count == batch && stride >= columns);
    cublasStatus_t status = cublasLtMatrixLayoutCreate(layout, type_of(number), (uint64_t)columns,
                                                       (uint64_t)rows, stride);
    if (status != CUBLAS_STATUS_SUCCESS || batch == 1) return status;
    status = cublasLtMatrixLayoutSetAttribute(*layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count,
                                              sizeof count);
    if (status != CUBLAS_STATUS_SUCCESS) return status;
    return cublasLtMatrixLayoutSetAttribute(*layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                            &step, sizeof step);
}

static cublasStatus_t set(struct gemm_plan *plan, cublasStatus_t before,
                          cublasLtMatmulDescAttributes_t name, const void *value, size_t size)
{
    if (before != CUBLAS_STATUS_SUCCESS) return before;
    return cublasLtMatmulDescSetAttribute(plan->product, name, value, size);
}

// Rows and columns change places with the operands, and so do the sums of them.
static cublasStatus_t set_epilogue(struct gemm_plan *plan)
{
    static const cublasLtEpilogue_t EPILOGUES[] = {
        [GEMM_PLAIN] = CUBLASLT_EPILOGUE_DEFAULT,
        [GEMM_BIAS] = CUBLASLT_EPILOGUE_BIAS,
        [GEMM_BIAS_GELU] = CUBLASLT_EPILOGUE_GELU_AUX_BIAS,
        [GEMM_D_GELU] = CUBLASLT_EPILOGUE_DGELU,
        [GEMM_SUM_A] = CUBLASLT_EPILOGUE_BGRADB,
        [GEMM_SUM_B] = CUBLASLT_EPILOGUE_BGRADA,  // its first operand is our b
    };
    cublasLtEpilogue_t epilogue = EPILOGUES[plan->key.epilogue];
    bool has_aux = plan->key.epilogue == GEMM_BIAS_GELU || plan->key.epilogue == GEMM_D_GELU;
    cublasStatus_t status =
        set(plan, CUBLAS_STATUS_SUCCESS, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue);
    if (!has_aux) return status;
    return set(plan, status, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &plan->key.aux_stride,
               sizeof plan->key.aux_stride);
}

// Sums in fp32, whatever the operands are: TF32 is not asked for.
static cublasStatus_t make_product(struct gemm_plan *plan)
{
    const struct gemm_key *k = &plan->key;
    cublasOperation_t a = k->is_a_turned ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasOperation_t b = k->is_b_turned ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasStatus_t status =
        cublasLtMatmulDescCreate(&plan->product, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    status = set(plan, status, CUBLASLT_MATMUL_DESC_TRANSA, &b, sizeof b);
    status = set(plan, status, CUBLASLT_MATMUL_DESC_TRANSB, &a, sizeof a);
    return status == CUBLAS_STATUS_SUCCESS ? set_epilogue(plan) : status;
}

// C turned = B turned . A turned, which is what column-major makes of row-major.
static cublasStatus_t make(struct gemm_plan *plan)
{
    const struct gemm_key *k = &plan->key;
    int64_t a_rows = k->is_a_turned ? k->inner : k->rows, a_columns = k->rows + k->inner - a_rows;
    int64_t b_rows = k->is_b_turned ? k->columns : k->inner;
    int64_t b_columns = k->columns + k->inner - b_rows;
    cublasStatus_t status = make_product(plan);
    if (status == CUBLAS_STATUS_SUCCESS) {
        status =
            make_layout(&plan->a, k->number, a_rows, a_columns, k->a_stride, k->batch, k->a_batch);
    }
    if (status == CUBLAS_STATUS_SUCCESS) {
        status = make_layout(&plan->b, k->b_number, b_rows, b_columns, k->b_stride, k->batch,
                             k->b_batch);
    }
    if (status == CUBLAS_STATUS_SUCCESS) {
        status = make_layout(&plan->c, k->c_number, k->rows, k->columns, k->c_stride, k->batch,
                             k->c_batch);
    }
    return status;
}

// Keys are zeroed before they are filled.
static bool is_same(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(struct gemm_key)) == 0;
}

static const char *find(struct gemm_cache *cache, const struct gemm_key *key,
                        struct gemm_plan **plan)
{
    struct gemm_plan **bucket =
        &cache->plans[hash_bytes(HASH_START, key, sizeof *key) % GEMM_BUCKETS];
    for (*plan = *bucket; *plan; *plan = (*plan)->next) {
        if (is_same(&(*plan)->key, key)) return NULL;
    }
    *plan = calloc(1, sizeof **plan);
    if (!*plan) return "no memory left on this host";
    (*plan)->key = *key;
    const char *fault = fault_of(make(*plan));
    if (fault) {
        forget(*plan);
        return fault;
    }
    (*plan)->next = *bucket;
    *bucket = *plan;
    return NULL;
}

// The operands of our a and b are cuBLASLt's second and first.
static cublasStatus_t set_pointers(struct gemm_plan *plan, const struct cuda_gemm *gemm)
{
    cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
    const struct {
        cublasLtMatmulDescAttributes_t name;
        const void *pointer;
    } pointers[] = {
        {CUBLASLT_MATMUL_DESC_BIAS_POINTER, gemm->bias.data},
        {CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, gemm->aux.data},
        {CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, gemm->b_factor},
        {CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, gemm->a_factor},
    };
    for (size_t i = 0; i < sizeof pointers / sizeof *pointers; i++) {
        if (!pointers[i].pointer) continue;
        status =
            set(plan, status, pointers[i].name, &pointers[i].pointer, sizeof pointers[i].pointer);
    }
    return status;
}

// The addend is C where no other is given: beta of 0 does not read it.
cublasStatus_t gemm_launch(struct cuda_device *device, enum stream stream,
                           const struct gemm_plan *plan, const struct cuda_gemm *gemm,
                           const cublasLtMatmulAlgo_t *algorithm, void *workspace)
{
    const void *addend = gemm->addend.data ? gemm->addend.data : gemm->c.data;
    return cublasLtMatmul(device->gemm->handle, plan->product, &gemm->alpha, gemm->b.data, plan->b,
                          gemm->a.data, plan->a, &gemm->beta, addend, plan->c, gemm->c.data,
                          plan->c, algorithm, workspace, GEMM_WORKSPACE_BYTES,
                          device->streams[stream]);
}

const char *gemm_run(struct cuda_device *device, enum stream stream, const struct cuda_gemm *gemm)
{
    struct gemm_plan *plan;
    assert((gemm->epilogue == GEMM_PLAIN || gemm->batch == 1) && "an epilogue is of one GEMM");
    struct gemm_key key = key_of(gemm);
    void *workspace = cuda_scratch(device, stream, SCRATCH_GEMM, GEMM_WORKSPACE_BYTES);
    if (!workspace) return CUDA_NO_MEMORY;
    const char *fault = find(device->gemm, &key, &plan);
    if (!fault) fault = fault_of(set_pointers(plan, gemm));
    if (fault) return fault;
    if (!plan->is_refused && !plan->is_chosen) {
        cublasStatus_t status = gemm_choose(device, stream, plan, gemm, workspace);
        plan->is_refused = status == CUBLAS_STATUS_NOT_SUPPORTED;
        fault = fault_of(status);
    }
    // Asked once a shape: a refusal stays.
    if (plan->is_refused) return "cuBLASLt names no algorithm for a GEMM of these numbers";
    if (fault) return fault;
    plan->is_chosen = true;
    return fault_of(gemm_launch(device, stream, plan, gemm, &plan->algorithm, workspace));
}
