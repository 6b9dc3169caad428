#!/usr/bin/perl
# A stranger on every port of a run: nothing of ours listens, and where mpirun and its MPI do,
# garbage, silence and greetings of old versions change no loss. MESHWRIGHT_STRANGER_S=60 is a
# minute of it; medians of steps are printed and not looked at.
use strict;
use warnings;
use IO::Socket::INET;
use POSIX ();
use Time::HiRes qw(time sleep);
use lib 'tests';
use Script;
use TinyRun;

my $lasts = $ENV{MESHWRIGHT_STRANGER_S} // 0.3;
my $steps = 20;
my $seed  = 20261123;
srand $seed;
$ENV{OMPI_ALLOW_RUN_AS_ROOT} = $ENV{OMPI_ALLOW_RUN_AS_ROOT_CONFIRM} = 1;

plan('pair', '--gpus 2 --dp 2');

# Processes below this one.
sub descendants {
    my ($pid) = @_;
    my @children = split ' ', join ' ', map { text_of($_) } glob "/proc/$pid/task/*/children";
    return map { ($_, descendants($_)) } @children;
}

# Ports at which one of these processes listens, as [process, port].
sub listening {
    my %port_of;
    for my $table ('tcp', 'tcp6') {
        for (split /\n/, -e "/proc/net/$table" ? text_of("/proc/net/$table") : '') {
            my (undef, $local, undef, $state, @rest) = split;
            next unless defined $state && $state eq '0A';
            $port_of{$rest[5]} = hex((split /:/, $local)[1]);
        }
    }
    my @found;
    for my $pid (@_) {
        for my $name (glob "/proc/$pid/fd/*") {
            my ($inode) = (readlink($name) // '') =~ /^socket:\[(\d+)\]$/ or next;
            push @found, [$pid, $port_of{$inode}] if $port_of{$inode};
        }
    }
    return @found;
}

sub program_of { return (readlink("/proc/$_[0]/exe") // '') =~ s{.*/}{}r }

# Starts the run, lets the stranger at it when it trains, and gives its losses with the median of
# its steps. The drill makes steps long enough to be disturbed.
sub run_beside {
    my ($words, $stranger) = @_;
    my $job = fork // die;
    if (!$job) {
        open STDOUT, '>', "$folder/out" or die;
        open STDERR, '>', "$folder/err" or die;
        exec "$build/meshwright", 'run', "$folder/pair.json", '--backend', 'cpu', '--steps', $steps,
            '--slow-rank', '1=10', @$words, '--metrics', "$folder/m.jsonl", '--json'
            or POSIX::_exit(126);
    }
    for (1 .. 1000) {
        last if -s "$folder/m.jsonl";
        sleep 0.02;
    }
    $stranger->($job) if $stranger;
    waitpid $job, 0;
    my $status = $? >> 8;
    my @step_s = sort { $a <=> $b }
        map { $json->decode($_)->{step_s} } split /\n/, text_of("$folder/m.jsonl");
    unlink "$folder/m.jsonl";
    return ($status ? [] : $json->decode(text_of("$folder/out"))->{loss}, $step_s[$#step_s / 2]);
}

my @ours;
my ($left_alone, $step_s) =
    run_beside(['--spawn'], sub { @ours = listening($_[0], descendants($_[0])) });
check('a run that is left alone has losses', @$left_alone > 0, text_of("$folder/err"));
check('and listens nowhere', !@ours, join ' ', map { "@$_" } @ours);
# The other runs last as long as the stranger does.
my $first = $steps;
$steps = int(1.5 * $lasts / $step_s) if $step_s && $lasts > $steps * $step_s;

# What a stranger sends: nothing, noise, what looks like an older version of what is spoken there.
my @words = ('', join('', map { chr int rand 256 } 1 .. 4096), "OPAL\0\0\0\1" . "\0" x 64,
             "GET / HTTP/1.0\r\n\r\n", "meshwri\0" . pack('l<4', 1, 0, 2, 2));

sub disturb {
    my ($count, @ports) = @_;
    my (@held, $sent);
    my $until = time + $lasts;
    while (time < $until) {
        for my $port (@ports) {
            my $socket = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $port,
                                               Proto => 'tcp', Timeout => 1) or next;
            local $SIG{PIPE} = 'IGNORE';
            syswrite $socket, $words[$sent++ % @words];
            # Those before stay open, and silent.
            push @held, $socket;
            shift(@held)->close if @held > 20;
        }
        sleep 0.02;
    }
    $$count = $sent // 0;
}

# MPI gives back less than it takes.
$ENV{ASAN_OPTIONS} = join ':', $ENV{ASAN_OPTIONS} // (), 'detect_leaks=0';
if (-e "$build/exec_mpi.so" && grep { -x "$_/mpirun" } split /:/, $ENV{PATH}) {
    my ($alone, $alone_s) = run_beside(['--transport', 'mpi']);
    my ($count, @ports);
    my ($beside, $beside_s) = run_beside(['--transport', 'mpi'], sub {
        my @found = listening($_[0], descendants($_[0]));
        @ports = map { program_of($_->[0]) . ":$_->[1]" } @found;
        disturb(\$count, map { $_->[1] } @found);
    });
    printf "# seed %d: %d greetings in %g s at %s; median of %d steps: alone %.3f ms, beside them "
        . "%.3f ms\n", $seed, $count, $lasts, "@ports", $steps, 1e3 * $alone_s, 1e3 * $beside_s;
    check('under mpirun there are ports to be at', $count > 0, "@ports");
    check('and a stranger there changes no loss', @$alone > 0 && "@$alone" eq "@$beside",
          text_of("$folder/err"));
    check('which are those of --spawn', "@$alone[0 .. $first - 1]" eq "@$left_alone");
} else {
    skipped('a stranger at the ports of mpirun', 'there is no MPI here');
}
checked();
