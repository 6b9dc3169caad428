#pragma once
#include "models/onnx/model.h"

// One row an operator: how the shape of its outputs follows, what its backward reads, and what may
// be written in place.

enum onnx_trait {
    TRAIT_VIEW = 1,           // output 0 is input 0 under another shape: no copy
    TRAIT_IN_PLACE = 2,       // output 0 may overwrite an input of its size
    TRAIT_DROPOUT = 4,        // a view in inference
    TRAIT_EVAL_IN_PLACE = 8,  // as TRAIT_IN_PLACE, where no backward follows
};

// What training keeps beside the outputs, for the backward: it stands where ONNX has an optional
// output of that meaning.
enum onnx_saved {
    SAVED_NONE,
    SAVED_MASK,      // output 1: a byte an element
    SAVED_SAMPLES,   // output 1: a byte a sample
    SAVED_INDICES,   // output 1: the place of each maximum, int64
    SAVED_CHANNELS,  // outputs 3 and 4: mean and variance of each channel, float
    SAVED_ROWS,      // outputs 1 and 2: mean and inverse deviation of each row, float
    SAVED_PLANES,    // outputs 1 and 2: of each channel of each sample, float
    SAVED_GROUPS,    // outputs 1 and 2: of each group of each sample, float
    SAVED_GATES,     // output 3: of each step its gates, and of an LSTM its cell
    SAVED_SUMS,      // output 1: log-sum-exp of each row of scores, float
};

enum onnx_gradient_trait {
    GRADIENT_EACH = 1,      // one node for each input, as for Concat
    GRADIENT_PASS = 2,      // the output's gradient itself; summed over dimensions that were
                            // broadcast
    GRADIENT_VIEW = 4,      // the output's gradient under another shape
    GRADIENT_IN_PLACE = 8,  // may overwrite the output's gradient
    GRADIENT_SCALED = 16,   // takes the flops of the forward, else one for each element it writes
    GRADIENT_AGAIN = 32,    // five products for the forward's two: scores are computed again
                            // (Dao et al. 2022, algorithm 4)
};

// One kernel of the backward: it reads the gradient of the outputs, and of the forward's inputs
// and outputs (the saved ones among them) those whose bits are set.
struct onnx_gradient {
    const char *suffix;  // of the type
    unsigned makes;      // inputs whose gradients it makes; 0 ends the list
    unsigned reads_inputs, reads_outputs, traits;
};

enum { GRADIENTS_MOST = 3, INPUTS_ANY = 1 << 20 };

struct onnx_operator {
    const char *type;
    bool (*shape)(const struct onnx_model *model, struct onnx_call *call);
    int inputs_least, inputs_most, outputs_most;
    unsigned values;  // inputs whose numbers make the shape: nothing reads them at run time
    unsigned traits;
    enum onnx_saved saved;
    double flop_per_element;                // of output 0, where shape() sets no flops
    const struct onnx_gradient *gradients;  // GRADIENTS_MOST at most, up to an empty row
};

// NULL where the table has no such row.
const struct onnx_operator *operator_find(const char *domain, const char *type);

// Whether input i is a differentiable one.
bool operator_differentiates(const struct onnx_operator *row, int i);
