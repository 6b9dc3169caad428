#!/usr/bin/perl
# Checkpoints of `meshwright run`: going on is exact, whatever kills a run in whatever moment leaves
# a checkpoint that loads, a damaged one is not used, and what cannot be written costs nothing that
# was there. Times are never looked at.
use strict;
use warnings;
use File::Copy 'copy';
use File::Path qw(make_path remove_tree);
use POSIX ':sys_wait_h';
use lib 'tests';
use Schema;
use Script;
use TinyRun;

my $store = "$folder/ck";
plan('one', '--gpus 1');
plan('pair', '--gpus 2 --dp 2 --zero 1');
plan('tp', '--gpus 2 --tp 2');

sub steps_in { return map { /step-0*(\d+)$/ } sort glob "$store/step-*" }

# What stands beside checkpoints, and in them beside their files.
sub leftovers { return grep { !m{/(?:\.|\.\.|step-\d+)$} } glob "$store/* $store/.*" }

my ($whole) = losses('pair', 6, '');
check('a run without checkpoints has losses', @$whole == 6);

# Exact, and the same in another plan but for rounding.
my ($first, $errors) = losses('pair', 3, "--checkpoint $store --checkpoint-every 2 --keep 1");
check('writing checkpoints changes no loss', "@$first" eq "@$whole[0 .. 2]", $errors);
check('the last ones are kept, and that of the end', join(' ', steps_in()) eq '3');
check('nothing else is left', !leftovers(), join ' ', leftovers());
my $index = $json->decode(text_of("$store/step-00000003/checkpoint.json"));
my $found = Schema::breach($index, $json->decode(text_of('executor/checkpoint.schema.json')), '$');
check('its index follows its schema', $found eq '', $found);
check('and says what it is of', $index->{step} == 3 && $index->{sequences} == 12
      && $index->{optimizer} eq 'adamw' && @{ $index->{files} } == 2);
system("cp -r $store $folder/three");

my ($rest, $said) = losses('pair', 6, "--checkpoint $store --checkpoint-every 9 --resume");
check('going on is exact to the bit', "@$rest" eq "@$whole[3 .. 5]", $said);
check('and said', $said =~
      m{^meshwright run: goes on behind step 3, from \Q$store\E/step-00000003$}m, $said);
for my $plan ('one', 'tp') {
    remove_tree($store);
    system("cp -r $folder/three $store");
    ($rest) = losses($plan, 6, "--checkpoint $store --checkpoint-every 9 --resume auto");
    my $apart = 0;
    $apart += abs($rest->[$_] - $whole->[3 + $_]) for 0 .. 2;
    check("so does plan $plan, but for rounding", @$rest == 3 && $apart < 1e-5, $apart);
}
my ($status, $out);
($status, $out, $errors) = meshwright("run $folder/pair.json --spawn --backend cpu --steps 7",
    "--checkpoint $store --checkpoint-every 9 --resume -o $folder/r.json");
check('the table has predicted beside measured',
      $out =~ /^checkpoint: pause +\S+ \S+ +\S+ \S+/m && $out =~ /^checkpoint: stored in +\S+/m
      && $out =~ /^1 checkpoint of \S+ KiB, one in 9 steps, the last of step 7\.$/m,
      $out . $errors);
my $run = $json->decode(text_of("$folder/r.json"));
$found = Schema::breach($run, $json->decode(text_of('executor/run.schema.json')), '$');
check('run.json has both', $found eq '' && $run->{checkpoints}{resumed_step} == 6
      && $run->{checkpoints}{pause_s} > 0 && $run->{checkpoints}{predicted_pause_s} > 0, $found);

