#!/usr/bin/perl
# `meshwright whatif` from the command line: the same bytes whatever the workers, a row for a row
# what `plan` answers, CSV and JSON with the same numbers, JSON as its schema says, whole pictures.
use strict;
use warnings;
use File::Temp 'tempdir';
use JSON::PP;
use lib 'tests';
use Schema;
use Script qw(check checked text_of);

my $build  = $ENV{BUILD} // 'build';
my $folder = tempdir(CLEANUP => 1);
my $json   = JSON::PP->new;
$ENV{NO_COLOR} = 1;
delete $ENV{COLUMNS};

sub meshwright {
    my ($words) = @_;
    my $out = `$build/meshwright $words 2>$folder/stderr`;
    return ($? >> 8, $out);
}

# Equal but for the last bits of what was added up in another order.
sub is_near { return abs($_[0] - $_[1]) <= 1e-12 * abs $_[1] }

my $work = '--seq-len 2048 --global-batch 64 --tokens 20e9 --stack meshwright';
my $ask  = "whatif llama-2-7b dgx-a100-80g dgx-h100 $work --gpus 1,4,8,12 --memory-factor 1,2 "
    . '--price-per-gpu-hour 2 --price-factor 1,3 --deadline 20d';

my %first;
for my $form ('', '--json', '--csv') {
    for my $workers (1, 2, 7) {
        my ($status, $out) = meshwright("$ask $form --workers $workers -o $folder/$workers");
        $first{$form} //= $out;
        $out =~ s{$folder/\d}{$folder/1}g;
        check("$workers workers: " . ($form || 'the table'), $out eq $first{$form} && !$status,
              text_of("$folder/stderr"));
    }
}
for my $name (qw(whatif.json whatif.csv pareto.svg pareto.png)) {
    my @texts = map { text_of("$folder/$_/$name") } 1, 2, 7;
    check("$name is the same",
          length $texts[0] && $texts[0] eq $texts[1] && $texts[0] eq $texts[2]);
}
check('the files are what is printed',
      text_of("$folder/1/whatif.json") eq $first{'--json'}
          && text_of("$folder/1/whatif.csv") eq $first{'--csv'});
check('the pictures are whole',
      text_of("$folder/1/pareto.svg") =~ m{^<\?xml.*</svg>\s*\z}s
          && text_of("$folder/1/pareto.png") =~ /^\x89PNG.*IEND.{4}\z/s);
my $page = text_of("$folder/1/index.html");
check('the page needs nothing else',
      $page =~ m{</html>\s*\z} && $page !~ /(?:src|href)="(?!#|data:)/ && length $page < 500_000);

my $answer    = $json->decode($first{'--json'});
my @scenarios = @{ $answer->{scenarios} };
check('32 scenarios, half of them shared',
      @scenarios == 32 && $answer->{searched_count} == 16, scalar @scenarios);

my $schema = Schema::from_file('reports/whatif.schema.json');
my $fault  = Schema::breach($answer, $schema, '$');
check('JSON is as its schema says', !$fault, $fault);

# CSV, whose fields with commas are in quotes.
my ($head, @lines) = split /\n/, $first{'--csv'};
my @keys = split /,/, $head;
my $unequal = '';
for my $i (0 .. $#lines) {
    my @cells;
    push @cells, defined $1 ? $1 : $2 while $lines[$i] =~ /\G(?:"((?:[^"]|"")*)"|([^,]*))(?:,|$)/g
        and @cells < @keys;
    $unequal ||= "$i: " . @cells . ' cells' if @cells != @keys;
    for my $k (0 .. $#keys) {
        my $wanted = $scenarios[$i]{ $keys[$k] } // next;
        $wanted = $wanted ? 'true' : 'false' if JSON::PP::is_bool($wanted);
        my $same = $wanted =~ /^[\d.e+-]+$/ ? $cells[$k] == $wanted : $cells[$k] eq $wanted;
        $unequal ||= "$i: $keys[$k]: $cells[$k], $wanted" if !$same;
    }
}
check('CSV has the same numbers', @lines == 32 && !$unequal, $unequal);

