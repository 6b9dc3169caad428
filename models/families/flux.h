#pragma once
#include "models/families/family.h"

// The transformer of FLUX.1 under the names of diffusers (FluxTransformer2DModel). Blocks of two
// streams have weights of their own for a text and for places of a picture, which attend to all of
// both as one sequence; blocks of one stream have that sequence alone, and its attention and its
// feed-forward layer read the same and are added. Each block makes what shifts, scales and gates
// it from one vector: the step, for some the guidance, and the pooled text.
//
// A batch brings latents with noise in patches of 2 x 2, what the model has to say of them, the
// states and the pooled vector of frozen text encoders, and step and guidance as waves.

struct flux {
    int64_t num_layers, num_single_layers, attention_head_dim, num_attention_heads;
    int64_t in_channels, out_channels, joint_attention_dim, pooled_projection_dim, patch_size;
    int64_t sample_size, max_sequence_length;  // of the pipeline: side of the latents, text
    bool guidance_embeds;
    int64_t rotary_dims;  // of a row and a column together
};

// From the record to blocks (models/families/flux_blocks.c).
struct graph *flux_graph(struct arena *arena, const void *flux,
                         const struct import_options *options);
