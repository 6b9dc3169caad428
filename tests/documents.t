#!/usr/bin/perl
# Documents that share a sequence and are masked train as if each had a sequence of its own: the
# losses of every step are the same but for rounding, forward and backward, under every cut.
use strict;
use warnings;
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

# Four documents of 40 bytes, of which a newline is the last and none else, and two bytes that the
# last labels look at.
my ($length, $count) = (40, 4);
srand 7;
my @documents = map { join('', map { chr(97 + int rand 26) } 2 .. $length) . "\n" } 1 .. $count;
write_text("$folder/document$_.txt", $documents[$_ - 1]) for 1 .. $count;
write_text("$folder/end.txt", 'ab');
my ($status, $out, $errors) = meshwright('tokenize', map({ "$folder/document$_.txt" } 1 .. $count),
                                         "$folder/end.txt -o $folder/all.tokens");
die $errors if $status;
my $size = $length * $count + 2;
my $header = "{'descr': '|u1', 'fortran_order': False, 'shape': ($size,), }";
$header .= ' ' x (64 - (10 + length($header) + 1) % 64) . "\n";
write_text("$folder/all.npy", "\x93NUMPY\x01\x00" . pack('v', length $header) . $header
           . join('', @documents) . 'ab');

write_text("$folder/llama.json", $json->encode(
    {model_type => 'llama', hidden_size => 16, num_attention_heads => 4, num_key_value_heads => 2,
     num_hidden_layers => 2, intermediate_size => 24, vocab_size => 256,
     max_position_embeddings => 256}));

# The stack of GPUs has slices of a sequence in order; CPUs attend to halves of one as well.
my $stack = $json->decode(text_of('cost_models/stacks/meshwright.json'));
$stack->{cp_zigzag} = JSON::PP::true;
push @{ $stack->{joins} }, 'halves';
write_text("$folder/halves.json", $json->encode($stack));

sub losses {
    my ($model, $length, $batch, $choices, $more) = @_;
    my $stack = $choices =~ /--stack/ ? '' : '--stack meshwright';
    my @planned = meshwright(
        "plan $folder/$model.json dgx-a100-80g --precision fp32 --seq-len $length --micro-batch 1",
        "--global-batch $batch $stack $choices -o $folder/plan.json");
    die "plan $choices: $planned[2]" if $planned[0];
    my ($status, $out, $errors) = meshwright(
        "run $folder/plan.json --spawn --backend cpu-fp64 --steps 4 --learning-rate 0.02 --json",
        $more);
    return $status == 0 ? $json->decode($out)->{loss} : [$errors];
}

sub apart {
    my ($one, $other) = @_;
    return @$one == 4 && @$other == 4
        ? (sort { $b <=> $a } map { abs($one->[$_] - $other->[$_]) } 0 .. 3)[0] : "@$one @$other";
}

my $alone = losses('llama', $length, $count, '--gpus 1', "--data $folder/all.tokens");
my $whole = $length * $count;
my $joined = losses('llama', $whole, 1, '--gpus 1', "--data $folder/all.tokens");
check('documents that are not masked see each other', apart($alone, $joined) > 1e-4);
for my $choices ('--gpus 1', '--gpus 1 --attention unfused', '--gpus 2 --tp 2 --sp on',
                 '--gpus 2 --pp 2', '--gpus 2 --cp 2 --cp-kind ring',
                 '--gpus 2 --cp 2 --cp-kind allgather',
                 "--gpus 4 --cp 4 --cp-kind ring --stack $folder/halves.json") {
    my $masked = losses('llama', $whole, 1, $choices,
                        "--data $folder/all.tokens --mask-documents ends");
    my $most = apart($alone, $masked);
    check("$choices: as if each were alone", $most =~ /^[\d.e-]+$/ && $most < 1e-12, $most);
}
my $by_token = losses('llama', $whole, 1, '--gpus 1', "--data $folder/all.npy --mask-documents 10");
check('where a token says so, too', apart($alone, $by_token) < 1e-12, "@$by_token");

# What is predicted is attention within documents: of 160 tokens in four documents of 40 a quarter
# of the pairs, and a shorter step: of software with a fused kernel in fp32.
meshwright("plan $folder/llama.json dgx-a100-80g --gpus 1 --precision fp32 --seq-len $whole",
           "--global-batch 1 --stack megatron-core -o $folder/plan.json");
sub attention_run {
    my ($more) = @_;
    my ($status, $out, $errors) = meshwright(
        "run $folder/plan.json --spawn --backend cpu-fp64 --steps 2 --json",
        "--data $folder/all.tokens $more");
    my $run = $json->decode($out);
    my ($attention) = grep { $_->{kind} eq 'attention' } @{$run->{kinds}};
    return ($attention->{predicted_s}, $run->{compare}{predicted_step_s}, $errors);
}
my ($joined_s, $joined_step_s, $nothing) = attention_run('');
my ($masked_s, $masked_step_s, $said_length) = attention_run('--mask-documents ends');
check('the length of documents is said', $nothing !~ /document/ && $said_length =~
      /: a token's document has 40 of the sequence's 160 tokens in the mean of 2 sequences/,
      $said_length);
check('and their attention is predicted to take less', $masked_s < 0.9 * $joined_s
      && $masked_step_s < $joined_step_s, "$masked_s $joined_s $masked_step_s $joined_step_s");

# Epochs in place of steps, the same on every rank: 5 of one sequence are 5 steps of one.
my ($ends, $said, $notes) = meshwright("run $folder/plan.json --spawn --backend cpu-fp64 --json",
                                       "--epochs 5 --data $folder/all.tokens");
check('epochs are steps', $ends == 0 && @{ $json->decode($said)->{loss} } == 5
      && $notes =~ /^meshwright run: 5 epochs of 1 sequences are 5 steps of 1$/m, $notes);

# What is refused.
sub refused {
    my ($name, $wanted, $pattern, $words) = @_;
    my ($status, $out, $errors) = meshwright("run $folder/plan.json --backend cpu-fp64", $words);
    check($name, $status == $wanted && $out eq '' && $errors =~ /^meshwright run: $pattern\n\z/m,
          "$status $out$errors");
}
refused('tokens by a rule have no documents', 2, '--mask-documents wants files: --data FILE',
        '--steps 1 --mask-documents ends');
refused('epochs of what has no end', 2, '--epochs wants files: --data FILE', '--epochs 2');
refused('epochs and steps', 2, '--epochs: --steps says how many already',
        "--epochs 2 --steps 3 --data $folder/all.npy");
refused('neither ends nor a token', 2, '--mask-documents: .+',
        "--steps 1 --data $folder/all.npy --mask-documents often");
refused('a file that does not say', 3, "\Q$folder\E/all.npy: where documents end is read of "
        . '.tokens alone; --mask-documents ID takes the token that ends them',
        "--steps 1 --data $folder/all.npy --mask-documents ends");
write_text("$folder/bert.json", $json->encode(
    {model_type => 'bert', hidden_size => 16, num_attention_heads => 4, num_hidden_layers => 1,
     intermediate_size => 24, vocab_size => 256, max_position_embeddings => 64}));
my $bert = losses('bert', 32, 1, '--gpus 1', "--data $folder/all.tokens --mask-documents ends");
check('attention that looks ahead is refused', $bert->[0]
      =~ /--mask-documents: \S+ looks ahead, causal attention alone is masked/, "@$bert");
checked();
