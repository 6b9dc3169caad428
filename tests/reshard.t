#!/usr/bin/perl
# Checkpoints that go from plan to plan: whatever the way, arrays put together again are the same to
# the bit, and a run that goes on has the losses of one that stayed, but for rounding.
use strict;
use warnings;
use File::Path 'remove_tree';
use File::Temp 'tempdir';
use JSON::PP;
use lib 'tests';
use Script;

my $build  = $ENV{BUILD} // 'build';
my $folder = tempdir(CLEANUP => 1, -w '/dev/shm' ? (DIR => '/dev/shm') : ());
my $json   = JSON::PP->new->allow_nonref;
$ENV{NO_COLOR} = 1;
delete $ENV{COLUMNS};

sub meshwright { return answer_of("$build/meshwright", @_) }

write_text("$folder/tiny.json", $json->encode(
    {model_type => 'mixtral', hidden_size => 16, num_attention_heads => 4, num_key_value_heads => 2,
     num_hidden_layers => 4, intermediate_size => 24, vocab_size => 200, num_local_experts => 4,
     num_experts_per_tok => 2, max_position_embeddings => 32, head_dim => 4}));

sub plan {
    my ($name, $choices) = @_;
    my ($status, undef, $errors) = meshwright(
        "plan $folder/tiny.json dgx-a100-80g --precision fp32 --seq-len 32 --global-batch 4",
        "--micro-batch 1 --stack meshwright $choices -o $folder/$name.json");
    die "plan $choices: $errors" if $status;
}
plan('dp2-tp2',   '--gpus 4 --dp 2 --tp 2 --zero 1');
plan('pp4',       '--gpus 4 --pp 4 --schedule 1f1b');
plan('cp2-ep2',   '--gpus 4 --cp 2 --dp 2 --ep 2 --cp-kind allgather');
plan('tp2-zero3', '--gpus 4 --tp 2 --dp 2 --zero 3');

sub losses {
    my ($plan, $steps, $more) = @_;
    my ($status, $out, $errors) = meshwright(
        "run $folder/$plan.json --spawn --backend cpu-fp64 --steps $steps --json $more");
    check("$plan runs", $status == 0, $errors) or return [];
    return $json->decode($out)->{loss};
}

# The arrays of a checkpoint, whole, put together element by element from what the headers of its
# files say; those that pad the vocabulary are left out.
sub arrays {
    my ($path) = @_;
    my %whole;
    for my $file (glob "$path/*.safetensors") {
        my $text = text_of($file);
        my $length = unpack 'Q<', $text;
        my $header = $json->decode(substr $text, 8, $length);
        my $metadata = delete $header->{__metadata__};
        for my $name (sort keys %$header) {
            my ($begin, $end) = @{ $header->{$name}{data_offsets} };
            my @values = unpack 'H16' x (($end - $begin) / 8),
                substr $text, 8 + $length + $begin, $end - $begin;
            my ($box, $from) = $metadata->{$name} =~ /^((?:\d+:\d+\/\d+ )+)\| (\d+):/;
            my @dims = map { [m{^(\d+):(\d+)/(\d+)$}] } split ' ', $box;
            for my $value (@values) {
                my $rest = $from++;
                my @at;
                for my $dim (reverse @dims) {
                    unshift @at, $dim->[0] + $rest % $dim->[1];
                    $rest = int $rest / $dim->[1];
                }
                my $key = "$name @at";
                die "$key is there twice\n" if exists $whole{$key};
                $whole{$key} = $value;
            }
        }
    }
    my @padding = grep { /(?:embedding\.token|head)\S*weight\S* (\d+) / && $1 >= 200 } keys %whole;
    delete @whole{@padding};
    return \%whole;
}

