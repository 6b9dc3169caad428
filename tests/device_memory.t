#!/usr/bin/perl
# Memory of a device that is said: the planner plans for it, a run is held to it. A model that needs
# four times as much runs with its states, parameters and activations off the device, and its losses
# are equal to the bit.
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

write_text("$folder/deep.json", $json->encode({model_type => 'gpt2', n_embd => 64, n_head => 4,
    n_layer => 24, n_positions => 32, vocab_size => 256}));
my @asked = ('--precision fp32 --seq-len 32 --global-batch 2 --micro-batch 2 --gpus 1 --tp 1',
             '--pp 1 --dp 1 --zero 0 --recompute none --clip off --bucket-bytes 262144',
             '--stack meshwright --force');

sub plan_of {
    my ($name, @more) = @_;
    my ($status, $out, $errors) = answer_of("$build/meshwright", 'plan', "$folder/deep.json",
        'dgx-a100-80g', @asked, @more, '-o', "$folder/$name.json", '--json');
    return {status => $status, out => $out, errors => $errors};
}

sub run_of {
    my ($name, @more) = @_;
    my ($status, $out, $errors) = answer_of("$build/meshwright", 'run', "$folder/$name.json",
        '--steps 3 --spawn --backend cpu --json', @more);
    my @lines = grep { /^meshwright run:/ && !/: cpu on |: predicted for / } split /\n/, $errors;
    return {status => $status, lines => \@lines, errors => $errors,
            answer => $status ? undef : $json->decode($out)};
}

