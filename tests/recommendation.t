#!/usr/bin/perl
# A recommendation model with its tables over 4 ranks trains as on one, and what its ranks receive
# is what the plan says.
use strict;
use warnings;
use File::Temp 'tempdir';
use JSON::PP;
use lib 'tests';
use Script;

my $build  = $ENV{BUILD} // 'build';
my $bin    = "$build/meshwright";
my $folder = tempdir(CLEANUP => 1, -w '/dev/shm' ? (DIR => '/dev/shm') : ());
my $json   = JSON::PP->new;
my $model  = 'tests/data/recommendation/tiny.json';
$ENV{XDG_CACHE_HOME} = "$folder/cache";
my %run;
for my $ranks (1, 4) {
    system "$bin calibrate --short --seconds 0.1 --ranks $ranks --quiet >/dev/null 2>&1";
    my ($status, $out, $err) = answer_of("$bin plan $model local --ranks $ranks --global-batch 64 "
                                         . "-o $folder/$ranks.json");
    check("planned on $ranks", $status == 0, $err);
    ($status, $out, $err) =
        answer_of("$bin run $folder/$ranks.json --steps 4 --seed 3 --lr 0.1 --json");
    check("run on $ranks", $status == 0, $err);
    $run{$ranks} = $json->decode($out);
}
my @far = grep { abs($run{1}{loss}[$_] - $run{4}{loss}[$_]) > 1e-12 } 0 .. 3;
check('4 ranks lose as one does', @{ $run{4}{loss} } == 4 && !@far,
      "@{ $run{1}{loss} } and @{ $run{4}{loss} }");
check('it learns something', $run{1}{loss}[0] != $run{1}{loss}[3]);
my %task = map { $_->{task} => $_ } @{ $run{4}{tasks} };
for my $name ('sums', 'gradients', 'dense all-reduce') {
    check("$name: as many bytes as planned", $task{$name}{bytes} == $task{$name}{predicted_bytes}
          && $task{$name}{bytes} > 0, "$task{$name}{bytes} of $task{$name}{predicted_bytes}");
}
my ($ids, $wanted) = @{ $task{ids} }{qw(bytes predicted_bytes)};
check('ids: as many bytes as expected', abs($ids - $wanted) <= 0.1 * $wanted, "$ids of $wanted");
checked();
