#!/usr/bin/perl
# A distributed checkpoint of PyTorch, written by two processes of PyTorch 2.15.0 (rows of most
# tensors on either, columns of two), is read to the bit; none of its code is run, and whatever is
# wrong with it ends in one line. Two of Megatron-Core 0.16.1, whose losses those of
# tests/judges/megatron_weights_judge.py are, are read to the bit, too.
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

system("tar -xzf tests/data/torch_dcp.tgz -C $folder") == 0 or die "tar: $?";
write_text("$folder/tiny.json", $json->encode(
    {model_type => 'llama', hidden_size => 8, num_attention_heads => 2, num_key_value_heads => 2,
     num_hidden_layers => 1, intermediate_size => 8, vocab_size => 12,
     max_position_embeddings => 16}));
for my $plan (['one', '--gpus 1'], ['two', '--gpus 2 --tp 2']) {
    my ($status, undef, $errors) = meshwright(
        "plan $folder/tiny.json dgx-a100-80g --precision fp32 --seq-len 8 --global-batch 2",
        "--micro-batch 1 --stack meshwright $plan->[1] -o $folder/$plan->[0].json");
    die $errors if $status;
}
my $expected = text_of("$folder/dcp/expected.bin");
for my $plan ('one', 'two') {
    my ($status, $out, $errors) =
        meshwright("reshard $folder/dcp --to $folder/$plan.json -o $folder/in-$plan");
    check("it is read for $plan", $status == 0 && $out =~ /^Step 0: 2\.59 KiB in /, $errors);
    meshwright("reshard $folder/in-$plan --to huggingface -o $folder/out-$plan");
    check('to the bit', text_of("$folder/out-$plan/model.safetensors") eq $expected);
}

# What is refused.
sub refused {
    my ($name, $pattern) = @_;
    my ($status, $out, $errors) =
        meshwright("reshard $folder/bad --to $folder/one.json -o $folder/x");
    check($name, $status == 3 && $out eq '' && $errors =~ /^meshwright reshard: $pattern\n\z/,
          "$status $out$errors");
}
sub damage {
    my ($file, $change) = @_;
    remove_tree("$folder/bad");
    system("cp -r $folder/dcp $folder/bad") == 0 or die;
    my $text = text_of("$folder/bad/$file");
    $change->($text) for $text;
    write_text("$folder/bad/$file", $text);
}
my $bad = "\Q$folder\E/bad";
damage('.metadata', sub { $_ = substr $_, 0, 3000 });
refused('metadata that is cut off', "$bad/.metadata: byte \\d+: a pickle that is cut off");
my $order = "touch $folder/touched";
damage('.metadata', sub { $_ = "\x80\x04cos\nsystem\n" . pack('CC/a*', 0x8c, $order) . "\x85R." });
refused('what is no metadata', "$bad/.metadata: no metadata of torch.distributed.checkpoint");
check('nothing that a pickle calls is called', !-e "$folder/touched");
damage('.metadata', sub { $_ = "\x80\x04i." });
refused('an instruction that is not read',
        "$bad/.metadata: byte 2: instruction 0x69 of pickles is not read");
damage('__0_0.distcp', sub { $_ = substr $_, 0, 9000 });
refused('a file that is cut off', "$bad/.metadata: cut off or unknown: a chunk of model\\.\\S+");
unlink "$folder/bad/__1_0.distcp";
refused('a file that is missing', "$bad/__1_0.distcp: No such file or directory");
damage('.metadata', sub { s/__1_0\.distcp/..\/_0.distcp/ });
refused('a file elsewhere', "$bad/.metadata: another folder is not read: ../_0.distcp");

# Bytes that are turned are found, or are none that matter: names of what is not asked for.
srand 11;
my @broken;
for my $n (1 .. 60) {
    my $file = $n % 3 ? '.metadata' : '__0_0.distcp';
    damage($file, sub { substr($_, int rand length, 1) = chr int rand 256 });
    remove_tree("$folder/x");
    my ($status, undef, $errors) =
        meshwright("reshard $folder/bad --to $folder/one.json -o $folder/x");
    push @broken, "$n: $status $errors"
        if $status != 0 && ($status != 3 || $errors !~ /\Ameshwright reshard: [^\n]+\n\z/);
}
check('damage ends in one line or in weights', !@broken, "@broken");

