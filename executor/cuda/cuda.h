#pragma once
#include "executor/array.h"
#include "executor/backend.h"
#include "executor/cuda/kernels.h"

#include <cuda_runtime_api.h>

// The CUDA back end: one device, a CUDA stream for each stream of a program. C prepares calls, the
// kernels are in the .cu files, GEMMs go to cuBLASLt (gemm.c) and attention to cuDNN (sdpa.c)
// or, where that has no engine for it, to GEMMs and a masked softmax (attention.c).
//
// Nothing waits for the device but copies from and to the host, sums of squares, the count of
// experts' rows, and who asks for it. What the device finds wrong meanwhile is said by the next
// call that looks.

// Memory that kernels need while they run; grown on demand and kept. Each stream has its own.
enum scratch {
    SCRATCH_A,  // operands and result of a GEMM that are no plain matrices
    SCRATCH_B,
    SCRATCH_C,
    SCRATCH_CAST,     // what a product in 8 bits has cast for others as well
    SCRATCH_PARTIAL,  // partial sums, moments, lists of tokens
    SCRATCH_ROWS,     // where experts' rows or matrices begin, as the device sees it
    SCRATCH_INDEX,
    SCRATCH_SCORES,  // of attention; of a convolution its matrix
    SCRATCH_D_SCORES,
    SCRATCH_WEIGHTS,
    SCRATCH_D_WEIGHTS,
    SCRATCH_RESULT,
    SCRATCH_KEYS,
    SCRATCH_VALUES,
    SCRATCH_SDPA,
    SCRATCH_GEMM,  // workspace of cuBLASLt
    SCRATCH_SUM,   // results that are added to what is there; outputs up to OP_OUTPUT_MAX
    SCRATCH_COUNT = SCRATCH_SUM + OP_OUTPUT_MAX
};

struct cuda_rotation {  // cosines and sines of one rope, kept while the device is open
    double theta;
    int64_t dims, first, count;
    int64_t columns, still;  // of struct op
    float *table;
};

struct gemm_cache;
struct sdpa_cache;
struct cublasContext;

// Behind the `struct device` of the table.
struct cuda_device {
    int ordinal;
    enum number compute;    // of ELEMENT_COMPUTE
    bool is_low_precision;  // GEMMs of layers with their parameters are in 8 bits
    cudaStream_t streams[STREAM_COUNT];
    void *scratch[STREAM_COUNT][SCRATCH_COUNT];
    int64_t scratch_bytes[STREAM_COUNT][SCRATCH_COUNT];
    struct cuda_rotation *rotations;
    int rotation_count, rotation_room;
    int64_t *origin_ns;   // on the device: what delay_until counts from
    bool is_capturing;    // its own memory must stay where it is
    int64_t scratch_age;  // counts when it has not
    int *fault;           // the host's memory, written by kernels
    struct gemm_cache *gemm;
    struct cublasContext *groups;  // cuBLAS, from the first group of GEMMs on
    unsigned refused_groups;       // group_kind: no need to ask again
    struct sdpa_cache *sdpa;
    struct attention_path *paths;  // [ATTENTION_PATH_MAX]
    int path_count;
};

extern const char CUDA_NO_MEMORY[];
// NULL, or the name of the error, by CUDA, which then forgets it: it is no fault of what comes
// next.
const char *cuda_fault(cudaError_t error);
// At least `bytes` on the device; NULL when there is none.
void *cuda_scratch(struct cuda_device *device, enum stream stream, enum scratch scratch,
                   int64_t bytes);

static inline bool number_is_byte(int number)
{
    return number == NUMBER_E4M3 || number == NUMBER_E5M2;
}
static inline int64_t number_bytes(int number)
{
    return number == NUMBER_FP32 ? 4 : number_is_byte(number) ? 1 : 2;
}
static inline struct reals reals_at(struct reals x, int64_t elements)
{
    x.data = (char *)x.data + elements * number_bytes(x.number);
    return x;
}
struct reals reals_of(const struct cuda_device *device, const struct kernel_array *array);
// Zeros, unless the result is added to what is there.
const char *cuda_begin_sum(struct cuda_device *device, enum stream stream,
                           const struct kernel_call *call, int output);

// What is done to the result of one GEMM before it is written, see struct cuda_gemm.
enum gemm_epilogue { GEMM_PLAIN, GEMM_BIAS, GEMM_BIAS_GELU, GEMM_D_GELU, GEMM_SUM_A, GEMM_SUM_B };

