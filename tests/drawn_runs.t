#!/usr/bin/perl
# What is priced is what runs, of choices drawn together: small models of many families and
# imported graphs, with pins drawn over every technique, planned and run on CPU ranks in fp64. Every
# task has the count and the bytes that were predicted (bytes of experts are what routing makes of
# them), memory is as predicted, and losses are those of one rank to 1e-12. What the planner refuses
# is drawn again.
#   drawn_runs.t [SEED]: MESHWRIGHT_CASES plans are run (40).
use strict;
use warnings;
use File::Temp 'tempdir';
use JSON::PP;
use List::Util qw(shuffle);
use lib 'tests';
use Script;

my $build  = $ENV{BUILD} // 'build';
my $folder = tempdir(CLEANUP => 1);
my $json   = JSON::PP->new->canonical;
my $cases  = $ENV{MESHWRIGHT_CASES} // 40;
my $seed   = $ARGV[0] // 1;
$ENV{NO_COLOR} = 1;
srand $seed;

my %small   = (vocab_size => 512, hidden_size => 32, num_hidden_layers => 4,
               num_attention_heads => 4);
my %grouped = (%small, intermediate_size => 32, num_key_value_heads => 2);
my %MODELS = (
    gpt2    => {n_embd => 32, n_head => 4, n_layer => 4, n_positions => 32, vocab_size => 512},
    llama   => {%grouped, num_attention_heads => 8, num_key_value_heads => 4},
    mixtral => {%grouped, num_local_experts => 8, num_experts_per_tok => 2},
    deepseek_v3 => {%small, intermediate_size => 64, moe_intermediate_size => 16,
                    num_key_value_heads => 4, n_shared_experts => 1, n_routed_experts => 8,
                    num_experts_per_tok => 2, n_group => 4, topk_group => 2, kv_lora_rank => 16,
                    q_lora_rank => 16, qk_rope_head_dim => 8, qk_nope_head_dim => 8,
                    v_head_dim => 8, first_k_dense_replace => 1},
    gemma3_text => {%grouped, head_dim => 8, sliding_window => 8},
    t5          => {vocab_size => 512, d_model => 32, d_kv => 8, d_ff => 64, num_layers => 2,
                    num_decoder_layers => 2, num_heads => 4},
    jamba       => {%grouped, num_experts => 4, num_experts_per_tok => 2, attn_layer_period => 2,
                    attn_layer_offset => 1, mamba_d_state => 8},
    qwen3_next  => {%grouped, head_dim => 8, linear_num_value_heads => 4, linear_num_key_heads => 2,
                    linear_key_head_dim => 8, linear_value_head_dim => 8, num_experts => 4,
                    num_experts_per_tok => 2, moe_intermediate_size => 16,
                    shared_expert_intermediate_size => 16},
    mamba2      => {vocab_size => 512, hidden_size => 32, num_hidden_layers => 4, num_heads => 8,
                    head_dim => 8, state_size => 8, n_groups => 2},
    bert        => {%small, intermediate_size => 64, max_position_embeddings => 64},
    minimax     => {%grouped, head_dim => 8, num_local_experts => 4, num_experts_per_tok => 2},
    two_towers  => {vocab_size => 64, hidden_size => 8, num_attention_heads => 2,
                    intermediate_size => 16, max_position_embeddings => 8, text_layers => 2,
                    joint_layers => 2, image_size => 4, patch_size => 2, vision_layers => 2,
                    vision_intermediate_size => 16},
    STDiT3      => {hidden_size => 16, num_heads => 4, depth => 2, in_channels => 2,
                    caption_channels => 8, model_max_length => 4, input_size => [4, 4, 8]},
    evoformer   => {no_blocks => 2, c_m => 8, c_z => 8, no_heads_msa => 2, no_heads_pair => 2,
                    c_hidden_msa_att => 4, c_hidden_pair_att => 4, c_hidden_opm => 4,
                    c_hidden_mul => 8, msa_depth => 4, residues => 8},
);
for my $type (keys %MODELS) {
    write_text("$folder/$type.json", $json->encode({model_type => $type, %{ $MODELS{$type} }}));
}
my @configs = map { ["$folder/$_.json", '--seq-len', $_ eq 'two_towers' ? 8 : 32] }
    sort keys %MODELS;
my @imports = map { ["tests/data/$_"] }
    qw(onnx/unet_small.onnx onnx/parts.onnx onnx/resized.onnx onnx/many_kinds.onnx
       pt2/bert_sdpa.pt2 pt2/gpt2_2_5.pt2 pt2/moved.pt2 pt2/vit.pt2);

