#!/usr/bin/perl
# Fails the N-th read, write or fsync of each command, for N = 1, 2, 3, ... until there are no more:
# every time it must end with status 4 and one line on stderr, and what it was to write is whole: as
# it was, or not there, or as it should be where what failed came behind it (its folder's fsync, the
# answer on stdout). Nothing is left beside it.
use strict;
use warnings;
use Cwd 'getcwd';
use File::Path qw(make_path remove_tree);
use File::Temp 'tempdir';
use JSON::PP;
use lib 'tests';
use Script;

my $build = $ENV{BUILD} // 'build';
my $fail  = "$build/tests/io_fail";
my $tmp   = tempdir(CLEANUP => 1);
my $old   = "whole and older\n";
$ENV{NO_COLOR} = 1;
delete $ENV{COLUMNS};
$ENV{XDG_CACHE_HOME} = "$tmp/cache";

system("$fail read 1 $build/meshwright models >$tmp/stdout 2>$tmp/stderr 3>$tmp/calls");
if ($? >> 8 == 77) {
    print "1..0 # SKIP the kernel does not notify of system calls\n";
    exit 0;
}
if (system("grep -q __asan_init $build/meshwright") == 0) {
    print "1..0 # SKIP the sanitizer reads files of its own\n";
    exit 0;
}

sub files_in {
    my ($folder) = @_;
    return sort grep { -f } glob("$folder/* $folder/.??* $folder/*/*");
}

sub files_below {
    my ($folder) = @_;
    return map { -d $_ ? files_below($_) : $_ } grep { !m{/\.\.?$} } glob "$folder/* $folder/.*";
}

sub is_whole {
    my ($name, $text) = @_;
    return $text eq text_of("$tmp/whole.csv") if $name =~ /csv$/;
    return eval { JSON::PP->new->decode($text); 1 } && $text =~ /\n\z/;
}

# Runs a command with the N-th call failing: its status, "" where there are not so many, and what it
# said.
sub failing {
    my ($call, $number, @words) = @_;
    my $status = run_into({1 => "$tmp/stdout", 2 => "$tmp/stderr", 3 => "$tmp/calls"}, $fail, $call,
                          $number, "$build/meshwright", @words);
    my $is_there = text_of("$tmp/calls") !~ /calls/;
    return ($is_there ? $status : '', $status, text_of("$tmp/stderr"));
}

sub clear_output {
    remove_tree("$tmp/out", "$tmp/calls");
    mkdir "$tmp/out";
}

# A command and the file that it writes, '' for none. What is wrong with the N-th call failing, and
# whether there was an N-th one.
sub attempt {
    my ($call, $number, $words, $output, $has_old) = @_;
    clear_output();
    write_text("$tmp/out/$output", $old) if $output && $has_old;
    my @before = files_in("$tmp/out");
    my ($is_there, $status, $errors) = failing($call, $number, split / /, $words);
    return ($status eq '0' ? '' : "with no call failing: status $status, $errors", 0)
        if $is_there eq '';
    my @wrong;
    push @wrong, "status $status" if $status ne '4';
    my @lines = grep { !/^note: |^meshwright run: (?:predicted|cpu on) / } split /^/, $errors;
    push @wrong, @lines . " lines on stderr: $errors" if @lines != 1;
    my @after = files_in("$tmp/out");
    if ($output && -e "$tmp/out/$output") {
        my $left = text_of("$tmp/out/$output");
        push @wrong, "$output became " . substr($left, 0, 60)
            unless ($has_old && $left eq $old) || is_whole($output, $left);
        push @before, "$tmp/out/$output" unless $has_old;
    }
    push @wrong, "left: @after" if "@after" ne "@before";
    return (@wrong ? "$call $number: " . join('; ', @wrong) : '', 1);
}

sub every {
    my ($words, $output) = @_;
    $words .= " --force" if $output && $words !~ /--force/;  # what is there is not ours
    for my $call ('read', 'write', 'fsync') {
        my ($number, @wrong) = (0);
        while (1) {
            $number++;
            my ($wrong, $more) = attempt($call, $number, $words, $output, $number % 2);
            push @wrong, $wrong if $wrong;
            last if !$more || @wrong > 3;
        }
        my ($name) = $words =~ /^(\w+)/;
        check("$name survives each failing $call, " . ($number - 1) . ' of them', !@wrong,
              join "\n", $words, @wrong);
    }
}

