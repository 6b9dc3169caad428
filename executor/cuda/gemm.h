#pragma once
#include "executor/cuda/cuda.h"

#include <cublasLt.h>

// Inside of the GEMMs: executor/cuda/gemm*.c of cuBLASLt share this.

enum { GEMM_WORKSPACE_BYTES = 32 << 20, GEMM_BUCKETS = 1024, GEMM_CHOICE_BYTES = 320 };

struct gemm_key {
    int64_t rows, columns, inner, batch, a_stride, b_stride, c_stride, a_batch, b_batch, c_batch;
    int64_t aux_stride;
    int number, b_number, c_number, is_a_turned, is_b_turned;
    int a_alignment, b_alignment, c_alignment, bias_alignment, is_sum, epilogue;
};
struct gemm_plan {
    struct gemm_plan *next;
    struct gemm_key key;
    bool is_chosen;
    bool is_refused;
    cublasLtMatmulDesc_t product;
    cublasLtMatrixLayout_t a;
    cublasLtMatrixLayout_t b;
    cublasLtMatrixLayout_t c;
    cublasLtMatmulAlgo_t algorithm;
};

// An algorithm that was measured, here or by a calibration.
struct gemm_choice {
    struct gemm_choice *next;
    char shape[GEMM_CHOICE_BYTES], algorithm[GEMM_CHOICE_BYTES];
    double s;
};
struct gemm_cache {
    cublasLtHandle_t handle;
    struct gemm_plan *plans[GEMM_BUCKETS];
    struct gemm_choice *choices;  // newest first
    int choice_count;
    struct kernel_choice *told;  // what gemm_choices handed out last
    bool is_tuning;
};

// executor/cuda/gemm_choice.c: sets the plan's algorithm: that of the choices; where there is none
// the first that the heuristics name, or while tuning the fastest of the first eight, which becomes
// a choice. Tuning runs the call several times, and waits.
cublasStatus_t gemm_choose(struct cuda_device *device, enum stream stream, struct gemm_plan *plan,
                           const struct cuda_gemm *gemm, void *workspace);
// One launch by this algorithm.
cublasStatus_t gemm_launch(struct cuda_device *device, enum stream stream,
                           const struct gemm_plan *plan, const struct cuda_gemm *gemm,
                           const cublasLtMatmulAlgo_t *algorithm, void *workspace);
void gemm_choices_free(struct gemm_cache *cache);
