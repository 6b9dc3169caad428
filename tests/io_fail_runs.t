#!/usr/bin/perl
# Fails each read, write and fsync of the commands that run, measure and hand on what was run, one
# at a time (tests/IoFail.pm), and of the drive that a plan keeps its state on.
# Writes of checkpoints are tests/checkpoint.t's.
use strict;
use warnings;
use File::Path 'remove_tree';
use JSON::PP;
use lib 'tests';
use IoFail;
use Script;

sub meshwright {
    my ($status, undef, $errors) = answer_of("$build/meshwright", @_);
    die "@_: $errors" if $status;
}

$ENV{MESHWRIGHT_DATA} = few_data();
my @calls = ('read', 'write', 'fsync');
every("run $tmp/p.json --spawn --backend cpu --steps 1 -o $tmp/out/r.json", 'r.json');
every('calibrate --short --seconds 0.1 --ranks 1 --backend cpu --quiet --into '
    . "$tmp/out/l.json", 'l.json');

# Another trainer's log beside its plan, and a row of it in a file; runs and traces.
meshwright('plan gpt2 dgx-a100-80g --nodes 1 --seq-len 1024 --global-batch 64 --dp 8 --tp 1 --pp 1',
           "--micro-batch 8 --zero 1 --recompute none --stack meshwright -o $tmp/log.json");
every("compare $tmp/log.json tests/data/logs/gpt2_eight.log --threshold 10 --row $tmp/out/r.jsonl "
    . '--source here', 'r.jsonl');
my $compared = 'tests/data/compare';
every("compare $compared/run.json $compared/run_again.json", '');
every("compare $compared/trace.json $compared/trace.json --json", '');
every_file("export $tmp/p.json --to megatron -o", 1, \@calls);

# Tokens, and a run that trains on them, goes on from a checkpoint and writes a line a step.
my $text = write_text("$tmp/text.jsonl", qq({"text": "Alice was beginning"}\n) x 60);
meshwright("tokenize $text -o $tmp/a.tokens");
my $tokens = text_of("$tmp/a.tokens");
every("tokenize $text -o $tmp/out/a.tokens", 'a.tokens', sub { $_[0] eq $tokens });
every("tokenize $text --tokenizer tests/data/tokenizer_gpt2.json -o $tmp/out/a.tokens", 'a.tokens',
      sub { $_[0] =~ /^MWTOKENS/ });
meshwright('plan', $work =~ s/--gpus 2/--gpus 1/r =~ s/--pp 2/--pp 1/r, "-o $tmp/one.json");
my $run = "run $tmp/one.json --backend cpu --data $tmp/a.tokens";
meshwright("$run --steps 1 --checkpoint $tmp/before");

# Lines of steps are written as they come: those that are there are whole.
sub are_lines {
    for my $line (split /^/, $_[0]) {
        return 0 unless is_json($line);
    }
    return 1;
}
every("$run --steps 2 --metrics $tmp/out/m.jsonl", 'm.jsonl', \&are_lines);
every_file("reshard $tmp/before --to $tmp/p.json -o", 1, \@calls);
every_file("reshard $tmp/before --to huggingface -o", 1, \@calls);
every("$run --steps 2 --checkpoint $tmp/before --resume", '', undef, 'read');

# Files of a checkpoint are mapped. One that cannot be read ends the run and is not set aside.
my ($number, $refused_count, @taken) = (0, 0);
while (1) {
    my ($is_there, $status, $errors) =
        failing('map', ++$number, split / /, "$run --steps 3 --checkpoint $tmp/before --resume");
    last if $is_there eq '' || -d "$tmp/before/step-00000003";
    next if text_of("$tmp/calls") !~ m{/before/step-};
    $refused_count++;
    push @taken, "map $number: $status $errors"
        if $status ne '4' || complaints($errors) != 1 || glob "$tmp/before/damaged-*";
}
check('what cannot be read is not taken for damaged', $refused_count > 1 && !@taken,
      join "\n", $refused_count, @taken);

