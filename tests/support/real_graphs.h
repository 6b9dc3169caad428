#pragma once
#include "core/arena.h"

// Graphs and packing problems that others have published. They are no part of the repository: they
// are read from the folder $MESHWRIGHT_GRAPHS (default ../shared/graphs), and what needs one that
// is not there says so and goes on. Sources: google/minimalloc (minimalloc/), cappadokes/idealloc
// (somas/), msr-fiddle/dnn-partitioning (dnn-partitioning/), onnx/onnx (onnx-light/).

// Where "somas/resnet50.csv" lies, in the arena; NULL, and a line on stdout that says it is skipped
// (a comment of TAP), where it does not.
const char *real_graph(struct arena *arena, const char *name);
