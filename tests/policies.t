#!/usr/bin/perl
# The table of docs/memory.md that compares policies of placement on five models: each row is what
# the program answers, and no answer contradicts itself: bytes are not below the bound that it
# states nor planned ones above another policy's, and no peak is above the device.
use strict;
use warnings;
use File::Temp 'tempdir';
use JSON::PP;
use List::Util 'max';
use lib 'tests';
use Script;

my $build  = $ENV{BUILD} // 'build';
my $plan   = tempdir(CLEANUP => 1) . '/plan.json';
my @models = (['gpt2-xl', 1024, 16, 4, 12.63], ['gpt3-6.7b', 2048, 8, 1, 34.83],
    ['llama-2-7b', 2048, 8, 1, 34.99], ['qwen3-8b', 2048, 8, 1, 43.16],
    ['gpt3-13b', 2048, 8, 1, 64.12]);

sub answer {
    my ($status, $out, $errors) = answer_of("$build/meshwright", @_);
    die "@_: $errors" if $status;
    return $out;
}

# Bytes as the table has them, three digits of GiB.
sub gib {
    my ($bytes) = @_;
    return sprintf $bytes < 100 * 2**30 ? '%.1f' : '%.0f', $bytes / 2**30;
}

sub seconds {
    my ($seconds) = @_;
    return sprintf $seconds < 10 ? '%.2f' : '%.1f', $seconds;
}

sub moved { return $_[0]{up_bytes} + $_[0]{down_bytes} }

open my $page, '<', 'docs/memory.md' or die "docs/memory.md: $!";
my %stated = map { (join(' ', split) => 1) } <$page>;

for my $model (@models) {
    my ($name, $tokens, $sequences, $micro_batch, $device) = @$model;
    answer("plan $name dgx-a100-80g --gpus 1 --stack meshwright --seq-len $tokens",
        "--global-batch $sequences --micro-batch $micro_batch --recompute none --offload auto",
        "--force -o $plan");
    my $of = JSON::PP->new->decode(answer('memory', $plan, '--policies', '--json',
        '--device-memory', sprintf '%.0f', $device * 1e9));
    my $state = $of->{parameters_bytes} + $of->{gradients_bytes} + $of->{optimizer_bytes}
        + $of->{activations_bytes};
    my $times = sprintf '%.2f', $state / ($of->{device_bytes} - $of->{work_bytes});
    check("$name: four times what the device has room for", $times eq '4.00', $times);
    for my $updates (@{$of->{updates}}) {
        my ($static, $recent, $planned) = @{$updates->{policies}};
        my $row = join ' ', $name, $device, (map { gib(moved($_)) } $static, $recent, $planned),
            sprintf('%.0f%%', 100 * moved($planned) / moved($recent)),
            sprintf('%d%%', 100 * $updates->{bound_bytes} / moved($recent)),
            (map { seconds($_) } @$planned{qw(step_s exposed_s)}),
            sprintf('%.1f%%', 100 * ($planned->{step_s} / $planned->{busiest_s} - 1)),
            seconds($recent->{step_s});
        check("$name, updates on the $updates->{updates}: the table's row", $stated{$row}, $row);
        check("$name, updates on the $updates->{updates}: bound, planned, others",
            $updates->{bound_bytes} <= moved($planned) && moved($planned) <= moved($static)
            && moved($planned) <= moved($recent)
            && max(map { $_->{peak_bytes} } $static, $recent, $planned) <= $of->{device_bytes});
    }
}
checked();