# Megatron-Core: layers and experts that are one tensor, vocabulary that is padded.
my %more_of = (
    mixtral => {num_local_experts => 4, num_experts_per_tok => 2},
    qwen3   => {head_dim => 2},
    qwen2_moe => {num_experts => 4, num_experts_per_tok => 2, moe_intermediate_size => 6,
                  shared_expert_intermediate_size => 6},
);
system("tar -xzf tests/data/megatron_dcp.tgz -C $folder") == 0 or die "tar: $?";
sub plan_megatron {
    my ($family, $layers, $name, $choices) = @_;
    write_text("$folder/model.json", $json->encode(
        {model_type => $family, hidden_size => 8, num_attention_heads => 4,
         num_key_value_heads => 2, num_hidden_layers => $layers, intermediate_size => 6,
         vocab_size => 12, max_position_embeddings => 32, %{ $more_of{$family} // {} }}));
    my ($status, undef, $errors) = meshwright(
        "plan $folder/model.json dgx-a100-80g --precision fp32 --seq-len 8 --global-batch 2",
        "--micro-batch 1 --stack meshwright $choices -o $folder/$name.json --force");
    die $errors if $status;
}
for my $family ('mixtral', 'qwen2') {
    for my $plan (['one', '--gpus 1'], ['two', '--gpus 2 --pp 2']) {
        plan_megatron($family, 2, @$plan);
        remove_tree("$folder/x", "$folder/y");
        my ($status, undef, $errors) =
            meshwright("reshard $folder/$family --to $folder/$plan->[0].json -o $folder/x");
        check("$family of Megatron-Core is read for $plan->[0]", $status == 0, $errors);
        meshwright("reshard $folder/x --to huggingface -o $folder/y");
        check('to the bit', text_of("$folder/y/model.safetensors")
              eq text_of("$folder/$family/expected.bin"));
    }
}
sub refused_megatron {
    my ($name, $status_wanted, $line) = @_;
    remove_tree("$folder/x");
    my ($status, $out, $errors) =
        meshwright("reshard $folder/qwen2 --to $folder/one.json -o $folder/x");
    check($name, $status == $status_wanted && $out eq ''
          && $errors eq "meshwright reshard: $line\n", "$status $out$errors");
}
plan_megatron('qwen2', 3, 'one', '--gpus 1');
refused_megatron('a layer that is not there', 3, "$folder/qwen2: no array "
    . 'decoder.layers.2.self_attention.linear_qkv.layer_norm_weight for attention.norm.weight.3');
plan_megatron('qwen3', 2, 'one', '--gpus 1');
refused_megatron('a norm that it lacks', 3, "$folder/qwen2: no array "
    . 'decoder.layers.0.self_attention.q_layernorm.weight for attention.q_norm.weight.1');
plan_megatron('qwen2_moe', 2, 'one', '--gpus 1');
refused_megatron('shared experts', 2, 'no name is known for embedding.token.weight.0 of family '
    . 'qwen2_moe in checkpoints of Megatron-Core');
plan_megatron('mixtral', 2, 'one', '--gpus 1');
srand 12;
@broken = ();
for my $n (1 .. 60) {
    my $file = $n % 3 ? '.metadata' : '__0_0.distcp';
    remove_tree("$folder/bad", "$folder/x");
    system("cp -r $folder/mixtral $folder/bad") == 0 or die;
    my $text = text_of("$folder/bad/$file");
    substr($text, int rand length $text, 1) = chr int rand 256;
    write_text("$folder/bad/$file", $text);
    my ($status, undef, $errors) =
        meshwright("reshard $folder/bad --to $folder/one.json -o $folder/x");
    push @broken, "$n: $status $errors"
        if $status != 0 && ($status != 3 || $errors !~ /\Ameshwright reshard: [^\n]+\n\z/);
}
check('damage ends in one line or in weights', !@broken, "@broken");
checked();
