# What is read out of a timeline in Chrome's format, and what viewers need of it.
package Timeline;
use strict;
use warnings;
use Exporter 'import';
our @EXPORT = qw(tracks_of overlaps arrows_of);

sub ns { my ($us) = @_; return int(1000 * $us + 0.5) }

# By process and thread, slices by their start, the longer one first.
sub tracks_of {
    my ($events) = @_;
    my %tracks;
    push @{ $tracks{"$_->{pid} $_->{tid}"} }, $_ for grep { $_->{ph} eq 'X' } @$events;
    for my $track (values %tracks) {
        @$track = sort { $a->{start} <=> $b->{start} || $b->{end} <=> $a->{end} }
            map { +{ %$_, start => ns($_->{ts}), end => ns($_->{ts}) + ns($_->{dur}) } } @$track;
    }
    return \%tracks;
}

# Tasks of one track that run at once, and operators that lie in no task or half in one.
sub overlaps {
    my ($tracks) = @_;
    my (@overlaps, @loose);
    for my $at (sort keys %$tracks) {
        my ($last, @open);
        for my $slice (@{ $tracks->{$at} }) {
            if ($slice->{cat} ne 'operator') {
                push @overlaps, "$at: $last->{name} and $slice->{name}"
                    if $last && $last->{end} > $slice->{start};
                $last = $slice;
            } elsif (!$last || $slice->{start} < $last->{start} || $slice->{end} > $last->{end}) {
                push @loose, "$at: $slice->{name} is in no task";
            }
            pop @open while @open && $open[-1]{end} <= $slice->{start};
            push @loose, "$at: $slice->{name} crosses $open[-1]{name}"
                if @open && $slice->{end} > $open[-1]{end};
            push @open, $slice;
        }
    }
    return \@overlaps, \@loose;
}

# The slice of a task that an end of an arrow lies in: the last that begins by then.
sub slice_at {
    my ($tasks, $event) = @_;
    my ($at, $list) = (ns($event->{ts}), $tasks->{"$event->{pid} $event->{tid}"} // []);
    my ($low, $high) = (0, scalar @$list);
    while ($low < $high) {
        my $middle = int(($low + $high) / 2);
        if ($list->[$middle]{start} <= $at) { $low = $middle + 1 } else { $high = $middle }
    }
    my $found = $low ? $list->[$low - 1] : return;
    return $at < $found->{end} || $found->{start} == $found->{end} ? $found : undef;
}

sub arrows_of {
    my ($events, $tracks) = @_;
    my (%arrows, @faults);
    $arrows{ $_->{id} }{ $_->{ph} } = $_ for grep { $_->{ph} =~ /^[sf]$/ } @$events;
    my @joined;
    my %tasks = map { ($_ => [grep { $_->{cat} ne 'operator' } @{ $tracks->{$_} }]) } keys %$tracks;
    for my $id (sort { $a <=> $b } keys %arrows) {
        my ($from, $to) = @{ $arrows{$id} }{qw(s f)};
        if (!$from || !$to || $from->{ts} > $to->{ts}) {
            push @faults, "arrow $id has no two ends in order";
            next;
        }
        my ($source, $target) = map { slice_at(\%tasks, $_) } $from, $to;
        push @faults, "arrow $id ends in no slice" if !$source || !$target;
        push @joined, [$source, $target] if $source && $target;
    }
    return \@joined, \@faults;
}

1;
