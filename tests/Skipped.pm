package Skipped;
# What `make test` runs its tests with: the harness of prove, which says at the very end what was
# skipped and why.
use strict;
use warnings;
use parent 'TAP::Harness';

my (%tests_of, %count_of);

sub note_skip {
    my ($why, $test) = @_;
    $tests_of{$why}{$test} = 1;
    $count_of{$why}++;
}

sub new {
    my ($class, @arguments) = @_;
    my $self = $class->SUPER::new(@arguments);
    $self->callback(made_parser => sub {
        my ($parser, $job) = @_;
        my $test = $job->[0];
        $parser->callback(test => sub {
            my ($result) = @_;
            note_skip($result->explanation, $test) if $result->has_skip;
        });
        $parser->callback(EOF => sub {
            my $why = $parser->skip_all;
            note_skip($why, $test) if $why;
        });
    });
    return $self;
}

sub summary {
    my ($self, @arguments) = @_;
    $self->SUPER::summary(@arguments);
    print %tests_of ? "Skipped:\n" : "Nothing was skipped.\n";
    for my $why (sort keys %tests_of) {
        my @tests = sort keys %{ $tests_of{$why} };
        my $checks = $count_of{$why} > @tests ? ", $count_of{$why} checks" : '';
        print "  $why (@tests$checks)\n";
    }
    return;
}

1;
