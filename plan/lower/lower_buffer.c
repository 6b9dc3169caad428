#include "plan/lower/lowering.h"

#include <assert.h>
#include <math.h>
#include <string.h>

// Buffers and how much room they take: local sizes, the rows of ragged tensors, and the blocks of
// what is streamed.

int64_t lower_element_bytes(enum element element, enum precision precision)
{
    switch (element) {
    case ELEMENT_FP32:
        return 4;
    case ELEMENT_INT64:
        return 8;
    case ELEMENT_BYTE:
        return 1;
    case ELEMENT_COMPUTE:
        break;
    }
    return precision == PRECISION_FP32 ? 4 : 2;
}

int64_t lowering_element_bytes(const struct lowering *low, enum element element)
{
    return lower_element_bytes(element, low->request->precision);
}

int lowering_flat_buffer(struct lowering *low, int64_t bytes, const struct layout *layout)
{
    struct block_program *program = low->program;
    assert(bytes >= 0);
    int capacity = low->buffer_capacity;  // of both
    ARENA_GROW(low->arena, program->buffers, program->buffer_count, capacity);
    ARENA_GROW(low->arena, low->backing, program->buffer_count, low->buffer_capacity);
    struct buffer *buffer = &program->buffers[program->buffer_count];
    *buffer = (struct buffer){.tensor = -1, .bytes = bytes, .layout = *layout};
    low->backing[program->buffer_count] = (struct backing){.older = -1, .whole_bytes = bytes};
    return program->buffer_count++;
}

bool lowering_is_stored(const struct lowering *low, int tensor, const struct layout *layout)
{
    for (int i = 0; low->stored && i < low->mesh->axis_count; i++) {
        int8_t of = low->stored[tensor].of[i];
        if (of > 0 && layout->of[i] != of) return false;
    }
    return true;
}

int lowering_buffer(struct lowering *low, int tensor, const struct layout *layout)
{
    assert(tensor >= 0 && tensor < low->block->tensor_count);
    const struct tensor *of = &low->block->tensors[tensor];
    int64_t elements =
        layout_local_elements(layout, low->mesh, of, low->batch, low->request->seq_len);
    double room = lowering_room(low, tensor, layout);
    if (room != 1) elements = (int64_t)ceil((double)elements * room);
    int64_t bytes = elements * lowering_element_bytes(low, of->element);
    int index = lowering_flat_buffer(low, bytes, layout);
    struct buffer *buffer = &low->program->buffers[index];
    buffer->tensor = tensor;
    buffer->external = of->role != TENSOR_ACTIVATION && of->role != TENSOR_GRADIENT &&
                       lowering_is_stored(low, tensor, layout);
    return index;
}

// With a capacity every expert is counted as full. A rank with all experts has what its tokens
// chose at most. A rank with parts of sequences may have those whose tokens all find room, and the
// imbalance says how many of them come to its experts.
static double capacity_room(const struct lowering *low, const struct layout *layout, double density,
                            bool is_split)
{
    assert(density > 0 && low->request->seq_len > 0);
    const struct lower_request *request = low->request;
    int64_t capacity = density_capacity(density, request->capacity_factor, request->seq_len);
    double full = (double)capacity / ((double)request->seq_len * density);
    double first = full * mesh_size(low->mesh, layout_axes_on(layout, DIM_SEQ));
    if (!is_split) return fmin(1, first);
    return fmax(full > 1 ? full : fmin(1, first), fmin(request->expert_imbalance, first));
}

double lowering_room(const struct lowering *low, int tensor, const struct layout *layout)
{
    const struct lower_request *request = low->request;
    double density = low->block->tensors[tensor].density;
    if (density <= 0) return 1;
    bool is_split = layout_axes_on(layout, DIM_EXPERT) != 0;
    double room = is_split ? fmax(request->expert_imbalance, 1) : 1;
    if (request->capacity_factor > 0) room = capacity_room(low, layout, density, is_split);
    // No expert can get more than every token.
    return room * density < 1 ? room : 1 / density;
}

bool lowering_is_ragged(const struct lowering *low, int tensor)
{
    return low->block->tensors[tensor].density > 0;
}

// Exchanges that a window needs. Where our executor has slices in order the first query of each
// sees window - 1 keys of those before it; its early and late halves look back over ranks on either
// side, and all blocks pass. Of other software the zig-zag order is assumed with exchanges both
// ways: a rank has a block of seq / (2 n) from either end, and each looks back over so many of its
// neighbours. A prefix that slices or blocks share is seen from either side.
static int window_steps(const struct lowering *low, const struct op *op, int64_t ranks)
{
    int64_t seq = low->request->seq_len;
    assert(ranks >= 1 && seq > 0);
    bool sees_all = !op->causal || op->window <= 0 || op->window >= seq;
    if (sees_all || low->request->zigzag) return (int)ranks - 1;
    bool is_in_order = joins_are_executed(low->request->joins);
    int64_t pieces = is_in_order ? ranks : 2 * ranks, piece = (seq + pieces - 1) / pieces;
    if (op->prefix > piece) return (int)ranks - 1;
    int64_t behind = is_in_order ? op->window - 1 : op->window;
    int64_t steps = behind > piece ? (behind + piece - 1) / piece : 1;
    return (int)(steps < ranks - 1 ? steps : ranks - 1);
}

struct key_stream lowering_stream(const struct lowering *low, const struct op *op,
                                  const struct strategy *strategy, bool output, int index)
{
    struct key_stream stream = {0};
    if (!strategy_is_keys(op, output, index)) return stream;
    if (op_keys_dim(low->block, op) != DIM_SEQ) return stream;
    // Tokens that are pooled, whole as well, are not worth a ring.
    if (op->kind == OP_POOLED || op->kind == OP_POOLED_BACKWARD) return stream;
    bool passes_by = false;
    for (int i = 0; i < low->mesh->axis_count; i++) {
        if (strategy->of[i] != DIM_SEQ) continue;
        const struct technique *technique =
            technique_at(low->request->parallel, &low->mesh->axes[i]);
        passes_by = technique->streams;
        stream.axes |= 1u << i;
    }
    if (!stream.axes) return stream;
    int ranks = mesh_size(low->mesh, stream.axes);
    int steps = window_steps(low, op, ranks);
    // A gather of all is not dearer than fetching every block by itself. Keys are chosen among all.
    if ((!passes_by || op->kind == OP_CHOOSE) && steps == ranks - 1) return stream;
    stream.steps = steps;
    stream.held = passes_by ? 2 : steps + 1;
    return stream;
}

void lowering_shrink(struct lowering *low, int buffer, const struct key_stream *stream)
{
    int64_t ranks = mesh_size(low->mesh, stream->axes);
    struct backing *backing = &low->backing[buffer];
    assert(stream->steps > 0 && stream->held > 0);
    backing->stream_steps = stream->steps;
    if (stream->held >= ranks) return;
    low->program->buffers[buffer].bytes = (backing->whole_bytes * stream->held + ranks - 1) / ranks;
}

void lowering_unshrink(struct lowering *low, int buffer)
{
    assert(low->program->buffers[buffer].bytes <= low->backing[buffer].whole_bytes);
    low->program->buffers[buffer].bytes = low->backing[buffer].whole_bytes;
    low->backing[buffer].stream_steps = 0;
}
