#pragma once
#include "executor/checkpoint/index.h"

// What executor/checkpoint/*.c share.

// "0:2/4 0:8/8 | 0:16", and back.
char *checkpoint_slice_text(struct arena *arena, const struct checkpoint_piece *piece);
bool checkpoint_slice_read(const char *text, struct checkpoint_piece *piece);
// A file of safetensors: what stands before its arrays, and how long its header is.
char *checkpoint_header_pack(struct arena *arena, const char *text, int64_t length, int64_t *bytes);
MUST_CHECK bool checkpoint_header_length(const char *path, const char *bytes, int64_t count,
                                         int64_t *length, struct err *err);
// 16 digits, and nothing behind them but what ends a word.
bool checkpoint_hex_read(const char *text, uint64_t *value);
