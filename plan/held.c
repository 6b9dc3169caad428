#include "plan/held.h"

struct held held_of(const struct program *program, const struct tensor *tensor,
                    const struct layout *layout, int rank)
{
    const struct parallel *parallel = &program->parallel;
    int64_t batch = (int64_t)parallel->micro_batch * parallel->degree[AXIS_DP];
    struct held held = {.rank = tensor->rank, .elements = 1};
    for (int i = 0; i < tensor->rank; i++) {
        int64_t size = extent_size(&tensor->extents[i], batch, program->workload.seq_len);
        struct slice slice =
            layout_held(layout, &program->mesh, tensor->extents[i].dim, size, rank);
        held.first[i] = slice.first;
        held.count[i] = slice.count;
        held.elements *= slice.count;
    }
    return held;
}

struct held held_of_buffer(const struct program *program, const struct block_program *block,
                           int buffer, int rank)
{
    const struct buffer *of = &block->buffers[buffer];
    return held_of(program, &block->block->tensors[of->tensor], &of->layout, rank);
}

struct held held_overlap(const struct held *a, const struct held *b)
{
    struct held part = {.rank = a->rank, .elements = 1};
    for (int i = 0; i < a->rank; i++) {
        int64_t first = a->first[i] > b->first[i] ? a->first[i] : b->first[i];
        int64_t a_end = a->first[i] + a->count[i], b_end = b->first[i] + b->count[i];
        int64_t end = a_end < b_end ? a_end : b_end;
        part.first[i] = first;
        part.count[i] = end > first ? end - first : 0;
        part.elements *= part.count[i];
    }
    return part;
}

bool held_equal(const struct held *a, const struct held *b)
{
    if (a->rank != b->rank) return false;
    for (int i = 0; i < a->rank; i++) {
        if (a->first[i] != b->first[i] || a->count[i] != b->count[i]) return false;
    }
    return true;
}
