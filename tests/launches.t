#!/usr/bin/perl
# What the account of a layer's kernels says is launched is what the CUDA back end launches, as the
# emulation counts it: of runs with a layer more and a micro-batch more, what both together add is
# one layer of one micro-batch. In 8 bits a value is cast once in it, and a weight once a step.
use strict;
use warnings;
use File::Temp 'tempdir';
use JSON::PP;
use List::Util qw(sum0);
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
    gpt2  => { model_type => 'gpt2', n_embd => 64, n_head => 4, n_positions => 32,
               vocab_size => 128 },
);

# By name, of a run of so many layers and micro-batches, a step.
sub launches {
    my ($name, $precision, $choices, $layers, $micro_batches) = @_;
    my $key = $name eq 'gpt2' ? 'n_layer' : $name eq 'mpt' ? 'n_layers' : 'num_hidden_layers';
    write_text("$folder/model.json", $json->encode({ %{ $model{$name} }, $key => $layers }));
    unlink "$folder/launches";
    my ($status, undef, $errors) = answer_of($binary, "plan $folder/model.json dgx-h100 --gpus 1",
        "--stack meshwright --precision $precision --seq-len 16 --micro-batch 1",
        "--global-batch $micro_batches $choices --force -o $folder/p.json");
    die "no plan: $errors" if $status;
    local $ENV{MESHWRIGHT_EMULATED_LAUNCHES} = "$folder/launches";
    ($status, undef, $errors) = answer_of($binary,
        "run $folder/p.json --backend cuda --steps $steps");
    die "no run: $errors" if $status;
    my %count;
    for (split /\n/, text_of("$folder/launches")) {
        my ($kernel, $times) = /^(.+) (\d+)$/ or die "no count: $_";
        $count{$kernel} += $times / $steps;
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
              ['gpt2',  'fp8', '--recompute none']) {
    my %counts;
    for my $layers (2, 3) {
        $counts{$layers}{$_} = launches(@$case, $layers, $_) for 2, 3;
    }
    my $layer = beyond(beyond($counts{3}{3}, $counts{2}{3}), beyond($counts{3}{2}, $counts{2}{2}));
    my $said  = account_of()->{launches};
    my $title = "@$case[0, 1]";
    my $all   = join ', ', map { "$_ $layer->{$_}" } grep { $layer->{$_} } sort keys %$layer;
    # Sums of a bias beside its weight's gradient take kernels more than their account has.
    check("$title: launches of a layer are those of its account", sum0(values %$layer) == $said,
          sum0(values %$layer) . " run, $said are said: $all") if $case->[0] ne 'gpt2';
    next if $case->[1] ne 'fp8';
    check("$title: a layer casts eight values", $layer->{cast_both} == 8, $layer->{cast_both});
    my $once = beyond($counts{3}{2}, $counts{2}{2});
    my $weights = ($once->{cast_both} // 0) - 2 * ($layer->{cast_both} // 0);
    check("$title: four casts of weights once a step", $weights == 4, $weights);
}
checked();
