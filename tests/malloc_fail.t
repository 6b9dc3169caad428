#!/usr/bin/perl
# Fails the N-th allocation of a command for N = 1, 2, 3, ... until it succeeds: every time it must
# end with status 4, one line on stderr, nothing half-written, and no crash.
use strict;
use warnings;
use Cwd 'getcwd';
use File::Path 'remove_tree';
use File::Temp 'tempdir';
use lib 'tests';
use Script;

my $build   = $ENV{BUILD} // 'build';
my $folder  = tempdir(CLEANUP => 1);
my $library = getcwd() . "/$build/tests/malloc_fail.so";
my $output  = "$folder/out";

if (system("grep -q __asan_init $build/meshwright") == 0) {
    print "1..0 # SKIP the sanitizer has its own malloc\n";
    exit 0;
}

# Runs the command with the N-th allocation failing. Its status, and what was wrong, or nothing.
# `written`: a file that only success leaves in the folder of output.
sub attempt {
    my ($number, $written, @words) = @_;
    remove_tree($output, {keep_root => 1});
    local @ENV{qw(MALLOC_FAIL LD_PRELOAD)} = ($number, $library);
    my $status = run_into({1 => "$folder/stdout", 2 => "$folder/stderr"}, "$build/meshwright",
                          @words);
    return ($status, '') if $status eq '0';
    my $errors = text_of("$folder/stderr");
    my @wrong;
    push @wrong, "status $status, " . substr $errors, 0, 200 if $status ne '4';
    push @wrong, 'stderr is not one line' if ($errors =~ tr/\n//) != 1;
    push @wrong, "$written was written" if $written && -e "$output/$written";
    push @wrong, map { "$_ was left" } glob "$output/*.tmp $output/*/*.tmp";
    return ($status, join "\n", map { "allocation $number: $_" } @wrong);
}

# Every N up to 200, then about every 25th part of N: the later ones repeat a few places. At last
# its last tenth again in finer steps: there threads work side by side.
sub every {
    my ($name, $written, @words) = @_;
    my ($number, $status, $wrong) = (1, 4, '');
    mkdir $output;
    while ($number < 100_000_000) {
        ($status, $wrong) = attempt($number, $written, @words);
        last if $status eq '0' || $wrong ne '';
        $number += $number < 200 ? 1 : int $number / 25;
    }
    for (my $fine = int 0.9 * $number; $fine < $number && $wrong eq '';) {
        (undef, $wrong) = attempt($fine, $written, @words);
        $fine += 1 + int $number / 3000;
    }
    check("$name survives each failing allocation, $number of them",
          $wrong eq '' && $status eq '0', $wrong || 'it never succeeded');
}

my @pins = qw(--tp 1 --cp 1 --pp 1 --micro-batch 1 --zero 1 --recompute none --schedule 1f1b);
my @batch = qw(--seq-len 512 --global-batch 8);
every('topology', '', 'topology', 'topologies/dgx-a100-80g.json');
every('topology --json', '', qw(topology dgx-a100-80g --json));
every('plan', 'plan.json', qw(plan bloom-560m dgx-a100-80g --dp 8 --stack meshwright), @batch,
      @pins, '-o', "$output/plan.json");
every('whatif', '', qw(whatif gpt2 dgx-a100-40g --stack megatron-core --workers 2 --gpus), '4,8',
      @batch, @pins);
every('validate', 'headline.json', qw(validate tests/data/runs.jsonl --family kempner),
      '--headline-out', "$output/headline.json");
my ($first, $second) = split /^/, text_of('tests/data/runs.jsonl');
my $rows = write_text("$folder/rows.jsonl", "$first$second");
every('fit', 'tests/validation/left_out.json', 'fit', $rows, qw(--leave-out none --date 2026-11-21),
      '-o', $output);
checked();
