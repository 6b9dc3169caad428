#!/usr/bin/perl
# What kernels need of a multiprocessor, as ptxas says for each architecture that is compiled for:
# no kernel that runs once a layer keeps arrays in local memory, which is device memory, or spills
# registers, and three blocks of 256 threads fit a multiprocessor (65,536 registers, 228 KiB of
# shared memory; CUDA C++ programming guide, table of compute capabilities).
use strict;
use warnings;
use lib 'tests';
use Script;

my $build = $ENV{BUILD} // 'build';
my @files = glob "$build/executor/cuda/*.cu.usage";
if (!@files) {
    print "1..0 # SKIP nvcc is not installed\n";
    exit 0;
}

use constant {REGISTERS => int(65536 / 3 / 256), SHARED_BYTES => int(228 * 1024 / 3)};

# Once a table of positions: sines of large arguments are reduced in memory.
my %is_rare = map { $_ => 1 } qw(rope_table);

# A kernel and architecture each: [name, architecture, stack, spilled, registers, shared].
sub read_usage {
    my ($text) = @_;
    my @kernels;
    for my $part (split /(?=Compiling entry function)/, $text) {
        my ($mangled, $arch) = $part =~ /entry function '(\w+)' for '(\w+)'/ or next;
        my ($length, $rest) = $mangled =~ /^_Z(\d+)(\w+)/ or die "$mangled: a name\n";
        my ($stack, $spilled) = $part =~ /(\d+) bytes stack frame, (\d+) bytes spill stores/;
        my ($registers) = $part =~ /Used (\d+) registers/;
        my ($shared) = $part =~ /(\d+) bytes smem/;
        push @kernels, [substr($rest, 0, $length), $arch, $stack // 1, $spilled // 1,
                        $registers // 1e9, $shared // 0];
    }
    return @kernels;
}

sub faults_of {
    return map {
        my ($name, $arch, $stack, $spilled, $registers, $shared) = @$_;
        my $is_kept = $is_rare{$name} || ($stack == 0 && $spilled == 0);
        $is_kept && $registers <= REGISTERS && $shared <= SHARED_BYTES ? ()
            : "$name, $arch: $stack bytes of stack, $spilled spilled, $registers registers, "
                . "$shared bytes shared";
    } @_;
}

my @kernels = map { read_usage(text_of($_)) } @files;
my %seen;
$seen{ $_->[1] }{ $_->[0] }++ for @kernels;
my $archs = join ' ', sort keys %seen;
check('Ampere, Hopper and Blackwell are compiled for', $archs eq 'sm_100 sm_80 sm_90a', $archs);
my @counts = map { scalar keys %{ $seen{$_} } } sort keys %seen;
check('all kernels for each', @counts == 3 && $counts[0] > 40 && $counts[0] == $counts[1]
      && $counts[0] == $counts[2], "@counts");
my @faults = faults_of(@kernels);
check('no array of a hot kernel is in local memory, and three blocks fit', !@faults,
      join "\n", @faults);

my $planted = "ptxas info    : Compiling entry function '_Z8map_back8map_args' for 'sm_80'\n"
    . "    160 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
    . "ptxas info    : Used 30 registers, used 0 barriers, 128 bytes smem, 472 bytes cmem[0]\n";
check('a stack is found', faults_of(read_usage($planted)) == 1);
my $good = $planted =~ s/160 bytes stack/0 bytes stack/r;
check('and nothing where there is none', faults_of(read_usage($good)) == 0);
my $spilled = $good =~ s/0 bytes spill stores/8 bytes spill stores/r;
check('spilled registers are found', faults_of(read_usage($spilled)) == 1);
my $large = $good =~ s/30 registers/90 registers/r;
check('too many registers are found', faults_of(read_usage($large)) == 1);
checked();
