#pragma once
#include "exchange/trace_events.h"
#include "simulator/breakdown.h"

// What a kernel of a profile and a line of a prediction are called alike: "matmul", "attention",
// "norm", "all-reduce", ... Kernels are told by their names, first match, which is practice and no
// contract of their libraries: what no name tells is "other".

const char *trace_kind_of(const struct trace_event *event);
const char *line_kind_of(const struct breakdown_line *line);
bool trace_kind_is_communication(const char *kind);
