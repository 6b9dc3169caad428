#include "executor/engine/images.h"

#include "executor/random.h"

#include <assert.h>
#include <string.h>

enum { PARTS = 4 };  // an image has so many classes side by side, and below each other

bool images_are_read(const struct graph *graph)
{
    return strcmp(graph->model_type, "operators") == 0;
}

// Which part of the image an index is in.
static int64_t part_of(const struct tensor *tensor, enum dim dim, const int64_t *index)
{
    int at = tensor_find_dim(tensor, dim);
    return at < 0 ? 0 : index[at] * PARTS / tensor->extents[at].size;
}

static bool has_places(const struct graph *graph)
{
    const struct block *head = &graph->blocks[graph->sequence[graph->sequence_count - 1]];
    const struct tensor *loss = &head->tensors[head->outputs[0]];
    return tensor_find_dim(loss, DIM_HEIGHT) >= 0 || tensor_find_dim(loss, DIM_WIDTH) >= 0;
}

double images_at(const struct graph *graph, uint64_t seed, uint64_t sample,
                 const struct tensor *tensor, const int64_t *index)
{
    assert(graph->vocab > 0 && "classes are the vocabulary of an image model");
    uint64_t place = 0, part = 0;
    if (has_places(graph))
        part = (uint64_t)(part_of(tensor, DIM_HEIGHT, index) * PARTS +
                          part_of(tensor, DIM_WIDTH, index));
    uint64_t classes = random_key(random_key(seed, 8), sample);
    uint64_t class = random_at(classes, part).word[0] % (uint64_t)graph->vocab;
    if (tensor->element == ELEMENT_INT64) return (double)class;
    for (int i = 0; i < tensor->rank; i++)
        if (tensor->extents[i].dim != DIM_BATCH)
            place = place * (uint64_t)tensor->extents[i].size + (uint64_t)index[i];
    uint64_t noise = random_key(random_key(seed, 9), sample);
    uint64_t pattern = random_key(random_key(seed, 10), class);
    return random_unit(random_at(noise, place)) + random_unit(random_at(pattern, place)) - 1;
}
