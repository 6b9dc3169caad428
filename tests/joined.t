#!/usr/bin/perl
# What is predicted is what runs, task by task: plans drawn over every technique, each run on one to
# eight CPU ranks, and all that ran joined to the step graph with equal counts and equal bytes, each
# with a price, or nothing that could be priced.
# MESHWRIGHT_CASES runs more of them, MESHWRIGHT_SEED others. Times are never looked at.
use strict;
use warnings;
use File::Temp 'tempdir';
use JSON::PP;
use lib 'tests';
use Script;

my $build  = $ENV{BUILD} // 'build';
my $folder = tempdir(CLEANUP => 1);
my $json   = JSON::PP->new->allow_nonref->canonical;
my $wanted = $ENV{MESHWRIGHT_CASES} // 40;
srand($ENV{MESHWRIGHT_SEED} // 17);
$ENV{NO_COLOR} = 1;
delete $ENV{COLUMNS};

my %MODELS = (
    gpt2 => {model_type => 'gpt2', n_embd => 16, n_head => 4, n_layer => 4, n_positions => 16,
             vocab_size => 200},
    llama => {model_type => 'llama', vocab_size => 200, hidden_size => 16, intermediate_size => 24,
              num_hidden_layers => 4, num_attention_heads => 4, num_key_value_heads => 2,
              tie_word_embeddings => JSON::PP::false},
    moe => {model_type => 'mixtral', vocab_size => 200, hidden_size => 16, intermediate_size => 16,
            num_hidden_layers => 2, num_attention_heads => 4, num_key_value_heads => 2,
            num_local_experts => 4, num_experts_per_tok => 2},
);
write_text("$folder/$_.json", $json->encode($MODELS{$_})) for keys %MODELS;

sub one_of { return $_[int rand @_] }

# Degrees and what goes with them; the planner refuses what does not go together.
sub draw_plan {
    my ($model) = @_;
    my %of = ('--dp' => one_of(1, 1, 2, 2, 4), '--tp' => one_of(1, 1, 2, 4),
              '--cp' => one_of(1, 1, 1, 2, 4), '--pp' => one_of(1, 1, 2, 2, 4));
    my $ranks = 1;
    $ranks *= $_ for values %of;
    return if $ranks > 8;
    $of{'--gpus'} = $ranks;
    $of{'--sp'} = one_of('on', 'off') if $of{'--tp'} > 1;
    $of{'--cp-kind'} = one_of(qw(ring allgather ulysses)) if $of{'--cp'} > 1;
    if ($of{'--pp'} > 1) {
        $of{'--schedule'} = one_of(qw(gpipe 1f1b interleaved zb-h1 zb-h2 zb-v zb-auto));
        $of{'--vpp'} = 2 if $of{'--schedule'} =~ /^(interleaved|zb-v)$/;
        my $is_even = $of{'--pp'} != 2 || $of{'--vpp'} || $model eq 'moe' || rand() < 0.7;
        $of{'--stages'} = '3,1' if !$is_even;
    }
    if ($model eq 'moe') {
        $of{'--ep'} = one_of(1, 2, 4);
        $of{'--etp'} = one_of(1, 2) if $of{'--tp'} > 1;
        $of{'--capacity-factor'} = one_of(0.5, 1.25) if rand() < 0.5;
    }
    $of{'--zero'} = one_of(0 .. 3);
    $of{'--micro-batch'} = one_of(1, 2);
    $of{'--recompute'} = one_of('none', 'selective', 'full', 'norm,activation', 'mlp');
    $of{'--offload'} = one_of('none', 'none', 'optimizer', 'activations', 'attention,mlp:1',
                              'optimizer@nvme', 'optimizer,other', 'activations@nvme',
                              'optimizer,gradients');
    $of{'--optimizer'} = one_of(qw(adamw adamw adam sgd lamb lars));
    $of{'--bucket-bytes'} = one_of(1024, 16384) if rand() < 0.4;
    $of{'--clip'} = 'off' if rand() < 0.3;
    $of{'--overlap'} = one_of('none', 'grad-reduce', 'param-gather', 'pp,cp', 'grad-reduce,pp')
        if rand() < 0.5;
    $of{'--passes'} = one_of('none', 'attention', 'buckets', 'combine', 'combine,buckets', 'fusion')
        if rand() < 0.3;
    $of{'--attention'} = one_of(qw(flash unfused)) if rand() < 0.3;
    $of{'--precision'} = one_of(qw(fp32 fp32 bf16 fp16));
    return %of;
}

sub answer {
    my ($status, $out, $errors) = answer_of("$build/meshwright", @_);
    return {status => $status, out => $out, errors => $errors};
}

# A price of its own; or none, because it runs as one with a task that has, or moves nothing.
sub is_priced {
    my ($task) = @_;
    return $task->{predicted_s} > 0 if $task->{priced} eq 'alone';
    return 0 if $task->{predicted_s} != 0;
    return $task->{kind} eq 'operator' if $task->{priced} eq 'with another';
    return $task->{priced} eq 'nothing' && $task->{predicted_bytes} == 0 && $task->{bytes} == 0;
}

my ($ran, $tried, $tasks) = (0, 0, 0);
my (%seen, %priced);
while ($ran < $wanted && $tried++ < 20 * $wanted) {
    my $model = one_of(sort keys %MODELS);
    # Few plans may keep gradients on the host: one is always there.
    my %of = $ran == 0 ? ('--gpus' => 2, '--dp' => 2, '--zero' => 1, '--micro-batch' => 2,
                          '--offload' => 'optimizer,gradients', '--precision' => 'fp32',
                          '--bucket-bytes' => 1024) : draw_plan($model) or next;
    my @words = map { ($_, $of{$_}) } sort keys %of;
    my $planned = answer('plan', "$folder/$model.json", 'dgx-a100-80g', '--seq-len 16',
                         '--global-batch 16', '--stack meshwright', @words, '-o', "$folder/p.json");
    if ($planned->{status}) {
        check("@words is refused in one line", $planned->{status} <= 2, $planned->{errors})
            if $planned->{status} > 2;
        next;
    }
    $ran++;
    my $backend = one_of('cpu', $of{'--precision'} eq 'fp32' ? 'cpu-fp64' : 'cpu-half');
    my $found = answer('run', "$folder/p.json", '--spawn --steps 2 --json', '--nvme', $folder,
                       '--backend', $backend, '-o', "$folder/r.json");
    my $name = "$model $backend @words";
    check("$name runs", $found->{status} == 0, $found->{errors}) or next;
    my $run = $json->decode($found->{out});
    my @wrong = map { $json->encode($_) } grep { !$_->{matches} } @{ $run->{tasks} };
    $tasks += $_->{count} for @{ $run->{tasks} };
    check("$name: every task is predicted and measured", !@wrong,
          join "\n", @wrong[0 .. ($#wrong < 4 ? $#wrong : 4)]);
    my @unpriced = map { $json->encode($_) } grep { !is_priced($_) } @{ $run->{tasks} };
    check("$name: every task has a price, or is nothing", !@unpriced,
          join "\n", @unpriced[0 .. ($#unpriced < 4 ? $#unpriced : 4)]);
    $priced{"$_->{kind} $_->{priced}"}++ for @{ $run->{tasks} };
    $seen{ $_->{kind} }++ for @{ $run->{tasks} };
}
check("$wanted plans ran", $ran == $wanted, "$ran of $tried drawn");
# What the script runs is drawn whole: every kind of plan/tasks.inc but slots, marks, and those
# rooms for gradients, which others count with the scattering that they are for.
my %is_mark = map { $_ => 1 } 'F', 'B', 'W', 'room for gradients', 'places that are held',
    'end of a slot';
my @kinds  = text_of('plan/tasks.inc') =~ /^TASK\(\w+, "([^"]+)"/mg;
my @unseen = grep { !$is_mark{$_} && !$seen{$_} } @kinds;
check('every kind of task was drawn', $wanted < 40 || !@unseen, "@unseen");
print "# $tasks tasks of ", join(', ', sort keys %seen), "\n";
print "# priced $_: $priced{$_}\n" for sort keys %priced;
checked();
