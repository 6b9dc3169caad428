#!/usr/bin/perl
# What is priced is what runs: every key of a plan's workload and parallel, and every value that the
# schema lists, planned, run on CPU ranks and held task by task against what was predicted; or
# refused, and the planner's refusal is run's (plan/unexecuted.c). Times are never looked at.
# MESHWRIGHT_CASES asks so many values of each key.
use strict;
use warnings;
use File::Temp 'tempdir';
use JSON::PP;
use lib 'tests';
use Script;

my $build  = $ENV{BUILD} // 'build';
my $folder = tempdir(CLEANUP => 1);
my $json   = JSON::PP->new->allow_nonref->canonical;
$ENV{NO_COLOR} = 1;
delete $ENV{COLUMNS};

write_text("$folder/dense.json", $json->encode({model_type => 'gpt2', n_embd => 32, n_head => 4,
    n_layer => 4, n_positions => 32, vocab_size => 512}));
# Parts of its MLP are 11, 11, 11 and 9 wide on four ranks.
write_text("$folder/odd.json", $json->encode({model_type => 'gpt2', n_embd => 32, n_head => 4,
    n_layer => 2, n_positions => 32, n_inner => 42, vocab_size => 512}));
write_text("$folder/moe.json", $json->encode({model_type => 'mixtral', vocab_size => 512,
    hidden_size => 32, intermediate_size => 32, num_hidden_layers => 2, num_attention_heads => 4,
    num_key_value_heads => 2, num_local_experts => 8, num_experts_per_tok => 2}));

# Both with 32 tokens: 4 frames of 8 places, 4 sequences of 8 residues.
write_text("$folder/video.json", $json->encode({model_type => 'STDiT3', hidden_size => 16,
    num_heads => 4, depth => 2, in_channels => 2, caption_channels => 8, model_max_length => 4,
    input_size => [4, 4, 8]}));
write_text("$folder/protein.json", $json->encode({model_type => 'evoformer', no_blocks => 2,
    c_m => 8, c_z => 8, no_heads_msa => 2, no_heads_pair => 2, c_hidden_msa_att => 4,
    c_hidden_pair_att => 4, c_hidden_opm => 4, c_hidden_mul => 8, msa_depth => 4, residues => 8}));

write_text("$folder/towers.json", $json->encode({model_type => 'two_towers', vocab_size => 64,
    hidden_size => 8, num_attention_heads => 2, intermediate_size => 16,
    max_position_embeddings => 8, text_layers => 2, joint_layers => 2, image_size => 4,
    patch_size => 2, vision_layers => 2, vision_intermediate_size => 16}));

my %base = ('--precision' => 'fp32', '--seq-len' => 32, '--global-batch' => 8,
            '--micro-batch' => 1, '--gpus' => 2, '--stack' => 'meshwright');

# --KEY of a key, where it is not the same with dashes.
sub option_of {
    my ($key) = @_;
    (my $option = "--$key") =~ tr/_/-/;
    return $option;
}

