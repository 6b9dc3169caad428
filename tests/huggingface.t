#!/usr/bin/perl
# Weights of Hugging Face, out and in: names and shapes are those that `transformers` makes of the
# same configs (tests/data/huggingface_names.txt), what is read back is what was written, to the
# bit, and a run that begins with it has the losses of one that goes on from the checkpoint itself.
use strict;
use warnings;
use File::Path 'remove_tree';
use File::Temp 'tempdir';
use JSON::PP;
use lib 'tests';
use Script;

my $build  = $ENV{BUILD} // 'build';
my $folder = tempdir(CLEANUP => 1, -w '/dev/shm' ? (DIR => '/dev/shm') : ());
my $json   = JSON::PP->new->allow_nonref;
$ENV{NO_COLOR} = 1;
delete $ENV{COLUMNS};

sub meshwright { return answer_of("$build/meshwright", @_) }

# Name, and shape as text.
sub arrays_of {
    my ($path) = @_;
    my $text = text_of($path);
    my $header = $json->decode(substr $text, 8, unpack 'Q<', $text);
    delete $header->{__metadata__};
    return map { $_ => "@{ $header->{$_}{shape} }" } keys %$header;
}

my %wanted;
for (split /\n/, text_of('tests/data/huggingface_names.txt')) {
    next if /^#/;
    my ($family, $name, @shape) = split;
    $wanted{$family}{$name} = "@shape";
}
my %common = (hidden_size => 16, num_attention_heads => 4, num_key_value_heads => 2,
              num_hidden_layers => 1, intermediate_size => 24, vocab_size => 200,
              max_position_embeddings => 32);
my %latent = (%common, num_key_value_heads => 4, num_hidden_layers => 2, kv_lora_rank => 8,
              qk_nope_head_dim => 6, qk_rope_head_dim => 4, v_head_dim => 5, n_routed_experts => 2,
              num_experts_per_tok => 2, moe_intermediate_size => 12, first_k_dense_replace => 1);
my %configs = (
    gpt2 => {n_embd => 16, n_head => 2, n_layer => 1, n_positions => 16, vocab_size => 200,
             attn_pdrop => 0, resid_pdrop => 0, embd_pdrop => 0},
    (map { $_ => \%common } qw(llama qwen2)),
    mistral => {%common, sliding_window => 32},
    mixtral => {%common, num_local_experts => 2, num_experts_per_tok => 2},
    qwen2_moe => {%common, num_experts => 2, num_experts_per_tok => 2, moe_intermediate_size => 12,
                  shared_expert_intermediate_size => 20},
    deepseek_v2 => {%latent, q_lora_rank => undef, n_shared_experts => 2},
    deepseek_v3 => {%latent, q_lora_rank => 12, n_shared_experts => 1, n_group => 1,
                    topk_group => 1, num_nextn_predict_layers => 1},
);

sub plan {
    my ($family, $name, $choices) = @_;
    my ($status, undef, $errors) = meshwright(
        "plan $folder/$family.json dgx-a100-80g --precision fp32 --seq-len 16 --global-batch 2",
        "--micro-batch 1 --stack meshwright $choices -o $folder/$name.json");
    die "plan $family $choices: $errors" if $status;
}

sub losses {
    my ($plan, $steps, $more) = @_;
    my ($status, $out, $errors) = meshwright(
        "run $folder/$plan.json --spawn --backend cpu-fp64 --steps $steps --json $more");
    check("$plan runs", $status == 0, $errors) or return [];
    return $json->decode($out)->{loss};
}

sub words_of {
    my ($path, $name) = @_;
    my $text = text_of($path);
    my $length = unpack 'Q<', $text;
    my ($first, $end) = @{ $json->decode(substr $text, 8, $length)->{$name}{data_offsets} };
    return [unpack 'L<*', substr $text, 8 + $length + $first, $end - $first];
}

# Of an array of fp64, row by row.
sub rows_of {
    my ($path, $name, $columns) = @_;
    my $text = text_of($path);
    my $length = unpack 'Q<', $text;
    my ($first, $end) = @{ $json->decode(substr $text, 8, $length)->{$name}{data_offsets} };
    my @values = unpack 'd<*', substr $text, 8 + $length + $first, $end - $first;
    return map { [splice @values, 0, $columns] } 1 .. @values / $columns;
}