# So it is where the state lies elsewhere, or in two widths.
mkdir "$folder/nvme";
for my $case (['fp32', 'cpu', '--dp 2 --zero 1 --offload optimizer@nvme', "--nvme $folder/nvme"],
              ['bf16', 'cpu-half', '--dp 2 --zero 2 --offload optimizer', ''],
              ['bf16', 'cpu-half', '--dp 2 --zero 3', ''], ['fp16', 'cpu-half', '--tp 2', '']) {
    my ($precision, $backend, $choices, $more) = @$case;
    my ($status, undef, $errors) = meshwright(
        "plan $folder/tiny.json dgx-a100-80g --precision $precision --seq-len 16 --global-batch 4",
        "--micro-batch 1 --stack meshwright --gpus 2 $choices -o $folder/other.json");
    die $errors if $status;
    remove_tree("$folder/other");
    my @lists = map {
        my ($status, $out, $errors) = meshwright("run $folder/other.json --spawn --json $more",
                                                 "--backend $backend", $_);
        $status ? [$errors] : $json->decode($out)->{loss};
    } '--steps 4', "--steps 2 --checkpoint $folder/other --checkpoint-every 2",
        "--steps 4 --checkpoint $folder/other --checkpoint-every 9 --resume";
    check("exact to the bit: $precision, $choices",
          "@{ $lists[0] }" eq "@{ $lists[1] } @{ $lists[2] }", "@{ $lists[2] }");
}

# What is refused, in one line.
sub refused {
    my ($name, $status, $pattern, $words) = @_;
    my ($got, undef, $errors) =
        meshwright("run $folder/one.json --backend cpu --steps 9 $words");
    my @lines = grep { !/^meshwright run: (?:cpu on|predicted for)/ } split /\n/, $errors;
    check($name, $got == $status && @lines == 1 && $lines[0] =~ /^meshwright run: $pattern$/,
          "$got $errors");
}
refused('a folder in use', 2, "--checkpoint \Q$store\E: holds a checkpoint of step 7 already: "
        . '--resume goes on from it', "--checkpoint $store");
refused('options without a folder', 2, '--keep needs --checkpoint DIR', '--keep 3');
refused('a folder that cannot be made', 4, "making /proc/no: .+", '--checkpoint /proc/no');
refused('a folder without one', 3, "--resume: no checkpoint in \Q$folder\E/none",
        "--checkpoint $folder/none --resume");
refused('another seed', 2, "--seed 2: \Q$store\E/step-00000007 was made with --seed 1",
        "--checkpoint $store --resume --seed 2");
($status, undef, $errors) = meshwright("run $folder/pair.json --backend cpu --spawn --steps 7",
                                       "--checkpoint $folder/none --resume");
check('of several ranks as of one', $status == 3
      && $errors =~ /^meshwright run: --resume: no checkpoint in \Q$folder\E\/none$/m, $errors);
($status, undef, $errors) = meshwright("run $folder/one.json --backend cpu --steps 7",
                                       "--checkpoint $store --resume");
check('nothing left to do', $status == 2
      && $errors =~ /--steps 7: \S+ is behind step 7, nothing is left to do$/m, $errors);

# A damaged checkpoint is not used, the one before is, and both are said: every file, at a place
# drawn by a seed that is printed.
my $seed = 20261123;
srand $seed;
for my $name ('checkpoint.json', 'rank-00000.safetensors', 'rank-00001.safetensors') {
    remove_tree($store);
    make_path($store);
    system("cp -r $folder/three/step-00000003 $store/step-00000003");
    system("cp -r $folder/three/step-00000003 $store/step-00000008");
    my $path = "$store/step-00000008/$name";
    my $text = text_of($path);
    my $at = int rand length $text;
    substr($text, $at, 1) = chr(ord(substr $text, $at, 1) ^ 1 << int rand 7);
    write_text($path, $text);
    ($rest, $said) = losses('pair', 6, "--checkpoint $store --checkpoint-every 9 --resume");
    check("a bit of $name, seed $seed, byte $at", "@$rest" eq "@$whole[3 .. 5]"
          && $said =~ /^meshwright run: the checkpoint of step 8 is damaged and not used: \S.+$/m
          && $said =~ /: goes on behind step 3, /
          && -d "$store/damaged-00000008", $said);
}

# kill -9 of a rank, then --resume: as if nothing had been.
sub started {
    my (@words) = @_;
    my $child = fork // die;
    if (!$child) {
        open STDOUT, '>', "$folder/out" or die;
        open STDERR, '>', "$folder/err" or die;
        exec "$build/meshwright", @words or POSIX::_exit(126);
    }
    for (1 .. 2000) {
        last if grep { $_ >= 2 } steps_in();
        select undef, undef, undef, 0.01;
    }
    return $child;
}

my @long = ('run', "$folder/pair.json", '--spawn', '--backend', 'cpu', '--steps', 100000,
            '--checkpoint', $store, '--checkpoint-every', 2, '--keep', 2);