# By key: its values, each with the choices that it takes to be there; `model` moe, `backend`,
# `refused`: what run (or the planner, with no plan to run) answers.
my @PIPE = ('--pp' => 2, '--dp' => 1, '--gpus' => 2);
my %half = (backend => 'cpu-half');
my %moe  = (model => 'moe', '--gpus' => 4, '--dp' => 4, '--ep' => 4);
my %KEYS = (
    workload => {
        seq_len => [{value => 16}], global_batch => [{value => 4}], tokens => [{value => 1e6}],
        precision => [{value => 'fp32'}, {value => 'bf16', %half}, {value => 'fp16', %half},
            {value => 'fp8', cluster => 'dgx-h100', refused => 'runs no GEMMs in it'},
            {value => 'fp4', cluster => 'dgx-b200', refused => 'runs no GEMMs in it'}],
        optimizer => [(map { {value => $_, '--dp' => 2} } qw(adamw adam sgd)),
            map { {value => $_, '--dp' => 2} } qw(lamb lars)],
        expert_imbalance => [{value => 4, %moe}],
        unclipped => [map { {patch => JSON::PP::true, '--clip' => 'off', '--dp' => 2,
                             '--offload' => $_} } qw(none optimizer)],
        capacity_factor => [map { {value => $_, %moe} } 0.5, 1.25],
    },
    parallel => {
        tp => [{value => 2}, {value => 4, model => 'odd', '--gpus' => 4, '--dp' => 1}],
        cp => [{value => 2}], dp => [{value => 2}],
        pp => [{@PIPE, value => 2}],
        ep => [{%moe, value => 2, '--expert-imbalance' => 4}],
        etp => [{%moe, value => 2, '--ep' => 2, '--expert-imbalance' => 4}],
        tp_kind => [{value => '1d', '--tp' => 2},
                    (map { {value => $_, '--tp' => 4, '--gpus' => 4, '--micro-batch' => 4} }
                     qw(2d 2d-summa)),
                    map { {value => $_, '--tp' => 8, '--gpus' => 8, '--micro-batch' => 4} }
                    qw(2.5d 2.5d-summa 3d)],
        tp_relay => [{value => 0, '--tp' => 2},
                     {value => 2, '--tp' => 2, '--sp' => 'on', '--recompute' => 'full'},
                     (map { {value => $_, '--tp' => 4, '--sp' => 'on', '--gpus' => 4,
                             '--micro-batch' => 2, '--overlap' => 'tp,cp'} } 2, 4),
                     {value => 2, '--gpus' => 6, '--micro-batch' => 2, '--stage-tp' => '2,1,2',
                      refused => '--tp-relay: not with stages of unlike meshes'},
                     {value => 2, '--tp' => 2, '--sp' => 'on', '--precision' => 'fp8',
                      cluster => 'dgx-h100', refused => '--tp-relay: not with --precision fp8'}],
        loss_chunks => [(map { {value => $_, '--tp' => 2} } 0, 2, 7),
                        {value => 3, '--dp' => 2, '--zero' => 3},
                        {value => 2, '--gpus' => 4, '--tp' => 4, '--tp-kind' => '2d',
                         '--micro-batch' => 4, '--sp' => 'off',
                         refused => '--loss-chunks: not with --tp-kind 2d'}],
        lora => [{value => 8, refused => '--lora is not executed, because'}],
        cp_kind => [(map { {value => $_, '--cp' => 2} } qw(ring allgather ulysses)),
                    map { {value => 'axial', '--cp' => 2, model => $_} } qw(video protein)],
        (map { $_ => [{value => 2, file => 'tests/data/onnx/unet_small.onnx', '--seq-len' => 1}] }
         qw(sp_h sp_w)),
        sp => [map { {value => $_, '--tp' => 2} } qw(on off)],
        vpp => [{@PIPE, value => 2, '--schedule' => 'interleaved'}],
        micro_batch => [{value => 2, '--dp' => 2}],
        zero => [map { {value => $_, '--dp' => 2} } 0 .. 3],
        zero_group => [{value => 2, '--zero' => 3, '--dp' => 4, '--gpus' => 4}],
        zero_gradients => [map { {value => 2, '--zero' => $_, '--dp' => 4, '--gpus' => 4} } 2, 3],
        zero_parameters => [{value => 2, '--zero' => 3, '--dp' => 4, '--gpus' => 4}],
        recompute => [map { {value => $_, '--tp' => 2} } 'none', 'selective', 'full',
                      'norm,activation', 'mlp'],
        recompute_layers => [{@PIPE, value => 1, '--recompute' => 'full'}],
        schedule => [(map { {@PIPE, value => $_} } qw(gpipe 1f1b zb-h1 zb-h2 zb-auto)),
                     map { {@PIPE, value => $_, '--vpp' => 2} } qw(interleaved zb-v)],
        in_flight => [{@PIPE, value => 2, '--schedule' => 'zb-auto'}],
        attention => [map { {value => $_, '--tp' => 2} } qw(flash unfused)],
        offload => [(map { {value => $_, '--dp' => 2} } 'none', 'optimizer', 'activations',
                     'activations:1', 'attention,mlp:2', 'optimizer,other', 'optimizer@nvme',
                     'activations@nvme', 'mlp@nvme,optimizer@nvme', 'optimizer,parameters',
                     'optimizer@nvme,parameters,activations',
                     'optimizer,parameters@nvme', 'optimizer@nvme,parameters@nvme,mlp@nvme',
                     'optimizer:1', 'optimizer:2,parameters:1', 'optimizer,parameters:1@nvme',
                     'optimizer,gradients', 'optimizer@nvme,parameters@nvme,gradients',
                     'optimizer:4,gradients:3', 'optimizer,parameters:3,gradients:3'),
                    {value => 'optimizer:2,gradients:3',
                     refused => '--offload optimizer:2,gradients:2 would run'},
                    (map { {value => 'optimizer,gradients', '--zero' => $_, '--dp' => 2,
                            refused => 'is not executed, because shards of gradients stay'} } 2, 3),
                    {value => 'optimizer,parameters', '--zero' => 1, '--dp' => 2,
                     refused => 'cannot offload parameters at zero stage 1'},
                    {value => 'parameters', refused => 'has to be off the device as well'},
                    {value => 'optimizer:1,parameters:2',
                     refused => '--offload optimizer:1,parameters:1 would run'},
                    {value => 'optimizer:1,parameters:1', '--zero' => 3, '--dp' => 2,
                     refused => 'cannot offload parameters at zero stage 3'},
                    {value => 'optimizer', '--optimizer' => 'lamb',
                     refused => 'is not executed, because'},
                    (map { {value => "optimizer,parameters,$_", '--dp' => 2} } 'turn',
                     'turn:2,between:3',
                     'between,gradients', 'turn:1,between:1,activations:2',
                     'turn:1,between:2,gradients:3'),
                    {value => 'optimizer,parameters,turn:1', @PIPE,
                     refused => 'not with --pp above 1'},
                    {value => 'optimizer,between:1', '--dp' => 2,
                     refused => 'have to leave; --offload optimizer,parameters beside them'}],
        overlap => [map { {value => $_, '--dp' => 2, '--tp' => 2, '--gpus' => 4} } 'none',
                    'grad-reduce', 'param-gather', 'pp,cp'],
        bucket_bytes => [map { {value => $_, '--dp' => 2} } 16384, 1 << 26],
        passes => [map { {value => $_, '--dp' => 2} } qw(none all attention fusion buckets
                   combine latency-hiding streams early-stop)],
        order => [{patch => ['dp', 'cp', 'tp', 'pp'], '--tp' => 2, '--dp' => 2, '--gpus' => 4}],
        # The embedding alone has no B of its own.
        stages => [{@PIPE, value => '3,1'},
                   map { {@PIPE, value => '0,4', '--schedule' => $_} } qw(1f1b zb-h1)],
        replica_batches => [{value => '5,3', '--dp' => 2}],
        stage_tp => [(map { {value => $_, '--gpus' => 6, '--micro-batch' => 2} } '2,1,2', '1,2,1'),
                     {value => '2,4', '--gpus' => 8, '--tp-kind' => '2d', '--micro-batch' => 4},
                     (map { {value => '2,1', '--gpus' => 4, '--micro-batch' => 2, model => 'moe',
                             '--expert-imbalance' => 4, '--ep' => $_} } 1, 2),
                     map { {value => '2,1', '--gpus' => 8, '--micro-batch' => 2, '--vpp' => 2,
                            '--schedule' => 'zb-v', %$_} }
                     {'--cp' => 2, '--cp-kind' => 'ulysses'},
                     {'--dp' => 2, '--zero' => 1, '--zero-group' => 1}],
        stage_ranks => [{value => '2,1,2', '--gpus' => 5}, {value => 'auto', '--gpus' => 3},
                        {value => '1,3', '--gpus' => 4, '--global-batch' => 6,
                         '--micro-batch' => 6, '--optimizer' => 'lars', model => 'moe',
                         '--expert-imbalance' => 4},
                        {value => '1,2', '--gpus' => 3, '--stage-tp' => '1,2', '--zero' => 1,
                         model => 'moe', '--expert-imbalance' => 4},
                        {value => '2,4,2', '--gpus' => 8, '--stage-tp' => '2,1,2', '--zero' => 1,
                         '--micro-batch' => 4},
                        {value => '1,2', '--gpus' => 3, '--micro-batch' => 2, model => 'moe',
                         '--expert-imbalance' => 4},
                        {value => '2,4', '--gpus' => 6, '--micro-batch' => 2, model => 'moe',
                         '--expert-imbalance' => 4, '--ep' => 2, '--zero' => 1,
                         '--zero-group' => 2},
                        {value => '2,1', '--gpus' => 3, '--cp' => 1, '--sp-h' => 2,
                         refused => '--sp-h'}],
        branches => [map { {value => 'on', model => 'towers', '--seq-len' => 8, %$_} }
                         {'--pp' => 3, '--gpus' => 3}, {'--pp' => 4, '--gpus' => 4,
                          '--stages' => '2,2,2,1'}, {'--pp' => 3, '--gpus' => 6, '--tp' => 2},
                         {'--gpus' => 6, '--stage-tp' => '2,1,2', '--micro-batch' => 2},
                         {'--gpus' => 5, '--stage-ranks' => '2,1,2'},
                         {'--gpus' => 7, '--stage-ranks' => '1,4,2', '--stage-tp' => '1,2,2',
                          '--micro-batch' => 2, '--zero' => 1},
                         {'--pp' => 2, '--gpus' => 2, '--schedule' => 'zb-v',
                          refused => 'branches'}],
        layouts => [(map { {patch => [{operator => 'layer.mlp.norm', axis => 'tp', dim => $_}],
                            '--tp' => 2, '--micro-batch' => 2} } qw(seq batch whole)),
                    {patch => [map { {operator => "layer.mlp.$_->[0]", axis => 'tp',
                                      dim => $_->[1], stage => $_->[2]} } ['norm', 'seq', 0],
                               ['up', 'hidden', 1], ['down', 'whole', 1]],
                     '--gpus' => 4, '--stage-ranks' => '2,2', '--stage-tp' => '2,2',
                     '--micro-batch' => 2, '--sp' => 'off'},
                    {patch => [{operator => 'layer.mlp.norm', axis => 'tp', dim => 'seq',
                                stage => 1}], '--tp' => 2, '--micro-batch' => 2,
                     refused => 'stages have no numbers of ranks'}],
    },
);

