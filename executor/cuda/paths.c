#include "executor/cuda/cuda.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

// Which way attention went, a row for each shape: what `run` reports.

static struct attention_path path_of(const struct sdpa_shape *shape, const char *fault,
                                     bool is_refused)
{
    struct attention_path path;
    memset(&path, 0, sizeof path);  // compared as bytes
    path.is_backward = shape->is_backward, path.causal = shape->is_causal;
    path.batch = shape->batch, path.heads = shape->heads, path.kv_heads = shape->kv_heads;
    path.queries = shape->queries, path.keys = shape->keys;
    path.width = shape->width, path.value_width = shape->value_width;
    path.is_refused = is_refused;
    snprintf(path.path, sizeof path.path, "%s", fault ? "unfused" : "cudnn");
    snprintf(path.reason, sizeof path.reason, "%s", fault ? fault : "");
    return path;
}

void cuda_note_attention(struct cuda_device *device, const struct sdpa_shape *shape,
                         const char *fault, bool is_refused)
{
    struct attention_path path = path_of(shape, fault, is_refused);
    assert(fault || !is_refused);
    for (int i = 0; i < device->path_count; i++) {
        if (memcmp(&device->paths[i], &path, sizeof path) == 0) return;
    }
    // A refusal is never what there is no room for.
    bool has_room = device->path_count < ATTENTION_PATH_MAX;
    if (has_room) device->paths[device->path_count++] = path;
    if (!has_room && is_refused) device->paths[ATTENTION_PATH_MAX - 1] = path;
}

int cuda_attention_paths(struct device *device, struct attention_path *paths)
{
    const struct cuda_device *own = (const struct cuda_device *)(const void *)device;
    assert(own->path_count >= 0 && own->path_count <= ATTENTION_PATH_MAX);
    memcpy(paths, own->paths, (size_t)own->path_count * sizeof *paths);
    return own->path_count;
}
