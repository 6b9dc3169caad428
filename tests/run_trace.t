#!/usr/bin/perl
# The timeline of a run: predicted ranks above measured ones, no slices of a track overlap, arrows
# lead from every send to its receive and from gradients to their reduction, and memory is that of
# the run: what stands and the values that are alive, up to what run.json says.
use strict;
use warnings;
use File::Temp 'tempdir';
use JSON::PP;
use List::Util qw(max min);
use lib 'tests';
use Script;
use Timeline;

my $build  = $ENV{BUILD} // 'build';
my $folder = tempdir(CLEANUP => 1);
my $bin    = "$build/meshwright";
my $json   = JSON::PP->new;
$ENV{XDG_CACHE_HOME} = "$folder/cache";

my %gpt2 = (model_type => 'gpt2', n_layer => 4, n_head => 4, n_embd => 64, n_positions => 64,
            vocab_size => 256);
write_text("$folder/tiny.json", $json->encode(\%gpt2));
my $work = 'dgx-a100-80g --precision fp32 --seq-len 32 --global-batch 8 --micro-batch 1 '
    . '--stack meshwright --gpus 4 --tp 1 --pp 2 --dp 2 --zero 1';

for my $schedule ('1f1b', 'zb-h1') {
    my $plan = "$folder/$schedule.json";
    my ($status, $out, $err) = answer_of("$bin plan $folder/tiny.json $work --schedule $schedule "
        . "-o $plan");
    check("$schedule: there is a plan", $status == 0, $err);
    ($status, $out, $err) = answer_of("$bin run $plan --spawn --backend cpu --steps 3 "
        . "-o $folder/run.json --trace $folder/t.json");
    check("$schedule: it runs", $status == 0, $err);
    my $run    = $json->decode(text_of("$folder/run.json"));
    my $events = $json->decode(text_of("$folder/t.json"));
    my %names  = map { $_->{pid} => $_->{args}{name} } grep { $_->{name} eq 'process_name' }
        @$events;
    my %is_measured = map { $_ => 1 } grep { $names{$_} =~ /^measured/ } keys %names;
    check("$schedule: all ranks are there", 4 == keys %is_measured && 6 == keys %names);

    my $tracks = tracks_of($events);
    my ($overlaps, $loose) = overlaps($tracks);
    check("$schedule: no slices of a track overlap", !@$overlaps && !@$loose,
          join "\n", @$overlaps, @$loose);
    my ($arrows, $faults) = arrows_of($events, $tracks);
    check("$schedule: arrows join slices", !@$faults, join "\n", @$faults);
    my @own = grep { $is_measured{ $_->[1]{pid} } } @$arrows;
    check("$schedule: none leads from a prediction to a measurement",
          @own && @own == grep { $is_measured{ $_->[0]{pid} } } @own);

    my @slices   = grep { $is_measured{ $_->{pid} } } map { @$_ } values %$tracks;
    my @receives = grep { $_->{name} =~ /^receive/ } @slices;
    my @messages = grep { $_->[1]{name} =~ /^receive/ } @own;
    my @odd = grep { $_->[0]{name} ne $_->[1]{name} =~ s/^receive/send/r
        || $names{ $_->[0]{pid} } !~ /rank $_->[1]{args}{from_rank}$/
        || $names{ $_->[1]{pid} } !~ /rank $_->[0]{args}{to_rank}$/ } @messages;
    # Four of eight sequences a copy, forward and backward, in each of two copies.
    check("$schedule: an arrow leads from its send to every receive",
          @receives == 16 && @messages == 16 && !@odd,
          @receives . ' ' . @messages . ' ' . @odd);
    my @reductions = grep { $_->{name} =~ /^reduce gradients/ } @slices;
    my @gradients  = grep { $_->[1]{name} =~ /^reduce gradients/ } @own;
    check("$schedule: and from gradients to every reduction",
          @reductions >= 4 && @reductions == @gradients
              && !grep({ $_->[0]{name} !~ /^(?:weight gradients|backward), micro-batch 3/
                  || $_->[0]{pid} != $_->[1]{pid} } @gradients),
          join ' ', scalar @reductions, map { "$_->[0]{name} > $_->[1]{name}" } @gradients);

    my %levels;
    push @{ $levels{ $_->{pid} } }, $_->{args}{GiB} * 2**30
        for grep { $_->{ph} eq 'C' && $is_measured{ $_->{pid} } } @$events;
    my $most = max(map { @$_ } values %levels);
    my $least = min(map { @$_ } values %levels);
    my ($state, $arena) = @{ $run->{memory} }{qw(state_bytes arena_used_bytes)};
    my $digit = 1e-5 * 2**30;
    check("$schedule: memory of every rank rises from its state to no more than was held",
          4 == keys %levels && $most <= $run->{peak_bytes} + $digit
              && $most > 0.5 * $run->{peak_bytes} && (grep { $_ > 0 } map { max(@$_) - min(@$_) }
              values %levels) == 4,
          "$least $most $run->{peak_bytes} $state $arena");
    my @working = grep { $_->{cat} eq 'compute' && $_->{name} =~ /^forward/ } @slices;
    check("$schedule: tasks tell layers, flop and the rate that was measured",
          @working == 16 && !grep { abs($_->{args}{flop_per_s} * $_->{dur} * 1e-6
              / $_->{args}{flop} - 1) > 0.01 } @working);
}
checked();
