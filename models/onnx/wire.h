#pragma once
#include "core/arena.h"

#include "models/onnx/onnx.pb-c.h"

#include <stdint.h>

// Decodes an ONNX model in `arena`, which owns the result. What the importer does not read is
// dropped from the bytes first, weights above all: protobuf-c would copy every field it does not
// know, and a file of 2 GB would need twice its size. Constants of more than WIRE_DATA_BYTES keep
// shape and type but no numbers. NULL when the bytes are no ONNX model.
enum { WIRE_DATA_BYTES = 1 << 17 };

MUST_CHECK const Onnx__ModelProto *wire_decode(struct arena *arena, const uint8_t *bytes,
                                               size_t byte_count);
