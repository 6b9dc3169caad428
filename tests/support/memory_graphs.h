#pragma once
#include "memory/graph.h"
#include "tests/support/draw.h"

// Graphs for tests and benchmarks of the memory scheduler. All are finished (memory_graph_finish)
// and live in `arena`. Training graphs hold one step in fp32: forward operators as a framework
// without fusion runs them, a gradient operator for each input, sums where gradients meet, and six
// operators of Adam a parameter at the end. Weights and moments are persistent and updated in
// place; sizes are those of the real shapes.

// GPT-2: 29 forward operators a layer, 1,024 tokens a sequence, heads of 64, 50,257 words.
struct memory_graph *graph_gpt(struct arena *arena, int layer_count, int batch, int width);
// GoogLeNet's blocks of four branches on pictures of 224 x 224.
struct memory_graph *graph_inception(struct arena *arena, int block_count, int batch);
// ResNet's bottleneck blocks; 16 are ResNet-50.
struct memory_graph *graph_resnet(struct arena *arena, int block_count, int batch);

// Layers of `width` operators with one output each, which read one to three of the two layers
// before.
struct memory_graph *graph_layered(struct arena *arena, struct draw *draw, int operator_count,
                                   int width);
// Few operators and everything a graph may have: views, results in place, kept, persistent, empty
// and unread tensors, workspaces, edges without data, updates.
struct memory_graph *graph_random(struct arena *arena, struct draw *draw, int operator_count);
// The same with nothing but operators, outputs and readers.
struct memory_graph *graph_random_plain(struct arena *arena, struct draw *draw, int operator_count);
// Four operators, given as V0 V1 V2 V3, that need 100 bytes so and 70 in the best order,
// V0 V2 V1 V3.
struct memory_graph *graph_four(struct arena *arena);
