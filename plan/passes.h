#pragma once
#include "plan/parallel.h"

// Passes over graph and program, each of which can be switched off: what a plan gains by it is then
// a subtraction (simulator/ablation.h). A plan holds a mask of 1 << enum pass; a stack says which
// of them its software has. Early-stop: checkpoints that run forward again do so up to the last
// result that backward reads, so that the last GEMM of a layer is not recomputed (PyTorch's
// torch.utils.checkpoint without re-entrant autograd; compilers remove it as dead code).
// Megatron-LM's own checkpoint runs the whole layer again.

enum { PASS_ALL = (1 << PASS_COUNT) - 1 };

// A mask as the command line writes it: "none", "all" or names joined by commas, and back. Of a
// text that is neither, pass_parse returns false.
const char *pass_text(struct arena *arena, unsigned passes);
MUST_CHECK bool pass_parse(const char *text, unsigned *passes);

bool pass_is_on(const struct parallel *parallel, enum pass pass);

// What of parallel->overlap is in force. On the compute stream nothing overlaps. A collective that
// is not started early (parameters gathered ahead; tp, cp and ep, whose results are read at once)
// is waited for where it stands, while one whose result is read late anyway (gradient reduction,
// the send to the next stage) is hidden with streams alone. Gradients in one piece are not ready
// before the backward pass has ended.
unsigned passes_overlap(const struct parallel *parallel);
