#pragma once
#include "executor/checkpoint/index.h"

// What executor/checkpoint/*.c share.

// "0:2/4 0:8/8 | 0:16", and back.
char *checkpoint_slice_text(struct arena *arena, const struct checkpoint_piece *piece);
bool checkpoint_slice_read(const char *text, struct checkpoint_piece *piece);
// 16 digits, and nothing behind them but what ends a word.
bool checkpoint_hex_read(const char *text, uint64_t *value);
