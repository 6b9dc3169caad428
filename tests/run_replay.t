#!/usr/bin/perl
# `run --replay-rank`: one rank of a plan alone, on the CPU and on the emulated CUDA back end; what
# exchanges take is at least what is predicted of them.
use strict;
use warnings;
use File::Temp 'tempdir';
use JSON::PP;
use lib 'tests';
use Schema;
use Script;

my $build  = $ENV{BUILD} // 'build';
my $folder = tempdir(CLEANUP => 1);
my $json   = JSON::PP->new->allow_nonref;

# Status, stdout and stderr of a command.
sub meshwright {
    my ($binary, @words) = @_;
    return answer_of("$build/$binary", @words);
}

write_text("$folder/tiny.json", $json->encode({
    model_type => 'gpt2', n_embd => 32, n_head => 4, n_layer => 4, n_positions => 32,
    vocab_size => 512,
}));

my $schema = $json->decode(text_of('executor/run.schema.json'));
my ($status, $out, $errors) = meshwright('meshwright', "plan $folder/tiny.json dgx-h100 --gpus 8",
    '--tp 2 --pp 2 --schedule 1f1b --precision fp32 --stack meshwright --seq-len 32',
    "--global-batch 8 --micro-batch 1 -o $folder/p.json");
die "no plan: $errors" if $status;

# The first rank, one inside, the last.
for my $case (['meshwright', 'cpu', 0], ['meshwright', 'cpu', 7],
              ['emulated/meshwright', 'cuda', 2]) {
    my ($binary, $backend, $rank) = @$case;
    ($status, $out, $errors) = meshwright($binary,
        "run $folder/p.json --backend $backend --steps 2 --replay-rank $rank -o $folder/r.json");
    check("rank $rank runs alone on $backend", $status == 0, "$status $out $errors");
    check("it says what that means ($backend, $rank)",
          $errors =~ /^meshwright run: rank $rank of 8 alone: /m, $errors);
    my $run    = eval { $json->decode(text_of("$folder/r.json")) } // {};
    my $breach = Schema::breach($run, $schema, '$');
    check("its run.json is of the schema ($backend, $rank)", $breach eq '', $breach);
    check("over no transport ($backend, $rank)", $run->{machine}{transport} eq 'mock');
    my ($row) = grep { $_->{kind} eq 'tp all-reduce' } @{ $run->{kinds} };
    # The least that any protocol of the fabric begins with is 6.6 us.
    check("all-reduces take what is predicted, or longer ($backend, $rank)",
          $row && $row->{count} > 0 && $row->{measured_s} / $row->{count} >= 6e-6,
          $json->encode($row));
}

for my $wrong (['8', 'between 0 and 7'], ['0 --spawn', '--spawn'], ['-1', '--replay-rank']) {
    my ($words, $says) = @$wrong;
    ($status, $out, $errors) = meshwright('meshwright',
        "run $folder/p.json --replay-rank $words -o $folder/none.json");
    check("--replay-rank $words is one line and 2", $status == 2 && !-e "$folder/none.json"
          && $errors =~ /\Ameshwright run: [^\n]*\Q$says\E[^\n]*\n\z/, "$status $errors");
}
checked();
