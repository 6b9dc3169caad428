#!/usr/bin/perl
# Which way attention went is in the table of `run` and in run.json: on the emulated CUDA back end,
# where the fused kernels are there, are not, or refuse a shape that is theirs.
use strict;
use warnings;
use File::Temp 'tempdir';
use JSON::PP;
use lib 'tests';
use Schema;
use Script;

my $build  = $ENV{BUILD} // 'build';
my $folder = tempdir(CLEANUP => 1);
my $json   = JSON::PP->new;
my $schema = $json->decode(text_of('executor/run.schema.json'));

# Status, stdout, stderr and run.json of a plan of this precision.
sub meshwright {
    my (@words) = @_;
    return answer_of("$build/emulated/meshwright", @words);
}
sub run {
    my ($mode, $model, $precision, $words) = @_;
    my ($status, $out, $errors) = meshwright("plan $folder/$model.json dgx-h100 --gpus 2",
        "--stack meshwright --precision $precision --seq-len 16 --global-batch 2",
        "--attention flash --micro-batch 1 $words -o $folder/p.json");
    die "no plan: $errors" if $status;
    local $ENV{MESHWRIGHT_EMULATED_SDPA} = $mode;
    ($status, $out, $errors) = meshwright("run $folder/p.json --backend cuda --steps 2 --spawn",
        "--force -o $folder/r.json");
    my $run    = eval { $json->decode(text_of("$folder/r.json")) } // {};
    my $breach = Schema::breach($run, $schema, '$');
    check("run.json is of the schema ($mode, $precision, $words)", $breach eq '', $breach);
    return ($status, $out, $errors, $run);
}