# Losses of a run as they were printed, all of their digits.
sub losses {
    my ($run) = @_;
    return join ' ', map { sprintf '%.17g', $_ } @{ $run->{answer}{loss} // [] };
}

my @away = ('--offload', 'optimizer,parameters,activations', '--overlap none');
check('what stays on the device is planned', !plan_of('here')->{status});
check('what leaves it is planned', !plan_of('away', @away)->{status});
check('what goes below it is planned',
      !plan_of('below', '--offload optimizer@nvme,parameters@nvme,activations@nvme --overlap none')
          ->{status});

check('what leaves it of some layers is planned',
      !plan_of('some', '--offload optimizer:20,parameters:16,activations --overlap none')
          ->{status});

my $plenty = '--device-memory 1000000000';
my $whole  = run_of('here', $plenty);
check('a run with memory to spare says what it took', $whole->{status} == 0
      && $whole->{answer}{device_memory}{limit_bytes} == 1e9
      && $whole->{answer}{device_memory}{peak_bytes} >= $whole->{answer}{peak_bytes},
      $whole->{errors});
check('a run without a limit says nothing of it',
      !exists run_of('here')->{answer}{device_memory});
my $need    = $whole->{answer}{device_memory}{peak_bytes};
my $quarter = int($need / 4);

for (['away', 4], ['below', 4], ['some', 2]) {
    my ($name, $part) = @$_;
    my $limit = int($need / $part);
    my $run = run_of($name, "--device-memory $limit --nvme", $folder);
    check("$name runs in a part in $part of the $need bytes it needs", $run->{status} == 0,
          $run->{errors}) or next;
    my $answer = $run->{answer};
    check("$name stays below the limit", $answer->{device_memory}{peak_bytes} <= $limit);
    check("$name has equal losses to the bit", losses($run) eq losses($whole), losses($run));
    my @others = grep { !$_->{matches} } @{ $answer->{tasks} };
    check("$name moves what was planned", !@others, $json->encode(\@others));
    for my $pair (['peak_bytes', 'predicted_peak_bytes'],
                  ['host_peak_bytes', 'predicted_host_peak_bytes'],
                  ['nvme_bytes', 'predicted_nvme_bytes']) {
        my ($held, $planned) = ($answer->{$pair->[0]}, $answer->{compare}{$pair->[1]});
        check("$name holds the $pair->[0] of its plan", abs($held - $planned) <= 0.02 * $planned,
              "$held, $planned");
    }
}

# Drives fail: every sixteenth read and write of theirs does, of parameters and of states, and every
# 40th where few cases are wanted. One line says so, and the folder is left as it was.
my $apart = $ENV{MESHWRIGHT_CASES} ? 40 : 16;
my $drive = "$folder/drive";
mkdir $drive;
my @short = ('run', "$folder/below.json", '--backend', 'cpu', '--steps', 1, '--nvme', $drive, '-o',
             "$folder/short.json", '--force');
sub faulted {
    my ($call, $number) = @_;
    my $status = run_into({1 => "$folder/out", 2 => "$folder/err", 3 => "$folder/calls"},
                          "$build/tests/io_fail", $call, $number, "$build/meshwright", @short);
    my @lines = grep { /^meshwright run:/ && !/: cpu on |: predicted for / }
        split /\n/, text_of("$folder/err");
    return ($status, text_of("$folder/calls"), @lines);
}
if ((faulted('read', 1))[0] eq '77') {
    skipped('faults of drives', 'the kernel does not notify of system calls');
} else {
    for (['read', 'reading', 'Input/output error'],
         ['write', 'writing', 'No space left on device']) {
        my ($call, $doing, $why) = @$_;
        my ($most) = (faulted($call, 1e6))[1] =~ /(\d+) calls/;
        my ($drives, $fetches, $wrong) = (0, 0, '');
        for (my $number = $most; $number > 0; $number -= $apart) {
            my ($status, $path, @lines) = faulted($call, $number);
            next if $path !~ /\Q$drive\E/;
            $drives++;
            $fetches += grep { /fetch parameters: / } @lines;
            $wrong .= "$call $number: $status: @lines\n" if $status ne '4' || @lines != 1
                || $lines[0] !~ /$doing a file in \Q$drive\E: $why$/ || glob("$drive/*");
        }
        check("$drives of the drive's ${call}s fail with one line", $drives > 1 && !$wrong, $wrong);
        check('those of parameters among them', $fetches > 0) if $call eq 'read';
    }
}

# What `memory` prints of a plan is enough for its run, and more by what aligns weights alone,
# however small the model: rooms of kernels and messages are of what a stack reserves. The plan's
# own peak is no less.
for (['rope', 'llama', 1, ''], ['pair', 'llama', 2, '--tp 2'], ['shards', 'gpt2', 2, '--zero 3'],
     ['stages', 'gpt2', 2, '--pp 2'], ['moved', 'gpt2', 1, '--offload optimizer,gradients']) {
    my ($name, $type, $ranks, @split) = @$_;
    my %sizes = $type eq 'gpt2' ? (n_embd => 32, n_head => 4, n_layer => 6, n_positions => 32)
        : (hidden_size => 32, num_attention_heads => 4, num_hidden_layers => 4,
           rms_norm_eps => 1e-5, intermediate_size => 96, max_position_embeddings => 32);
    write_text("$folder/tiny.json",
               $json->encode({model_type => $type, vocab_size => 128, %sizes}));
    my ($status, $out, $errors) = answer_of("$build/meshwright", 'plan', "$folder/tiny.json",
        'dgx-a100-80g --stack meshwright --precision fp32 --force --seq-len 32 --global-batch 4',
        '--micro-batch 1 --recompute none', "--gpus $ranks", @split, '-o', "$folder/$name.json",
        '--json');
    check("$name is planned", $status == 0, $errors) or next;
    my $said = $json->decode($out)->{memory}{peak_bytes};
    (undef, $out) = answer_of("$build/meshwright", 'memory', "$folder/$name.json");
    my ($bytes) = sort { $b <=> $a } $out =~ /; (\d+) bytes with what stays/g;
    my $run = run_of($name, "--device-memory $bytes");
    my $taken = $run->{answer}{device_memory}{peak_bytes} // 0;
    check("$name takes what memory says", $run->{status} == 0 && $taken <= $bytes
          && $bytes - $taken <= 0.002 * $bytes && $bytes <= $said,
          "$said $bytes $taken $run->{errors}");
    my $less = run_of($name, '--device-memory', $taken - 1);
    check("a byte less is too little for $name", $less->{status} == 4, $less->{errors});
}

my $refusal = qr/: a step does not fit into the \d+ bytes of device memory: (\d+) are/;
# What is quick to find does not fit where the least does: a run makes that by itself.
my $loose = run_of('away', $plenty)->{answer}{device_memory}{peak_bytes};
my $made  = run_of('away', '--device-memory', $loose - 1);
check('a run makes the schedule that fits', $made->{status} == 0 && losses($made) eq losses($whole)
      && $made->{answer}{device_memory}{peak_bytes} < $loose, $made->{errors});
# The limit is one: to the byte, and with one line where it is too low.
my $held = $made->{answer}{device_memory}{peak_bytes};
check('what a run takes is enough', run_of('away', "--device-memory $held")->{status} == 0);
for my $of (['away', $held - 1], ['here', $quarter], ['here', 1]) {
    my ($name, $bytes) = @$of;
    my $run = run_of($name, "--device-memory $bytes");
    check("$name in $bytes bytes fails with one line", $run->{status} == 4
          && @{ $run->{lines} } == 1 && $run->{lines}[0] =~ $refusal,
          $run->{errors});
    my ($least) = ($run->{lines}[0] // '') =~ $refusal;
    check("$name in $bytes bytes says how many would do", $name ne 'away' || $least == $held,
          $run->{errors});
    check("which do, and no fewer, for $name in $bytes bytes",
          !run_of($name, '--device-memory', $least)->{status}
          && run_of($name, '--device-memory', $least - 1)->{status} == 4);
}

# A plan for less memory is asked for as plainly: what has to leave the device leaves it. The stack
# keeps 1.5 GB for its libraries; the model needs 26 MB, or a quarter.
sub asked_plainly {
    my ($name, @more) = @_;
    my ($status, $out, $errors) = answer_of("$build/meshwright", 'plan', "$folder/deep.json",
        'dgx-a100-80g --precision fp32 --seq-len 32 --global-batch 2 --micro-batch 2 --gpus 1',
        '--recompute none --stack meshwright --force', @more, '-o', "$folder/$name.json", '--json');
    my $plan = $status ? undef : $json->decode($out);
    my ($note) = $errors =~ /^note: (nothing fits .*)/m;
    return {status => $status, errors => $errors, note => $note // '', memory => $plan->{memory},
            offload => $plan->{parallel}{offload} // 'none'};
}

my $plain = asked_plainly('plain', '--device-memory 2000000000');
check('what fits moves nothing', !$plain->{status} && $plain->{offload} eq 'none'
      && $plain->{note} eq '', $plain->{errors});
my $reserve = $plain->{memory}{reserve_bytes};
my $most    = $plain->{memory}{peak_bytes};
my $less    = asked_plainly('less', '--device-memory', int($reserve + $most * 9 / 10));
check('nine tenths of it keep the parameters, and say so', !$less->{status}
      && $less->{offload} ne 'none' && $less->{offload} !~ /parameters/
      && $less->{note} =~ /searched with --offload auto$/, $less->{errors});
my $least = asked_plainly('least', '--device-memory', int($reserve + $most / 2));
check('less moves parameters, and says so', !$least->{status}
      && $least->{offload} =~ /parameters/
      && $least->{note} =~ /searched with --offload auto, parameters on the host/,
      $least->{errors});
my $auto = asked_plainly('auto', '--offload auto --device-memory', int($reserve + $most / 2));
check('auto finds the same', !$auto->{status} && $auto->{offload} eq $least->{offload},
      $auto->{errors});
my $kept = asked_plainly('kept', '--offload none --device-memory', int($reserve + $most / 2));
check('what is pinned stays', $kept->{status} == 1 && $kept->{note} eq ''
      && $kept->{errors} =~ /nothing fits: the closest plan \(tp1 pp1 dp1 mb\d z0\)/,
      $kept->{errors});
if (!$least->{status}) {
    my $run  = run_of('least', '--device-memory', $least->{memory}{peak_bytes});
    my $same = run_of('plain');
    check('and runs in what is planned beside the reserve', $run->{status} == 0
          && losses($run) eq losses($same), $run->{errors});
}

# With a norm to clip at and several micro-batches gradients leave as well.
sub summed {
    my ($name, @more) = @_;
    my ($status, $out, $errors) = answer_of("$build/meshwright", 'plan', "$folder/deep.json",
        'dgx-a100-80g --seq-len 32 --global-batch 8 --micro-batch 2 --precision fp32',
        '--recompute none --stack meshwright --bucket-bytes 262144 --force',
        @more, '-o', "$folder/$name.json", '--json');
    my $plan = $status ? undef : $json->decode($out);
    my ($note) = $errors =~ /^note: (nothing fits .*)/m;
    return {status => $status, errors => $errors, note => $note // '', memory => $plan->{memory},
            offload => $plan->{parallel}{offload} // 'none'};
}
my $sum     = summed('sum', '--gpus 1');
my $tenth   = int($sum->{memory}{peak_bytes} / 10);
my $outside = summed('outside', '--gpus 1 --device-memory', $reserve + $tenth);
check('a tenth takes gradients on the host, and says so', !$outside->{status}
      && $outside->{offload} =~ /gradients/
      && $outside->{memory}{reserved_bytes} <= $reserve + $tenth
      && index($outside->{note}, 'parameters and gradients on the host') >= 0,
      "$tenth: $outside->{offload}, $outside->{note} $outside->{errors}");
if (!$outside->{status}) {
    my $run  = run_of('outside', '--device-memory', $outside->{memory}{peak_bytes} + 200000);
    my $same = run_of('sum');
    check('gradients come and go as planned', $run->{status} == 0
          && losses($run) eq losses($same)
          && (grep { $_->{kind} eq 'gradients from the host' && $_->{bytes} > 0 }
              @{ $run->{answer}{tasks} })
          && !(grep { !$_->{matches} } @{ $run->{answer}{tasks} }), $run->{errors});
}
for (['gradients --gpus 1', qr/--offload optimizer,gradients would run/],
     ['optimizer,gradients --zero 2 --dp 2 --tp 1 --pp 1', qr/--zero may be 0, 1/],
     ['optimizer,gradients --pp 2 --dp 1 --tp 1', qr/--pp may be 1/],
     ['optimizer,gradients@nvme --gpus 1', qr/--offload: "optimizer,gradients\@nvme" is neither/]) {
    my ($words, $why) = @$_;
    my $refused = summed('refused', "--offload $words");
    my $is_said = $refused->{errors} =~ $why;
    check("--offload $words is refused in one line", $refused->{status} == 2 && $is_said,
          $refused->{errors});
}

# The planner has as much as it is told.
my $told = plan_of('told', @away, '--device-memory 2000000000');
check('the plan holds the memory it was made for', !$told->{status}
      && $json->decode($told->{out})->{cluster}{nodes}[0]{device}{memory_bytes} == 2e9,
      $told->{errors});
my $small = plan_of('small', '--device-memory 1000000');
check('what does not fit is said', $small->{status} == 1, $small->{errors});
for my $bytes ('0', '-1', 'much') {
    for my $command ("plan $folder/deep.json dgx-a100-80g", "run $folder/here.json") {
        my ($status, undef, $errors) =
            answer_of("$build/meshwright", $command, "--device-memory $bytes");
        check("$command --device-memory $bytes is no size", $status == 2
              && $errors =~ /--device-memory/, $errors);
    }
}
checked();