remove_tree($store);
my $job = started(@long);
my ($rank) = children_of($job);
kill 'KILL', $rank;
waitpid $job, 0;
check('a rank that is killed ends the run', $? >> 8 == 4
      && text_of("$folder/err") =~ /rank 0 was killed \(signal 9\)/, text_of("$folder/err"));
my ($last) = reverse steps_in();
my $to = $last + 2;
my ($all) = losses('pair', $to, '');
($rest, $said) = losses('pair', $to, "--checkpoint $store --resume");
check('and what goes on has the losses of one that was not', @$rest == 2
      && "@$rest" eq "@$all[$to - 2, $to - 1]", $said);

# The same, started again by itself.
remove_tree($store);
splice @long, 6, 1, 400;
$job = started(@long, '--restarts', 2, '--json', '-o', "$folder/again.json");
($rank) = reverse children_of($job);
kill 'KILL', $rank;
waitpid $job, 0;
my $again = text_of("$folder/err");
check('--restarts starts the ranks again', $? == 0 && $again =~
      /^meshwright run: rank 1 was killed.+: starts again from the last .+, restart 1 of 2$/m
      && $again =~ /: goes on behind step \d+, /, $again);
check('and says what that took', $again =~
      /^meshwright run: 1 restart: [\d.]+ m?s from the end of the ranks to the next step, /m,
      $again);
my $resumed = -e "$folder/again.json" ? $json->decode(text_of("$folder/again.json")) : {};
($all) = losses('pair', 400, '');
check('and ends with the losses of a run that was left alone', @{ $resumed->{loss} // [] } > 0
      && "@{ $resumed->{loss} }" eq "@$all[$resumed->{checkpoints}{resumed_step} .. 399]");
splice @long, 6, 1, 100000;

# SIGTERM: a checkpoint of the step under way, then the end.
remove_tree($store);
$job = started(@long);
kill 'TERM', $job;
waitpid $job, 0;
my $text = text_of("$folder/err");
check('SIGTERM ends with a checkpoint', $? >> 8 == 4
      && $text =~ /^meshwright run: ended by SIGTERM behind step (\d+) of 100000: (.+)$/m
      && $2 eq "--resume goes on from $store"
      && $text =~ /behind step (\d+)/ && $1 == (reverse steps_in())[0], $text);
my @more = grep { !/cpu on|predicted for|take turns|^note: / } split /\n/, $text;
check('and in one line', @more == 1);

# Every write, fsync and rename of checkpoints fails, or is the last thing before the process is
# killed: what was whole is.
my $fail = "$build/tests/io_fail";
my @short = ('run', "$folder/one.json", '--backend', 'cpu', '--steps', 4, '--checkpoint', $store,
             '--checkpoint-every', 2, '--keep', 1);
sub faulted {
    my ($call, $number) = @_;
    remove_tree($store);
    my $status = run_into({1 => "$folder/out", 2 => "$folder/err", 3 => "$folder/calls"}, $fail,
                          $call, $number, "$build/meshwright", @short);
    return ($status, text_of("$folder/calls") !~ /calls/, text_of("$folder/err"));
}
($status) = faulted('fsync', 1);
if ($status eq '77') {
    skipped('faults of every call', 'the kernel does not notify of system calls');
    checked();
    exit 0;
}
my ($one) = losses('one', 4, '');
for my $call (qw(write fsync rename kill-write kill-fsync kill-rename)) {
    my ($wrong, $number) = ('', 1);
    for (;; $number++) {
        my ($status, $is_there, $errors) = faulted($call, $number);
        last if !$is_there;
        my @steps = steps_in();
        my $begins = @steps ? $steps[-1] : 0;
        my $lines = grep { /^meshwright run: (?:no checkpoint of step|the last|syncing)/ }
            split /\n/, $errors;
        $wrong .= "$call $number: said $errors\n" if $call !~ /kill/ && $lines < 1
            && $begins < 4;
        next if $begins == 4;
        my ($rest, $said) = losses('one', 4, "--checkpoint $store --resume auto");
        $wrong .= "$call $number: after @steps: $said\n"
            if "@$rest" ne "@$one[$begins .. 3]" || leftovers();
    }
    check("$call: all @{[$number - 1]} leave what can be gone on from", $wrong eq '' && $number > 2,
          $wrong);
}
checked();
