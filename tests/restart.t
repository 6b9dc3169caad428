#!/usr/bin/perl
# A job that loses ranks for good: `run --restarts` plans anew for those that are left, and goes on
# as the new plan does that is resumed by hand. A rank that stays slow is named and worked around.
use strict;
use warnings;
use File::Path 'remove_tree';
use POSIX ();
use lib 'tests';
use Script;
use TinyRun;

plan('pair', '--gpus 2 --dp 2 --zero 1');
plan('quad', '--gpus 4 --dp 2 --tp 2 --zero 1');

sub copy_of {
    my ($from, $name) = @_;
    remove_tree("$folder/$name");
    system "cp -r $folder/$from $folder/$name";
    return "$folder/$name";
}

sub steps_of { return map { $json->decode($_)->{step} } split /\n/, text_of($_[0]) }

# --ranks-left: the launcher knows how many there are.
my ($begun, $errors) = losses("$folder/quad.json", 3, "--checkpoint $folder/three "
                              . "--checkpoint-every 3");
die $errors if @$begun != 3;
my ($whole) = losses("$folder/quad.json", 6, '');
for my $case ([3, '.+', '.+'], [1, 'tp1 .+', '.+'],
              [2, 'tp2 pp1 dp1 mb1 z1.*', 'all but its copies']) {
    my ($left, $layout, $kept) = @$case;
    my $store = copy_of('three', 'left');
    my ($found, $said) = losses("$folder/quad.json", 6,
        "--checkpoint $store --checkpoint-every 9 --resume --ranks-left $left");
    my $line = qr/^meshwright run: planned anew for $left of 4 ranks: $layout in place of tp2 .+/m;
    check("$left of 4 ranks left: said in one line", 1 == (() = $said =~ /planned/g)
          && $said =~ /$line; kept: $kept; the plan is \Q$store\E\/plan-for-$left\.json$/m, $said);
    my $apart = 0;
    $apart += abs($found->[$_] - $whole->[3 + $_]) for 0 .. $#$found;
    check('and the losses are those of all but for rounding', @$found == 3 && $apart < 1e-5,
          "@$found");
    my $other = copy_of('three', 'by-hand');
    my ($by_hand, $why) = losses("$store/plan-for-$left.json", 6,
                                 "--checkpoint $other --checkpoint-every 9 --resume");
    check('and those of the new plan resumed by hand, to the bit', "@$by_hand" eq "@$found", $why);
}
my $store = copy_of('three', 'left');
my ($found, $said) = losses("$folder/quad.json", 6,
    "--checkpoint $store --checkpoint-every 9 --resume --ranks-left 4");
check('all are left: nothing is planned', @$found == 3 && $said !~ /planned/, $said);

sub refused {
    my ($name, $line, $words) = @_;
    my ($status, undef, $errors) = meshwright("run $folder/quad.json --steps 9 $words");
    check($name, $status == 2 && $errors eq "meshwright run: $line\n", "$status $errors");
}
refused('more than there were', '--ranks-left 5: the plan has 4 ranks',
        "--checkpoint $store --ranks-left 5");
refused('without a folder', '--ranks-left needs --checkpoint DIR', '--ranks-left 2');

# A rank that is killed is started again; one that is killed again before a checkpoint is gone.
# The newest process of the job, when it has started so many that are not among those `known`.
sub newest {
    my ($job, $count, $known) = @_;
    for (1 .. 3000) {
        my @new = grep { !$known->{$_} } children_of($job);
        return $new[-1] if @new == $count;
        select undef, undef, undef, 0.005;
    }
    return;
}
$store = "$folder/again";
my ($two) = losses("$folder/pair.json", 3, "--checkpoint $store --checkpoint-every 3 "
                   . "--metrics $folder/m.jsonl");
copy_of('again', 'by-hand');
# So many that it is not over before the second kill, on a host busy with other tests.
my $steps = 1000;
my $job   = fork // die;
if (!$job) {
    open STDOUT, '>', "$folder/out" or die;
    open STDERR, '>', "$folder/err" or die;
    POSIX::nice(10);
    exec "$build/meshwright", 'run', "$folder/pair.json", '--spawn', '--backend', 'cpu', '--steps',
        $steps, '--checkpoint', $store, '--checkpoint-every', 100000, '--resume', '--restarts', 3,
        '--metrics', "$folder/m.jsonl", '--json', '-o', "$folder/again.json"
        or POSIX::_exit(126);
}
my %known;
for (1 .. 2) {
    my $rank = newest($job, 2, \%known) // last;
    $known{$_} = 1 for children_of($job);
    kill 'KILL', $rank;
}
waitpid $job, 0;
my $status = $?;
$said = text_of("$folder/err");
check('a rank that dies twice is gone, and the other goes on', $status == 0
      && 2 == (() = $said =~ /^meshwright run: rank 1 was killed.+, restart \d of 3$/mg)
      && 1 == (() = $said =~ /^meshwright run: planned anew for 1 of 2 ranks: /mg), $said);
