package MutantTests;
# The unit tests as the judges of faults (tests/mutants.pl): which lines each comes to, what it
# costs, and whether it fails with a fault loaded before the modules.
use strict;
use warnings;
use Digest::MD5;
use Exporter 'import';
use POSIX ();
use Time::HiRes qw(time usleep);

our @EXPORT_OK = qw(programs tests_near run_test);

my $MEMORY_KB = 12_000_000;

# A program that takes longer to trace is traced, and asked, function by function.
my $WHOLE_S = 1.5;

sub digest_of {
    my ($path) = @_;
    open my $file, '<:raw', $path or die "$path: $!\n";
    return Digest::MD5->new->addfile($file)->hexdigest;
}

# Runs a program in a folder, in a process group of its own that ends with it. Exit status, or what
# ended it, then seconds of processor and of the clock.
sub run_in {
    my ($folder, $program, $environment, $cpu_s, $wall_s) = @_;
    my ($begin, @before) = (time, times);
    my $child = fork // die "fork: $!\n";
    if (!$child) {
        setpgrp 0, 0;
        chdir $folder or POSIX::_exit(126);
        $ENV{$_} = $environment->{$_} for keys %$environment;
        open STDIN, '<', '/dev/null';
        open STDOUT, '>', '/dev/null';
        open STDERR, '>', '/dev/null';
        my $limits = sprintf 'ulimit -c 0; ulimit -t %d; ulimit -v %d', $cpu_s + 1, $MEMORY_KB;
        # Not into the shell, which has none of the names that the library wants.
        my $preload = delete $ENV{LD_PRELOAD};
        my $with = $preload ? "env LD_PRELOAD=$preload" : '';
        exec 'sh', '-c', "$limits; exec $with $program" or POSIX::_exit(126);
    }
    my $status = 'too long';
    my $wait_s = 0.002;
    while (time - $begin < $wall_s) {
        if (waitpid($child, POSIX::WNOHANG()) == $child) {
            $status = $? & 127 ? 'signal ' . ($? & 127) : $? >> 8;
            last;
        }
        usleep($wait_s * 1e6);
        $wait_s = 0.05 if ($wait_s *= 1.3) > 0.05;
    }
    kill 'KILL', -$child;
    waitpid $child, 0 if $status eq 'too long';
    my @after = times;
    return ($status, $after[2] + $after[3] - $before[2] - $before[3], time - $begin);
}

# A source by the path that the compiler wrote down: an object from a compiler's cache bears the
# folder in which it was compiled first, which may have been another tree's.
sub source_of {
    my ($path) = @_;
    my $source = $path =~ s{/\./}{/}gr =~ s{^(?:\.?/)+}{}r;
    while (!-e $source && $source =~ m{/}) {
        $source =~ s{^[^/]*/+}{};
    }
    return $source;
}

