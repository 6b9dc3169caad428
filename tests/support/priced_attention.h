#pragma once
#include "cost_models/attention.h"
#include "tests/support/test.h"

// Attention priced by hand from the formulas of cost_models/compute.h. A device of 100 TFLOP/s,
// half of it in forward and a quarter in backward: 20 and 40 fs a flop. Half the rate at 300 keys,
// a third of these where nothing is masked. 0.5 TB/s reach kernels, and 1 us lies between two. A
// tera flop over 1000 keys, 2 sequences of 4 heads: 8000 rows of queries in blocks of 128 over 100
// multiprocessors, half of half of the longest block is waited for.
struct priced_attention {
    struct device device;
    struct stack stack;
    struct compute_context context;
    struct buffer buffers[3];
    struct instr instrs[2];
    struct block_program program;
    struct instr *attention;
};

// As the text above says.
struct priced_attention *priced_attention_new(struct arena *arena, enum op_kind kind);
// Two heads share keys: 4 calls. Of 8e6 pairs a product in 16 bits writes 4 bytes and not 2, of
// which 4 are read and 2 written; backward twice, for gradients as well.
struct priced_attention *priced_attention_own(struct arena *arena, enum op_kind kind);
// That a price is so many seconds, and attention's with a gap before each kernel.
void check_near(double s, double by_hand_s);
void check_price(const struct priced_attention *bench, enum bound bound, double kernels, double s);
