#!/usr/bin/perl
# Every relative link of the pages leads to a file that is there, and every anchor to a heading of
# it; every page in docs/ is linked from another one.
use strict;
use warnings;
use lib 'tests';
use Script;

chomp(my @pages = `git ls-files --cached --others --exclude-standard '*.md'`);
@pages = glob('*.md docs/*.md tests/*/README.md') if !@pages;

# The anchors that headings get: small letters, blanks as hyphens, no punctuation.
sub anchors_of {
    my ($page) = @_;
    my %anchors;
    my $text = text_of($page) =~ s/^(?: {4}|```).*$//mgr;
    for my $heading ($text =~ /^#+ (.+)$/mg) {
        my $anchor = lc $heading =~ s/`//gr;
        $anchor =~ s/[^\w\- ]//g;
        $anchors{ $anchor =~ s/ /-/gr } = 1;
    }
    return \%anchors;
}

my %linked;
for my $page (@pages) {
    my $text = text_of($page) =~ s/^ {4}.*$//mgr;
    my ($folder) = $page =~ m{^(.*/)};
    my @wrong;
    for my $link ($text =~ /\]\(([^)\s]+)\)/g) {
        next if $link =~ /^[a-z]+:/;
        my ($path, $anchor) = split /#/, $link, 2;
        my $there = $path eq '' ? $page : ($folder // '') . $path;
        1 while $there =~ s{(?:^|/)\K[^/.][^/]*/\.\./}{};
        $linked{$there} = 1;
        push @wrong, "$link: no such file" if !-e $there;
        push @wrong, "$link: no such heading"
            if defined $anchor && -f $there && !anchors_of($there)->{$anchor};
    }
    check("the links of $page", !@wrong, join "\n", @wrong);
}
my @alone = grep { m{^docs/} && !$linked{$_} } @pages;
check('every page of docs/ is linked from another', !@alone, "@alone");
check('a page has anchors', anchors_of('docs/planning.md')->{'ctrl-c'});
checked();