# Rows of two of ours in one of theirs, head by head, and what is rotated: of a head's last four
# ours are 0, 2, 1, 3 of theirs. The module's product has its halves the other way round.
sub latent_is_as_by_hand {
    my ($ours, $theirs) = @_;
    my $layer = 'model.layers.0.self_attn';
    my @kv_b = rows_of($theirs, "$layer.kv_b_proj.weight", 8);
    my @k_b = rows_of($ours, 'attention.k_b.weight.1', 8);
    my @v_b = rows_of($ours, 'attention.v_b.weight.1', 8);
    my @wanted = map { (@k_b[6 * $_ .. 6 * $_ + 5], @v_b[5 * $_ .. 5 * $_ + 4]) } 0 .. 3;
    check('keys and values in turn', "@{[map { @$_ } @wanted]}" eq "@{[map { @$_ } @kv_b]}");
    my @kv_a = rows_of($theirs, "$layer.kv_a_proj_with_mqa.weight", 16);
    my @shared = rows_of($ours, 'attention.k_shared.weight.1', 16);
    @wanted = (rows_of($ours, 'attention.kv_a.weight.1', 16), @shared[0, 2, 1, 3]);
    check('the shared key behind them', "@{[map { @$_ } @wanted]}" eq "@{[map { @$_ } @kv_a]}");
    my @q_b = rows_of($theirs, "$layer.q_b_proj.weight", 12);
    my @own = rows_of($ours, 'attention.q_b.weight.1', 40);
    @wanted = map { my $head = $_; map { 10 * $head + $_ } 0 .. 5, 6, 8, 7, 9 } 0 .. 3;
    my @apart = grep { my $row = $_; "@{$q_b[$row]}" ne "@{[map { $_->[$wanted[$row]] } @own]}" }
        0 .. 39;
    check('rows of queries', !@apart, "@apart");
    my @joined = rows_of($theirs, 'model.layers.2.eh_proj.weight', 32);
    my @project = rows_of($ours, 'mtp.project.weight.3', 16);
    @apart = grep { my $row = $_;
                    "@{$joined[$row]}" ne "@{[map { $_->[$row] } @project[16 .. 31, 0 .. 15]]}" }
        0 .. 15;
    check('the embedding first', !@apart, "@apart");
}

