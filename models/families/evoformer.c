#include "models/families/evoformer.h"

// Sizes of the trunk, under OpenFold's names.

static const struct json_field FIELDS[] = {
    {JSON_OPT_I64(struct evoformer, no_blocks, 1, LAYERS_MAX)},
    {JSON_OPT_I64(struct evoformer, c_m, 1, WIDTH_MAX)},
    {JSON_OPT_I64(struct evoformer, c_z, 1, WIDTH_MAX)},
    {JSON_OPT_I64(struct evoformer, c_hidden_msa_att, 1, WIDTH_MAX)},
    {JSON_OPT_I64(struct evoformer, c_hidden_opm, 1, WIDTH_MAX)},
    {JSON_OPT_I64(struct evoformer, c_hidden_mul, 1, WIDTH_MAX)},
    {JSON_OPT_I64(struct evoformer, c_hidden_pair_att, 1, WIDTH_MAX)},
    {JSON_OPT_I64(struct evoformer, no_heads_msa, 1, HEADS_MAX)},
    {JSON_OPT_I64(struct evoformer, no_heads_pair, 1, HEADS_MAX)},
    {JSON_OPT_I64(struct evoformer, transition_n, 1, HEADS_MAX)},
    {JSON_OPT_I64(struct evoformer, msa_depth, 1, POSITIONS_MAX)},
    {JSON_OPT_I64(struct evoformer, residues, 1, POSITIONS_MAX)},
    {JSON_OPT_ANY("model_type")},
    {0},
};

static const struct family_keys KEYS = {
    .dimensions = "no_blocks c_m c_z msa_depth residues",
    .optional = "c_hidden_msa_att c_hidden_opm c_hidden_mul c_hidden_pair_att no_heads_msa "
                "no_heads_pair transition_n"};

static const void *read_evoformer(struct family_reader *reader)
{
    struct evoformer *record = ARENA_NEW(reader->arena, struct evoformer, 1);
    *record = (struct evoformer){.c_hidden_msa_att = 32,
                                 .c_hidden_opm = 32,
                                 .c_hidden_mul = 128,
                                 .c_hidden_pair_att = 32,
                                 .no_heads_msa = 8,
                                 .no_heads_pair = 4,
                                 .transition_n = 4};
    family_read(reader, FIELDS, record);
    family_absent(reader, FIELDS, record, &KEYS);
    return family_complete(reader) ? record : NULL;
}

const struct model_family FAMILY_EVOFORMER = {"evoformer", read_evoformer, evoformer_graph,
                                              "openfold's config"};
