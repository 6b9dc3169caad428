#!/usr/bin/perl
# Files that commands write: what is replaced and what is refused, before any work is done and with
# nothing changed; `-o -` is standard output, and words for people then go to standard error.
use strict;
use warnings;
use File::Temp 'tempdir';
use JSON::PP;
use lib 'tests';
use Script;

my $build  = $ENV{BUILD} // 'build';
my $folder = tempdir(CLEANUP => 1);
my $bin    = "$build/meshwright";
my $asked  = 'gpt2 dgx-h100 --seq-len 512 --global-batch 16';
delete @ENV{qw(COLUMNS NO_COLOR)};

my $plan = "$folder/plan.json";
my ($status, $out, $err) = answer_of("$bin plan $asked -o $plan");
check('a new file is written', $status == 0 && $out =~ /^Wrote \Q$plan\E\.$/m, $out);
my $text = text_of($plan);
($status, $out) = answer_of("$bin plan $asked -o $plan");
check('one of ours is replaced, and it is said',
      $status == 0 && $out =~ /^Replaced \Q$plan\E/m, $out);
($status, $out, $err) = answer_of("$bin plan $asked --json -o $plan");
check('beside data on standard error', $status == 0 && $err =~ /^note: replaced \Q$plan\E$/m, $err);
($status, $out, $err) =
    answer_of("sh -c 'ulimit -f 8; exec $bin plan $asked -o $folder/long.json'");
check('one longer than the process may write is told, and not there',
      $status == 4 && $err =~ m{^meshwright plan: cannot write \S+long\.json: File too large$}m
      && !-e "$folder/long.json", "$status $err");

my $rows    = 'tests/data/runs.jsonl --family kort';
my %refused = (
    'plan'           => "plan $asked -o FILE",
    'a trace'        => "simulate $plan --trace FILE",
    'a schedule'     => "memory $plan -o FILE",
    'an arena'       => "memory $plan -o $folder/m.json --plot FILE",
    'a cluster'      => "topology dgx-h100 -o FILE",
    'a run'          => "run $plan -o FILE",
    'figures'        => "validate $rows --headline-out FILE",
    'a report'       => "report $plan --no-scaling -o DIR",
    'what-if'        => 'whatif gpt2 dgx-h100 --gpus 8 --seq-len 512 --global-batch 16 -o DIR',
);
mkdir "$folder/mine";
for my $name (sort keys %refused) {
    my ($file, $dir) = ("$folder/notes.txt", "$folder/mine");
    write_text($_, "my own words\n") for $file, "$dir/notes.txt";
    (my $command = $refused{$name}) =~ s/FILE/$file/;
    $command =~ s/DIR/$dir/;
    ($status, $out, $err) = answer_of("$bin $command");
    my $kept = text_of($file) eq "my own words\n" && `ls $dir` eq "notes.txt\n";
    check("what is not ours is refused: $name",
          $status == 2 && $kept && $out eq '' && $err =~ /--force/ && $err =~ tr/\n// == 1,
          "$status $out$err");
}
# Folders of several files: as one.
my $fit = 'fit tests/data/runs.jsonl --leave-out none --coarse --date 2026-11-22';
my $calibrate = "XDG_CACHE_HOME=$folder/cache $bin calibrate --short --seconds 0.1 --ranks 1 "
    . '--quiet';
my %several = (
    fit       => ["$bin $fit", 'cost_models/fabrics.json', qr/^(\w+) \d+ files below /m],
    calibrate => [$calibrate, 'device.json', qr/^(\w+) \S+\/device\.json, \S+cluster\.json, /m],
);
for my $name (sort keys %several) {
    my ($command, $file, $said) = @{ $several{$name} };
    my $into = "$folder/$name";
    ($status, $out) = answer_of("$command -o $into");
    check("$name writes new files and says so",
          $status == 0 && $out =~ $said && $1 eq 'Wrote', $out);
    ($status, $out) = answer_of("$command -o $into");
    check('its own it replaces and says so',
          $status == 0 && $out =~ $said && $1 eq 'Replaced', $out);
    write_text("$into/$file", qq({\n  "name": "mine"\n}\n));
    my $before = `find $into -type f | sort | xargs cksum`;
    ($status, $out, $err) = answer_of("$command -o $into");
    check('others it refuses, and writes nothing',
          $status == 2 && $out eq '' && $err =~ /\Q$file\E .*--force/ && $err =~ tr/\n// == 1
              && $before eq `find $into -type f | sort | xargs cksum`, "$status $out$err");
    ($status) = answer_of("$command -o $into --force");
    check('with --force it does not', $status == 0 && text_of("$into/$file") !~ /mine/);
}

($status, $out) = answer_of("$bin plan $asked -o $folder/notes.txt --force");
check('--force replaces it', $status == 0 && text_of("$folder/notes.txt") eq $text, $out);
write_text("$folder/empty.json", '');
($status) = answer_of("$bin plan $asked -o $folder/empty.json");
check('an empty file is in nobody\'s way', $status == 0 && text_of("$folder/empty.json") eq $text);
($status) = answer_of("$bin report $plan --no-scaling -o $folder/report") for 1, 2;
check('a report of ours is written again', $status == 0);

# Standard output: the very file, and nothing else.
my %printed = (
    "plan $asked -o -"                   => qr/^\{\n  "version": 1,/,
    "topology dgx-h100 -o -"             => qr/^\{\n  "name": "dgx-h100",/,
    "simulate $plan --trace -"           => qr/^[\[\{].*process_name/s,
    "memory $plan -o -"                  => qr/^\{\n  "version": 1,/,
    "memory $plan --json -o $folder/n.json" => qr/^\{/,
    "validate $rows --headline-out -"    => qr/^\{\n  "dense_mape"/,
    "report $plan --no-scaling -o -"     => qr/^<!DOCTYPE html>.*<\/html>\s*$/s,
    'whatif gpt2 dgx-h100 --gpus 8 --seq-len 512 --global-batch 16 -o -'
        => qr/^<!DOCTYPE html>.*<\/html>\s*$/s,
);
for my $command (sort keys %printed) {
    ($status, $out, $err) = answer_of("$bin $command");
    my $is_data = $out !~ /^\{|^\[/ || eval { JSON::PP->new->decode($out); 1 };
    check("standard output is the file alone: $command",
          $status == 0 && $out =~ $printed{$command} && $is_data,
          "$status $err" . substr $out, 0, 200);
}
($status, $out, $err) = answer_of("$bin plan $asked -o -");
check('the table is on standard error', $out eq $text && $err =~ /^Best: /m && $err !~ /^Wrote/m);
check('a file that standard output is gets it whole',
      system("$bin plan $asked -o - >$folder/out.json 2>$folder/err") == 0
          && text_of("$folder/out.json") eq $text);
check('and one that it goes on with is not replaced',
      system("echo first >$folder/log; $bin plan $asked -o - >>$folder/log 2>$folder/err") == 0
          && text_of("$folder/log") eq "first\n$text");
check('no file is called "-"', !-e '-');
for my $command ("plan $asked --json -o -", "memory $plan -o - --plot -") {
    ($status, $out, $err) = answer_of("$bin $command");
    check("two on standard output are one too many: $command", $status == 2 && $out eq '', $err);
}
for my $command ("fit tests/data/runs.jsonl -o -", 'calibrate -o -') {
    ($status, $out, $err) = answer_of("$bin $command");
    check("several files need a folder: $command", $status == 2 && $err =~ /name a folder/, $err);
}
checked();
