package Script;
# What test scripts share: checks in TAP, files as text, a command's answer.
use strict;
use warnings;
use Exporter 'import';
use File::Temp 'tempdir';
use POSIX ();

our @EXPORT = qw(check checked skipped answer_of run_into text_of write_text);

my $number = 0;
my $folder = tempdir(CLEANUP => 1);

# Whether it is so; where not, why goes to stderr. The prototype asks each for one value: a match
# that fails would be an empty list, and the reason would stand in its place.
sub check($$;$) {
    my ($name, $ok, $why) = @_;
    $number++;
    print $ok ? 'ok' : 'not ok', " $number - $name\n";
    print STDERR "# $_\n" for $ok ? () : split /\n/, $why // '';
    return $ok;
}

# A check that cannot be made here, and why.
sub skipped {
    my ($name, $why) = @_;
    $number++;
    print "ok $number - $name # SKIP $why\n";
}

# The plan of the checks made.
sub checked {
    print "1..$number\n";
}

# Status, stdout and stderr of a command, words of the shell.
sub answer_of {
    my (@words) = @_;
    my $out = `@words 2>$folder/stderr-$$`;
    return ($? >> 8, $out, text_of("$folder/stderr-$$"));
}

# Runs a program without a shell between, for those that run hundreds: its words, and the files that
# its descriptors go to. Status, or "signal N".
sub run_into {
    my ($files, @words) = @_;
    my $child = fork // die "fork: $!\n";
    if (!$child) {
        for my $descriptor (keys %$files) {
            my $flags = POSIX::O_WRONLY() | POSIX::O_CREAT() | POSIX::O_TRUNC();
            my $opened = POSIX::open($files->{$descriptor}, $flags, 0666) // POSIX::_exit(126);
            next if $opened == $descriptor;
            POSIX::dup2($opened, $descriptor);
            POSIX::close($opened);
        }
        exec { $words[0] } @words or POSIX::_exit(126);
    }
    waitpid $child, 0;
    return $? & 127 ? 'signal ' . ($? & 127) : $? >> 8;
}

sub text_of {
    my ($path) = @_;
    open my $file, '<', $path or return '';
    local $/;
    return scalar <$file> // '';
}

sub write_text {
    my ($path, $text) = @_;
    open my $file, '>', $path or die "$path: $!";
    print $file $text;
    close $file or die "$path: $!";
    return $path;
}

1;