sub answer {
    my ($status, $out, $errors) = answer_of("$build/meshwright", @_);
    return {status => $status, out => $out, errors => $errors};
}

# A plan with this value, in the folder; what the planner answered.
sub plan_of {
    my ($key, $of) = @_;
    my %words = (%base, (map { $_ => $of->{$_} } grep { /^--/ } keys %$of));
    $words{option_of($key)} = $of->{value} if exists $of->{value};
    my $model = $of->{model} // 'dense';
    my @words = map { ($_, "'$words{$_}'") } sort keys %words;
    my $planned = answer('plan', $of->{file} // "$folder/$model.json",
                         $of->{cluster} // 'dgx-a100-80g', @words, '-o', "$folder/p.json",
                         '--force');
    return $planned if $planned->{status} || ref $of->{patch} ne 'ARRAY';
    my $plan = $json->decode(text_of("$folder/p.json"));
    $plan->{parallel}{$key} = $of->{patch};
    write_text("$folder/p.json", $json->encode($plan));
    return $planned;
}

# Tasks: with the counts and bytes predicted. Memory: as planned, on the device, its host and drive.
sub differences {
    my ($run) = @_;
    my $wrong = join '', map { $_->{matches} ? '' : $json->encode($_) . "\n" } @{ $run->{tasks} };
    $wrong .= $json->encode($_) . "\n"
        for grep { $_->{predicted_count} != $_->{count} } @{ $run->{kinds} };
    for my $pair (['peak_bytes', 'predicted_peak_bytes'],
                  ['host_peak_bytes', 'predicted_host_peak_bytes'],
                  ['nvme_bytes', 'predicted_nvme_bytes']) {
        my ($held, $planned) = ($run->{$pair->[0]}, $run->{compare}{$pair->[1]});
        $wrong .= "$pair->[0] $held, planned $planned\n" if abs($held - $planned) > 0.02 * $planned;
    }
    return $wrong;
}

