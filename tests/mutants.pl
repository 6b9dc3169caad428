#!/usr/bin/perl
# Plants single-line faults, one at a time, and says how many of them a unit test finds (make
# mutants). Modules are one shared library that all test programs use: a fault is its own file
# compiled anew and loaded before that library, so nothing else is built again. Each test's lines
# are traced once, those of a slow program function by function, and a fault is shown only to the tests
# that come to its line: those named like its file, those that found others there and the cheapest
# first, up to the first that fails.
#
# A fault that the compiler makes into the same code, or refuses, is drawn again; so is one that
# tests/data/equivalent_mutants.txt lists with the reason why no test can tell it from the original.
#
#   --count N     how many faults (500)          --jobs N     how many at a time (processors)
#   --seed N      of the draw (1)                --slowest S  leaves out tests that take longer to trace (30)
#   --files RE    only in files that match       --again      those that were not found last time
#   --seconds N   stops drawing after so long    --list       prints the faults and plants none
#   --budget S    seconds of processor for a fault, then it is not found (20)
use strict;
use warnings;
use Cwd 'getcwd';
use Digest::MD5 'md5_hex';
use FindBin;
use Getopt::Long;
use POSIX ();
use Time::HiRes qw(time usleep);
use lib $FindBin::Bin;
use Mutate 'faults_of';
use MutantTests qw(programs tests_near run_test);

my %option = (count => 500, seed => 1, files => '.', seconds => 1e9, slowest => 30,
              budget => 20, jobs => POSIX::sysconf(84) || 2);    # _SC_NPROCESSORS_ONLN
GetOptions(\%option, 'count=i', 'seed=i', 'files=s', 'seconds=f', 'jobs=i', 'slowest=f', 'again',
           'budget=f', 'list') or exit 2;

my $build     = 'build/mutants';
my $compile   = $ENV{COMPILE} // die "start it with make mutants\n";
my $survivors = "$build/survivors.tsv";
my @SOURCES   = grep { /$option{files}/ } sort glob join ' ',
    qw(plan/*.c plan/*/*.c cost_models/*.c simulator/*.c planner/*.c planner/*/*.c memory/*.c
       memory/*/*.c executor/*.c executor/engine/*.c executor/communicators/*.c
       executor/launcher/*.c executor/cpu/*.c);
my @PLUGINS = (['exec_cpu.so', 'fp32', '-DREAL=float'],
               ['exec_cpu64.so', 'fp64', '-DREAL=double -DREAL_IS_DOUBLE']);

sub text_of {
    my ($path) = @_;
    open my $file, '<:raw', $path or return '';
    local $/;
    return scalar <$file> // '';
}

sub write_text {
    my ($path, $text) = @_;
    open my $file, '>:raw', $path or die "$path: $!\n";
    print $file $text;
    close $file or die "$path: $!\n";
}

sub squeeze {
    my ($text) = @_;
    $text =~ s/^\s+|\s+$//g;
    return $text =~ s/\s+/ /gr;
}

# Faults that are known to change nothing: blocks of a file, the line, the line with the fault and
# the reason, apart by empty lines.
sub known_equivalents {
    my %known;
    for (split /\n\n+/, text_of('tests/data/equivalent_mutants.txt') =~ s/^#.*\n//mgr) {
        next unless /\S/;
        my ($file, $was, $becomes, $reason) = /\A\s*(\S+)\n- (.*)\n\+ (.*)\n(.+)/s
            or die "equivalent_mutants.txt: no file, lines and reason in: $_\n";
        $known{join '|', $file, squeeze($was), squeeze($becomes)} = squeeze($reason);
    }
    return \%known;
}

sub name_of {
    my ($fault) = @_;
    return join '|', $fault->{file}, squeeze($fault->{was}), squeeze($fault->{becomes});
}

# Lines are drawn, then one of a line's faults; none twice.
sub draw {
    my ($lines) = @_;
    while (@$lines) {
        my $i = int rand @$lines;
        my $faults = $lines->[$i];
        my $fault = splice @$faults, int rand @$faults, 1;
        splice @$lines, $i, 1 unless @$faults;
        return $fault if $fault;
    }
    return undef;
}

sub fault_lines {
    my @lines;
    for my $file (@SOURCES) {
        my %of;
        push @{$of{$_->{line}}}, $_ for faults_of($file, text_of($file));
        push @lines, map { $of{$_} } sort { $a <=> $b } keys %of;
    }
    return \@lines;
}

# Those that the last run did not find, where their lines still stand: of equal ones the one at the
# same place, else the first.
sub last_survivors {
    my (%lines_of, @faults);
    for my $fault (map {@$_} @{fault_lines()}) {
        push @{$lines_of{name_of($fault)}}, $fault;
    }
    for (split /\n/, text_of($survivors)) {
        my ($file, $line, $was, $becomes) = split /\t/;
        my $alike = $lines_of{join '|', $file, squeeze($was), squeeze($becomes)} // [];
        my ($same) = grep { $_->{line} == $line } @$alike;
        $same //= $alike->[0];
        print STDERR "no longer there: $file:$line: ", squeeze($becomes), "\n" unless $same;
        push @faults, [$same] if $same;
    }
    return \@faults;
}

# A copy of the tree as links, so that a test program finds its data beside a plug-in of its own.
sub make_worker {
    my ($slot) = @_;
    my $worker = "$build/worker$slot";
    system("rm -rf $worker && mkdir -p $worker/$build") == 0 or die;
    for my $entry (grep { $_ ne 'build' } map { s{.*/}{}r } glob '*') {
        symlink getcwd() . "/$entry", "$worker/$entry";
    }
    system("cp -al $build/tests $build/*.so $worker/$build/") == 0
        or die "no copy of the programs in $worker\n";
    return $worker;
}

