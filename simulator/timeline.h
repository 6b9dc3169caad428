#pragma once
#include "simulator/evaluate.h"

// A simulated trace with all that viewers show beside its spans: arrows from a send to its receive
// and from the last weight gradients of a chunk to their reduction, the memory of every rank over
// time, and of every task its layers, bytes, flop, ranks and predicted rate. The operators of a
// task are nested in it: in every task where that is not too much to look at, else in the first of
// its kind on each stage; the others say so ("operators").
//
// `trace` is of this evaluation, as it is or with something injected, and must live as long as the
// answer. `is_folded`: its ranks are the stages, one for all of a stage.
struct trace timeline_make(struct arena *arena, struct arena *scratch,
                           const struct evaluation_request *request,
                           const struct evaluation *evaluation, const struct trace *trace,
                           bool is_folded);

// A measured trace of this evaluation's program, all ranks: arrows, and of every task what is true
// of it whoever runs it (layers, flop, ranks; flop over the measured time). Its names are those of
// the simulated trace, its levels its own: no prediction is among what it shows.
struct trace timeline_measured(struct arena *arena, struct arena *scratch,
                               const struct evaluation_request *request,
                               const struct evaluation *evaluation, const struct trace *trace);
