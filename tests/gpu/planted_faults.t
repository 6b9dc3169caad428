#!/usr/bin/perl
# Faults planted in the source of the CUDA back end, one at a time (`make check_planted`): a barrier
# removed, a wrong mask, memory of another, a wait that is dropped. The file is compiled anew for
# the emulation, with every access told to a shadow (tests/gpu/emulate_shadow.h), and something
# that runs it must notice. Without a fault all kernels run so, and nothing is noticed.
# PLANTED_ONLY=RE leaves out those whose file and lines it does not match.
use strict;
use warnings;
use JSON::PP;
use POSIX ();
use lib 'tests';
use Script;

my $build  = $ENV{BUILD} // 'build';
my $folder = "$build/planted";
my $json   = JSON::PP->new->allow_nonref;
my $binary;
my ($kernel_command, $source_command, $objects) =
    map { $ENV{$_} // die "start it with make check_planted\n" }
    qw(PLANTED_KERNEL PLANTED_SOURCE PLANTED_OBJECTS);
delete @ENV{qw(MESHWRIGHT_EMULATED_FAULT MESHWRIGHT_EMULATED_ORDER MESHWRIGHT_TEST_GPU)};
$ENV{MESHWRIGHT_EMULATED_SEED} = 1;

# Folders of programs with a back end of their own beside them, of which judges take one.
my @programs = qw(meshwright exec_cpu.so exec_cpu64.so gpu_compare test_cuda_backend test_cpu_kernels
    test_cuda_embedding test_cuda_families test_cuda_chosen test_cuda_images test_cuda_strided
    test_cuda_memory test_cuda_gemm);
my $plans = $folder;

sub make_folder {
    mkdir $_ for $folder, "$folder/executor", "$folder/executor/cuda";
    for my $program (@programs) {
        unlink "$folder/$program";
        link "$build/shadowed/$program", "$folder/$program" or die "$folder/$program: $!\n";
    }
    $binary = "$folder/meshwright";
}
make_folder();

sub place_backend {
    my ($from) = @_;
    for my $name (qw(exec_cuda.so exec_cuda_emulated.so)) {
        unlink "$folder/$name";
        link $from, "$folder/$name" or die "$folder/$name: $!\n";
    }
}

# Plans that take kernels which no other judge comes to.
my %model = (
    gpt2 => { model_type => 'gpt2', n_embd => 32, n_head => 4, n_layer => 2, n_positions => 32,
              vocab_size => 128 },
    mixture => { model_type => 'mixtral', hidden_size => 32, num_attention_heads => 4,
                 num_key_value_heads => 2, num_hidden_layers => 2, intermediate_size => 64,
                 vocab_size => 128, num_local_experts => 4, num_experts_per_tok => 2,
                 max_position_embeddings => 64, rope_theta => 10000, rms_norm_eps => 1e-5,
                 tie_word_embeddings => JSON::PP::false },
);
my %plan = (
    plain   => ['gpt2',    '--gpus 1 --precision bf16 --zero 0'],
    bytes   => ['gpt2',    '--gpus 1 --precision fp8 --zero 0'],
    # Weights that come with every micro-batch are cast by each product.
    fetched => ['gpt2', '--gpus 1 --precision fp8 --zero 0 --offload optimizer,parameters'],
    mixture => ['mixture', '--gpus 1 --precision bf16 --zero 0'],
    grid    => ['gpt2',    '--gpus 4 --tp 4 --tp-kind 2d --precision bf16 --zero 0', 2],
    ring    => ['gpt2',    '--gpus 2 --cp 2 --cp-kind ring --precision bf16 --zero 0'],
    beside  => ['gpt2', '--gpus 1 --precision bf16 --zero 0 --offload optimizer,activations'],
);
write_text("$folder/$_.json", $json->encode($model{$_})) for keys %model;
for my $name (sort keys %plan) {
    my ($model, $choices, $micro_batch) = @{ $plan{$name} };
    my ($status, undef, $errors) = answer_of("$build/meshwright plan $folder/$model.json dgx-h100",
        '--stack meshwright --seq-len 16 --global-batch 4', $choices,
        '--micro-batch', $micro_batch // 1, "-o $folder/$name.plan");
    die "no plan $name: $errors" if $status;
}

my $limit_s = 300;
sub losses_of {
    my ($name, $order, @words) = @_;
    local $ENV{MESHWRIGHT_EMULATED_ORDER} = $order;
    my ($status, $out, $errors) = answer_of("timeout $limit_s", $binary, "run $plans/$name.plan",
        '--backend cuda --steps 2 --json', @words);
    my $run = eval { $json->decode($out) } // {};
    return "status $status" . $json->encode($run->{loss} // []);
}

# What each judge says: a text that a fault changes. Beside other work each takes longer; what a fault
# keeps from ending is cut after a few times as long as without one.
sub status_of {
    my ($status) = answer_of("timeout $limit_s", @_);
    return "status $status";
}
my %judge = (
    compare   => sub { status_of("$folder/gpu_compare bf16 tiny") },
    backend   => sub { status_of("$folder/test_cuda_backend") },
    kernels   => sub { status_of("$folder/test_cpu_kernels") },
    embedding => sub { status_of("$folder/test_cuda_embedding") },
    strided   => sub { status_of("$folder/test_cuda_strided") },
    families  => sub { status_of("$folder/test_cuda_families") },
    chosen    => sub { status_of("$folder/test_cuda_chosen") },
    images    => sub { status_of("$folder/test_cuda_images") },
    memory    => sub { status_of("$folder/test_cuda_memory") },
    gemm      => sub { status_of("$folder/test_cuda_gemm") },
    plain     => sub { losses_of('plain', 0) },
    bytes     => sub { losses_of('bytes', 0) },
    fetched   => sub { losses_of('fetched', 0) },
    mixture   => sub { losses_of('mixture', 0) },
    beside    => sub { join ' ', map { losses_of('beside', $_) } 1 .. 3 },
    ordered   => sub { losses_of('beside', 0) },
    grid      => sub { losses_of('grid', 0, '--spawn --transport host') },
    ring      => sub { losses_of('ring', 0, '--spawn --transport host') },
    fused     => sub {
        local $ENV{MESHWRIGHT_EMULATED_SDPA} = 'runs';
        losses_of('ring', 0, '--spawn --transport host');
    },
    alone     => sub { status_of("$binary run $plans/ring.plan --backend cuda --steps 2",
                           '--replay-rank 0') },
);

my (%clean, %limit_of);

# Blocks of the file, where the faults are told.
sub faults_of {
    my ($path) = @_;
    my @faults;
    for (map { s/\A\n+//r } grep { /\S/ } split /\n\n+/, text_of($path) =~ s/^#.*\n//mgr) {
        my ($file, $in, $judge, $lines) = /\A(\S+)(?: in (\S+))?: (\w+)\n(.+)\z/s
            or die "$path: no file, judge and lines in: $_\n";
        my @was     = $lines =~ /^- ?(.*)$/mg;
        my @becomes = $lines =~ /^\+ ?(.*)$/mg;
        push @faults, { file => $file, in => $in // $file, judge => $judge,
                        was => join("\n", @was), becomes => join("\n", @becomes) };
    }
    return @faults;
}

# The text with the fault, which has one place, whatever the blanks between words.
sub planted {
    my ($text, $fault) = @_;
    my $pattern = join '\s+', map { quotemeta } split ' ', $fault->{was};
    my @places  = $text =~ /$pattern/g;
    die "$fault->{file}: ", scalar @places, " places of $fault->{was}\n" if @places != 1;
    return $text =~ s/$pattern/$fault->{becomes}/r;
}

sub title_of {
    my ($fault) = @_;
    return join ' ', split ' ', "$fault->{file}: $fault->{was} becomes $fault->{becomes}";
}

# The back end with this fault; what lies beside the source is found as before.
sub build_with {
    my ($fault) = @_;
    my $text   = planted(text_of($fault->{file}), $fault);
    my $source = "$folder/" . ($fault->{in} eq $fault->{file} ? 'fault' : 'whole');
    unlink glob "$folder/executor/cuda/*";
    if ($fault->{in} eq $fault->{file}) {
        write_text("$source.c", $text);
    } else {
        write_text("$folder/$fault->{file}", $text);
        write_text("$source.c", text_of($fault->{in}));
    }
    my $is_kernel = $fault->{in} =~ /\.cu$/;
    my $command   = $is_kernel ? $kernel_command : $source_command;
    my $object    = "$build/" . ($is_kernel ? "$fault->{in}.shadowed.o"
                                            : $fault->{in} =~ s/\.c$/.emulated.o/r);
    my ($others) = join ' ', grep { $_ ne $object && /\w/ } split ' ', $objects;
    my ($status, undef, $errors) = answer_of("$command -o $folder/fault.o $source.c &&",
        "\${CC:-cc} -shared -o $folder/fault.so.new $folder/fault.o $others -lm &&",
        "mv $folder/fault.so.new $folder/fault.so");
    die "a fault of $fault->{file} is not compiled: $errors" if $status;
    place_backend("$folder/fault.so");
}

my @all = faults_of('tests/data/planted_faults.txt');
check('there are thirty faults at least', @all >= 30, scalar @all);
my @faults = grep { title_of($_) =~ ($ENV{PLANTED_ONLY} // '.') } @all;

# All kernels run, and nobody notices anything.
place_backend("$build/shadowed/exec_cuda_emulated.so");
$ENV{MESHWRIGHT_EMULATED_KERNELS} = "$folder/kernels";
unlink "$folder/kernels";
my %asked = map { $_ => 1 } @faults == @all ? keys %judge : map { $_->{judge} } @faults;
for my $name (sort keys %asked) {
    my $begin_s = time;
    $clean{$name} = $judge{$name}->();
    $limit_of{$name} = 30 + 5 * (time - $begin_s);
    check("$name has nothing to say without a fault", $clean{$name} =~ /^status 0/, $clean{$name});
}
delete $ENV{MESHWRIGHT_EMULATED_KERNELS};
my %has_run = map { $_ => 1 } split /\n/, text_of("$folder/kernels");
my @kernels = map { text_of($_) =~ /^(?:BLOCK_|GRID_)?KERNEL\((\w+),/mg } glob 'executor/cuda/*.cu';
my @left    = grep { !$has_run{$_} } @kernels;
check('all kernels run under the shadow', @kernels >= 50 && !@left, "@left") if @faults == @all;

# Whether each of every so many faults from `first` on is noticed, a line each.
sub judge_faults {
    my ($first, $parts, $answers) = @_;
    $folder = "$plans/part-$first";
    $kernel_command =~ s{-I\Q$plans\E }{-I$folder };
    make_folder();
    my $found = '';
    for (my $i = $first; $i < @faults; $i += $parts) {
        build_with($faults[$i]);
        $limit_s = $limit_of{ $faults[$i]{judge} };
        my $judge = $faults[$i]{judge};
        $found .= ($judge{$judge}->() ne $clean{$judge} ? 1 : 0) . "\n";
    }
    write_text($answers, $found);
}

# A core each.
my ($parts) = `nproc` =~ /(\d+)/;
my @children = map {
    my ($first, $child) = ($_, fork // die "fork: $!\n");
    if (!$child) {
        judge_faults($first, $parts, "$plans/answers-$first");
        POSIX::_exit(0);
    }
    $child;
} 0 .. $parts - 1;
my @found;
for my $first (0 .. $parts - 1) {
    waitpid $children[$first], 0;
    check("part $first of the faults is judged", $? == 0, $?);
    my @answers = $? ? () : split /\n/, text_of("$plans/answers-$first");
    $found[$first + $_ * $parts] = $answers[$_] for 0 .. $#answers;
}
for my $i (0 .. $#faults) {
    check("found by $faults[$i]{judge}: " . substr(title_of($faults[$i]), 0, 120), $found[$i]);
}
checked();
