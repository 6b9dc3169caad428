#!/usr/bin/perl
# The script that `measure-next` writes runs from end to end against a stand-in for PyTorch that
# checks shapes, and `plan --kernels` takes the table that it leaves.
use strict;
use warnings;
use Cwd 'abs_path';
use File::Temp 'tempdir';
use JSON::PP;
use lib 'tests';
use Schema;
use Script;

my $build  = abs_path($ENV{BUILD} // 'build');
my $folder = tempdir(CLEANUP => 1);
$ENV{NO_COLOR} = 1;

sub meshwright { return answer_of("$build/meshwright", @_) }

if (system('python3 -c "" 2>/dev/null') != 0) {
    print "1..0 # SKIP no python3\n";
    exit 0;
}

# All is pinned that shapes hang on: a search would go where no kernel of the stand-in's time is.
my $asked = 'llama-3-8b dgx-h100 --nodes 2 --stack megatron --seq-len 4096 --global-batch 64 '
    . '--tp 2 --sp on --cp 1 --pp 1 --micro-batch 1 --recompute none';
my ($status, $out, $errors) =
    meshwright("measure-next $asked --count 8 -o $folder/measure.py --json");
my $answer = eval { JSON::PP->new->decode($out) } // {};
my $schema = Schema::from_file('reports/schema/measure-next.schema.json');
my $breach = Schema::breach($answer, $schema, '$');
check('measure-next answers as its schema says', $status == 0 && $breach eq '', "$errors$breach");
my @names = map { $_->{name} } @{$answer->{measure} // []};
check('products are among what it names', scalar(grep { $_ eq 'products' } @names), "@names");

# Sixteen ranks of two nodes, of which this is the first; times are the stand-in's.
my $script = text_of("$folder/measure.py");
$script =~ s/least_s=0.3/least_s=0.001/ or die 'no least time to shorten';
write_text("$folder/measure.py", $script);
my $stub = abs_path('tests/data/torch_stub');
$ENV{PYTHONDONTWRITEBYTECODE} = 1;
my $ran = `cd $folder && PYTHONPATH=$stub WORLD_SIZE=16 python3 measure.py 2>&1`;
check('the script runs to its end', $? == 0 && $ran =~ /^wrote measured-kernels.json/m, $ran);
my ($planned, $table, $said) = meshwright(
    "plan $asked --kernels $folder/measured-kernels.json -o $folder/plan.json");
check('plan takes the kernels that it measured', $planned == 0, $said);
my $use = eval { JSON::PP->new->decode(text_of("$folder/plan.json"))->{provenance}{kernels} } // {};
check('and prices products by them', ($use->{row_count} // 0) > 5, JSON::PP->new->encode($use));
checked();
