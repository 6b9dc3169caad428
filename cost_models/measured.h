#pragma once
#include "cost_models/compute.h"
#include "plan/program.h"

// Which kernels of a program the device's table of measured ones has a row for.

// The shape under which a table has this GEMM.
struct kernel measured_gemm_shape(const struct compute_context *context, const struct gemm *gemm,
                                  unsigned traits, enum phase phase);
// The shape under which a table has the kernel of this instruction, `s` left 0. False: tables have
// none of its kind, or an earlier instruction does its work.
bool measured_shape(const struct compute_context *context, const struct block_program *program,
                    const struct instr *instr, struct kernel *shape);
// NULL: the device has no table, or the table no row of this shape.
const struct kernel *measured_gemm(const struct compute_context *context, const struct gemm *gemm,
                                   unsigned traits, enum phase phase);
// Only attention of a whole sequence to itself without a window is measured.
const struct kernel *measured_attention(const struct compute_context *context,
                                        const struct block_program *program,
                                        const struct instr *instr);

struct measured_use {
    const struct kernel_table *table;  // NULL: the device has none
    bool *used;                        // one a row of the table
    int row_count;                     // of those used
    int price_count;   // GEMMs and attentions of the program's blocks that rows have priced
    int kernel_count;  // and all of them
};

// Lives in `arena`.
struct measured_use measured_use_of(struct arena *arena, const struct compute_context *context,
                                    const struct program *program);
