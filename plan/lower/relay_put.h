#pragma once
#include "plan/lower/lowering.h"

// What relays (plan/lower/relay.h) ask of the instructions of a block, and put in their place.

bool relay_reads(const struct instr *instr, int buffer);
bool relay_writes(const struct instr *instr, int buffer);
// Whether an instruction may stand behind those from it up to `to`, or in front of those from `to`
// up to it, but for one that reads its result.
bool relay_may_move(const struct lowering *low, int index, int to, int reader);
// The one instruction that writes a buffer, which `reader` alone reads; -1.
int relay_only_maker(const struct block_program *program, int buffer, int reader);

struct instr *relay_put(struct lowering *low, const struct instr *instr);
// Room for the part of a tensor that the member so many behind has, split as `like` is over the
// axes of a relay.
int relay_part(struct lowering *low, int tensor, const struct layout *like, unsigned axes,
               int behind);
// Of a buffer so many pieces, of which it has one.
void relay_cut(struct lowering *low, int buffer, int pieces);
struct instr *relay_hand_on(struct lowering *low, const struct instr *like, unsigned axes, int from,
                            int to, int number);
// Adds what came to the own part of a sum, in its place.
struct instr *relay_add_up(struct lowering *low, const struct instr *scatter, unsigned axes,
                           int came, int part, int number);
// Cuts a piece out of the own part of what is gathered.
void relay_slice(struct lowering *low, const struct instr *gather, int own, int piece, int number);
// `rows`: which operand is the part, as struct instr counts them.
void relay_work(struct lowering *low, const struct instr *change, const struct instr *like,
                int rows, int part, int number);
// The sum of what several products made of a part.
void relay_put_sum(struct lowering *low, const struct instr *sum, int part, int members,
                   int number);
