#pragma once
#include "models/families/family.h"

// The trunk of AlphaFold 2 (Jumper et al. 2021, supplement, algorithms 3 to 15, as OpenFold's
// config names its sizes): the embedding of a target and of sequences aligned with it, Evoformer
// blocks, and the heads that fill masked residues in and tell distances. Structure module,
// templates, extra sequences and recycling are not in it, nor is dropout.
//
// `msa_depth` sequences of `residues` are one sample of msa_depth times residues tokens. Blocks
// work on M (sequence s, residue i) and on pairs Z (residue i, residue j); residues have a name for
// each place in a product. Axial parallelism (Cheng et al. 2022, FastFold, section 4.2) splits s, i
// or j, whichever an operator leaves alone, as said with each: twelve collectives a block forward,
// an all-to-all where that changes and an all-gather where a product needs a residue's other name.

struct evoformer {
    int64_t no_blocks, c_m, c_z, c_hidden_msa_att, c_hidden_opm, c_hidden_mul, c_hidden_pair_att;
    int64_t no_heads_msa, no_heads_pair, transition_n, msa_depth, residues;
};

// From the record to blocks (models/families/evoformer_blocks.c).
struct graph *evoformer_graph(struct arena *arena, const void *evoformer,
                              const struct import_options *options);
