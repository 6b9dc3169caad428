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
my %configs = (
    gpt2 => {n_embd => 16, n_head => 2, n_layer => 1, n_positions => 16, vocab_size => 200,
             attn_pdrop => 0, resid_pdrop => 0, embd_pdrop => 0},
    (map { $_ => \%common } qw(llama qwen2)),
    mistral => {%common, sliding_window => 32},
    mixtral => {%common, num_local_experts => 2, num_experts_per_tok => 2},
    qwen2_moe => {%common, num_experts => 2, num_experts_per_tok => 2, moe_intermediate_size => 12,
                  shared_expert_intermediate_size => 20},
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
    # The loss of a step does not depend on the moments that follow it.
    meshwright("reshard $folder/ck/step-00000002 --to $folder/two.json --weights-only",
               "-o $folder/ck/weights");
    my $there = losses('two', 3, "--checkpoint $folder/ck/weights --resume --checkpoint-every 9");
    check('weights alone give the loss of the run', abs($there->[0] - $stayed->[2]) < 1e-12);
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
