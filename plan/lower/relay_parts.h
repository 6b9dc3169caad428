#pragma once
#include "plan/lower/lowering.h"

// What of a block may be handed on in parts (plan/lower/relay.h), instruction by instruction.

// NULL: a buffer that has several.
const struct tensor *relay_tensor(const struct lowering *low, int buffer);
// Whether rows of tokens are parted in what follows the tokens.
bool relay_is_of_columns(const struct tensor *tensor, const struct instr *change);
// Of the axes of a change the outer ones, as far as there are parts; 0: the outermost has more.
unsigned relay_axes_of(const struct lowering *low, const struct instr *change);
// A gather of tp, or a sum that is scattered, of which buffer `parts` has the parts.
bool relay_may_be(const struct lowering *low, const struct instr *change,
                  enum collective collective, int parts);
// Whether an instruction can read what is gathered part by part, and can make what is summed so.
bool relay_may_read(const struct lowering *low, const struct instr *gather,
                    const struct instr *reader);
bool relay_may_make(const struct lowering *low, const struct instr *scatter,
                    const struct instr *maker, int sum);
// A product of two, of the phase of a change.
bool relay_is_product(const struct lowering *low, const struct instr *change,
                      const struct instr *instr);
// Which input has the dim; -1: both, or none.
int relay_input_with(const struct lowering *low, const struct instr *instr, enum dim dim);
// Whether all ranks have as much of a dim, in so many equal pieces.
bool relay_is_even(const struct lowering *low, const struct tensor *tensor, enum dim dim,
                   const struct layout *layout, int pieces);
// A matrix, or rows of tokens whose columns a change is of.
bool relay_has_columns(const struct tensor *tensor, const struct instr *change);