# A value is drawn of each.
my %PINS = (
    '--tp' => [1, 2, 4], '--pp' => [1, 2, 2, 3, 4], '--dp' => [1, 2, 4], '--cp' => [1, 2],
    '--ep' => [1, 2, 4], '--etp' => [1, 2], '--sp-h' => [1, 2], '--sp-w' => [1, 2],
    '--tp-kind' => ['2d', '2d-summa', '2.5d', '2.5d-summa', '3d'], '--tp-relay' => [0, 2, 4],
    '--cp-kind' => [qw(ring allgather ulysses axial)], '--sp' => [qw(on off)], '--vpp' => [1, 2],
    '--micro-batch' => [1, 2, 4], '--zero' => [0 .. 3], '--zero-group' => [2],
    '--zero-gradients' => [2],
    '--recompute' => ['none', 'selective', 'full', 'per-op', 'auto', 'attention,mlp', 'norm'],
    '--recompute-layers' => [1, 2],
    '--schedule' => [qw(gpipe 1f1b interleaved zb-h1 zb-h2 zb-v zb-auto)],
    '--attention' => [qw(flash unfused)],
    '--offload' => ['optimizer', 'activations', 'optimizer,parameters', 'optimizer:1,activations:1',
                    'optimizer@nvme', 'mlp@nvme,optimizer', 'optimizer,gradients', 'auto'],
    '--loss-chunks' => [2, 3],
    '--overlap' => ['none', 'grad-reduce,param-gather', 'cp', 'pp', 'grad-reduce'],
    '--bucket-bytes' => [4096, 65536, 1 << 20], '--passes' => ['none', 'all', 'fusion,buckets'],
    '--stages' => ['1,3', '2,2', '3,1', '1,1,2'],
    '--stage-tp' => ['2,1', '1,2', '2,4', 'auto', '4,2'],
    '--stage-ranks' => ['2,1', '4,2', '3,1', 'auto'],
    '--branches' => [qw(on auto)], '--replica-batches' => ['3,1', '5,3', '2,6'],
    '--optimizer' => [qw(adamw sgd lamb lars)], '--capacity-factor' => [0.5, 1.25],
    '--clip' => ['off'], '--expert-imbalance' => [2],
);
# What another result follows from than from the rest: one rank is asked the same.
my @MEANING = qw(--optimizer --capacity-factor --clip --expert-imbalance);

sub one_of {
    my (@values) = @_;
    return $values[rand @values];
}

sub answer {
    my (@words) = @_;
    return answer_of("$build/meshwright", map { "'$_'" } @words);
}

sub plan_of {
    my ($model, $ranks, %pins) = @_;
    my @pins = map { ($_, $pins{$_}) } sort keys %pins;
    my @words = ('plan', @$model, qw(--global-batch 8 --precision fp32 --stack meshwright), @pins);
    my ($status, $out, $why) = answer(@words[0 .. 1], 'dgx-a100-80g', @words[2 .. $#words],
                                      '--gpus', $ranks, '-o', "$folder/p.json", '--force');
    return ($status, $why, "@words[1 .. $#words] --gpus $ranks");
}

sub run_of {
    my ($status, $out, $why) =
        answer('run', "$folder/p.json", qw(--spawn --steps 2 --json --backend cpu-fp64 --nvme),
               $folder, '-o', "$folder/r.json", '--force');
    return $status ? (undef, $why) : ($json->decode($out), '');
}

# What does not agree with the prediction, a line each.
sub differences {
    my ($run) = @_;
    my @wrong;
    for my $task (@{ $run->{tasks} }) {
        my $same = $task->{matches} || $task->{task} =~ /expert/;
        push @wrong, $json->encode($task)
            unless $same && $task->{count} == $task->{predicted_count};
    }
    for my $key (qw(host_peak_bytes nvme_bytes)) {
        my ($held, $planned) = ($run->{$key}, $run->{compare}{"predicted_$key"});
        push @wrong, "$key $held, planned $planned" if abs($held - $planned) > 0.01 * $planned;
    }
    return @wrong;
}

my %losses;    # of one rank
sub alone {
    my ($model, $micro_batch, %pins) = @_;
    my %meant = (map({ ($_ => $pins{$_}) } grep { exists $pins{$_} } @MEANING),
                 '--micro-batch' => $micro_batch);
    my $name = join ' ', @$model, map { ($_, $meant{$_}) } sort keys %meant;
    return $losses{$name} if $losses{$name};
    my ($status, $why) = plan_of($model, 1, %meant);
    my ($run, $ran) = $status ? (undef, $why) : run_of();
    return $losses{$name} = $run ? $run->{loss} : [$ran];
}

sub check_run {
    my ($model, $name, %pins) = @_;
    my $plan = $json->decode(text_of("$folder/p.json"));
    my ($run, $why) = run_of();
    check("$name runs", $run, $why) or return;
    my @wrong = differences($run);
    my $alone = alone($model, $plan->{parallel}{micro_batch}, %pins);
    my @off = grep { !(abs($alone->[$_] - $run->{loss}[$_]) <= 1e-12 * $run->{loss}[$_]) }
        0 .. $#{ $run->{loss} };
    push @wrong, "losses @{ $run->{loss} }, of one rank @$alone" if @off;
    check("$name: as predicted, and as on one rank", !@wrong, join "\n", @wrong);
}

my ($ran, $drawn, %seen) = (0, 0);
while ($ran < $cases && $drawn < 40 * $cases) {
    my $model = rand() < 0.75 ? one_of(@configs) : one_of(@imports);
    my @keys = (shuffle sort keys %PINS)[0 .. int rand 6];
    my %pins = map { $_ => one_of(@{ $PINS{$_} }) } @keys;
    $drawn++;
    my ($status, $why, $name) = plan_of($model, one_of(1, 2, 2, 3, 4, 4, 6, 8), %pins);
    if ($status) {
        my $refused = ($status == 2 || $status == 3) && $why ne '';
        check("$name is refused in words", 0, "status $status: $why") unless $refused;
        next;
    }
    $ran++;
    $seen{$_}++ for @keys;
    check_run($model, $name, %pins);
}
check("$cases plans were run of $drawn drawn", $ran == $cases);
print "# $_ in $seen{$_}\n" for sort keys %seen;
checked();
