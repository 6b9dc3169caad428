#!/usr/bin/perl
# Training on files: the same data, rates, losses and held-out losses under every plan; what is
# recorded of each step, read back by other code; what is refused.
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
$ENV{NO_COLOR} = 1;
delete $ENV{COLUMNS};

sub meshwright { return answer_of("$build/meshwright", @_) }

my %gpt2 = (model_type => 'gpt2', n_embd => 32, n_head => 4, n_layer => 4, n_positions => 32,
            vocab_size => 256);
write_text("$folder/tiny.json", $json->encode(\%gpt2));
write_text("$folder/narrow.json", $json->encode({%gpt2, vocab_size => 100}));
my $work = 'dgx-a100-80g --precision fp32 --seq-len 32 --global-batch 8 --micro-batch 1 '
    . '--stack meshwright';
my ($status, $out, $errors) = meshwright("tokenize executor/data/alice.txt -o $folder/a.tokens");
die $errors if $status;

my $plan_count = 0;
sub plan {
    my ($model, $choices) = @_;
    my $path    = "$folder/plan" . ++$plan_count . '.json';
    my @planned = meshwright("plan $folder/$model.json $work $choices -o $path");
    die "plan $choices: $planned[2]" if $planned[0];
    return $path;
}

# The lines of --metrics.
sub lines_of {
    return [map { $json->decode($_) } split /\n/, text_of($_[0])];
}

my $options = "--backend cpu-fp64 --steps 4 --data $folder/a.tokens --validate-every 2 "
    . '--validate-batches 2 --learning-rate 1e-2 --warmup 2 --learning-rate-decay linear';
