#!/usr/bin/perl
# Every shipped cluster plans a small model by its name alone, every shipped device stands in one of
# them or is planned in the place of another, and what was never measured says so of its band.
use strict;
use warnings;
use File::Temp 'tempdir';
use JSON::PP;

my $build  = $ENV{BUILD} // 'build';
my $tmp    = tempdir(CLEANUP => 1);
my $json   = JSON::PP->new;
my $number = 0;

sub ok {
    my ($right, $name, @why) = @_;
    $number++;
    print $right ? 'ok' : 'not ok', " $number - $name\n";
    print STDERR map {"# $_\n"} @why if !$right;
}

sub list_of {
    my ($what) = @_;
    return @{$json->decode(scalar `$build/meshwright $what --json`)->{$what}};
}

my %peaks = map { $_->{name} => $_->{peak_flop_per_s} } list_of('devices');

# The plan's exit status and what it says.
sub plan {
    my ($cluster, $gpus, $device) = @_;
    my $precision = $peaks{$device}{bf16} ? 'bf16' : 'fp16';
    my $batch     = 2 * $gpus;
    my $pins      = "--tp 1 --pp 1 --cp 1 --micro-batch 1 --precision $precision";
    my $question  = "gpt2 $cluster --seq-len 256 --global-batch $batch $pins";
    my $said      = `$build/meshwright plan $question -o $tmp/plan.json 2>&1`;
    return ($?, $said);
}

my (%stands, %said, @failed);
for my $cluster (list_of('clusters')) {
    my ($name, $device) = @$cluster{qw(name device)};
    my ($status, $said) = plan($name, $cluster->{gpus}, $device);
    push @failed, "$name: $said" if $status != 0 || $said !~ /^Best: .* a step$/m;
    $stands{$device} = 1;
    $said{$name} = $said;
}
ok(!@failed && keys %said > 30, 'every shipped cluster plans a small model', @failed);

@failed = ();
for my $device (sort grep { !$stands{$_} } keys %peaks) {
    open my $file, '>:raw', "$tmp/mine.json" or die $!;
    print $file $json->encode(
        {   nodes => [
                {   gpus   => 2,
                    device => $device,
                    intra  => {kind => 'pcie', bandwidth_bytes_per_s => 2e10}
                }
            ]
        }
    );
    close $file;
    my ($status, $said) = plan("$tmp/mine.json", 2, $device);
    push @failed, "$device: $said" if $status != 0 || $said !~ /^Best: .* a step$/m;
}
ok(!@failed, 'so does every shipped device that no shipped cluster has', @failed);

my @unmeasured = qw(ascend-910c cloudmatrix-384 gaudi-3-8 mi325x-8 mi355x-8 tpu-v5p-8 tpu-v5p-64
    tpu-v6e-8 tpu-v6e-256);
@failed = grep { $said{$_} !~ /90 % band .* datasheet: this device was never measured in a run/ }
    @unmeasured;
ok(!@failed, 'the band of a device that was never measured says so', @failed);

my %stacks = (
    'tpu-v5p-8'   => 'xla',
    'tpu-v6e-256' => 'xla',
    'gaudi-3-8'   => 'megatron-deepspeed',
    'ascend-910c' => 'mindspeed'
);
@failed = grep { $said{$_} !~ /^note: --stack not given, taking $stacks{$_} \(no measured run/m }
    sort keys %stacks;
ok(!@failed, 'TPUs, Gaudis and Ascends are trained with software that is made for them',
    map {"$_: $said{$_}"} @failed);

# Google states an all-reduce of 102.4 TB/s over a pod of 256: 400 GB/s a chip, its four links.
my $pod = `$build/meshwright topology tpu-v6e-256`;
ok($pod =~ /^  intra +ici, 400 GB\/s per GPU and direction, 1\.00 µs, torus of 16 x 16$/m,
    'a torus is told with its sizes', $pod);
print "1..$number\n";