for my $family (sort keys %configs) {
    write_text("$folder/$family.json",
               $json->encode({model_type => $family, %{ $configs{$family} }}));
    plan($family, 'one', '--gpus 1');
    plan($family, 'two', '--gpus 2 --tp 2');
    remove_tree(map { "$folder/$_" } qw(ck hf in back));
    my $stayed = losses('two', 3, "--checkpoint $folder/ck --checkpoint-every 2 --keep 9");
    my ($status, $out, $errors) =
        meshwright("reshard $folder/ck/step-00000002 --to huggingface -o $folder/hf");
    check("$family is written", $status == 0 && $out =~ /^Wrote \d+ arrays, /, $errors);
    my %is = arrays_of("$folder/hf/model.safetensors");
    my @differ = grep { ($is{$_} // '') ne ($wanted{$family}{$_} // '') }
        sort keys %{ { %is, %{ $wanted{$family} } } };
    check('with the names and shapes of transformers', !@differ, "@differ");
    ($status, $out, $errors) =
        meshwright("reshard $folder/hf --to $folder/one.json -o $folder/in");
    check('and read for another plan', $status == 0 && -d "$folder/in/step-00000000", $errors);
    meshwright("reshard $folder/in --to huggingface -o $folder/back");
    check('to the bit', text_of("$folder/hf/model.safetensors")
          eq text_of("$folder/back/model.safetensors"));
    latent_is_as_by_hand("$folder/in/step-00000000/rank-00000.safetensors",
                         "$folder/hf/model.safetensors") if $family eq 'deepseek_v3';
    # The loss of a step does not depend on the moments that follow it.
    meshwright("reshard $folder/ck/step-00000002 --to $folder/two.json --weights-only",
               "-o $folder/ck/weights");
    my $there = losses('two', 3, "--checkpoint $folder/ck/weights --resume --checkpoint-every 9");
    check('weights alone give the loss of the run', abs($there->[0] - $stayed->[2]) < 1e-12);
}

# Matrices of layers in whole numbers: half as large, read back as what the codes stand for, which
# coded once more have the same codes.
{
    plan('llama', 'llama-one', '--gpus 1');
    remove_tree("$folder/ck", "$folder/hf");
    losses('llama-one', 1, "--checkpoint $folder/ck --checkpoint-every 1");
    my %is;
    for my $bits (8, 4) {
        my ($status, $out, $errors) = meshwright(
            "reshard $folder/ck --to huggingface --precision int$bits -o $folder/int$bits");
        check("int$bits is written, with its error", $status == 0 && $out
              =~ /^The error of 1920 weights in whole numbers is (\S+) % of their root mean square/m
              && $1 > 0 && $1 < ($bits == 8 ? 1 : 15), "$out$errors");
        %is = arrays_of("$folder/int$bits/model.safetensors");
        my $name = 'model.layers.0.mlp.gate_proj.weight';
        my $words = 16 * $bits / 32;
        check('words, scales and shapes', ($is{"${name}_packed"} // '') eq "24 $words"
              && $is{"${name}_scale"} eq '24 1' && $is{"${name}_shape"} eq '2'
              && !exists $is{$name} && $is{'lm_head.weight'} eq '200 16', join ' ', sort keys %is);
        ($status, $out, $errors) =
            meshwright("reshard $folder/int$bits --to $folder/llama-one.json -o $folder/from$bits");
        check('and read back', $status == 0, $errors);
        meshwright("reshard $folder/from$bits --to huggingface --precision int$bits",
                   "-o $folder/again$bits");
        my @codes = map { [map { @$_ } words_of("$folder/$_/model.safetensors", "${name}_packed")] }
            "int$bits", "again$bits";
        check('to the same codes', @{$codes[0]} == 24 * $words && "@{$codes[0]}" eq "@{$codes[1]}");
    }
    my $config = $json->decode(text_of("$folder/int4/quantization.json"));
    check('what a config.json says of it', $config->{format} eq 'pack-quantized'
          && $config->{config_groups}{group_0}{weights}{num_bits} == 4);
    meshwright("reshard $folder/ck --to huggingface -o $folder/hf");
    plan('llama', 'one', '--gpus 1');
}

# What is refused.
sub refused {
    my ($name, $wanted, $pattern, $words) = @_;
    my ($status, $out, $errors) = meshwright("reshard $words");
    check($name, $status == $wanted && $out eq ''
          && $errors =~ /^(?:note: .+\n)*meshwright reshard: $pattern\n\z/, "$status $out$errors");
}
write_text("$folder/opt.json", $json->encode(
    {model_type => 'opt', hidden_size => 16, num_attention_heads => 4, num_hidden_layers => 1,
     ffn_dim => 24, vocab_size => 200, max_position_embeddings => 32, word_embed_proj_dim => 16}));
plan('opt', 'opt-one', '--gpus 1');
refused('a family without rows', 2, "\Q$folder\E/hf: names of family opt are not known",
        "$folder/hf --to $folder/opt-one.json -o $folder/x");
refused('whole numbers to train with', 2,
        '--precision int8: of --to huggingface, nothing trains in it',
        "$folder/ck --to $folder/one.json --precision int8 -o $folder/x");
my $path = "$folder/hf/model.safetensors";
my $text = text_of($path);
write_text($path, substr $text, 0, length($text) - 8);
refused('a file that is cut off', 3, "\Q$path\E: cut off inside of \\S+",
        "$folder/hf --to $folder/one.json -o $folder/x");
write_text($path, substr $text, 0, 5);
refused('what is no such file', 3, "\Q$path\E: no file of safetensors, or cut off",
        "$folder/hf --to $folder/one.json -o $folder/x");
check('nothing is written of it', !-e "$folder/x");
checked();
