#include "executor/cuda/cuda.h"
#include "executor/scan_call.h"

#include <assert.h>

// Scans in chunks (plan/scan_chunks.h): products by cuBLASLt, and the kernels of chunks.cu between.

struct chunks {
    const struct run *run;
    struct chunk_scan scan;
    struct chunk_part part;
    struct chunk_args args;
    char *memory;  // of the rooms
};

// Backward has the result's gradient in front of the inputs.
static struct chunk_scan scan_of(const struct run *run, bool is_backward)
{
    const struct op *op = run->call->op;
    const struct kernel_array *x = &run->call->inputs[is_backward ? 1 : 0];
    const struct kernel_array *b = &run->call->inputs[op_scan_b(op)];
    int number = run_input(run, is_backward ? 1 : 0).number;
    struct chunk_scan scan = {.batch = x->sizes[0],
                              .seq = x->sizes[1],
                              .heads = x->sizes[2],
                              .groups = b->sizes[2],
                              .width = x->sizes[3],
                              .state = b->sizes[3],
                              .heads_each = x->whole[2] / b->whole[2],
                              .first_head = x->first[2],
                              .first_group = b->first[2],
                              .bytes = number_bytes(number),
                              .is_backward = is_backward,
                              .is_steady = op_scan_is_steady(op)};
    scan.length = chunk_length(&scan);
    assert(scan.heads_each > 0 && (scan.length > 0 || scan.seq == 0));
    return scan;
}

static bool is_empty(const struct chunk_scan *of)
{
    return of->batch * of->seq * of->heads * of->width * of->state == 0;
}

// Rooms one behind another; those of all groups come first, as they stay from part to part.
static void place_rooms(struct chunks *of)
{
    char *at = of->memory;
    int number = of->args.x.number;
    for (int pass = 0; pass < 2; pass++) {
        for (int r = 0; r < CHUNK_ROOMS; r++) {
            enum chunk_room room = (enum chunk_room)r;
            struct chunk_room_row row = chunk_row(room);
            if (row.is_whole != (pass == 0)) continue;
            of->args.room[r] = (struct reals){at, row.is_wide ? NUMBER_FP32 : number};
            at += chunk_room_bytes(&of->scan, room, of->part.heads, of->part.groups);
        }
    }
    assert(at <= (char *)of->args.exponents && "no part is larger than the largest");
}

// What lies beside the rooms stands behind those of the largest part.
static const char *begin(struct chunks *of)
{
    const struct run *run = of->run;
    struct chunk_args *args = &of->args;
    int first = of->scan.is_backward ? 1 : 0, b = op_scan_b(run->call->op);
    int64_t bytes = chunk_bytes(&of->scan), heads = chunk_chunks(&of->scan) * of->scan.heads;
    int64_t tokens = heads * of->scan.length;
    of->memory = run_scratch(run, SCRATCH_PARTIAL, bytes);
    if (!of->memory) return CUDA_NO_MEMORY;
    *args = (struct chunk_args){.batch = of->scan.batch,
                                .seq = of->scan.seq,
                                .heads = of->scan.heads,
                                .groups = of->scan.groups,
                                .width = of->scan.width,
                                .state = of->scan.state,
                                .length = of->scan.length,
                                .chunks = chunk_chunks(&of->scan),
                                .x = run_input(run, first),
                                .b = run_input(run, b),
                                .c = run_input(run, b + 1),
                                .a_log = run_input(run, b + 2)};
    args->exponents = (float *)(void *)(of->memory + bytes) - chunk_beside(&of->scan);
    if (of->scan.is_steady) return NULL;
    args->dt = run_input(run, first + 1);
    args->d = run_input(run, b + 3);
    if (!of->scan.is_backward) return NULL;
    args->d_exponents = args->exponents + tokens;
    args->d_dts = args->d_exponents + tokens;
    args->d_ends = args->d_dts + tokens;
    args->of_heads = args->d_ends + heads;
    return NULL;
}

// From this head on.
static void begin_part(struct chunks *of, int64_t head)
{
    of->part = chunk_part_at(&of->scan, head);
    assert(of->part.heads > 0 && of->part.heads % of->part.groups == 0);
    of->args.first_head = head;
    of->args.part_heads = of->part.heads;
    of->args.share = of->part.heads / of->part.groups;
    place_rooms(of);
}

// An operand of a product of heads, or of groups whose heads' rows follow one another: where it
// begins, and from one to the next.
static struct reals operand(const struct chunks *of, enum chunk_room room, int64_t share,
                            int64_t *batch)
{
    struct chunk_room_row row = chunk_row(room);
    int64_t each = chunk_room_numbers(&of->scan, room);
    int64_t first = row.is_whole ? of->part.group * of->args.chunks * each : 0;
    *batch = row.is_of_group ? each : share * each;
    return reals_at(of->args.room[room], first);
}

