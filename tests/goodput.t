#!/usr/bin/perl
# The goodput of a real run whose ranks are killed at random moments, against what `plan` says of
# such a run. It takes minutes and is a matter of luck: it asks for MESHWRIGHT_GOODPUT_STEPS=4000.
# With the rate of the kills and what step, storing and restart took, as the run says itself, in the
# cluster's file, `plan` predicts. MESHWRIGHT_GOODPUT_SEED
# gives other moments, MESHWRIGHT_GOODPUT_MTBF_S other seconds between them in the mean.
use strict;
use warnings;
use Time::HiRes qw(time sleep);
use lib 'tests';
use Script;
use TinyRun;

my $steps = $ENV{MESHWRIGHT_GOODPUT_STEPS};
if (!$steps) {
    print "1..0 # SKIP MESHWRIGHT_GOODPUT_STEPS is not set\n";
    exit;
}
my $mtbf_s = $ENV{MESHWRIGHT_GOODPUT_MTBF_S} // 3;
my $seed   = $ENV{MESHWRIGHT_GOODPUT_SEED} // 20261123;
my $every  = 20;
my $lines  = "$folder/m.jsonl";
srand $seed;

write_text("$folder/model.json", $json->encode({model_type => 'gpt2', n_embd => 64, n_head => 2,
    n_layer => 2, n_positions => 64, vocab_size => 256}));

# A plan for the two CPUs of this host whose file says this of failures; what is predicted.
sub plan_with {
    my ($failures) = @_;
    my (undef, $text) = meshwright('topology local --json');
    my $cluster = $json->decode($text);
    $cluster->{failures} = $failures;
    write_text("$folder/cluster.json", $json->encode($cluster));
    my ($status, $out, $errors) = meshwright(
        "plan $folder/model.json $folder/cluster.json --gpus 2 --dp 2 --precision fp32",
        "--seq-len 64 --global-batch 16 --micro-batch 1 --tokens 1e9 --json -o $folder/plan.json",
        '--force');
    die "plan: $errors" if $status;
    return $json->decode($out)->{prediction}{reliability};
}

# Starts a run with a checkpoint every so many steps; with its process.
sub start {
    my ($count) = @_;
    my $job = fork // die;
    return $job if $job;
    open STDOUT, '>', "$folder/out" or die;
    open STDERR, '>', "$folder/err" or die;
    exec "$build/meshwright", 'run', "$folder/plan.json", '--spawn', '--backend', 'cpu',
        '--steps', $count, '--checkpoint', "$folder/ck", '--checkpoint-every', $every,
        '--keep', 2, '--restarts', 10000, '--metrics', $lines, '--json'
        or die;
}

# The step of the last whole line.
sub last_step {
    open my $file, '<', $lines or return 0;
    seek $file, -2000, 2 or seek $file, 0, 0;
    local $/;
    my @found = (<$file> // '') =~ /\{"step": (\d+),[^\n]*\n/g;
    return @found ? $found[-1] : 0;
}

sub mean { my $sum = 0; $sum += $_ / @_ for @_; return $sum }

# What this host knows of itself before any run.
$ENV{XDG_CACHE_HOME} = "$folder/cache";
my ($failed, undef, $why) = meshwright("calibrate --quiet --short --seconds 1 --disk $folder");
die $why if $failed;
my $calibrated = $json->decode(text_of("$folder/cache/meshwright/local-2.json"))
    ->{cluster}{failures};

plan_with({ gpu_mtbf_h => 1 });

# By its rank; none where the process is gone, or has not become a rank yet.
sub process_of {
    my ($job, $rank) = @_;
    for my $pid (children_of($job)) {
        open my $file, '<', "/proc/$pid/environ" or next;
        local $/;
        return $pid if (<$file> // '') =~ /(?:^|\0)MESHWRIGHT_RANK=$rank(?:\0|$)/;
    }
    return;
}

# Moments of kills are of a Poisson process, restarts included. Ranks take turns, so that none is
# taken to be gone for good.
my $job = start($steps);
sleep 0.01 until last_step() >= 1 || waitpid($job, 1);
my ($began, $kills) = (time, 0);
my $next = $began - $mtbf_s * log(1 - rand);
while (waitpid($job, 1) == 0) {
    sleep 0.002;
    next if time < $next;
    my $rank = process_of($job, $kills % 2) // next;
    kill 'KILL', $rank;
    $kills++;
    $next -= $mtbf_s * log(1 - rand);
}
my $status = $? >> 8;
my $took_s = time - $began;
my $said   = text_of("$folder/err");
die "the run failed: $said" if $status;
my @rows   = map { $json->decode($_) } split /\n/, text_of($lines);
my $stored = $json->decode(text_of("$folder/out"))->{checkpoints};
# A kill falls into long steps more often than into short ones: the mean by their time.
my $weighted_s = mean(map { $_->{step_s}**2 } @rows) / mean(map { $_->{step_s} } @rows);
my ($restarts, $number, $unit) = $said =~ /(\d+) restarts?: ([\d.]+) (m?s)\b/;
my $restart_s = $number * ($unit eq 'ms' ? 1e-3 : 1);
# From the beginning of one to that of the next.
my $step_s = mean(map { $_->{step_s} } @rows)
           + mean(grep { defined } map { $_->{between_s} } @rows);

# `plan` adds the time of loading to a restart: that of storing.
sub predicted {
    my ($between_s, %measured) = @_;
    return plan_with({
        %measured, gpu_mtbf_h => 2 * $between_s / 3600, async_checkpoints => JSON::PP::true,
        checkpoint_interval_s => $every * $step_s,
    })->{goodput_ratio};
}
my $load_s = $stored->{write_s} < $restart_s ? $stored->{write_s} : $restart_s;
my %told = (restart_s => $restart_s - $load_s,
            checkpoint_bytes_per_s => $stored->{bytes} / $stored->{write_s});
my %known = map { $_ => $calibrated->{$_} } qw(restart_s host_checkpoint_bytes_per_s);
my $goodput = ($steps - 1) * $step_s / $took_s;
my $wanted  = predicted($mtbf_s, %told);
printf "# step %.1f ms (by their time %.1f ms), a restart %.0f ms in the mean of %d\n",
    1e3 * $step_s, 1e3 * $weighted_s, 1e3 * $restart_s, $restarts;
printf "# %d bytes stored in %.1f ms, pause %.3f ms\n", $stored->{bytes}, 1e3 * $stored->{write_s},
    1e3 * $stored->{pause_s};
printf "# seed %d: %d kills in %.1f s, one in %.2f s (%.2f s wanted): goodput %.1f %%, "
    . "predicted %.1f %%, of the kills that came %.1f %%\n", $seed, $kills, $took_s,
    $took_s / ($kills || 1), $mtbf_s, 1e2 * $goodput, 1e2 * $wanted,
    1e2 * predicted($took_s / ($kills || 1), %told);
printf "# by what calibrate knew, %.0f ms a restart: predicted %.1f %%, of the kills that came "
    . "%.1f %%\n", 1e3 * $known{restart_s}, 1e2 * predicted($mtbf_s, %known),
    1e2 * predicted($took_s / ($kills || 1), %known);
check('the run ends, with all of its ranks', @rows == $steps
      && $said !~ /planned anew/, $said);
check('its goodput is within 10 % of what is predicted',
      abs($goodput / $wanted - 1) < 0.1, "$goodput $wanted");
checked();
