#!/usr/bin/perl
# What the account of a layer's kernels says is launched is what the CUDA back end launches, as the
# emulation counts it: of runs with a layer more and a micro-batch more, what both together add is
# one layer of one micro-batch. In 8 bits a value is cast once in it, and a weight once a step.
use strict;
use warnings;
use File::Temp 'tempdir';
use JSON::PP;
use List::Util qw(max sum0);
use lib 'tests';
use Script;

my $build  = $ENV{BUILD} // 'build';
my $folder = tempdir(CLEANUP => 1);
my $json   = JSON::PP->new->allow_nonref;
my $binary = "$build/emulated/meshwright";
my $steps  = 2;
$ENV{MESHWRIGHT_EMULATED_SDPA} = 'runs';

my %model = (
    llama => { model_type => 'llama', vocab_size => 128, hidden_size => 64, head_dim => 16,
               intermediate_size => 96, num_attention_heads => 4, num_key_value_heads => 2,
               max_position_embeddings => 64, tie_word_embeddings => JSON::PP::false },
    mpt   => { model_type => 'mpt', d_model => 64, n_heads => 4, expansion_ratio => 4,
               max_seq_len => 32, vocab_size => 128, no_bias => JSON::PP::true,
               attn_config => { alibi => JSON::PP::true } },
    # So few tokens that the emulation, too, attends to the chosen keys of all in one go.
    deepseek_v32 => { model_type => 'deepseek_v32', vocab_size => 128, hidden_size => 64,
               intermediate_size => 96, num_attention_heads => 4, q_lora_rank => 16,
               kv_lora_rank => 16, qk_nope_head_dim => 8, qk_rope_head_dim => 8,
               v_head_dim => 16, first_k_dense_replace => 3, n_routed_experts => 4,
               num_experts_per_tok => 1, n_shared_experts => 1, moe_intermediate_size => 16,
               n_group => 1, topk_group => 1,
               index_n_heads => 2, index_head_dim => 16, index_topk => 3 },
    mamba => { model_type => 'mamba', vocab_size => 128, hidden_size => 64, state_size => 16,
               intermediate_size => 128 },
    mamba2 => { model_type => 'mamba2', vocab_size => 128, hidden_size => 64, num_heads => 4,
                head_dim => 32, state_size => 16, n_groups => 1 },
    qwen3_next => { model_type => 'qwen3_next', vocab_size => 128, hidden_size => 64,
               intermediate_size => 96, num_attention_heads => 4, num_key_value_heads => 2,
               head_dim => 16, num_experts => 0, linear_num_key_heads => 2,
               linear_num_value_heads => 4, linear_key_head_dim => 16,
               linear_value_head_dim => 16, full_attention_interval => 9 },
    deberta => { model_type => 'deberta-v2', vocab_size => 128, hidden_size => 64,
               intermediate_size => 128, num_attention_heads => 4, position_buckets => 8,
               max_position_embeddings => 32, max_relative_positions => -1,
               relative_attention => JSON::PP::true, share_att_key => JSON::PP::true,
               pos_att_type => 'p2c|c2p', norm_rel_ebd => 'layer_norm', type_vocab_size => 0,
               position_biased_input => JSON::PP::false, hidden_act => 'gelu' },
    gpt2  => { model_type => 'gpt2', n_embd => 64, n_head => 4, n_positions => 32,
               vocab_size => 128 },
);

# Nine queries of two heads, whose keys are chosen, go by products.
$model{odd_choice} = { %{ $model{deepseek_v32} }, num_attention_heads => 2 };
# In a ring of two the last rank works on both blocks of keys, eight each.
@model{qw(ring llama_ring)} = @model{qw(deepseek_v32 llama)};
# Of 16 queries the emulation has room for the masks of eight at a time: two parts of each block,
# which a GPU works on in one go: a mask, a kernel and the second block's merge more in forward, 5;
# in backward of the four parts a mask, a kernel and two sums and of each block two ends of them,
# and a sum of the second block's queries, 21, where whole blocks take 9.
$model{cut_ring} = $model{deepseek_v32};
my %apart   = (cut_ring => 5 + 21 - 9);
my %seq_len = (deepseek_v32 => 8, odd_choice => 9, ring => 16, cut_ring => 32);
my %ranks   = (ring => 2, llama_ring => 2, cut_ring => 2);

