#pragma once

// Rules of plan/unfused.inc. Masks of them are of 1 << enum unfused.

enum unfused {
#define UNFUSED(id, name, text) UNFUSED_##id,
#include "plan/unfused.inc"
    UNFUSED_COUNT
};

// Heads that have no fused backward are wider.
enum { FUSED_BACKWARD_WIDTH = 256, FUSED_WIDTH_UNIT = 8, FUSED_CHOICE_UNIT = 4 };

const char *unfused_name(enum unfused rule);
// As a reason: "it is of fp32".
const char *unfused_text(enum unfused rule);