// C (rows x columns) = alpha A . B + beta C, `batch` times. Strides in elements, any: what
// cuBLASLt cannot read is packed first.
struct matrix {
    struct reals reals;
    int64_t row_stride, column_stride, batch_stride;
};
struct cuda_matmul {
    int64_t rows, columns, inner, batch;
    double alpha, beta;
    struct matrix a, b, c;
    struct reals addend;  // what beta is of, where that is not C itself: laid out as C; data NULL
    // Other than GEMM_PLAIN of one GEMM alone, whose C cuBLASLt can write; a fault otherwise.
    enum gemm_epilogue epilogue;
    struct reals bias, aux;
    int64_t aux_stride;
    // NUMBER_E4M3 or NUMBER_E5M2: what a and b are cast to where that can be; else 0. Factors of
    // those that are cast already, with what is summed last; else NULL.
    int low_precision[2];
    const float *factors[2];
    const struct kernel_weight_cast *weight_casts[2];  // NULL, or what is kept of the operand
};
bool cuda_can_lower_precision(const struct cuda_matmul *product);
const char *cuda_multiply_low_precision(struct cuda_device *device, enum stream stream,
                                        const struct cuda_matmul *product);
const char *cuda_multiply(struct cuda_device *device, enum stream stream,
                          const struct cuda_matmul *product);

// gemm.c: row-major matrices, `is_turned`: stored as columns x rows. Strides between rows as
// stored. a and b are of one number; c of that, or fp32. Or a and b are of 8 bits, each with a
// factor on the device, a is not turned and b is (Hopper multiplies no others), inner and columns
// are multiples of 16, and c is of 16 bits or fp32.
//
// What is done to the result before it is written, of one matrix with beta 0: a bias by column is
// added; then the tanh form of GELU taken, with what went into it written to `aux`; or it is
// multiplied by the derivative of that GELU at `aux`. aux is of c's number, its rows of a multiple
// of 8 numbers. With GEMM_SUM_A or GEMM_SUM_B, and any beta, a or b is summed over inner beside the
// GEMM: `bias`, of c's number, becomes these sums by row or by column.
struct cuda_gemm {
    int64_t rows, columns, inner, batch;
    bool is_a_turned, is_b_turned;
    struct reals a, b, c;
    struct reals addend;  // of c's number and strides: what beta is of; data NULL: c itself
    int64_t a_stride, b_stride, c_stride, a_batch, b_batch, c_batch;
    float alpha, beta;
    enum gemm_epilogue epilogue;
    struct reals bias, aux;
    int64_t aux_stride;
    const float *a_factor, *b_factor;  // of 8 bits: what their numbers are times
};
const char *gemm_open(struct cuda_device *device);
void gemm_close(struct cuda_device *device);
const char *gemm_run(struct cuda_device *device, enum stream stream, const struct cuda_gemm *gemm);
int64_t gemm_library_version(void);
// gemm_choice.c: entries of the table.
void gemm_tune(struct device *device);
int gemm_choices(struct device *device, const struct kernel_choice **choices);
const char *gemm_take_choices(struct device *device, const struct kernel_choice *choices,
                              int count);

// gemm_group.c: GEMMs of different sizes in one launch, all of the same numbers, of batch 1 and
// without an epilogue, none of them empty; no C overlaps another. `table`: on the device, the
// addresses of all a, then of all b, then of all c. Operands of 16 bits begin at multiples of
// GROUP_ALIGNMENT bytes. `is_refused`: the library has no such thing, and nothing was done.
enum { GROUP_ALIGNMENT = 16 };
const char *gemm_run_group(struct cuda_device *device, enum stream stream,
                           const struct cuda_gemm *gemms, int count, void *const *table,
                           bool *is_refused);
void gemm_group_close(struct cuda_device *device);

