#!/usr/bin/perl
# tests/gpu/run.sh where there is no GPU: what it says then, its table and its result with the
# emulated back end, whose stages end as they do on a device; and the results that are committed.
use strict;
use warnings;
use File::Temp 'tempdir';
use JSON::PP;
use lib 'tests';
use Schema;
use Script;

my $build  = $ENV{BUILD} // 'build';
my $folder = tempdir(CLEANUP => 1);
my $json   = JSON::PP->new;
my $schema = $json->decode(text_of('executor/results/result.schema.json'));
delete $ENV{MESHWRIGHT_GPU_EMULATED};

# Status, stdout, stderr and what was written.
sub run {
    my ($before, @words) = @_;
    unlink "$folder/result.json";
    return (answer_of($before, "tests/gpu/run.sh @words $build $folder/result.json"),
        text_of("$folder/result.json"));
}

sub stages_of {
    my ($text) = @_;
    my $result = eval { $json->decode($text) } // {};
    return map { $_->{name} => $_ } @{ $result->{stages} // [] };
}
my $emulated = 'MESHWRIGHT_GPU_EMULATED=1';

# The result is whole and of its schema.
my $some = 'first_look,one_gpu_bf16,gpt2_124m,memcheck,replay';
my ($status, $out, $errors, $text) = run($emulated, "--stages $some");
my %stage = stages_of($text);
check('some stages pass in the emulation', $status == 0, "$status $out $errors");
my $breach = Schema::breach($json->decode($text || '{}'), $schema, '$');
check('the result is of its schema', $breach eq '', "$breach\n$text");
check('it has the stages that were asked for, by their worth',
      join(',', map { $_->{name} } @{ $json->decode($text || '{}')->{stages} // [] })
          eq $some, $text);
check('and says that it is no measurement', $json->decode($text || '{}')->{emulated}, $text);
check('kernels near the CPU are a pass with its cases', $stage{first_look}{status} eq 'pass'
      && @{ $stage{first_look}{values}{cases} } > 5, $text);
check('losses of both back ends are kept', @{ $stage{one_gpu_bf16}{values}{losses} } == 4
      && @{ $stage{one_gpu_bf16}{values}{cpu_losses} } == 4, $text);
check('tokens a second are those of the step', $stage{gpt2_124m}{values}{tokens_per_s} > 0
      && abs($stage{gpt2_124m}{values}{tokens_per_s} * $stage{gpt2_124m}{values}{step_s} / 128 - 1)
          < 1e-4, $text);
check('a row a stage, aligned', $out =~ /^stage +result +measured +goal/
      && 5 == (() = $out =~ /^(?:[fg]\w+_\w+|one_gpu_bf16|memcheck|replay) +(?:pass|skipped) /mg),
      $out);

# What was calibrated for is what is run.
($status, $out, $errors, $text) = run($emulated, '--stages calibrate,prediction');
%stage = stages_of($text);
my $of = $stage{prediction}{values} // {};
check('a plan is predicted from products that were measured for it', $status == 0
      && $of->{measured_products} > 15 && $of->{measured_products} == $of->{products}
      && $of->{predicted_step_s} > 0, "$status $text $errors");

# What fails is a row, and the others stay.
($status, $out, $errors, $text) = run("$emulated MESHWRIGHT_KEEP_CORETYPE=1 TMPDIR=$folder",
    '--stages kernels_fp32,torch_124m --seconds 0');
%stage = stages_of($text);
check('without time every stage is left out and says so', $status == 0
      && $stage{kernels_fp32}{status} eq 'skipped' && $stage{torch_124m}{reason} =~ /no time/,
      "$status $text");
mkdir "$folder/bin";
open my $broken, '>', "$folder/bin/python3" or die;
print $broken "#!/bin/sh\ncase \$1 in -c) exit 0 ;; esac\necho out of memory >&2\nexit 1\n";
close $broken;
chmod 0755, "$folder/bin/python3";
($status, $out, $errors, $text) = run("PATH=$folder/bin:\$PATH $emulated",
    '--stages torch_124m,gpt2_1558m');
%stage = stages_of($text);
check('what fails is a row that says why, and 1', $status == 1
      && $stage{torch_124m}{status} eq 'fail' && $stage{torch_124m}{reason} eq 'out of memory',
      "$status $text");
check('and what comes behind it is still run', $stage{gpt2_1558m}{status} eq 'skipped'
      && $stage{gpt2_1558m}{reason} =~ /emulation/, $text);

my @stages = split /\n/, `tests/gpu/run.sh --list`;
check('what is known within seconds comes first',
      $stages[0] =~ /^first_look +20 / && 4 == (() = grep { /^\w+check +60 / } @stages), "@stages");
($status, $out, $errors, $text) = run($emulated, '--seconds 0');
check('a call has no sanitizers', $status == 0 && $text =~ /"replay"/ && $text !~ /memcheck/,
      $text);
($status, $out, $errors, $text) = run($emulated, '--sanitizers --seconds 0');
check('the second has nothing else', $status == 0 && $text =~ /"memcheck".*"synccheck"/s
      && 4 == (() = $text =~ /"name": "\w+check"/g) && $text !~ /replay|first/, $text);

for my $wrong ('--stages nothing', '--seconds soon', '--bogus') {
    ($status, $out, $errors, $text) = run($emulated, $wrong);
    check("$wrong is one line and 2", $status == 2 && $errors =~ /\Arun.sh: [^\n]*\n\z/
          && $text eq '', "$status $errors");
}
if (-e '/dev/nvidiactl') {
    check('a device is there: nothing to be said of none # SKIP', 1);
} else {
    ($status, $out, $errors, $text) = run('');
    check('without a device nothing is written and 4', $status == 4 && $text eq ''
          && $errors =~ /cuda/ && $out eq '', "$status $out $errors");
}

# What is committed was measured, and is of the schema.
for my $path (grep { !/schema/ } glob 'executor/results/*.json') {
    my $result = eval { $json->decode(text_of($path)) };
    $breach = $result ? Schema::breach($result, $schema, '$') : 'no JSON';
    check("$path is of its schema", $breach eq '', $breach);
    check("$path was measured", $result && !$result->{emulated});
}
my $lint = `sh -c 'command -v shellcheck'`;
my $said = $lint ? `shellcheck -x tests/gpu/*.sh 2>&1` : '';
check('the scripts have no faults that shellcheck knows' . ($lint ? '' : ' # SKIP not installed'),
      $said eq '', $said);
checked();