# States, parameters and activations on a drive that fails, wherever it does: one line, nothing is
# left in its folder, what was stored before stays as it was and is gone on from to the same losses.
# On one that is slow nothing but the time changes, and the run says how slow it was.
sub every_drive {
    my $run = "run $tmp/below.json --backend cpu --steps 3 --nvme $tmp/drive --force";
    my $stored = "$run --checkpoint $tmp/stored --resume -o $tmp/onward.json";
    my $told = sub { JSON::PP->new->decode(text_of("$tmp/$_[0].json")) };
    my $loss = sub { join ' ', @{$told->($_[0])->{loss}} };
    mkdir "$tmp/drive";
    my $tiers = join ',', map { "$_\@nvme" } qw(optimizer parameters activations);
    meshwright('plan', $work =~ s/--gpus 2/--gpus 1/r =~ s/--pp 2/--pp 1/r
                             =~ s/--global-batch 8/--global-batch 2/r,
               "--offload $tiers -o $tmp/below.json");
    meshwright("$run -o $tmp/unhindered.json");
    my $wanted = $loss->('unhindered') =~ s/^\S+ //r;
    meshwright("$run --checkpoint $tmp/early" =~ s/--steps 3/--steps 1/r);
    local $ENV{IO_FAIL_UNDER} = "$tmp/drive/";
    for my $call ('read', 'write', 'flush', 'fsync') {
        my ($number, @wrong) = (0);
        remove_tree("$tmp/stored");
        system('cp', '-r', "$tmp/early", "$tmp/stored");
        my @before = files_below("$tmp/stored");
        my %late;
        while (@wrong < 4) {
            $number++;
            remove_tree("$tmp/stored/step-00000003");
            my ($is_there, $status, $errors) = failing($call, $number, split / /, $stored);
            last if $is_there eq '';
            my @lines = complaints($errors);
            push @wrong, "$call $number: status $status, @lines"
                if $status ne '4' || @lines != 1 || $lines[0] !~ m{ing a file in $tmp/drive: };
            my @left = grep { !m{/step-00000003/} }
                       map { files_below("$tmp/$_") } 'drive', 'stored';
            push @wrong, "$call $number: left @left" if "@left" ne "@before";
            # The copy that kernels read may be lost behind the states that were stored.
            my ($stored) = glob "$tmp/stored/step-00000003/rank-*";
            $late{text_of($stored)} = $number if $stored;
        }
        my ($right) = map { text_of($_) } glob "$tmp/stored/step-00000003/rank-*";
        push @wrong, "$call $late{$_} stored another step 3" for grep { $_ ne $right } keys %late;
        push @wrong, 'goes on to ' . $loss->('onward') . ", not $wanted"
            if !@wrong && $loss->('onward') ne $wanted;
        check("a run survives each failing $call of its drive, @{[$number - 1]} of them",
              $number > 1 && !@wrong, join "\n", @wrong);
    }
    my %late_ms = (read => 12, write => 12, flush => 30);
    for my $call (sort keys %late_ms) {
        failing("slow-$call", $late_ms{$call}, split / /, "$run -o $tmp/slow.json");
        my ($count) = text_of("$tmp/calls") =~ /^(\d+) calls/;
        my ($rate, $fast) =
            map { $told->($_)->{compare}{measured_nvme_bytes_per_s} } 'slow', 'unhindered';
        check("a slow $call changes nothing but the time", $count > 9 && $rate < $fast / 2
              && $loss->('slow') eq $loss->('unhindered'),
              "$count calls, $rate bytes/s, not $fast");
    }
}
every_drive();

# What a run was is named by its time: no two are alike.
sub every_bench {
    for my $call (@calls) {
        my ($number, @wrong) = (0);
        while (@wrong < 4) {
            $number++;
            my ($is_there, $status, $errors) = failing(
                $call, $number, 'bench', "$tmp/one.json", '--save', "$tmp/bench$call$number",
                split / /, '--runs 1 --steps 2 --backend cpu');
            last if $is_there eq '';
            my @left = files_below("$tmp/bench$call$number");
            push @wrong, "$call $number: status $status, $errors"
                if $status ne '4' || complaints($errors) != 1;
            push @wrong, "$call $number: left @left"
                if @left > 1 || grep { !is_json(text_of($_)) } @left;
        }
        check('bench survives each failing ' . "$call, @{[$number - 1]} of them", !@wrong,
              join "\n", @wrong);
    }
}
every_bench();

# A server answers what a tool could not read, and ends where it cannot be asked or answer.
sub every_serve {
    my $ask = '{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "what_if", '
        . qq("arguments": {"plan": "$tmp/one.json", "change": {"network_ratio": 0.5}}}}\n);
    write_text("$tmp/ask.jsonl", $ask);
    open my $kept, '<&', \*STDIN or die "stdin: $!";
    for my $call (@calls) {
        my ($number, @wrong) = (0);
        while (@wrong < 4) {
            $number++;
            open STDIN, '<', "$tmp/ask.jsonl" or die "$tmp/ask.jsonl: $!";
            my ($is_there, $status, $errors) = failing($call, $number, 'serve', '--stdio');
            last if $is_there eq '';
            my $answer = text_of("$tmp/stdout");
            my $of_pipe = text_of("$tmp/calls") =~ m{/(?:ask\.jsonl|stdout)$};
            push @wrong, "$call $number: status $status, $errors$answer"
                unless $of_pipe ? $status eq '4' && complaints($errors) == 1
                     : $status eq '0' && is_json($answer) && $answer =~ /"isError": true/;
        }
        check('serve survives each failing ' . "$call, @{[$number - 1]} of them", !@wrong,
              join "\n", @wrong);
    }
    open STDIN, '<&', $kept or die "stdin: $!";
}
every_serve();

# None is forgotten.
my $texts = join '', map { text_of($_) } $0, 'tests/io_fail.t';
my (undef, $help) = answer_of("$build/meshwright --help");
my @left_out = grep { $texts !~ /["'(]$_[ "']/ } $help =~ /^  (\w+) {2,}/mg;
check('every command is here', !@left_out, "@left_out");
checked();