// sdpa.c: attention in one kernel. A shape is what cuDNN's heuristics know of it, and the numbers
// that its graph has by value. Query i sees key j where j <= i + ahead, if there is an end, and
// where j + back > i, if there is a start.
struct sdpa_shape {
    int number;  // NUMBER_BF16 or NUMBER_FP16
    bool is_backward, has_end, has_start, has_sinks, has_slopes, has_choice;
    bool is_causal;  // the operator, as the report says it
    bool turns_lse;  // backward: the log-sum-exp is (batch, head, seq), see SDPA_STRIDED
    int64_t batch, heads, kv_heads, queries, keys, width, value_width;
    int64_t strides[3], gradient_strides[3];  // of positions: of q, k and v; backward of theirs
    int64_t ahead, back;
    int64_t choice_stride;  // of queries, where keys are chosen
    int64_t first_key;      // in the whole, where scores have slopes
    float scale, softcap;
};
struct sdpa_tensors {
    struct reals q, k, v, out, d, d_q, d_k, d_v;  // (batch, seq, head, width)
    float *lse;                                   // (batch, seq, head), but for turns_lse
    const float *slopes, *sinks;  // (head): of what is added by the key's place; of each sum a part
    struct reals chosen;          // (batch, seq, key): what is added to scores of all heads
};
const char *sdpa_open(struct cuda_device *device);
// NULL, or why no shape at all is run here.
const char *sdpa_missing(const struct cuda_device *device);
void sdpa_close(struct cuda_device *device);
// NULL, or why cuDNN does not run this shape here. Plans are kept.
const char *sdpa_prepare(struct cuda_device *device, const struct sdpa_shape *shape);
const char *sdpa_run(struct cuda_device *device, enum stream stream, const struct sdpa_shape *shape,
                     const struct sdpa_tensors *tensors);
int64_t sdpa_library_version(void);
// Whether backward reads a log-sum-exp as forward writes it.
bool sdpa_reads_strides(void);

// One call of an operator: NULL, or a text that says what is wrong.
struct run {
    struct cuda_device *device;
    enum stream stream;
    cudaStream_t on;
    const struct kernel_call *call;
    struct reals addend;  // of a product: what it is added to, laid out as its result; data NULL
};
const char *cuda_contract(const struct run *run);
// Casts what a call is to cast both ways: as it lies into scratch memory, `rows`, and turned into
// cast_to, with the factor in front.
const char *cuda_cast_both(const struct run *run, int number, void **rows);
// With an end: its epilogue, and C in place of the call's output.
const char *cuda_contract_to(const struct run *run, const struct cuda_matmul *end);
const char *cuda_add(const struct run *run);
const char *cuda_expand(const struct run *run);
const char *cuda_reduce(const struct run *run);
const char *cuda_concat(const struct run *run);
const char *cuda_concat_backward(const struct run *run);
const char *cuda_flatten(const struct run *run);
// Of imported graphs: executor/cuda/product.c, image.c.
const char *cuda_product(const struct run *run);
const char *cuda_operator(const struct run *run);
const char *cuda_elementwise(const struct run *run);
const char *cuda_rope(const struct run *run);
// Both as one kernel.
const char *cuda_ropes(const struct run *first, const struct run *second);
const char *cuda_alibi(const struct run *run);
const char *cuda_dropout(const struct run *run);
const char *cuda_modulate(const struct run *run);
// The sum of rows over any dims but the last. False: it is not that, and nothing is done.
bool cuda_sum_rows(const struct run *run, const char **fault);
const char *cuda_norm(const struct run *run);
const char *cuda_norm_backward(const struct run *run);
const char *cuda_conv(const struct run *run);
const char *cuda_conv_backward(const struct run *run);
// Of the delta rule as well.
const char *cuda_scan(const struct run *run);
const char *cuda_scan_backward(const struct run *run);
// Those with a decay for each number of a channel's state.
const char *cuda_selective(const struct run *run);
const char *cuda_selective_backward(const struct run *run);
const char *cuda_delta(const struct run *run);
const char *cuda_delta_backward(const struct run *run);
// What can_run says of them.
const char *cuda_check_attention(const struct kernel_call *call, int first_input);
const char *cuda_check_choose(const struct kernel_call *call);
const char *cuda_check_conv(const struct kernel_call *call, int first_input);
const char *cuda_check_delta(const struct kernel_call *call, int first_input);
const char *cuda_softmax(const struct run *run);
const char *cuda_softmax_backward(const struct run *run);
const char *cuda_attention(const struct run *run);
const char *cuda_attention_backward(const struct run *run);
// paths.c: keeps the way that a shape went. `fault`: why it is not the fused one; NULL: it is.
void cuda_note_attention(struct cuda_device *device, const struct sdpa_shape *shape,
                         const char *fault, bool is_refused);
