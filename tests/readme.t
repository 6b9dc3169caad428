#!/usr/bin/perl
# Every command that the README and its pages in docs/ show with their output is a step of
# tests/golden/readme.transcript or of the one of that name in long/, so that the examples cannot
# rot: the transcripts are run, the pages are equal to them. And the README stays short.
use strict;
use warnings;

sub text_of {
    my ($path) = @_;
    open my $file, '<', $path or die "$path: $!";
    local $/;
    return scalar <$file>;
}

# The steps of the transcripts without exit statuses and trailing blanks.
my $golden = join '', map { text_of($_) =~ s/\A.*?(?=^\$ )//msr }
    <tests/golden/{,long/}readme.transcript>;
$golden =~ s/^\? \d+\n//mg;
my @steps = map { s/\s+\z//r } $golden =~ /^(\$ .*?)(?=^\$ |\z)/msg;

# The indented blocks of the pages; blank lines inside an example are kept, as in the transcript.
my @shown;
my @pages =
    ("README.md", map { "docs/$_.md" }
        qw(accuracy before-renting examples executing memory reliability));
for my $line (map { split(/\n/, text_of($_)), 'end of a page' } @pages) {
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
    print $found ? 'ok' : 'not ok', " $number - shown: $command\n";
}
$number++;
print @shown == @steps ? "ok" : "not ok",
    " $number - the pages show every step of the transcripts\n";
$number++;
my $lines = () = text_of('README.md') =~ /\n/g;
print $lines <= 150 ? 'ok' : 'not ok', " $number - README has $lines of at most 150 lines\n";
print "1..$number\n";
