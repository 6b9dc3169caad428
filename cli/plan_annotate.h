#pragma once
#include "cli/options.h"
#include "core/arena.h"
#include "core/err.h"

// A file of annotations may hold pins beside layouts, lines as the command line has them:
//
//   --tp 4
//   --stages 10,12,12,10
//   *.mlp.up.weight: ffn/tp
//
// so that one file says nothing, a little or everything of a plan.

// Puts the pins of the file that --annotate names behind the arguments, which are in `arena` then.
// ERR_USAGE where a line is no pin of the table, or says other than another or the command line:
// both are named. ERR_INPUT where the file cannot be read.
MUST_CHECK bool plan_annotate_arguments(struct arena *arena, const struct option *options,
                                        int *argc, char ***argv, struct err *err);
