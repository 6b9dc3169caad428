#pragma once
#include "plan/script/script.h"

// The verifier: what has to hold of the scripts of all stages before anything runs. Written without
// a line of those who make scripts.
// - Every message that is received was sent, from the stage, with the tensors, layouts and bytes
//   that are waited for, and the other way round; per link (two stages and a
//   channel) in the same order.
// - Nobody waits for ever: sends do not wait, receives wait for their message, reductions with
//   other stages (tied, norm) for all who take part.
// - Layouts: the buffers of an instruction have the layouts and shapes that its block program says,
//   and what one block hands to the next has one layout on both sides. A collective hands each
//   rank all of what it holds then, and query heads find their keys on their rank.
// - Arena: operands lie inside it, aligned; every byte read was last written by the task that made
//   that value (nothing overwrote it since), and all of an operand was written.
// - State: every parameter is in one unit, no two overlap; every gradient is added to once for each
//   micro-batch and reader, reduced exactly once a step over every axis it is partial over (each
//   micro-batch where rooms are scattered), and updated once.
// - Streams: who uses bytes or a parameter behind another does so on the same stream, or waits for
//   it, directly or through others.
// One line naming stage, task and value; ERR_INPUT, for a script comes from a plan file.
MUST_CHECK bool script_check(struct arena *scratch, const struct script *const *scripts,
                             int stage_count, struct err *err);

// Most messages under way from one stage to another at one time, all channels together, if
// receivers come as late as they may: what a communicator has to hold.
int script_messages_under_way(struct arena *scratch, const struct script *const *scripts,
                              int stage_count);