sub check_value {
    my ($key, $of) = @_;
    my $name = "$key " . ($of->{value} // $json->encode($of->{patch}));
    my $planned = plan_of($key, $of);
    my @run = ('run', "$folder/p.json", '--spawn --steps 1 --json', '--nvme', $folder, '-o',
               "$folder/r.json", '--backend', $of->{backend} // 'cpu');
    if ($of->{refused}) {
        my $found = $planned->{status} ? $planned : answer(@run);
        check("$name is refused", $found->{status} && $found->{errors} =~ /\Q$of->{refused}\E/,
              $found->{errors});
        return;
    }
    check("$name is planned", $planned->{status} == 0, $planned->{errors}) or return;
    my $ran = answer(@run);
    check("$name runs", $ran->{status} == 0, $ran->{errors}) or return;
    my $wrong = differences($json->decode($ran->{out}));
    check("$name is what was priced", $wrong eq '', $wrong);
}

my $schema = $json->decode(text_of('plan/plan.schema.json'));
$schema->{properties}{parallel} = $json->decode(text_of('plan/parallel.schema.json'));
for my $part (sort keys %KEYS) {
    my $known = $schema->{properties}{$part}{properties};
    check("every key of $part is looked at",
          join(' ', sort keys %$known) eq join(' ', sort keys %{ $KEYS{$part} }),
          join ' ', grep { !$KEYS{$part}{$_} } sort keys %$known);
    for my $key (sort keys %{ $KEYS{$part} }) {
        my $values = $KEYS{$part}{$key};
        my %looked = map { ($_->{value} // '') => 1 } @$values;
        my @left = grep { !$looked{$_} } @{ $known->{$key}{enum} // [] };
        check("every value of $key", !@left, "@left") if $known->{$key}{enum};
        my $asked = $ENV{MESHWRIGHT_CASES} // @$values;
        $asked = @$values if $asked > @$values;
        check_value($key, $values->[($_ + 0.5) * @$values / $asked]) for 0 .. $asked - 1;
    }
}
# Every row of the list, in a plan of every stack that may hold it: run's words are the planner's
# for our own stack.
my %ROWS = (
    '--lora' => {'--lora' => 8, '--dp' => 2},
    '--offload optimizer with --optimizer lamb or lars' =>
        {'--offload' => 'optimizer', '--optimizer' => 'lamb', '--dp' => 2},
    '--zero 2 or 3 with --offload gradients' =>
        {'--offload' => 'optimizer,gradients', '--zero' => 2, '--dp' => 2},
    '--overlap tp with --tp above 1' => {'--overlap' => 'tp', '--tp' => 2, '--dp' => 1},
    '--overlap ep with --ep or --etp above 1' => {%moe, '--overlap' => 'ep'},
);
my ($help) = answer('run', '--help')->{out} =~ /\nNot executed:\n(.*)/s;
check('the list is that of run --help', keys %ROWS == (() = $help =~ /, because /g)
      && !(grep { $help !~ /\Q$_\E/ } keys %ROWS), $help);
my @stacks = map { m{([^/]+)\.json$} } glob 'cost_models/stacks/*.json';
for my $row (sort keys %ROWS) {
    my $own = plan_of('', $ROWS{$row})->{errors};
    my ($words) = $own =~ /(\Q$row\E is not executed, because [^;\n]+)/;
    check("the planner refuses $row", defined $words, $own) or next;
    my $held = 0;
    for my $stack (@stacks) {
        next if plan_of('', {%{ $ROWS{$row} }, '--stack' => $stack})->{status};
        my $ran = answer('run', "$folder/p.json", '--spawn --steps 1 --backend cpu');
        $held++;
        check("run refuses $row of $stack", $ran->{status} == 3 && $ran->{errors} =~ /\Q$words\E/,
              $ran->{errors});
    }
    check("some stack holds $row", $held > 0);
}
checked();
