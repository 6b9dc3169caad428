#pragma once
#include <stddef.h>

// A small text in the public domain to train on, a token a byte: executor/text.c.
extern const char executor_text[];
extern const size_t executor_text_bytes;
