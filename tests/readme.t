#!/usr/bin/perl
# Every command that the README shows is a step of tests/golden/readme.transcript, with the output
# that the README prints, so that the examples cannot rot: the transcript is run, the README equal.
use strict;
use warnings;

sub text_of {
    my ($path) = @_;
    open my $file, '<', $path or die "$path: $!";
    local $/;
    return scalar <$file>;
}

# The steps of the transcript without exit statuses and trailing blanks.
my $golden = text_of('tests/golden/readme.transcript');
$golden =~ s/^\? \d+\n//mg;
my @steps = map { s/\s+\z//r } $golden =~ /^(\$ .*?)(?=^\$ |\z)/msg;

# The README's indented blocks; blank lines inside an example are kept, as in the transcript.
my @shown;
for my $line (split /\n/, text_of('README.md')) {
    if ($line =~ /^    (\$ meshwright .*)/) {
        push @shown, $1;
    } elsif (@shown && $line =~ /^    (.*)/) {
        $shown[-1] .= "\n$1" if defined $shown[-1];
    } elsif (@shown && $line eq '') {
        $shown[-1] .= "\n" if defined $shown[-1];
    } elsif (@shown && defined $shown[-1]) {
        push @shown, undef;
    }
}
@shown = map { s/\s+\z//r } grep { defined } @shown;

my $number = 0;
for my $step (@shown) {
    $number++;
    my ($command) = $step =~ /^\$ (.*)/;
    my $found = grep { $_ eq $step } @steps;
    print $found ? 'ok' : 'not ok', " $number - README: $command\n";
}
$number++;
print @shown == @steps ? 'ok' : 'not ok', " $number - README shows every step of its transcript\n";
print "1..$number\n";
