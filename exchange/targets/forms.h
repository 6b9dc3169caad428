#pragma once
#include "exchange/rows.h"

// How programs write what a plan says otherwise; each takes and gives
// what its name says, as struct exchange_form tells.

// A side of a form: a value as it is; none at all; as it is where a stage has one chunk.
const char *form_itself(struct arena *arena, const struct facts *facts, const char *value);
const char *form_never(struct arena *arena, const struct facts *facts, const char *value);
const char *form_one_chunk(struct arena *arena, const struct facts *facts, const char *value);
// False: Megatron-LM and those on it take no notice of it.
bool form_matters_to_megatron(const struct facts *facts, const char *name);

extern const struct exchange_form WORLD_FORM;        // data parallel size by the launcher's GPUs
extern const struct exchange_form LAYOUT_FORM;       // uneven pieces: "Et*19|t*21|t*20L"
extern const struct exchange_form LAYOUT_VPP_FORM;   // the chunks of a stage of such a layout
extern const struct exchange_form EVEN_FORM;         // even pieces, which nobody writes
extern const struct exchange_form EVEN_VPP_FORM;     // layers of a chunk of even pieces
extern const struct exchange_form GROUPS_FORM;       // a shard group's ranks as number of groups
extern const struct exchange_form CLASSES_FORM;      // "norm,mlp" as "layernorm mlp"
extern const struct exchange_form BUCKET_FORM;       // bytes as elements of 4 bytes
extern const struct exchange_form ONE_CHUNK_FORM;    // stays itself where a stage has one chunk
extern const struct exchange_form MORE_CHUNKS_FORM;  // and where it has several
extern const struct exchange_form NEIGHBOURS_FORM;   // and where the next is not the one before
extern const struct exchange_form UNREAD_FORM;       // neither written nor read: names an option
extern const struct exchange_form READ_FORM;         // read as it is, never written
extern const struct exchange_form WHOLE_FORM;        // where tp and cp are one, else it cannot be
extern const struct exchange_form QUERIES_FORM;      // fewer groups of queries than heads
extern const struct exchange_form ALL_QUERIES_FORM;  // as many
extern const struct exchange_form FOUR_HIDDEN_FORM;  // four times as wide as hidden
extern const struct exchange_form DENSE_FORM;        // dense layers in front: "([0]*3+[1]*58)"
extern const struct exchange_form SHARED_FORM;       // shared experts as their width
extern const struct exchange_form EXPERTS_FORM;      // "on" where there are experts
extern const struct exchange_form ETP_FORM;          // as tp, where it is not said
extern const struct exchange_form SELECTIVE_FORM;    // "selective" alone is that of attention
extern const struct exchange_form ALONE_FORM;        // where there is no pipeline and no recompute
extern const struct exchange_form REDUCED_FORM;      // where gradients are reduced beside compute
extern const struct exchange_form SHARDED_FORM;      // where optimizer states are sharded
extern const struct exchange_form WRITTEN_FORM;      // nothing to write, and nothing to read
extern const struct exchange_form ULYSSES_FORM;      // where cp is Ulysses'
extern const struct exchange_form PIECES_FORM;       // as LAYOUT_FORM, even ones as well
extern const struct exchange_form PIECES_VPP_FORM;   // the chunks of a stage of such a layout
extern const struct exchange_form STEPS_FORM;        // a micro-batch as micro-batches of a step
extern const struct exchange_form SAME_FORM;      // at stage 3 as gradients are reduced, else off
extern const struct exchange_form STAGE_3_FORM;   // read where parameters are sharded
extern const struct exchange_form REPLICAS_FORM;  // dp as copies that hold everything
extern const struct exchange_form SHARDS_FORM;    // dp as ranks that share a copy
extern const struct exchange_form SPLIT_FORM;     // where several ranks share a copy
extern const struct exchange_form STAGES_FORM;    // where there is a pipeline
