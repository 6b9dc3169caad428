#!/usr/bin/perl
# `run --logits`: the scores behind the last step are those of the weights that a checkpoint of it
# has, whatever the plan, and have the loss of the step that begins with them.
use strict;
use warnings;
use List::Util qw(max sum);
use lib 'tests';
use Script;
use TinyRun;

# Two arrays of a file of safetensors, the second of fp64.
sub scores_of {
    my ($path) = @_;
    my $text = text_of($path);
    return ([], []) if length $text < 8;
    my $length = unpack 'Q<', $text;
    my $header = $json->decode(substr $text, 8, $length);
    my ($tokens, $logits) = map { $header->{$_}{data_offsets} } qw(tokens logits);
    return ([unpack 'q<*', substr $text, 8 + $length + $tokens->[0], $tokens->[1] - $tokens->[0]],
            [unpack 'd<*', substr $text, 8 + $length + $logits->[0]],
            join ' ', @{ $header->{logits}{shape} });
}

my ($length, $vocab, $batch) = (16, 200, 4);
write_text("$folder/tiny.json", $json->encode({model_type => 'gpt2', n_embd => 16, n_head => 2,
    n_layer => 2, n_positions => 16, vocab_size => $vocab, embd_pdrop => 0, resid_pdrop => 0,
    attn_pdrop => 0}));
# As many sequences as a step has, so that each comes in every step, in another order.
srand 5;
my @ids = map { int rand $vocab } 1 .. $batch * $length + 2;
my $header = "{'descr': '<u2', 'fortran_order': False, 'shape': (" . @ids . ",), }";
$header .= ' ' x (64 - (10 + length($header) + 1) % 64) . "\n";
write_text("$folder/data.npy", "\x93NUMPY\x01\x00" . pack('v', length $header) . $header
           . pack 'S<*', @ids);
my $run = "--spawn --backend cpu-fp64 --data $folder/data.npy --learning-rate 0.02 --json";

my $first;
for my $choices ('--gpus 1', '--gpus 2 --tp 2', '--gpus 2 --pp 2', '--gpus 2 --cp 2',
                 '--gpus 2 --dp 2 --zero 3') {
    plan('plan', $choices);
    my ($status, undef, $errors) = meshwright(
        "run $folder/plan.json $run --steps 2 --logits $folder/scores --force");
    my ($tokens, $logits, $shape) = scores_of("$folder/scores");
    check("$choices: every score is there", $status == 0
          && ($shape // '') eq "$batch $length $vocab" && @$logits == $batch * $length * $vocab,
          $errors) or next;
    $first //= [$tokens, $logits];
    my $apart = max map { abs $logits->[$_] - $first->[1][$_] } 0 .. $#$logits;
    check("$choices: those of one rank", "@$tokens" eq "@{$first->[0]}" && $apart < 1e-12, $apart);
}

# By hand: the mean over all places of the logarithm of the sum less the label's score.
my (@losses, %label);
for my $at (0 .. $batch - 1) {
    my @row = @ids[$at * $length .. ($at + 1) * $length];
    $label{"@row[0 .. $length - 1]"} = [@row[1 .. $length]];
}
my ($tokens, $logits) = @$first;
for my $sequence (0 .. $batch - 1) {
    my @row = @$tokens[$sequence * $length .. ($sequence + 1) * $length - 1];
    my $labels = $label{"@row"};
    check("sequence $sequence is of the file", $labels) or next;
    for my $place (0 .. $length - 1) {
        my $from = ($sequence * $length + $place) * $vocab;
        my @scores = @$logits[$from .. $from + $vocab - 1];
        push @losses, log(sum map { exp } @scores) - $scores[$labels->[$place]];
    }
}
plan('plan', '--gpus 1');
my ($status, $out, $errors) = meshwright("run $folder/plan.json $run --steps 3");
my $wanted = $status ? 0 : $json->decode($out)->{loss}[2];
my $found = sum(@losses) / @losses;
check('they have the loss of the step behind', abs($found - $wanted) < 1e-12, "$found $wanted");

# What is refused: a rank alone, another's file, a folder that is not there.
($status, $out, $errors) = meshwright("run $folder/plan.json $run --replay-rank 0 --logits x");
check('a rank alone has no scores of all',
      $status == 2 && index($errors, '--replay-rank goes with none') >= 0, $errors);
write_text("$folder/mine", "not ours\n");
($status, $out, $errors) = meshwright("run $folder/plan.json $run --steps 1 --logits $folder/mine");
check('what is not ours stays', $status == 2 && text_of("$folder/mine") eq "not ours\n", $errors);
($status, $out, $errors) =
    meshwright("run $folder/plan.json $run --steps 1 --logits $folder/none/scores");
check('a missing folder is one line, before any step', $status == 4 && $out eq ''
      && $errors =~ m{^meshwright run: --logits \S+/none/scores: No such file or directory\n\z},
      $errors);
checked();
