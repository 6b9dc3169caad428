#!/usr/bin/perl
# Faults that are planted in the kernels and streams of the CUDA back end, as the emulation runs
# them, are found by what compares their results: a barrier that is missing, a shuffle with a wrong
# mask, a wait for an event that is forgotten. Without a fault every drawn order has the same
# results.
use strict;
use warnings;
use File::Temp 'tempdir';
use JSON::PP;
use lib 'tests';
use Script;

my $build  = $ENV{BUILD} // 'build';
my $folder = tempdir(CLEANUP => 1);
my $json   = JSON::PP->new->allow_nonref;

# Status of all kernels beside those of the CPU, with this fault, in orders by this seed.
sub compared {
    my ($fault, $seed) = @_;
    local $ENV{MESHWRIGHT_EMULATED_FAULT} = $fault;
    local $ENV{MESHWRIGHT_EMULATED_SEED}  = $seed;
    my ($status) = answer_of("$build/emulated/gpu_compare", 'bf16 tiny');
    return $status;
}
for my $seed (1 .. 2) {
    check("orders of threads by seed $seed change nothing", compared('', $seed) == 0);
}
# The first barrier of most kernels guards what nobody has written yet.
sub is_found {
    my ($fault) = @_;
    for my $seed (1 .. 8) {
        return 1 if compared($fault, $seed) != 0;
    }
    return 0;
}
check("$_ is found", is_found($_)) for qw(barrier=1 barrier=2 barrier=3 mask=16 mask=2);

write_text("$folder/tiny.json", $json->encode({
    model_type => 'gpt2', n_embd => 32, n_head => 4, n_layer => 2, n_positions => 32,
    vocab_size => 128,
}));
my $binary = "$build/emulated/meshwright";
my ($status, $out, $errors) = answer_of($binary, "plan $folder/tiny.json dgx-h100 --gpus 1",
    '--stack meshwright --precision bf16 --seq-len 16 --global-batch 4 --micro-batch 1',
    "--offload optimizer,activations -o $folder/p.json");
die "no plan: $errors" if $status;

# Losses of a run whose streams go in an order that is drawn; copies run beside kernels.
sub losses {
    my ($fault, $order) = @_;
    local $ENV{MESHWRIGHT_EMULATED_FAULT} = $fault;
    local $ENV{MESHWRIGHT_EMULATED_ORDER} = $order;
    ($status, $out, $errors) = answer_of($binary,
        "run $folder/p.json --backend cuda --steps 3 --json");
    my $run = eval { $json->decode($out) } // {};
    return $json->encode($run->{loss} // []);
}
my $right = losses('', 1);
check('the run has losses', $right =~ /^\[\d[^n]*\]$/, "$right $errors");
check('streams in another order change none', losses('', 2) eq $right);
for my $fault (qw(wait=1 wait=3)) {
    my $is_wrong = 0;
    for my $order (1 .. 4) {
        $is_wrong ||= losses($fault, $order) ne $right;
    }
    check("$fault is found", $is_wrong);
}
checked();
