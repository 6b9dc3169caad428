#!/usr/bin/perl
# Faults that are planted in the kernels and streams of the CUDA back end, as the emulation runs
# them, are found by what compares their results: a barrier that is missing, a shuffle with a wrong
# mask, a wait for an event that is forgotten. Without a fault every drawn order has the same
# results. make check plants more, in the source itself: tests/gpu/planted_faults.t.
use strict;
use warnings;
use File::Temp 'tempdir';
use JSON::PP;
use lib 'tests';
use Script;

my $build  = $ENV{BUILD} // 'build';
my $folder = tempdir(CLEANUP => 1);
my $json   = JSON::PP->new->allow_nonref;

# Status of all kernels beside those of the CPU, with this fault, in orders by this seed; what is
# said of it.
my $said;

sub compared {
    my ($backend, $fault, $seed) = @_;
    local $ENV{MESHWRIGHT_EMULATED_FAULT} = $fault;
    local $ENV{MESHWRIGHT_EMULATED_SEED}  = $seed;
    (my $status, undef, $said) = answer_of("$build/$backend/gpu_compare", 'bf16 tiny');
    return $status;
}
for my $seed (1 .. 2) {
    check("orders of threads by seed $seed change nothing", compared('emulated', '', $seed) == 0);
}
check("$_ is found", compared('emulated', $_, 1) != 0) for qw(mask=16 mask=2);

# Who looks at every access needs no order in which it goes wrong.
if (-x "$build/shadowed/gpu_compare") {
    check('accesses of threads meet nowhere', compared('shadowed', '', 1) == 0, $said);
    for my $fault (qw(barrier=1 barrier=2 barrier=3)) {
        check("$fault is found", compared('shadowed', $fault, 1) != 0);
        check("and told in a line", $said =~ /^emulation: kernel \w+, block \d+, thread \d+: \w/m,
              $said);
    }
} else {
    skipped('races are found', 'sanitizers watch accesses here');
}

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
check('grid=0 is found', losses('grid=0', 1) ne $right);
for my $fault (qw(wait=1 wait=3)) {
    my $is_wrong = 0;
    for my $order (1 .. 4) {
        $is_wrong ||= losses($fault, $order) ne $right;
    }
    check("$fault is found", $is_wrong);
}
checked();