sub apart {
    my ($one, $other) = @_;
    return join ', ', (grep { ($other->{$_} // '') ne $one->{$_} } sort keys %$one)[0 .. 2],
        scalar keys %$other if grep { ($other->{$_} // '') ne $one->{$_} } keys %$one;
    return keys %$one == keys %$other ? '' : 'more than there were';
}

my $stayed = losses('dp2-tp2', 4, '');
losses('dp2-tp2', 2, "--checkpoint $folder/ck --checkpoint-every 2");
my $arrays = arrays("$folder/ck/step-00000002");
check('weights and both moments are there', keys %$arrays > 3 * 4000);
for my $plan ('pp4', 'cp2-ep2', 'tp2-zero3') {
    my ($status, $out, $errors) =
        meshwright("reshard $folder/ck --to $folder/$plan.json -o $folder/$plan");
    check("dp2 x tp2 is cut for $plan", $status == 0 && $out =~
          m{^Step 2: \S+ [KM]iB in \d+ slices of 4 ranks to 4, .+$}m, $errors);
    my $apart = apart($arrays, arrays("$folder/$plan/step-00000002"));
    check('the whole arrays are the same to the bit', $apart eq '', $apart);
    my $there = losses($plan, 4, "--checkpoint $folder/$plan --resume --checkpoint-every 9");
    my ($most) = sort { $b <=> $a } map { abs($there->[$_] - $stayed->[2 + $_]) } 0 .. 1;
    check('it goes on with the losses of the plan that it came from', $most < 1e-12, $most);
    system("cp -r $folder/ck $folder/copy");
    $there = losses($plan, 3, "--checkpoint $folder/copy --resume --checkpoint-every 9");
    check('so it does without being cut before', abs($there->[0] - $stayed->[2]) < 1e-12);
    remove_tree("$folder/copy");
    next if $plan ne 'pp4';
    meshwright("reshard $folder/$plan/step-00000002 --to $folder/dp2-tp2.json -o $folder/back");
    my @files = map { "rank-0000$_.safetensors" } 0 .. 3;
    my @differ = grep { text_of("$folder/ck/step-00000002/$_")
                            ne text_of("$folder/back/step-00000002/$_") } @files;
    check('and back again, file by file', !@differ, "@differ");
}

# What would go where, and nothing written.
my ($status, $out, $errors) = meshwright(
    "reshard $folder/ck/step-00000002 --to $folder/pp4.json --dry-run -o $folder/none");
my ($total) = $out =~ /^Step 2: (\S+) KiB/m;
my $sum = 0;
my $row = qr/^\S+\.\S+ +(?:weight|first_moment|second_moment) /;
$sum += (split)[-1] for grep { $_ =~ $row } split /\n/, $out;
check('--dry-run lists every slice', $status == 0 && !-e "$folder/none"
      && abs($sum / 1024 - $total) < 1, "$sum of $total: $errors");

# Fewer ranks, weights alone and narrower: for inference.
plan('tp2', '--gpus 2 --tp 2');
($status, $out, $errors) = meshwright("reshard $folder/ck --to $folder/tp2.json --weights-only",
                                      "--precision bf16 -o $folder/infer");
my $bytes = 0;
$bytes += -s for glob "$folder/infer/*/*.safetensors";
check('weights alone, in bf16', $status == 0 && $bytes < keys(%$arrays) / 3 * 2 * 1.8 + 40_000
      && !grep { text_of($_) =~ /moment/ } glob("$folder/infer/*/*.safetensors"), "$bytes $errors");

# MindSpore's case on small sizes: trained on 32 times as many ranks (of 2,048 there, of 64 here) by
# data, model, pipeline and optimizer parallelism with recomputation, served by models and pipelines
# alone; by one process that may hold less than half of what it moves.
{
    write_text("$folder/tiny.json", $json->encode(
        {model_type => 'llama', hidden_size => 192, num_attention_heads => 8,
         num_key_value_heads => 8, num_hidden_layers => 4, intermediate_size => 768,
         vocab_size => 256, max_position_embeddings => 32}));
    my $work = '--precision fp32 --seq-len 32 --global-batch 8 --micro-batch 1 --stack meshwright';
    my %choices = (
        one    => 'dgx-a100-80g --gpus 1',
        many   => 'selene --gpus 64 --dp 8 --tp 2 --pp 4 --schedule 1f1b --zero 1 --recompute full',
        served => 'dgx-a100-80g --gpus 2 --pp 2 --schedule 1f1b',
    );
    for my $name (sort keys %choices) {
        my ($status, undef, $errors) =
            meshwright("plan $folder/tiny.json $choices{$name} $work -o $folder/$name.json");
        die $errors if $status;
    }
    my $stayed = losses('one', 2, "--checkpoint $folder/wide --checkpoint-every 1 --keep 9");
    my ($status, $out, $errors) = meshwright(
        "reshard $folder/wide/step-00000001 --to $folder/many.json -o $folder/many");
    my @files = glob "$folder/many/step-00000001/rank-*.safetensors";
    my $bytes = 0;
    $bytes += -s for @files;
    check('64 ranks share what one had', $status == 0 && @files == 64, $errors);
    my $kib = 20_000;
    check('which is more than twice of what the next may hold', $bytes > 2 * 1024 * $kib, $bytes);
    # A sanitizer's own memory is more than that.
    my $limit = system("grep -q __asan_init $build/meshwright") == 0 ? 'unlimited' : $kib;
    my $words = "reshard $folder/many --to $folder/served.json --weights-only -o $folder/served";
    $out = `sh -c 'ulimit -d $limit; exec $build/meshwright $words' 2>&1`;
    check('two ranks get it, by a process that never has it whole', $? == 0 && $out
          =~ /of 64 ranks to 2, \S+ MiB of them to another rank, .+ to read and write/, $out);
    meshwright("reshard $folder/$_->[0] --to $folder/one.json --weights-only -o $folder/$_->[1]")
        for ['wide/step-00000001', 'before'], ['served', 'behind'];
    my @weights = map { text_of("$folder/$_/step-00000001/rank-00000.safetensors") }
        'before', 'behind';
    check('the weights are the same to the bit', length $weights[0] > 1e7
          && $weights[0] eq $weights[1]);
    my $there = losses('served', 2, "--checkpoint $folder/served --resume --checkpoint-every 9");
    check('and give the loss of the run', abs(($there->[0] // 9) - $stayed->[1]) < 1e-12);
}

# Nor does it keep the pages that it has read: of a checkpoint of 230 MB in two files less than half
# is ever in memory.
{
    my $place = tempdir(CLEANUP => 1);
    write_text("$folder/tiny.json", $json->encode(
        {model_type => 'gpt2', n_embd => 512, n_head => 8, n_layer => 3, n_positions => 8,
         vocab_size => 64}));
    my $work = '--precision fp32 --seq-len 8 --global-batch 2 --micro-batch 1 --stack meshwright';
    for my $case (['two', '--gpus 2 --dp 2 --zero 1'], ['halves', '--gpus 2 --tp 2']) {
        my ($status, undef, $errors) = meshwright("plan $folder/tiny.json dgx-a100-80g $work",
                                                  "$case->[1] -o $folder/$case->[0].json");
        die $errors if $status;
    }
    losses('two', 1, "--checkpoint $place/large --checkpoint-every 1");
    my $bytes = 0;
    $bytes += -s for glob "$place/large/step-00000001/rank-*.safetensors";
    my ($job, $peak_kib) = (fork // die, 0);
    if (!$job) {
        open STDOUT, '>', "$folder/out" or die;
        exec "$build/meshwright", 'reshard', "$place/large", '--to', "$folder/halves.json", '-o',
            "$place/cut" or die;
    }
    while (waitpid($job, 1) == 0) {
        my ($kib) = text_of("/proc/$job/status") =~ /^VmHWM:\s+(\d+) kB/m;
        $peak_kib = $kib if ($kib // 0) > $peak_kib;
        select undef, undef, undef, 0.002;
    }
    my $ended = $?;
    my $has_own = system("grep -q __asan_init $build/meshwright") == 0;
    check('a large one is cut', $ended == 0 && $bytes > 2e8 && $peak_kib > 1000,
          "$ended $bytes $peak_kib");
    check('with little of it in memory', $has_own || 1024 * $peak_kib < $bytes / 2,
          "$peak_kib KiB of $bytes bytes");
}

# What is refused.
sub refused {
    my ($name, $wanted, $pattern, $words) = @_;
    my ($status, $out, $errors) = meshwright("reshard $words");
    check($name, $status == $wanted && $out eq ''
          && $errors =~ /^meshwright reshard: $pattern\n\z/m, "$status $out$errors");
}
refused('no plan', 2, 'missing --to PLAN', "$folder/ck -o $folder/x");
refused('no output', 2, 'missing -o DIR', "$folder/ck --to $folder/pp4.json");
refused('no checkpoint', 3, "\Q$folder\E/none/checkpoint.json: No such file or directory",
        "$folder/none --to $folder/pp4.json -o $folder/x");
write_text("$folder/tiny.json", $json->encode(
    {model_type => 'gpt2', n_embd => 32, n_head => 4, n_layer => 4, n_positions => 32,
     vocab_size => 200}));
plan('other', '--gpus 4 --tp 4');
refused('another model', 3, '\S+: weight of \S+ has 0 of the \d+ elements wanted',
        "$folder/ck --to $folder/other.json -o $folder/x");
my $path = "$folder/ck/step-00000002/rank-00001.safetensors";
my $text = text_of($path);
substr($text, -100, 1) = chr(ord(substr $text, -100, 1) ^ 1);
write_text($path, $text);
refused('a damaged one', 3, "\Q$path\E: \\S+ of \\S+ is damaged",
        "$folder/ck --to $folder/pp4.json -o $folder/x");
check('nothing is written of what is refused', !-e "$folder/x" || !glob "$folder/x/*");
checked();