# Compiles a fault's file as make does. 0: the compiler refuses it.
sub compile {
    my ($source, $object, $flags) = @_;
    my ($folder) = $source =~ m{^(.*?/source)/};
    return system("$compile $flags -Werror=incompatible-pointer-types -Werror=int-conversion "
                . "-Werror=int-to-pointer-cast -fmacro-prefix-map=$folder/= -c -o $object $source "
                . '2>/dev/null') == 0;
}

# Whether a source is part of the plug-ins, which nothing that is loaded before them replaces.
sub is_of_plugins {
    my ($file) = @_;
    return -e "$build/" . ($file =~ s/\.c$/.$PLUGINS[0][1].o/r);
}

# Plants a fault in a worker: what it is to be loaded before, or why it is none.
sub plant {
    my ($fault, $worker) = @_;
    my $source = "$worker/source/$fault->{file}";
    my @lines = split /\n/, text_of($fault->{file}), -1;
    $lines[$fault->{line} - 1] = $fault->{becomes};
    system('mkdir', '-p', $source =~ s{/[^/]*$}{}r);
    write_text($source, join "\n", @lines);
    return plant_plugins($fault, $worker, $source) if is_of_plugins($fault->{file});
    my $object = "$worker/fault.o";
    return (undef, 'refused') unless compile($source, $object, '');
    my $original = "$build/" . ($fault->{file} =~ s/\.c$/.o/r);
    return (undef, 'same code') if text_of($object) eq text_of($original);
    unlink "$worker/fault.so";
    system("$ENV{CC} -shared -o $worker/fault.so $object 2>/dev/null") == 0
        or return (undef, 'refused');
    return (getcwd() . "/$worker/fault.so", undef);
}

# The kernels of the CPU are linked into plug-ins of the worker's own.
sub plant_plugins {
    my ($fault, $worker, $source) = @_;
    my $differs = 0;
    for my $plugin (@PLUGINS) {
        my ($file, $kind, $flags) = @$plugin;
        my $object = "$worker/fault.$kind.o";
        return (undef, 'refused') unless compile($source, $object, "$ENV{KERNEL_FLAGS} $flags");
        my $original = "$build/" . ($fault->{file} =~ s/\.c$/.$kind.o/r);
        $differs = 1 if text_of($object) ne text_of($original);
        my @objects = map { $_ eq $original ? $object : $_ }
            glob "$build/executor/cpu/*.$kind.o $build/executor/*.$kind.o";
        unlink "$worker/$build/$file";
        # With a name that nothing defines no program could open it, and all would fail.
        system("$ENV{CC} -shared -Wl,-z,defs -o $worker/$build/$file @objects -lopenblas -lm "
             . '2>/dev/null') == 0
            or return (undef, 'refused');
    }
    return $differs ? ('', undef) : (undef, 'same code');
}