# By name, of a run of so many layers and micro-batches, a step.
sub launches {
    my ($name, $precision, $choices, $layers, $micro_batches) = @_;
    my $key = $name eq 'gpt2' ? 'n_layer' : $name eq 'mpt' ? 'n_layers' : 'num_hidden_layers';
    write_text("$folder/model.json", $json->encode({ %{ $model{$name} }, $key => $layers }));
    unlink "$folder/launches";
    my ($status, undef, $errors) = answer_of($binary, "plan $folder/model.json dgx-h100",
        '--gpus ' . ($ranks{$name} // 1),
        "--stack meshwright --precision $precision --micro-batch 1",
        '--seq-len ' . ($seq_len{$name} // 16),
        "--global-batch $micro_batches $choices --force -o $folder/p.json");
    die "no plan: $errors" if $status;
    local $ENV{MESHWRIGHT_EMULATED_LAUNCHES} = "$folder/launches";
    ($status, undef, $errors) = answer_of($binary,
        "run $folder/p.json --backend cuda --steps $steps");
    die "no run: $errors" if $status;
    # Of each as often as the rank has it that has most.
    my %count;
    for (split /\n/, text_of("$folder/launches")) {
        my ($kernel, $times) = /^(.+) (\d+)$/ or die "no count: $_";
        $count{$kernel} = max($count{$kernel} // 0, $times / $steps);
    }
    return \%count;
}

# What `more` has beyond `less`.
sub beyond {
    my ($more, $less) = @_;
    my %is_name = (%$more, %$less);
    return { map { $_ => ($more->{$_} // 0) - ($less->{$_} // 0) } keys %is_name };
}

sub account_of {
    my ($status, $out, $errors) = answer_of($binary,
        "simulate $folder/p.json --kernels-account --json");
    die "no account: $errors" if $status;
    my ($layer) = @{ $json->decode($out)->{kernels_account}{layers} };
    return $layer;
}

# Attention in fp32 has its scores in memory; that of mpt has slopes.
for my $case (['llama', 'bf16', '--recompute none'], ['llama', 'fp32', '--recompute none'],
              ['mpt', 'bf16', '--recompute none'], ['mpt', 'fp32', '--recompute none'],
              ['llama', 'fp8', '--recompute none'],
              ['deepseek_v32', 'bf16', '--recompute none'],
              ['mamba', 'bf16', '--recompute none'],
              ['odd_choice', 'bf16', '--recompute none'],
              ['ring', 'bf16', '--recompute none --cp 2 --cp-kind ring'],
              ['cut_ring', 'bf16', '--recompute none --cp 2 --cp-kind ring'],
              ['llama_ring', 'bf16', '--recompute none --cp 2 --cp-kind ring'],
              ['mamba2', 'bf16', '--recompute none'], ['qwen3_next', 'bf16', '--recompute none'],
              ['deberta', 'bf16', '--recompute none'],
              ['gpt2',  'fp8', '--recompute none'], ['gpt2', 'bf16', '--recompute none']) {
    # An account is of the mean micro-batch: the third of three is what they take more than two.
    my %counts;
    my $said = $apart{ $case->[0] } // 0;
    for my $of ([2, 2], [2, 3], [3, 2], [3, 3]) {
        my ($layers, $rounds) = @$of;
        $counts{$layers}{$rounds} = launches(@$case, $layers, $rounds);
        $said += ($rounds == 3 ? 1 : -1) * $rounds * account_of()->{launches} if $layers == 3;
    }
    my $layer = beyond(beyond($counts{3}{3}, $counts{2}{3}), beyond($counts{3}{2}, $counts{2}{2}));
    my $title = "@$case[0, 1]";
    my $all   = join ', ', map { "$_ $layer->{$_}" } grep { $layer->{$_} } sort keys %$layer;
    check("$title: launches of a layer are those of its account",
          abs(sum0(values %$layer) - $said) < 1e-9,
          sum0(values %$layer) . " run, $said are said: $all");
    next if $case->[1] ne 'fp8';
    check("$title: a layer casts eight values", $layer->{cast_both} == 8, $layer->{cast_both});
    my $once = beyond($counts{3}{2}, $counts{2}{2});
    my $weights = ($once->{cast_both} // 0) - 2 * ($layer->{cast_both} // 0);
    check("$title: four casts of weights once a step", $weights == 4, $weights);
}
checked();