# A command that writes many files into a folder, which takes one after another: each is as it is
# when nothing fails, or not there. `step`: of calls that are many and alike only each so manyth.
sub every_file {
    my ($words, $step, @calls) = @_;
    my ($name) = $words =~ /^(\w+)/;
    my %whole;
    remove_tree("$tmp/out");
    answer_of("$build/meshwright $words -o $tmp/out");
    my @paths = files_below("$tmp/out");
    $whole{$_} = text_of($_) for @paths;
    check("$name writes files", @paths > 0, $words);
    for my $call (@calls) {
        my ($number, $tried, @wrong) = (1, 0);
        for (; @wrong < 4; $number += $step, $tried++) {
            remove_tree("$tmp/out", "$tmp/calls");
            my ($is_there, $status, $errors) =
                failing($call, $number, split(/ /, $words), '-o', "$tmp/out");
            last if $is_there eq '';
            my @lines = grep { !/^note: |gnuplot is not installed/ } split /^/, $errors;
            my @left = files_below("$tmp/out");
            push @wrong, "$call $number: status $status, @lines" if $status ne 4 || @lines != 1;
            push @wrong, map { "$call $number: left $_" }
                grep { !defined $whole{$_} || $whole{$_} ne text_of($_) } @left;
        }
        check("$name survives failing ${call}s, $tried of them", $tried > 0 && !@wrong,
              join "\n", $words, @wrong);
    }
}

my %gpt2 = (model_type => 'gpt2', n_embd => 32, n_head => 4, n_layer => 2, n_positions => 32,
            vocab_size => 512);
my $model = write_text("$tmp/tiny.json", JSON::PP->new->encode(\%gpt2));
my $work = "$model dgx-a100-80g --precision fp32 --seq-len 32 --global-batch 8 --micro-batch 1 "
    . '--stack meshwright --gpus 2 --tp 1 --pp 2 --cp 1 --zero 0 --recompute none --schedule 1f1b';
my ($status, undef, $errors) = answer_of("$build/meshwright plan $work -o $tmp/p.json");
die "no plan: $errors" if $status;

# The shipped files that these commands need and a few more: lists of them are read file by file.
sub few_data {
    my %kept = (models => 'gpt2|llama-2-7b|mixtral-8x7b',
                topologies => 'dgx-[ah]100(-80g)?|l40s-pcie8|a100-sxm4-80g|h100-sxm5-80g|l40s-48g',
                stacks => 'meshwright(-cpu)?|megatron-core');
    mkdir "$tmp/data";
    for my $path (grep { !m{/schema/} } split /\n/,
                  `find topologies models cost_models plan memory reports -name '*.json'`) {
        my ($name) = $path =~ m{([^/]*)\.json$};
        my $list = $path =~ m{^models/zoo/} ? 'models' : $path =~ m{/stacks/} ? 'stacks'
                 : $path =~ m{^topologies/(?:devices/|[^/]*$)} ? 'topologies' : '';
        next if $list && $name !~ /^(?:$kept{$list})$/ && $name !~ /schema$/;
        make_path("$tmp/data/" . ($path =~ s{/[^/]*$}{}r));
        symlink getcwd() . "/$path", "$tmp/data/$path";
    }
    return "$tmp/data";
}

$ENV{MESHWRIGHT_DATA} = few_data();
every('topology dgx-a100-80g --json', '');
every('topology dgx-a100-80g -o ' . "$tmp/out/c.json", 'c.json');
every($_, '') for 'models', 'clusters', 'devices', 'stacks';
every("plan $work -o $tmp/out/p.json", 'p.json');
every("plan $work --json -o $tmp/out/p.json", 'p.json');
every("simulate $tmp/p.json --trace $tmp/out/t.json", 't.json');
every("whatif $model dgx-a100-80g --gpus 2 --precision fp32 --seq-len 32 --global-batch 8 --tp 1 "
    . '--cp 1 --pp 2 --micro-batch 1 --zero 0 --recompute none --schedule 1f1b --csv', '');
every("memory $tmp/p.json --method greedy -o $tmp/out/m.json", 'm.json');
answer_of("$build/meshwright memory tests/data/packing_good.csv -o $tmp/whole.csv");
every("memory tests/data/packing_good.csv -o $tmp/out/a.csv", 'a.csv');
every("run $tmp/p.json --spawn --backend cpu --steps 1 -o $tmp/out/r.json", 'r.json');
every("calibrate --short --seconds 0.1 --ranks 1 --backend cpu --quiet --into $tmp/out/l.json",
      'l.json');
every("validate tests/data/runs.jsonl --family kempner --headline-out $tmp/out/h.json", 'h.json');
my $fit = 'fit tests/data/runs.jsonl --leave-out none --coarse --date 2026-11-22';
every_file($fit, 1, 'write', 'fsync');
every_file($fit, 5, 'read');
# gnuplot looks at none of its own writes, and reads its script byte by byte.
every_file("report $tmp/p.json --no-scaling", 1, 'fsync');
{
    local $ENV{PATH} = "$tmp/bin";
    mkdir "$tmp/bin";
    symlink '/bin/sh', "$tmp/bin/sh";
    every_file("report $tmp/p.json --no-scaling", 1, 'read', 'write', 'fsync');
}
checked();
