#pragma once
#include "models/onnx/names.h"
#include "models/stablehlo/text.h"
#include "models/stablehlo/view.h"

// An operator of the program while its rule writes it.

enum { HLO_RESULTS_MOST = 4096 };

struct hlo_reader {
    struct hlo_text text;
    struct onnx_draft draft;
    struct names functions;  // to the token behind their name
    struct names locations;  // of #loc1 to the token of its text
    int depth;               // of calls
    int64_t operator_count;  // written so far, those of calls each time
};

struct hlo_op {
    struct hlo_reader *reader;
    struct onnx_draft *draft;
    const char *name;  // without its dialect: "add"
    int at, end;       // tokens: its name, and the one behind its attributes
    int region;        // the bracket of a region that stands behind its types; 0: there is none
    const struct hlo_value **operands;
    int operand_count;
    struct draft_value *types;  // of the results
    const struct hlo_value **results;
    int result_count;
};

// "PATH:LINE:COLUMN: NAME: " before the text. Always false.
bool hlo_fail(const struct hlo_op *op, const char *format, ...) PRINTF_LIKE(2, 3);

// The token behind `key =`; -1: there is none.
int hlo_attribute(const struct hlo_op *op, const char *key);
// Whether a word stands among its attributes.
bool hlo_says(const struct hlo_op *op, const char *word);
// The same of the region behind its types.
bool hlo_region_says(const struct hlo_op *op, const char *word);
// The numbers of a list ([1, 2], array<i64: 1, 2>, dense<...>), or one; where the key is not there
// `fallback` `wanted` times. One of a splat is repeated. False and an error: another count.
bool hlo_ints(const struct hlo_op *op, const char *key, int wanted, int64_t fallback,
              int64_t *ints);
// As many as there are, up to RANK_MOST; from a token on.
int hlo_list(const struct hlo_op *op, int token, int64_t *ints);
// Axes in 0 .. rank - 1, none of them twice; false and an error.
bool hlo_axes(const struct hlo_op *op, const int64_t *axes, int count, int rank);

const struct hlo_value *hlo_operand(const struct hlo_op *op, int i);
// Sets result 0: a new tensor of the stated dimensions, whose name is returned; or a view.
const char *hlo_result(struct hlo_op *op);
// The same where dimension order[i] of the program lies at i.
const char *hlo_ordered(struct hlo_op *op, const int *order);
bool hlo_answer(struct hlo_op *op, const struct hlo_value *value);
bool hlo_view(struct hlo_op *op, const struct hlo_value *of, const int *map);
// A constant of the stated dimensions.
bool hlo_fixed(struct hlo_op *op);
