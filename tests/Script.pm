package Script;
# What test scripts share: checks in TAP, files as text, a command's answer.
use strict;
use warnings;
use Exporter 'import';
use File::Temp 'tempdir';

our @EXPORT = qw(check checked skipped answer_of text_of write_text);

my $number = 0;
my $folder = tempdir(CLEANUP => 1);

# Whether it is so; where not, why goes to stderr.
sub check {
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
    my $out = `@words 2>$folder/stderr`;
    return ($? >> 8, $out, text_of("$folder/stderr"));
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
