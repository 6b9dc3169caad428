#pragma once
#include "models/families/family.h"

// The unet of Stable Diffusion under the names of diffusers (UNet2DConditionModel; Rombach et al.
// 2022, section 3). Levels halve a picture and double it again; each has residual blocks of
// convolutions, which the step shifts, and behind them transformers over all places, which read the
// states of a text. What goes down is kept and joined, last in first out, to what comes up.
//
// A sample is one sequence of one token, as of imported images. A batch brings latents with noise,
// what the model has to say of them, the step as waves, the states of a frozen text encoder and, of
// those that add them (SDXL), pooled text and sizes as one vector.

enum { UNET_LEVELS_MAX = 6 };

struct unet {
    int64_t sample_size, in_channels, out_channels, layers_per_block, cross_attention_dim;
    int64_t norm_num_groups, projection_class_embeddings_input_dim, max_sequence_length;
    double norm_eps;
    int level_count;
    int64_t channels[UNET_LEVELS_MAX], heads[UNET_LEVELS_MAX], depth[UNET_LEVELS_MAX];
    bool attends_down[UNET_LEVELS_MAX], attends_up[UNET_LEVELS_MAX];  // by level, the largest first
    bool adds_text;                                                   // added_conditions are read
};

// From the record to blocks (models/families/unet_blocks.c).
struct graph *unet_graph(struct arena *arena, const void *unet,
                         const struct import_options *options);