sub mend_plugins {
    my ($worker) = @_;
    for my $plugin (map { $_->[0] } @PLUGINS) {
        unlink "$worker/$build/$plugin";
        link "$build/$plugin", "$worker/$build/$plugin" or die "$worker/$build/$plugin: $!\n";
    }
}

# What became of a fault, in one line: found by a test, not found, or none at all.
sub judge {
    my ($fault, $worker, $tests) = @_;
    my ($preload, $why) = plant($fault, $worker);
    my $verdict = $why // 'reached by no test';
    my ($spent_s, $tried) = (0, 0);
    for my $test ($why ? () : @$tests) {
        last if $spent_s > $option{budget};
        my ($failure, $cpu_s) = run_test($test, $worker, $preload);
        $spent_s += $cpu_s;
        $tried++;
        $verdict = "not found by any of $tried";
        $verdict = "found by $test->{name} ($failure)", last if $failure;
    }
    mend_plugins($worker) if is_of_plugins($fault->{file});
    return $verdict;
}

# Faults are judged side by side; `told` hears of each when it is done.
sub judge_all {
    my ($next, $told) = @_;
    my %running;
    my @free = map { make_worker($_) } 1 .. $option{jobs};
    my $more = 1;
    while ($more || %running) {
        while ($more && @free) {
            my ($fault, $tests) = $next->();
            $more = 0, last unless $fault;
            my $worker = shift @free;
            my $child = fork // die "fork: $!\n";
            if (!$child) {
                write_text("$worker/verdict", judge($fault, $worker, $tests));
                POSIX::_exit(0);
            }
            $running{$child} = [$fault, $worker];
        }
        my $child = wait;
        my ($fault, $worker) = @{delete $running{$child} // next};
        die "a fault could not be judged: $fault->{file}:$fault->{line}\n" if $?;
        push @free, $worker;
        $told->($fault, text_of("$worker/verdict"));
    }
}

srand $option{seed};
my $known = known_equivalents();
my $lines = $option{again} ? last_survivors() : fault_lines();
my ($sites, $begin_s) = (0, time);
$sites += @$_ for @$lines;
printf STDERR "%d faults on %d lines of %d files\n", $sites, scalar @$lines, scalar @SOURCES;
if ($option{list}) {
    print "$_->{file}:$_->{line}: $_->{old} -> $_->{new}\n" for map {@$_} @$lines;
    exit 0;
}

my $programs = programs($build, $option{jobs}, $option{slowest});
my ($planted, $equivalent, %found, %kinds, @missed) = (0, 0);
my $pending = 0;

sub next_fault {
    while ($planted + $pending < $option{count} && time - $begin_s < $option{seconds}) {
        my $fault = draw($lines) // return;
        $equivalent++, next if $known->{name_of($fault)};
        $pending++;
        return ($fault, tests_near($programs, $fault->{file}, $fault->{line}, \%found));
    }
    return;
}

sub told {
    my ($fault, $verdict) = @_;
    $pending--;
    return if $verdict =~ /^(refused|same code)/;
    $planted++;
    my $at = "$fault->{file}:$fault->{line}";
    my $kind = $kinds{$fault->{kind}} //= [0, 0];
    $kind->[1]++;
    if ($verdict =~ /^found by (.*?) \(/) {
        $kind->[0]++;
        $found{$fault->{file}}{$1}++;
    } else {
        push @missed, $fault;
    }
    printf STDERR "%4d %6.0f s  %s: %s -> %s: %s\n", $planted, time - $begin_s, $at, $fault->{old},
        $fault->{new}, $verdict;
}

judge_all(\&next_fault, \&told);
write_text($survivors, join '', map { "$_->{file}\t$_->{line}\t$_->{was}\t$_->{becomes}\n" } @missed);
@missed = sort { $a->{file} cmp $b->{file} || $a->{line} <=> $b->{line} } @missed;
print "$_->{file}:$_->{line}: ", squeeze($_->{was}), "\n    -> ", squeeze($_->{becomes}), "\n"
    for @missed;
printf "%-10s %d of %d found\n", $_, @{$kinds{$_}} for sort keys %kinds;
printf "%d of %d faults found (%.1f %%), seed %d, %.0f s; %d known to be equivalent were left out\n",
    $planted - @missed, $planted, $planted ? 100 * ($planted - @missed) / $planted : 0,
    $option{seed}, time - $begin_s, $equivalent;
