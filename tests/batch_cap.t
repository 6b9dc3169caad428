#!/usr/bin/perl
# No question of `whatif` answers with a batch past what the optimizer is known to bear unless that
# batch was asked for by name, and then it warns. One of each mode, with adamw (8,000) and lamb
# (32,768: planner/batch.c).
use strict;
use warnings;
use lib 'tests';
use Script;
use TinyRun;

# Little is searched: what is asked here is the batch.
my $little = '--recompute none --schedule 1f1b --micro-batch 1 --stack meshwright';
my $warned = qr/^warning: global batch (\d+) is past the 8000 samples that adamw is known to bear/m;

sub ask {
    my ($words) = @_;
    return meshwright("whatif $words --seq-len 64 $little");
}

# Nobody names a batch: 4 M tokens a step would be 65,536 sequences of 64 tokens.
my %modes = (
    sweep   => 'gpt2 dgx-a100-80g --gpus 8,16',
    offers  => 'gpt2 --offers rental-2024',
    scaling => 'gpt2 dgx-a100-80g --scaling --gpus 8,16',
    limited => 'gpt2 dgx-a100-80g --deadline 30d --tokens 1e11 --gpus 8..64',
    least   => 'gpt2 dgx-a100-80g --min-gpus',
    largest => 'gpt2 dgx-a100-80g --largest-model --gpus 1',
    needs   => 'gpt2 --precision fp8 --gpus 1',
);
for my $mode (sort keys %modes) {
    my ($status, $out, $said) = ask($modes{$mode});
    my ($batch) = $out =~ /batch (\d+)/;
    my $names = $mode eq 'least' || $mode eq 'needs' || defined $batch;
    check("$mode: no batch past the limit is taken", !$status && $names && ($batch // 0) <= 8000,
          "$status $out $said");
    check("$mode: and there is nothing to warn of", $said !~ /is past/, $said);
    ($status, $out, $said) = ask("$modes{$mode} --global-batch 8192");
    check("$mode: a batch that is named is taken, with a warning",
          !$status && $said =~ $warned && $1 == 8192, "$status $said");
}

# Batches that grow with the GPUs: 1,024 a GPU is past it from 8 GPUs on.
my $grows = '--batch-per-gpu 1024 --json';
my ($status, $out, $said) = ask("gpt2 dgx-a100-80g --gpus 1,4,8,16 $grows");
my $answer = $json->decode($out);
my @past   = map { $_->{batch_is_past} ? $_->{gpus} : () } @{ $answer->{scenarios} };
check('sizes whose batch is past are told', "@past" eq '8 16', $out);
check('and are not the answer, though faster',
      !$status && $answer->{scenarios}[$answer->{answer}]{gpus} == 4, $out);
check('nor on the front',
      !grep { $_->{batch_is_past} && $_->{on_front} } @{ $answer->{scenarios} });
($status, $out) = ask('gpt2 dgx-a100-80g --gpus 1,4,8,16 --batch-per-gpu 1024');
check('the table says why', $out =~ /2 of 4 are not the answer unless --global-batch asks/
      && $out =~ /^Fastest: dgx-a100-80g, 4 GPUs/m
      && $out =~ /^Next:.*--gpus 4 .*-batch 4096/m, $out);
($status, $out) = ask("gpt2 dgx-a100-80g --gpus 1,4,8,16 --optimizer lamb $grows");
check('lamb bears more', $json->decode($out)->{scenarios}[3]{makes_it}, $out);
($status, $out, $said) = ask("gpt2 dgx-a100-80g --gpus 16 $grows");
check('one size names its batch', !$status && $said =~ $warned && $1 == 16384, "$status $said");
($status, $out) = ask('gpt2 dgx-a100-80g --gpus 8,16 --batch-per-gpu 1024');
check('where all are past there is no answer',
      $status == 1 && $out =~ /^No: the batch of all is too large\.$/m && $out !~ /^Next/m, $out);
($status, $out) = ask("gpt2 dgx-a100-80g --deadline 300d --tokens 1e11 --gpus 1..64 $grows");
$answer = $json->decode($out);
check('a size between that is past is not tried',
      !$status && !grep({ $_->{gpus} > 8 && $_->{gpus} !~ /^(16|32|64)$/ }
                        @{ $answer->{scenarios} })
          && $answer->{scenarios}[$answer->{answer}]{gpus} < 8, $out);
($status, $out) = ask('llama-2-70b dgx-a100-80g --min-gpus --batch-per-gpu 4096');
check('the least number of GPUs ends there as well',
      $status == 1 && $out =~ /> 1\b/ && $out =~ /with a batch that the optimizer is known to bear/,
      $out);
checked();
