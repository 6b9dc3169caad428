#pragma once
#include "core/arena.h"
#include "models/onnx/wire.h"

// PyTorch's exporter writes split and chunk as a sequence (SplitToSequence) of which each part is
// asked for by its number (SequenceAt): a Split. The graph with those, made in `arena` over the
// messages of the one given; that one itself where it has no sequences, or others than these, which
// are refused as operators that are not known.
const Onnx__GraphProto *sequences_split(struct arena *arena, const Onnx__GraphProto *graph);