# One text a direction, sorted.
sub ways_of {
    my ($run) = @_;
    my %seen;
    $seen{"$_->{phase} $_->{path}"} += $_->{rank_count} for @{ $run->{attention} // [] };
    return join ', ', map { "$_ $seen{$_}" } sort keys %seen;
}

write_text("$folder/llama.json", $json->encode({
    model_type => 'llama', vocab_size => 128, hidden_size => 64, intermediate_size => 96,
    num_hidden_layers => 2, num_attention_heads => 8, num_key_value_heads => 4,
}));

my ($status, $out, $errors, $fused) = run('runs', 'llama', 'bf16', '--dp 2');
check('the fused way is taken and said', $status == 0
    && ways_of($fused) eq 'backward cudnn 2, forward cudnn 2'
    && $out =~ /^attention +of a rank +path +ranks/m
    && $out =~ /^  forward +1 x 8 heads \(4 of keys\), 16 x 16 causal, width 8 +cudnn +2$/m,
    "$status $out $errors " . ways_of($fused));

($status, $out, $errors, my $without) = run('none', 'llama', 'bf16', '--dp 2');
check('without the library it is unfused, says why, and is a run', $status == 0
    && ways_of($without) eq 'backward unfused 2, forward unfused 2'
    && $out =~ /^  backward .* unfused +2 +the emulation is without cuDNN$/m,
    "$status $out $errors");
my @apart = map { abs($fused->{loss}[$_] - $without->{loss}[$_]) } 0, 1;
check('both ways train alike', $apart[0] < 2e-3 && $apart[1] < 2e-3, "@apart");

($status, $out, $errors, my $refused) = run('refuses', 'llama', 'bf16', '--dp 2');
check('a usual shape that the library refuses is a failure', $status == 1
    && (grep { $_->{is_refused} } @{ $refused->{attention} })
    && $errors =~ /^meshwright run: attention forward of 1 x 8 [^\n]* unfused[^\n]*no engine for/m,
    "$status $errors");

($status, $out, $errors, $refused) = run(91400, 'llama', 'bf16', '--dp 2');
check('so are gradients that an older library gets wrong', $status == 1
    && ways_of($refused) eq 'backward unfused 2, forward cudnn 2'
    && $errors =~ /backward of 1 x 8 [^\n]* unfused[^\n]*cuDNN up to 9.15 gets gradients of keys/m,
    "$status $errors");

# What both ways give is the same, with windows, caps, slopes, sinks and chunks, in one go, block by
# block round a ring, with an older library, and of queries that are a part of the places of keys.
my %heads = (vocab_size => 128, hidden_size => 64, intermediate_size => 96, num_hidden_layers => 2,
             num_attention_heads => 8, num_key_value_heads => 4);
my %model = (
    mistral => { sliding_window => 5 },
    gemma2 => { sliding_window => 6, attn_logit_softcapping => 1.5, head_dim => 8,
                query_pre_attn_scalar => 4 },
    gpt_oss => { sliding_window => 6, head_dim => 8, num_local_experts => 2,
                 num_experts_per_tok => 1 },
    # Eight queries at a time, of which in a ring some have chosen no key of a block.
    deepseek_v32 => { num_key_value_heads => 8, q_lora_rank => 16, kv_lora_rank => 16,
                      qk_nope_head_dim => 8,
                      qk_rope_head_dim => 8, v_head_dim => 8, first_k_dense_replace => 2,
                      n_routed_experts => 4, num_experts_per_tok => 1, n_group => 1,
                      topk_group => 1, moe_intermediate_size => 16, index_n_heads => 2,
                      index_head_dim => 16, index_topk => 3 },
    llama4_text => { attention_chunk_size => 4, num_local_experts => 2, num_experts_per_tok => 1,
                     intermediate_size_mlp => 96, head_dim => 8, interleave_moe_layer_step => 2 },
);
for my $name (keys %model) {
    write_text("$folder/$name.json",
        $json->encode({ model_type => $name, %heads, %{ $model{$name} } }));
}
write_text("$folder/bloom.json", $json->encode({ model_type => 'bloom', vocab_size => 128,
    hidden_size => 64, n_layer => 2, n_head => 8 }));
for my $case (['mistral', '--dp 2'], ['gemma2', '--dp 2'], ['gpt_oss', '--tp 2'],
              ['llama4_text', '--dp 2'], ['bloom', '--tp 2'], ['llama', '--cp 2 --cp-kind ring'],
              ['bloom', '--cp 2 --cp-kind ring'], ['gpt_oss', '--cp 2 --cp-kind allgather'],
              ['gemma2', '--cp 2 --cp-kind allgather'], ['deepseek_v32', '--dp 2'],
              ['deepseek_v32', '--cp 2 --cp-kind ring'],
              ['deepseek_v32', '--cp 2 --cp-kind allgather']) {
    my ($model, $words) = @$case;
    my $library = $words =~ /cp/ ? 91900 : 'runs';
    ($status, $out, $errors, my $of) = run($library, $model, 'bf16', $words);
    my ($plain_status, undef, undef, $plain) = run('none', $model, 'bf16', $words);
    my @unfused = grep { $_->{path} ne 'cudnn' } @{ $of->{attention} };
    check("$model $words: fused alone", $status == 0 && @{ $of->{attention} } > 1 && !@unfused,
        "$status $errors " . $json->encode(\@unfused));
    my @off = map { abs($of->{$_}[1] / $plain->{$_}[1] - 1) } qw(loss gradient_norm);
    check("$model $words: both ways train alike", $plain_status == 0 && $off[0] < 2e-3
        && $off[1] < 1e-2, "@off");
}

# What no fused kernel is for is no failure.
for my $case (['llama', 'fp32', '--dp 2', 'it is of fp32'],
              ['mistral', 'bf16', '--cp 2 --cp-kind ring', 'some of its queries see no key']) {
    my ($model, $precision, $words, $reason) = @$case;
    ($status, $out, $errors, my $of) = run('refuses', $model, $precision, $words);
    my @rows = grep { index($_->{reason}, $reason) == 0 } @{ $of->{attention} };
    my $is_right = @rows && !(grep { $_->{is_refused} } @rows);
    check("$reason: unfused, and no failure of that",
        $is_right && ($status == 0 || $reason !~ /fp32/), "$status $errors " . ways_of($of));
}
checked();
