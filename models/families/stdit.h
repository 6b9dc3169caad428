#pragma once
#include "models/families/family.h"

// Spatial-temporal diffusion transformers (Open-Sora 1.0: opensora/models/stdit/stdit.py; 1.2:
// stdit3.py). A video of `frames` latent frames with `places` patches each is one sequence of
// frames times places tokens. Attention runs over the places of a frame and over the frames of a
// place in turn: in one block (STDiT) or in neighbouring blocks (STDiT3). What conditions all
// blocks alike passes through them: the text, and six numbers by hidden that come of the step of
// the diffusion (adaLN-single: Chen et al. 2023, PixArt-alpha, section 2.3).
//
// What a batch brings: latents with noise, what the model has to say of them, the step and the
// frame rate as waves, the states of a frozen text encoder, and fixed positions. Dropping captions
// (class_dropout_prob) changes data, not work, and the caption for none is no part of training.

// A picture has one frame, and blocks that run over its places alone.
enum stdit_kind { STDIT, STDIT_3, STDIT_PICTURE };

struct stdit {
    enum stdit_kind kind;
    int64_t depth, hidden_size, num_heads, in_channels, caption_channels, model_max_length;
    double mlp_ratio, drop_path;
    bool qk_norm, pred_sigma, skip_y_embedder, only_train_temporal;
    int64_t frames, places, patch;  // patch: elements of one
};

// From the record to blocks (models/families/stdit_blocks.c).
struct graph *stdit_graph(struct arena *arena, const void *stdit,
                          const struct import_options *options);
