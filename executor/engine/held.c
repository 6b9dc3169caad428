#include "executor/engine/held.h"

#include <assert.h>
#include <string.h>

// Strides of a dense box, and the offset in it of the first element of `part`.
static int64_t place(const struct held *box, const struct held *part,
                     int64_t strides[TENSOR_RANK_MAX])
{
    int64_t stride = 1, offset = 0;
    for (int i = box->rank - 1; i >= 0; i--) {
        assert(part->elements == 0 ||
               (part->first[i] >= box->first[i] &&
                part->first[i] + part->count[i] <= box->first[i] + box->count[i]));
        strides[i] = stride;
        offset += (part->first[i] - box->first[i]) * stride;
        stride *= box->count[i];
    }
    return offset;
}

struct box_copy held_copy(const struct held *part, const struct held *source, const void *from,
                          const struct held *target, void *to, enum element element,
                          int64_t element_bytes)
{
    assert(part->rank == source->rank && part->rank == target->rank && element_bytes > 0);
    struct box_copy copy = {.element = element, .combine = BOX_SET, .rank = part->rank};
    memcpy(copy.sizes, part->count, sizeof copy.sizes);
    int64_t at = place(source, part, copy.from_strides);
    copy.from = (const char *)from + at * element_bytes;
    at = place(target, part, copy.to_strides);
    copy.to = (char *)to + at * element_bytes;
    return copy;
}
