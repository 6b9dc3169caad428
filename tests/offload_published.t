#!/usr/bin/perl
# What others published of training with states off the device, asked as their sources state it, of
# the stack of their software. A rate is inside the band that the plan prints, or over what it was
# said to be over; a size fits where it was trained. DeepSpeed counts the second forward of
# recomputation among the work (ZeRO-Infinity, Rajbhandari et al. 2021, arXiv 2104.07857, section
# 4.1: eight operations a parameter and token).
use strict;
use warnings;
use File::Temp 'tempdir';
use JSON::PP;
use lib 'tests';
use Script;

my $build  = $ENV{BUILD} // 'build';
my $folder = tempdir(CLEANUP => 1);
my $json   = JSON::PP->new;
my @asked  = qw(dgx2-v100 --stack deepspeed --precision fp16 --seq-len 1024);

sub model {
    my ($name, $layers, $hidden, $heads) = @_;
    write_text("$folder/$name.json", $json->encode({model_type => 'gpt2', n_layer => $layers,
        n_embd => $hidden, n_head => $heads, n_positions => 1024, vocab_size => 50257}));
    return "$folder/$name.json";
}

sub answer {
    my @command = @_;
    my ($status, $out, $errors) = answer_of("$build/meshwright", @command, '--json');
    print "# @command: $errors" if $status;
    return $status ? undef : $json->decode($out);
}

# Of a plan: what it takes for granted is pinned, what its source does not say is searched.
my $out = "-o $folder/plan.json";
my @one = ('--gpus 1 --zero 2 --offload optimizer --recompute full --overlap grad-reduce');
my @rates = (
    # DeepSpeed's tutorial of ZeRO-Offload (docs/_tutorials/zero-offload.md: 50 layers of 4,096 with
    # 32 heads, ten sequences, checkpoints, stage 2, overlap_comm) trains this model on a
    # V100-SXM3-32GB; Ren et al. 2021, arXiv 2101.06840, abstract: 40 TFLOP/s.
    ['10 B parameters on one V100 at 40 TFLOP/s', [model('10b', 50, 4096, 32),
      '--global-batch 10 --micro-batch 10 --bucket-bytes 1e8'], 40, 'inside'],
    # The same paper: over 13 B parameters on one V100, at over 30 TFLOP/s.
    ['13 B parameters on one V100 at over 30 TFLOP/s', [model('13b', 65, 4096, 32),
      '--global-batch 512 --bucket-bytes 1e8'], 30, 'over'],
);
for my $row (@rates) {
    my ($what, $plan, $tflop_per_s, $how) = @$row;
    my $of = answer('plan', $plan->[0], @asked, @one, $plan->[1], $out);
    my $said = $of->{prediction};
    my $rate = $said ? $said->{hardware_flop_per_s_per_gpu} / 1e12 : 0;
    my ($low, $high) = map { $said ? $rate * $said->{step_s} / $said->{$_} : 0 }
        qw(step_s_high step_s_low);
    printf "# %s: %.1f TFLOP/s, band %.1f to %.1f\n", $what, $rate, $low, $high;
    check("$what: fits with its gradients on the host",
        $of && $of->{memory}{fits} && $of->{parallel}{offload} eq 'optimizer,gradients');
    check("$what: $how",
        $how eq 'over' ? $rate > $tflop_per_s : $low <= $tflop_per_s && $tflop_per_s <= $high);
}

# The abstract of the same paper: over 70 B parameters on one DGX-2 with tensor parallelism.
my $large = answer('plan', model('70b', 69, 9216, 72), @asked,
    '--tp 8 --dp 2 --zero 2 --offload optimizer --recompute full --global-batch 16',
    '--micro-batch 8 --bucket-bytes 1e8', $out);
check('70 B parameters on one DGX-2', $large && $large->{memory}{fits});

# DeepSpeed's note of 2021-03-08 (docs/_posts/2021-03-08-zero3-offload.md): over 40 B parameters on
# one V100 with 1.5 TB of host memory. Rajbhandari et al. 2021, abstract: a trillion on one DGX-2.
for my $row (['40 B parameters on one V100 and its host', '--gpus 1 --global-batch 64', 1, 40e9],
    ['a trillion parameters on one DGX-2 with NVMe', '--tp 8 --global-batch 16', 2, 1e12]) {
    my ($what, $ranks, $tier, $least) = @$row;
    my $of = answer('whatif', 'gpt3-13b', @asked, '--largest-model --micro-batch 8', $ranks);
    my @sizes = grep { $tier == 2 || !$_->{nvme_bytes} } @{$of->{scenarios}[0]{placed} // []};
    my $most = 0;
    for my $size (@sizes) {
        $most = $size->{parameter_count} if $size->{parameter_count} > $most;
    }
    printf "# %s: %.1f B\n", $what, $most / 1e9;
    check($what, $most >= $least);
}
checked();