# The oracle: every scenario whose cluster a file describes, by `plan` itself.
my ($wrong, $asked, $none) = ('', 0, 0);
for my $scenario (grep { $_->{memory_factor} == 1 && $_->{price_factor} == 1 } @scenarios) {
    my $size = "--nodes $scenario->{nodes} --gpus $scenario->{gpus}";
    my ($status, $out) = meshwright("plan llama-2-7b $scenario->{cluster} $size $work --json "
                                    . "-o $folder/plan.json");
    $asked++;
    $none += $status == 1;
    $wrong ||= "$size: status $status, $scenario->{status}"
        if ($status ? $scenario->{status} eq 'fits' : $scenario->{status} ne 'fits');
    next if $status;
    my $prediction = $json->decode($out)->{prediction};
    my $goodput    = $prediction->{reliability};
    $wrong ||= "$size: step_s $prediction->{step_s}, $scenario->{step_s}"
        if $prediction->{step_s} != $scenario->{step_s};
    $wrong ||= "$size: time_s $goodput->{expected_s}, $scenario->{time_s}"
        if !is_near($goodput->{expected_s}, $scenario->{time_s});
    $wrong ||= "$size: money" if !is_near($goodput->{gpu_hours} * 2, $scenario->{money});
}
check('every scenario is what plan says',
      $asked == 8 && $none > 0 && !$wrong, "$asked $none $wrong");

# And the question: the cheapest of those in time.
my @in_time = grep { $_->{status} eq 'fits' && $_->{time_s} <= 20 * 86400 } @scenarios;
my ($cheapest) = sort { $a->{money} <=> $b->{money} } @in_time;
check('the answer is the cheapest in time',
      @in_time > 2 && $scenarios[$answer->{answer}]{money} == $cheapest->{money});

# Where credits pay for all of it, its picture is drawn all the same: of nothing, or next to it.
for my $batch ('16', '16,32') {
    my $file = "$folder/credits/pareto.svg";
    unlink $file;
    my ($status) = meshwright('whatif bloom-560m --offers rental-2024 --seq-len 512 '
                              . "--global-batch $batch -o $folder/credits");
    my $rows = $json->decode(text_of("$folder/credits/whatif.json"))->{scenarios};
    my $free = grep { ($_->{money} // 1) == 0 } @$rows;
    check("what credits pay for has a picture (batch $batch)",
          !$status && $free > 0 && text_of($file) =~ m{</svg>\s*\z}, text_of("$folder/stderr"));
}

# A run that never ends is no answer, and no number, in any form.
my $endless = 'whatif gpt2 dgx-a100-40g --gpus 8 --seq-len 512 --global-batch 16 '
    . '--checkpoint-bandwidth 1';
for my $form ('', '--json', '--csv', '--deadline 30d', '--tokens 1T', "-o $folder/endless") {
    my ($status, $out) = meshwright("$endless $form");
    check("a run that never ends is not possible ($form)",
          $status == 1 && $out =~ /impossible/ && $out =~ /the run never ends/
              && $out !~ /\b-?(?:inf|nan)\b/, "$status $out " . text_of("$folder/stderr"));
}
# The page: what is asked stands first, the deadline is drawn, points are named and of the colour of
# their cluster, and prices and the command are there.
{
    my $command = "whatif llama-3-8b dgx-h100 dgx-a100-80g --gpus 16,32 $work --deadline 30d "
        . "--price-per-gpu-hour 2.5 -o $folder/asked";
    my ($status) = meshwright($command);
    (my $asked = text_of("$folder/asked/index.html")) =~ s/\xc2\xa0/ /g;
    my ($heads) = $asked =~ m{<section id="scenarios".*?<thead[^>]*>(.*?)</thead>}s;
    my @heads = ($heads // '') =~ m{<th[^>]*>([^<]*)</th>}g;
    check('answers lead the table', "@heads[0 .. 4]" eq '# scenario time USD in time', "@heads");
    check('the deadline is drawn', $asked =~ m{<li><i class="b6 line dashed"></i>the deadline</li>}
        && $asked =~ m{<path class="s6 dashed" d="M});
    my @named = $asked =~ m{<text class="label[^>]*>((?:16|32) GPUs)</text>}g;
    check('points have names', @named >= 2, "@named");
    check('clusters have colours',
        2 == (() = $asked =~ m{<li><i class="b[01]"></i>dgx-(?:h100|a100-80g)</li>}g));
    check('the price is among the inputs', $asked =~ m{2\.5 USD a});
    $asked =~ s/<[^>]*>//g;
    check('and the command', index($asked, "meshwright $command") > 0);
}

checked();