int cuda_attention_paths(struct device *device, struct attention_path *paths);
const char *cuda_choose(const struct run *run);
const char *cuda_choose_backward(const struct run *run);
const char *cuda_gather(const struct run *run);
const char *cuda_gather_backward(const struct run *run);
const char *cuda_loss(const struct run *run);
const char *cuda_loss_backward(const struct run *run);
const char *cuda_linear_loss(const struct run *run);
const char *cuda_linear_loss_backward(const struct run *run);
const char *cuda_route(const struct run *run);
const char *cuda_route_backward(const struct run *run);
// The GEMM of a call that is one, and whose arrays cuBLAS can read and write where they lie.
// False: it is not so.
bool cuda_single_gemm(const struct run *run, struct cuda_gemm *gemm);
// GEMMs of experts: is_done false where they have to run one by one.
const char *cuda_contract_experts(const struct run *run, bool *is_done);
// What one expert has of a call.
const char *cuda_cut_expert(const struct cuda_device *device, const struct kernel_call *call,
                            int64_t expert, struct kernel_call *one);
const char *cuda_dispatch(const struct run *run);
const char *cuda_dispatch_backward(const struct run *run);
const char *cuda_combine(const struct run *run);
const char *cuda_combine_backward(const struct run *run);

static inline struct reals run_input(const struct run *run, int input)
{
    if (input >= run->call->input_count) return (struct reals){0};
    return reals_of(run->device, &run->call->inputs[input]);
}
static inline struct reals run_output(const struct run *run, int output)
{
    if (output >= run->call->output_count) return (struct reals){0};
    return reals_of(run->device, &run->call->outputs[output]);
}
static inline void *run_scratch(const struct run *run, enum scratch scratch, int64_t bytes)
{
    return cuda_scratch(run->device, run->stream, scratch, bytes);
}

// run.c, update.c, box.c, capture.c: entries of the table.
const char *cuda_run(struct device *device, enum stream stream, const struct kernel_call *call);
const char *cuda_can_run(const struct kernel_call *call);
// Grouped experts (gemm_group.c), norms with a sum, and the epilogues of joined.c.
enum {
    CUDA_EPILOGUES =
        1 << JOIN_BIAS | 1 << JOIN_GELU | 1 << JOIN_GELU_SLOPE | 1 << JOIN_BIAS_GRADIENT,
    CUDA_JOINS = 1 << JOIN_MERGED | 1 << JOIN_GROUPED | 1 << JOIN_SUM_NORM | 1 << JOIN_NORM_SUM |
                 1 << JOIN_ROPES | 1 << JOIN_RESIDUAL | CUDA_EPILOGUES
};
// executor/cuda/rows.c: the norm that reads a sum, with it; and a norm's backward with the sum that
// reads what it makes. False: they have other shapes, and nothing is done.
bool cuda_norm_of_sum(const struct run *run, const struct kernel_call *sum);
bool cuda_norm_into_sum(const struct run *run, const struct kernel_call *sum);
const char *cuda_run_joined(struct device *device, enum stream stream,
                            const struct kernel_call *calls, int count);
const char *cuda_update_all(struct device *device, enum stream stream,
                            const struct update_call *calls, int count);
const char *cuda_sum_squares_of(struct device *device, enum stream stream,
                                const struct real_array *arrays, int count, double *sum);
const char *cuda_update(struct device *device, enum stream stream, const struct update_call *call);
const char *cuda_sum_squares(struct device *device, enum stream stream, const void *reals,
                             int64_t count, double *sum);
const char *cuda_scale(struct device *device, enum stream stream, void *reals, int64_t count,
                       double factor);
const char *cuda_round(struct device *device, enum stream stream, void *rounded, const void *reals,
                       int64_t count);
const char *cuda_widen(struct device *device, enum stream stream, void *reals, const void *rounded,
                       int64_t count);
// delay.c
const char *cuda_delay(struct device *device, enum stream stream, double seconds,
                       int multiprocessors);
const char *cuda_delay_origin(struct device *device, enum stream stream);
const char *cuda_delay_until(struct device *device, enum stream stream, double seconds,
                             int multiprocessors);
const char *cuda_capture_begin(struct device *device, enum stream stream);
const char *cuda_capture_end(struct device *device, enum stream stream, struct capture **capture);
const char *cuda_replay(struct device *device, enum stream stream, struct capture *capture,
                        bool *is_stale);
void cuda_capture_free(struct device *device, struct capture *capture);
const char *cuda_box(struct device *device, enum stream stream, const struct box_copy *copy);