# The lines at which the traced modules call the tracer, by the place that the call returns to.
sub places_of {
    my ($library) = @_;
    my ($at, %line_at, $is_next);
    open my $code, '-|', "objdump -dl --no-show-raw-insn $library" or die "objdump: $!\n";
    while (defined(my $line = <$code>)) {
        if ($line =~ /^(\S+\.[ch]):(\d+)/) {
            $at = [$1, $2];
        } elsif ($line =~ /^\s+([0-9a-f]+):\s+(\S+)(.*)/) {
            my ($address, $instruction, $operand) = ($1, $2, $3);
            $line_at{hex $address} = $is_next if $is_next;
            $is_next = $instruction =~ /^call/ && $operand =~ /__sanitizer_cov_trace_pc/ ? $at : undef;
        }
    }
    close $code;
    my %source;
    $_ = [$source{$_->[0]} //= source_of($_->[0]), $_->[1]] for values %line_at;
    return \%line_at;
}

# A test's trace as {file => bits of lines}.
sub read_trace {
    my ($path, $line_at) = @_;
    open my $file, '<:raw', $path or return {};
    read $file, my $marks, 1 << 25;
    my %lines;
    while ($marks =~ /[^\0]/g) {
        my $at = $line_at->{$-[0]} or next;
        $lines{$at->[0]} //= '';
        vec($lines{$at->[0]}, $at->[1], 1) = 1;
    }
    return \%lines;
}

sub write_record {
    my ($path, $test) = @_;
    open my $file, '>', "$path.part" or die "$path: $!\n";
    print $file join("\t", @$test{qw(key status cpu_s wall_s)}), "\n";
    print $file "$_\t", unpack('H*', $test->{lines}{$_}), "\n" for sort keys %{$test->{lines}};
    close $file or die "$path: $!\n";
    rename "$path.part", $path or die "$path: $!\n";
}

sub read_record {
    my ($path, $key) = @_;
    open my $file, '<', $path or return undef;
    my %test;
    @test{qw(key status cpu_s wall_s)} = split /\t/, <$file> =~ s/\n//r;
    return undef if $test{key} ne $key;
    while (defined(my $line = <$file>)) {
        my ($name, $bits) = split /\t/, $line =~ s/\n//r;
        $test{lines}{$name} = pack 'H*', $bits;
    }
    return \%test;
}

# The program and what is preloaded to pick one of its functions. `name`: "test_x", "test_x function".
sub parts_of {
    my ($name, $build) = @_;
    my ($program, $function) = split / /, $name;
    return ("$build/tests/$program", POSIX::getcwd() . "/$build/tests/trace_lines.so",
            defined $function ? (TEST_FUNCTION => $function) : ());
}

# Runs a test on the traced modules and keeps what it came to.
sub trace_test {
    my ($build, $name, $key, $line_at, $slowest_s) = @_;
    my $marks = POSIX::getcwd() . "/$build/traces/$name.marks";
    unlink $marks;
    my ($program, $preload, %picks) = parts_of($name, $build);
    my %environment = (BUILD => $build, LD_PRELOAD => $preload, TRACE_LINES => $marks,
                       CMOCKA_MESSAGE_OUTPUT => 'TAP', %picks);
    my ($status, $cpu_s, $wall_s) =
        run_in("$build/tracing", $program, \%environment, $slowest_s, 30 + 5 * $slowest_s);
    my $test = {key => $key, status => $status, cpu_s => $cpu_s, wall_s => $wall_s,
                lines => read_trace($marks, $line_at)};
    unlink $marks;
    write_record("$build/traces/$name", $test);
    printf STDERR "traced %-28s %6.2f s, %d files%s\n", $name, $cpu_s,
        scalar keys %{$test->{lines}}, $status eq '0' ? '' : ", FAILS: $status";
}

# A tree of links in which the test programs find the traced modules.
sub make_tracing {
    my ($build) = @_;
    my ($root, $folder) = (POSIX::getcwd(), "$build/tracing");
    system("rm -rf $folder && mkdir -p $folder/$build $build/traces") == 0 or die;
    symlink "$root/$_", "$folder/$_" for grep { $_ ne 'build' } map { s{.*/}{}r } glob '*';
    system("cp -al $build/tests $build/*.so $folder/$build/ && "
         . "ln -f $build/traced/libmeshwright.so $folder/$build/libmeshwright.so") == 0 or die;
}

# The functions of a program, of those that have several.
sub functions_of {
    my ($name) = @_;
    my ($path) = glob "tests/*/$name.c";
    open my $file, '<', $path // return or return;
    local $/;
    my @functions = <$file> =~ /\bcmocka_unit_test\w*\((\w+)/g;
    return @functions > 1 ? map {"$name $_"} @functions : ();
}

# Traces those of the tests of which there is no trace of these modules.
sub trace_all {
    my ($build, $jobs, $slowest_s, $key, $line_at, @names) = @_;
    my @stale = grep {
        my $test = read_record("$build/traces/$_", $key->($_));
        !$test || ($test->{status} ne '0' && $test->{cpu_s} < $slowest_s);
    } @names;
    make_tracing($build) if @stale;
    my %running;
    while (@stale || %running) {
        while (@stale && keys %running < $jobs) {
            my $name = shift @stale;
            my $child = fork // die "fork: $!\n";
            if (!$child) {
                trace_test($build, $name, $key->($name), $line_at, $slowest_s);
                POSIX::_exit(0);
            }
            $running{$child} = 1;
        }
        delete $running{+wait};
    }
}

# All unit tests, programs or their functions: {tests => [{name, cpu_s, wall_s, lines}],
# lines => {file => [traced lines]}}. Traces stay, by what the modules and the test program are.
sub programs {
    my ($build, $jobs, $slowest_s) = @_;
    my $modules = digest_of("$build/traced/libmeshwright.so");
    my @programs = map { s{.*/}{}r } grep { !/\.[od]$/ } glob "$build/tests/test_*";
    my %digest = map { $_ => digest_of("$build/tests/$_") } @programs;
    my $key = sub { "$modules $digest{(split / /, $_[0])[0]}" };
    my $line_at = places_of("$build/traced/libmeshwright.so");
    my @names;
    trace_all($build, $jobs, $WHOLE_S, $key, $line_at, @programs);
    for my $name (@programs) {
        my @functions = read_record("$build/traces/$name", $key->($name))->{cpu_s} > $WHOLE_S
            ? functions_of($name) : ();
        push @names, @functions ? @functions : $name;
    }
    trace_all($build, $jobs, $slowest_s, $key, $line_at, @names);
    my %programs = (tests => [], lines => {});
    for my $name (@names) {
        my $test = read_record("$build/traces/$name", $key->($name)) // die "no trace of $name\n";
        $test->{name} = $name;
        my $why = $test->{cpu_s} > $slowest_s ? sprintf('it takes %.0f s', $test->{cpu_s})
                : $test->{status} ne '0'      ? "it fails: $test->{status}" : undef;
        print STDERR "$name is left out: $why\n" if $why;
        push @{$programs{tests}}, $test unless $why;
    }
    my %traced;
    $traced{$_->[0]}{$_->[1]} = 1 for values %$line_at;
    $programs{lines}{$_} = [sort { $a <=> $b } keys %{$traced{$_}}] for keys %traced;
    return \%programs;
}

# The line behind which the function begins that a line of a file is in: that of the brace that ends
# the one before. Braces of functions stand alone. -1: it is in none.
my %begin_of;
sub function_begin {
    my ($path, $line) = @_;
    if (!$begin_of{$path}) {
        open my $file, '<', $path or die "$path: $!\n";
        my ($last, $within, @is) = (0, 0, -1);
        while (defined(my $text = <$file>)) {
            $within = 1 if $text =~ /^\{$/;
            push @is, $within ? $last : -1;
            ($last, $within) = ($., 0) if $text =~ /^\}$/;
        }
        $begin_of{$path} = \@is;
    }
    return $begin_of{$path}[$line];
}

# How much a test is about a file, by their names, and whether it stands in the same room.
my %room_of = map { m{^tests/(\w+)/(\w+)\.c$} ? ($2 => $1) : () } glob 'tests/*/test_*.c';
sub is_named_like {
    my ($test, $file) = @_;
    my ($room, $folder, $stem) = $file =~ m{^(\w+)/(?:(\w+)/)?([^/]*)\.c$};
    my %words = map { $_ => 1 } split(/_/, $stem), $folder // ();
    my @shared = grep { $words{s/s$//r} || $words{$_} || $words{"${_}s"} } split /_/, $test =~ s/^test_| .*//gr;
    return @shared + (($room_of{$test =~ s/ .*//r} // '') eq $room ? 0.5 : 0);
}

# The tests that come to a line of a file, the most promising first. What is in plug-ins is not
# traced: there it is the tests that open one. Of a line that shares its code with others' only these
# are traced: where no test comes to them, it is those that come to the lines before.
sub tests_near {
    my ($programs, $file, $line, $found) = @_;
    my ($traced, @near) = ($file);
    my $lines = $programs->{lines}{$file};
    my $begin = $lines ? function_begin($file, $line) : -1;
    $traced = 'executor/plugin.c' if !$lines;
    my @reached = grep { defined $_->{lines}{$traced} } @{$programs->{tests}};
    my @places = $begin < 0 ? () : reverse grep { $_ > $begin && $_ <= $line } @$lines;
    for my $place (@places) {
        @near = grep { vec($_->{lines}{$traced}, $place, 1) } @reached;
        last if @near;
    }
    @near = @reached unless @places;
    my %weight = map {
        my $promise = 1 + 8 * ($found->{$file}{$_->{name}} // 0) + 16 * is_named_like($_->{name}, $file);
        ($_->{name} => ($_->{cpu_s} + 0.03) / $promise)
    } @near;
    return [sort { $weight{$a->{name}} <=> $weight{$b->{name}} || $a->{name} cmp $b->{name} } @near];
}

# Why a test fails with a fault loaded, or undef where it passes, and the seconds of processor that
# it took. Tracing takes a few times as long as a test alone: one that takes longer still is in a
# loop. Of the clock it has more, for what waits takes no processor and others may have it.
sub run_test {
    my ($test, $worker, $preload) = @_;
    my $most_s = 2 + 1.5 * $test->{cpu_s};
    my ($program, $picker, %picks) = parts_of($test->{name}, 'build/mutants');
    my %environment = (BUILD => 'build/mutants', LD_PRELOAD => $preload, CMOCKA_MESSAGE_OUTPUT => 'TAP',
                       %picks);
    $environment{LD_PRELOAD} = join ':', grep {length} $preload, $picker if %picks;
    my ($status, $cpu_s, $wall_s) =
        run_in($worker, $program, \%environment, $most_s, 20 + 10 * $most_s);
    die "$test->{name} does not start\n" if $status eq '127';
    my $failure = $status eq '0' ? undef : $status =~ /^\d/ ? "exit $status" : $status;
    # Ranks that wait for each other take no processor, but time.
    return ($failure, $cpu_s > $wall_s / 8 ? $cpu_s : $wall_s / 8);
}

1;
