package TinyRun;
# What scripts share that run plans of one tiny model on CPUs: the folder, the model and its plans,
# losses, processes.
use strict;
use warnings;
use Exporter 'import';
use File::Temp 'tempdir';
use JSON::PP;
use lib 'tests';
use Script;

our @EXPORT = qw($build $folder $json meshwright plan losses children_of);

our $build = $ENV{BUILD} // 'build';
# Where files are synced at once: tests make hundreds of them.
our $folder = tempdir(CLEANUP => 1, -w '/dev/shm' ? (DIR => '/dev/shm') : ());
our $json = JSON::PP->new->allow_nonref;
$ENV{NO_COLOR} = 1;
delete $ENV{COLUMNS};

write_text("$folder/tiny.json", $json->encode({model_type => 'gpt2', n_embd => 16, n_head => 2,
    n_layer => 2, n_positions => 16, vocab_size => 200}));

sub meshwright { return answer_of("$build/meshwright", @_) }

# Of the tiny model, as $folder/NAME.json.
sub plan {
    my ($name, $choices) = @_;
    my ($status, undef, $errors) = meshwright(
        "plan $folder/tiny.json dgx-a100-80g --precision fp32 --seq-len 16 --global-batch 4",
        "--micro-batch 1 --stack meshwright $choices -o $folder/$name.json");
    die "plan $choices: $errors" if $status;
}

# Losses of a run of a plan, by its name or path, exactly; a run that failed has none.
sub losses {
    my ($plan, $steps, $more) = @_;
    my $path = $plan =~ m{/} ? $plan : "$folder/$plan.json";
    my ($status, $out, $errors) =
        meshwright("run $path --spawn --backend cpu --steps $steps --json", $more);
    return ($status ? [] : $json->decode($out)->{loss}, $errors, $status);
}

sub children_of {
    my ($pid) = @_;
    return split ' ', `cat /proc/$pid/task/$pid/children`;
}

1;