my $schema = $json->decode(text_of('reports/schema/metrics.schema.json'));
my $first;
for my $choices ('--gpus 1', '--gpus 2 --dp 2 --zero 3', '--gpus 4 --tp 2 --pp 2 --schedule 1f1b',
                 '--gpus 2 --cp 2',
                 '--gpus 4 --dp 2 --pp 2 --vpp 2 --schedule interleaved --zero 1 '
                     . '--recompute full') {
    my $plan = plan('tiny', $choices);
    ($status, $out, $errors) = meshwright("run $plan --spawn $options --poison",
                                          "--metrics $folder/m.jsonl");
    check("$choices: ends well", $status == 0, $errors);
    my $lines = lines_of("$folder/m.jsonl");
    if (!$first) {
        $first = $lines;
        my @faults = grep { $_ ne '' } map { Schema::breach($_, $schema, '$') } @$lines;
        check('every line is as the schema says', @$lines == 4 && !@faults, "@faults");
        check('the rates are those worked by hand', 4 == grep {
            abs($lines->[$_]{learning_rate} - (0.005, 0.01, 0.005, 0)[$_]) < 1e-15 } 0 .. 3);
        check('held-out losses are where they are asked for',
              '0 1 0 1' eq join ' ', map { defined $_->{validation_loss} ? 1 : 0 } @$lines);
        check('a line for people, too', $out =~ m{^step    2  held out: loss \d\.\d{4}$}m
              && 4 == (() = $out =~ m{^step +\d  loss \d\.\d{4}  norm \S+  rate .*, predicted}mg),
              $out);
        next;
    }
    my @apart;
    for my $i (0 .. 3) {
        for my $key ('loss', 'validation_loss', 'learning_rate', 'gradient_norm') {
            my ($wanted, $found) = map { $_->[$i]{$key} // 0 } $first, $lines;
            push @apart, "step $i: $key $found, not $wanted"
                if abs($found - $wanted) > 1e-9 * (1 + abs $wanted);
        }
    }
    check("$choices: losses are those of one rank", !@apart, join "\n", @apart);
}

# Dropout is for training alone: without a step between, two validations are one.
my $still = plan('tiny', '--gpus 1');
($status, $out, $errors) = meshwright("run $still --backend cpu --steps 2 --data $folder/a.tokens",
    "--validate-every 1 --learning-rate 0 --metrics $folder/s.jsonl");
my $lines = lines_of("$folder/s.jsonl");
check('what does not learn validates alike',
      $lines->[0]{validation_loss} == $lines->[1]{validation_loss}, $errors);

# Events, by code of its own: records with their sums, and what is in them.
my @table = map {
    my $c = $_;
    $c = ($c & 1 ? 0x82f63b78 : 0) ^ ($c >> 1) for 1 .. 8;
    $c;
} 0 .. 255;
sub masked {
    my $crc = 0xffffffff;
    $crc = ($crc >> 8) ^ $table[($crc ^ $_) & 0xff] for unpack 'C*', $_[0];
    $crc ^= 0xffffffff;
    return ((($crc >> 15) | (($crc << 17) & 0xffffffff)) + 0xa282ead8) & 0xffffffff;
}
check('the sum is CRC-32C', do { my $c = 0xffffffff;
    $c = ($c >> 8) ^ $table[($c ^ $_) & 0xff] for unpack 'C*', '123456789';
    ($c ^ 0xffffffff) == 0xe3069283 });
($status, $out, $errors) =
    meshwright("run $still --backend cpu --steps 3 --data $folder/a.tokens --tensorboard",
               "$folder/board --metrics $folder/e.jsonl");
my ($events) = glob "$folder/board/events.out.tfevents.*";
open my $file, '<:raw', $events or die "no events: $errors";
my $bytes = do { local $/; <$file> };
my (@records, $faults);
for (my $at = 0; $at < length $bytes;) {
    my ($length, $sum) = unpack "x$at Q< L<", $bytes;
    my $data = substr $bytes, $at + 12, $length;
    my $behind = unpack 'L<', substr $bytes, $at + 12 + $length, 4;
    $faults += $sum != masked(pack 'Q<', $length) || $behind != masked($data);
    push @records, $data;
    $at += 16 + $length;
}
check('every record has its sums', @records == 4 && !$faults, scalar @records);
check('the first says what it is', $records[0] =~ /^\x09.{8}\x1a\x0dbrain\.Event:2$/s);
my $recorded = lines_of("$folder/e.jsonl");
for my $i (1 .. 3) {
    my ($step, $number) = $records[$i] =~ /^\x09.{8}\x10(.)\x2a.\x0a.\x0a\x04loss\x15(.{4})/s;
    check("event $i is step $i with its loss", defined $number && ord $step == $i
          && abs(unpack('f<', $number) - $recorded->[$i - 1]{loss}) < 1e-5);
}

# A norm out of line: the first steps fix the rule. NaN of a rate past all bounds is left out.
($status, $out, $errors) = meshwright("run $still --backend cpu --steps 8 --data $folder/a.tokens",
    "--learning-rate 1e3 --clip 1e9 --skip-spikes 2.5 --metrics $folder/n.jsonl");
my $skipped = grep { $_->{skipped} // '' } @{ lines_of("$folder/n.jsonl") };
my $said = () = $errors =~ /a gradient norm of \S+ is out of line: weights stay as they are$/mg;
check('each update that is left out is said', $status == 0 && $skipped == $said, $errors);

# Of a tenth of a deviation there are many: two in a row roll back. The held-out loss behind that is
# the one behind the checkpoint, to the bit, whatever the plan.
my $two = plan('tiny', '--gpus 2 --dp 2 --zero 1');
my $deep = plan('tiny', '--gpus 2 --pp 2 --schedule 1f1b');
for my $plan ($still, $two, $deep) {
    my $store = "$folder/back" . ++$plan_count;
    my @words = ("run $plan --spawn --backend cpu --data $folder/a.tokens --validate-every 1",
                 '--validate-batches 1 --skip-spikes 0.1 --roll-back 2 --learning-rate 3e-3',
                 "--checkpoint $store --checkpoint-every 4");
    ($status, $out, $errors) = meshwright(@words, "--steps 60 --metrics $folder/b.jsonl");
    my $lines = lines_of("$folder/b.jsonl");
    my @back;
    push @back, [$1, $2, $3, $4] while $errors =~ m{^meshwright\ run:\ steps\ (\d+)\ to\ (\d+)\ were
        \ spikes:\ weights\ and\ moments\ are\ again\ those\ of\ the\ checkpoint\ of\ step\ (\d+),
        \ and\ the\ data\ go\ on\ with\ step\ (\d+)$}mgx;
    my @wrong = grep {
        my ($first, $last, $step, $next) = @$_;
        $last != $first + 1 || $next != $last + 1 || $step >= $first
            || grep { ($lines->[$_ - 1]{skipped} // '') ne 'spike' } $first, $last
            or $lines->[$last - 1]{validation_loss} != $lines->[$step - 1]{validation_loss}
    } @back;
    check('spikes in a row roll back', $status == 0 && @back && !@wrong && @$lines == 60, $errors);
}

sub refused {
    my ($name, $code, $line, @words) = @_;
    my ($status, $out, $errors) = meshwright('run', @words);
    $errors =~ s/^meshwright run: predicted for .*\n//mg;
    check($name, $status == $code && $errors eq "meshwright run: $line\n", "$status: $errors");
}
my $narrow = plan('narrow', '--gpus 2 --dp 2');
refused('a vocabulary that is too small', 3, "$folder/a.tokens: made with a vocabulary of 256, the "
        . 'model has 100', $narrow, "--spawn --data $folder/a.tokens");
refused('a file that is not there', 3, "$folder/b.tokens: No such file or directory", $still,
        "--data $folder/b.tokens");
refused('a file of something else', 3, "$folder/tiny.json: found no file of tokens, wanted one of "
        . "`meshwright tokenize`, NumPy's .npy or Megatron's .bin and .idx", $still,
        "--data $folder/tiny.json");
refused('validation without a file', 2, '--validate-every wants files: --data FILE', $still,
        '--validate-every 2');
refused('weights of some', 2, '--data: a weight for each file or for none', $still,
        "--data $folder/a.tokens=2 --data $folder/a.tokens");
refused('rolling back from nothing', 2, '--roll-back needs --skip-spikes N', $still,
        '--roll-back 2');
refused('rolling back to nothing', 2, '--roll-back needs --checkpoint DIR', $still,
        '--roll-back 2 --skip-spikes 2');
refused('two kinds of data', 2, '--data: synthetic and text stand alone', $still,
        "--data text --data $folder/a.tokens");
refused('a least rate of a constant one', 2,
        '--min-learning-rate wants --learning-rate-decay cosine, linear or wsd', $still,
        '--min-learning-rate 1e-5');
write_text("$folder/short.txt", 'x' x 40);
meshwright("tokenize $folder/short.txt -o $folder/short.tokens");
refused('a file too short to hold some out', 3, "$folder/short.tokens: found 40 tokens, wanted 68 "
        . 'for a sequence and one that is held out', $still,
        "--data $folder/short.tokens --validate-every 1");

# What has diverged is said, once.
($status, $out, $errors) = meshwright("run $still --backend cpu --steps 40 --learning-rate 1000");
check('a loss that is no number is said once', 1 == (() = $errors =~
      /^meshwright run: step \d+: the loss is no number any more: training has diverged; /mg),
      $errors);
check('and has no sign', $out =~ /^step +\d+  loss nan  norm nan  /m && $out !~ /-nan/, $out);
# Both ends of a tie exchange in every step, for more steps than there is room for groups of ranks.
write_text("$folder/short.json", $json->encode({%gpt2, n_embd => 8, n_head => 2, n_layer => 2}));
my @tied;
for my $choices ('--gpus 1', '--gpus 2 --pp 2') {
    ($status, $out, $errors) = meshwright(
        "plan $folder/short.json dgx-a100-80g --precision fp32 --seq-len 4 --global-batch 2",
        "--micro-batch 1 --stack meshwright $choices -o $folder/tied.json");
    die $errors if $status;
    ($status, $out, $errors) = meshwright(
        "run $folder/tied.json --spawn --backend cpu-fp64 --steps 150 --json");
    push @tied, $status ? [$errors] : $json->decode($out)->{loss};
}
check('tied stages train on past step 128', @{$tied[1]} == 150
      && abs($tied[0][149] - $tied[1][149]) < 1e-9, "$tied[0][-1] $tied[1][-1]");
checked();