// Sums over heads that an earlier part of the group began go on.
static const char *multiply(const struct chunks *of, int product)
{
    struct chunk_product row = chunk_product(product);
    struct chunk_gemm sizes = chunk_gemm_of(&of->scan, &of->part, product);
    int64_t share = row.is_of_heads ? 1 : of->args.share, head = of->part.head;
    bool is_later = head > 0 && (of->scan.first_head + head) % of->scan.heads_each != 0;
    bool adds = row.adds || (chunk_row(row.c).is_whole && is_later);
    struct cuda_gemm gemm = {.rows = sizes.rows,
                             .columns = sizes.columns,
                             .inner = sizes.inner,
                             .batch = sizes.batch,
                             .is_a_turned = row.is_a_turned,
                             .is_b_turned = row.is_b_turned,
                             .a_stride = chunk_side_of(&of->scan, chunk_row(row.a).columns),
                             .b_stride = chunk_side_of(&of->scan, chunk_row(row.b).columns),
                             .c_stride = sizes.columns,
                             .alpha = 1,
                             .beta = adds ? 1 : 0};
    gemm.a = operand(of, row.a, share, &gemm.a_batch);
    gemm.b = operand(of, row.b, share, &gemm.b_batch);
    gemm.c = operand(of, row.c, share, &gemm.c_batch);
    return gemm_run(of->run->device, of->run->stream, &gemm);
}

// Those of the list that this scan has.
static const char *multiply_some(const struct chunks *of, int first, int end)
{
    const char *fault = NULL;
    for (int product = first; product < end && !fault; product++)
        if (chunk_has_product(&of->scan, product)) fault = multiply(of, product);
    return fault;
}

// The scores, what each chunk brings, and the state in front of each, with which PAST is made.
static const char *pass_states(const struct chunks *of)
{
    kernel_chunk_heads(of->run->on, &of->args);
    const char *fault = multiply_some(of, 0, CHUNK_STATES_MADE);
    if (fault) return fault;
    kernel_chunk_matrix(of->run->on, &of->args);
    kernel_chunk_pass(of->run->on, &of->args);
    return NULL;
}

const char *cuda_scan(const struct run *run)
{
    if (call_is_by_state(run->call, 0)) return cuda_selective(run);
    struct chunks of = {.run = run, .scan = scan_of(run, false)};
    if (is_empty(&of.scan)) return NULL;
    const char *fault = begin(&of);
    if (fault) return fault;
    of.args.y = run_output(run, 0);
    for (int64_t head = 0; head < of.scan.heads && !fault; head += of.part.heads) {
        begin_part(&of, head);
        if (head == 0) kernel_chunk_begin(run->on, &of.args);
        fault = pass_states(&of);
        if (!fault) fault = multiply_some(&of, CHUNK_STATES_MADE, CHUNK_FORWARD_PRODUCTS);
        if (!fault) kernel_chunk_out(run->on, &of.args);
    }
    return fault;
}

// Forward keeps no states: they are made again in front of what reads them.
static const char *part_backward(const struct chunks *of)
{
    struct CUstream_st *on = of->run->on;
    const char *fault = pass_states(of);
    if (!fault) fault = multiply_some(of, CHUNK_STATES_MADE, CHUNK_GRADIENTS_BEGUN);
    if (fault) return fault;
    kernel_chunk_pass_back(on, &of->args);
    fault = multiply_some(of, CHUNK_GRADIENTS_BEGUN, CHUNK_SCORES_SAID);
    if (fault) return fault;
    kernel_chunk_scores_back(on, &of->args);
    fault = multiply_some(of, CHUNK_SCORES_SAID, CHUNK_PRODUCTS);
    if (!fault) kernel_chunk_heads_back(on, &of->args);
    return fault;
}

const char *cuda_scan_backward(const struct run *run)
{
    const struct kernel_call *call = run->call;
    if (call_is_by_state(call, 1)) return cuda_selective_backward(run);
    struct chunks of = {.run = run, .scan = scan_of(run, true)};
    const char *fault = NULL;
    if (is_empty(&of.scan)) {
        for (int i = 1; i < call->output_count && !fault; i++)
            fault = cuda_begin_sum(run->device, run->stream, call, i);
        return fault;
    }
    if ((fault = begin(&of))) return fault;
    of.args.d_y = run_input(run, 0);
    bool is_steady = of.scan.is_steady;
    int b = is_steady ? 1 : 2;
    of.args.d_x = run_output(run, 0);
    of.args.d_b = run_output(run, b);
    of.args.d_c = run_output(run, b + 1);
    of.args.adds_b = call_adds(call, b);
    of.args.adds_c = call_adds(call, b + 1);
    if (!is_steady) {
        of.args.d_dt = run_output(run, 1);
        of.args.d_a_log = run_output(run, 4);
        of.args.d_d = run_output(run, 5);
        of.args.adds_a_log = call_adds(call, 4);
        of.args.adds_d = call_adds(call, 5);
    }
    // Rates of a steady one, which nothing trains.
    for (int i = 3; i < call->output_count && is_steady && !fault; i++)
        fault = cuda_begin_sum(run->device, run->stream, call, i);
    for (int64_t head = 0; head < of.scan.heads && !fault; head += of.part.heads) {
        begin_part(&of, head);
        if (head == 0) kernel_chunk_begin(run->on, &of.args);
        fault = part_backward(&of);
    }
    if (!fault) kernel_chunk_sums(run->on, &of.args);
    return fault;
}