my $result = -e "$folder/again.json" ? $json->decode(text_of("$folder/again.json")) : {};
my ($by_hand, $why) = losses("$store/plan-for-1.json", $steps, "--checkpoint $folder/by-hand "
                             . '--checkpoint-every 100000 --resume');
check('with the losses of the new plan resumed by hand, to the bit', @$by_hand == $steps - 3
      && "@{ $result->{loss} // [] }" eq "@$by_hand", $why);

# The metrics of a run that goes on.
check('a line a step, one after the other, none missing and none twice',
      join(' ', steps_of("$folder/m.jsonl")) eq join(' ', 1 .. $steps));
my $lines = text_of("$folder/m.jsonl");
write_text("$folder/m.jsonl", join('', (split /^/, $lines)[0 .. 4]) . '{"step": 6, "lo');
$store = copy_of('three', 'left');
($found, $said) = losses("$folder/quad.json", 5,
    "--checkpoint $store --checkpoint-every 9 --resume --metrics $folder/m.jsonl");
check('lines of steps that are run again are replaced, and what is torn is gone',
      join(' ', steps_of("$folder/m.jsonl")) eq '1 2 3 4 5', $said);

# A rank that stays slow is named, and the run goes over to a plan without it, as one that is
# resumed by hand: it takes as many steps until it is named as the machine is fast.
$steps = 600;
my ($ended, $out);
($ended, $out, $said) = meshwright(
    "run $folder/pair.json --spawn --backend cpu --steps $steps --slow-rank 1=200 --json --replan",
    "--checkpoint $folder/slow --checkpoint-every 1000000");
check('a rank that stays slow is named, since when and by how much', 1 == (() = $said =~
      /^meshwright run: rank 1 is slow and all wait for it: since step [23] its own work takes /mg)
      && $said =~ /takes (\d+\.\d) times that of the other ranks of its stage$/m && $1 > 10, $said);
my $plans = 'without rank 1, 1 of 2 ranks, tp1 pp1 dp1 .+ in place of tp1 pp1 dp2 .+';
my $worth = '\d+ steps left take .+ instead of .+, going over .+: goes over';
check('and worked around, in one line', $ended == 0 && 1 == (() = $said =~
      /^meshwright run: $plans: $worth; the plan is \Q$folder\E\/slow\/plan-for-1\.json$/mg),
      $said);
my ($moved) = $said =~ /^meshwright run: goes on behind step (\d+), from/m;
$found = $ended ? [] : $json->decode($out)->{loss};
mkdir "$folder/by-hand-2";
system "cp -r $folder/slow/step-*" . ($moved // 'none') . " $folder/by-hand-2";
($by_hand, $why) = losses("$folder/slow/plan-for-1.json", $steps, '--checkpoint '
                          . "$folder/by-hand-2 --checkpoint-every 1000000 --resume");
check('with the losses of that plan resumed by hand, to the bit',
      @$found > 0 && "@$found" eq "@$by_hand", $why);
# Of a pipeline alone each stage has one rank, which is held against what is predicted.
my ($failed, undef, $why_not) = meshwright("plan $folder/tiny.json local --gpus 2 --pp 2 --force",
    '--schedule 1f1b --precision fp32 --seq-len 16 --global-batch 8 --micro-batch 1',
    "--stack meshwright-cpu -o $folder/line.json");
die $why_not if $failed;
for my $case (['--slow-rank 1=100 --replan', 1], ['', 0]) {
    remove_tree("$folder/line");
    ($ended, undef, $said) = meshwright("run $folder/line.json --spawn --backend cpu --steps 300",
        "$case->[0] --checkpoint $folder/line --checkpoint-every 1000000 --json");
    my $start = 'meshwright run: rank 1 is slow and all wait for it: since step';
    my $named = () = $said =~ /^$start [23] its own work takes \S+ times what is predicted for /mg;
    my $all   = () = $said =~ /is slow/g;
    my $moved = () = $said =~ /: goes over; the plan is /g;
    check('a slow stage is named and worked around, and one that is not slow is not', $ended == 0
          && $named == $case->[1] && $all == $case->[1] && $moved == $case->[1], $said);
}
refused('a rank to be made slow that is not there', '--slow-rank: must be between 0 and 3, found 4',
        '--slow-rank 4=2');
refused('a factor that is none',
        '--slow-rank: expected RANK=FACTOR or FIRST..LAST=FACTOR, joined by commas, a factor of '
        . '1 to 1000000, found "1=0.5"',
        '--slow-rank 1=0.5');
checked();
