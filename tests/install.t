#!/usr/bin/perl
# `make install DESTDIR=...`, the tree moved elsewhere: every command finds its data and its
# plug-ins, manual pages and completions are there; `make uninstall` leaves nothing.
use strict;
use warnings;
use Cwd ();
use File::Temp 'tempdir';
use lib 'tests';
use Script;

my $build  = $ENV{BUILD} // 'build';
my $folder = tempdir(CLEANUP => 1);
delete @ENV{qw(MAKEFLAGS MFLAGS MAKELEVEL MAKEOVERRIDES COLUMNS)};
delete @ENV{qw(MESHWRIGHT_DATA MESHWRIGHT_PLUGINS)};
$ENV{XDG_CACHE_HOME} = "$folder/cache";
my $sanitized = $ENV{SANITIZE} // '';
my $pass = join ' ', map { $ENV{$_} ? "$_='$ENV{$_}'" : () } qw(CC SANITIZE CFLAGS);

my ($status, $out, $err) = answer_of("make -s install BUILD=$build DESTDIR=$folder/stage $pass");
check('it is installed', $status == 0, "$out$err");
rename "$folder/stage/usr/local", "$folder/moved" or die $!;
my ($tree, $bin) = ("$folder/moved", "$folder/moved/bin/meshwright");

# From a folder that is no source tree.
sub moved { return answer_of("cd $folder && $bin $_[0]") }
($status, $out, $err) = moved('plan gpt2 dgx-h100 --seq-len 512 --global-batch 16');
check('plan finds models, clusters and stacks', $status == 0 && $out =~ /^Best: /m, $err);
# A first use would measure for as long as it may; that is told to be short.
($status, $out, $err) = moved('calibrate --short --seconds 0.1 --ranks 2 --quiet');
check('calibrate finds its plug-ins', $status == 0, "$out$err");
write_text("$folder/tiny.json", '{"model_type": "gpt2", "n_embd": 32, "n_head": 4, "n_layer": 2, '
    . '"n_positions": 32, "vocab_size": 512}');
($status, $out, $err) = moved('plan tiny.json local --ranks 2 --seq-len 16 '
    . '--global-batch 2 --force');
($status, $out, $err) = moved('run plan.json --steps 1 --spawn') if $status == 0;
check('run finds its plug-ins', $status == 0 && $out =~ /Loss /, "$out$err");
for my $command (qw(models clusters devices stacks)) {
    ($status, $out) = moved($command);
    check("$command lists them", $status == 0 && split(/\n/, $out) > 5);
}
($status, $out) = moved('schema');
my (undef, @names) = $out =~ /^([a-z-]+)  /mg;
my @lost = grep { (moved("schema $_"))[0] != 0 } @names;
check('every schema is printed', @names > 20 && !@lost, "@lost");
($status, $out) = moved('report plan.json --no-scaling -o page');
check('report writes its page', $status == 0 && -s "$folder/page/index.html");

# The library: an example is built against the moved tree alone, and what it exports is what was
# committed, name by name and size by size.
my $flags = `PKG_CONFIG_PATH=$tree/lib/pkgconfig pkg-config --cflags --libs meshwright`;
chomp $flags;
my $cc = $ENV{CC} // 'cc';
($status, $out, $err) = answer_of("$cc $sanitized -Wall -Wextra -Werror -o $folder/example "
    . "docs/examples/plan.c $flags");
check('the example of the library is built', $status == 0, $err);
# Nobody says where its data are: they stand beside it.
my $loaded = "cd $folder && LD_LIBRARY_PATH=$tree/lib";
($status, $out, $err) = answer_of("$loaded ./example gpt2 dgx-h100");
check('and plans', $status == 0 && $out =~ /^[\d.]+ ms a step .* on 8 GPUs\n.* half the network$/m,
      "$out$err");
($status, $out, $err) = answer_of("$loaded ./example gpt9 dgx-h100");
check('or says why not', $status == 3 && $out eq '' && $err =~ /^no model is called "gpt9"/, $err);
if (system('command -v python3 >/dev/null') == 0 && !$sanitized) {
    my $script = Cwd::abs_path('docs/examples/plan.py');
    ($status, $out, $err) = answer_of("$loaded python3 $script gpt2 dgx-h100");
    check('from Python, too', $status == 0 && $out =~ /^step [\d.]+ s, MFU .*\non 4 GPUs /,
          "$out$err");
} else {
    skipped('from Python, too', 'python3 is not there');
}
my $seen = join '', map { "$_\n" } sort grep { /^meshwright_/ }
    map { s/.* T (\w+)@@?(\S+)$/$1 $2/r } split /\n/,
    `nm -D --defined-only $tree/lib/libmeshwright.so.0`;
my @members = text_of("$tree/include/meshwright.h") =~ /struct meshwright_figures \{(.*?)^\};/ms;
my @member_names = map { /(\w+)(?:,|;)/g } map { s{//.*}{}r } split /\n/, $members[0];
my $program = "#include <meshwright.h>\n#include <stddef.h>\n#include <stdio.h>\nint main(void) {\n"
    . join('', map { "printf(\"struct meshwright_figures.$_ %zu\\n\", "
    . "offsetof(struct meshwright_figures, $_));\n" } @member_names)
    . 'printf("struct meshwright_figures %zu\n", sizeof(struct meshwright_figures)); return 0; }';
write_text("$folder/sizes.c", $program);
($status, $out, $err) = answer_of("$cc -I$tree/include -o $folder/sizes $folder/sizes.c "
    . "&& $folder/sizes");
check('its names and structs are those committed',
      $seen . $out eq text_of('tests/data/library.abi'), "$seen$out$err");

# A Debian package of the same tree: what it depends on is found, and unpacked it plans.
if (system('command -v dpkg-deb >/dev/null') == 0) {
    my $deb = "$folder/deb";
    ($status, $out, $err) = answer_of("mkdir $deb && cp -al $tree $deb/usr && "
        . "packages/deb_control.sh $deb 0.1.0 all && "
        . "dpkg-deb -Znone --build $deb $folder/m.deb && dpkg-deb -x $folder/m.deb $folder/x");
    my $control = text_of("$deb/DEBIAN/control");
    check('a package is made', $status == 0 && $control =~ /^Depends: .*libglpk40.*zlib1g/m,
          "$err$control");
    ($status, $out, $err) = answer_of("cd $folder && x/usr/bin/meshwright plan gpt2 dgx-h100 "
        . '--seq-len 512 --global-batch 16 -o deb.json');
    check('that plans where it is unpacked', $status == 0 && $out =~ /^Best: /m, $err);
} else {
    skipped($_, 'no dpkg-deb') for 'a package is made', 'that plans where it is unpacked';
}

# Elsewhere by the environment; and not by a folder that only stands near.
rename "$tree/share/meshwright", "$folder/data" or die $!;
rename "$tree/lib/meshwright", "$folder/plugins" or die $!;
($status, $out, $err) = answer_of("cd $folder && MESHWRIGHT_DATA=$folder/data $bin models");
check('MESHWRIGHT_DATA names the data', $status == 0 && $out =~ /^gpt2 /m, $err);
my $run = "$bin run plan.json --steps 1 --spawn";
($status, $out, $err) = answer_of("cd $folder && MESHWRIGHT_DATA=data $run");
check('without its plug-ins nothing runs', $status == 4, $err);
($status, $out, $err) =
    answer_of("cd $folder && MESHWRIGHT_DATA=data MESHWRIGHT_PLUGINS=$folder/plugins $run");
check('MESHWRIGHT_PLUGINS names them', $status == 0 && $out =~ /Loss /, "$out$err");
($status) = answer_of("cd $folder && MESHWRIGHT_DATA=data MESHWRIGHT_PLUGINS=plugins $run");
check('by its whole path alone', $status == 4);
rename "$folder/data", "$tree/share/meshwright" or die $!;
rename "$folder/plugins", "$tree/lib/meshwright" or die $!;

# Manual pages: one a command and one of all, each with every option that --help has.
my ($overview) = (moved('man'))[1];
my @commands = map { s/\\//gr } $overview =~ /^\.BR meshwright\\-([a-z\\-]+) /mg;
for my $name (@commands) {
    my $page = text_of("$tree/share/man/man1/meshwright-$name.1");
    my ($help) = (moved("help $name"))[1];
    my @missing = grep { my $option = s/-/\\-/gr; $page !~ /^\.B \Q$option\E( |$)/m }
        grep({ !/ because / } split /\n/, $help) ? $help =~ /^  (-\S+)(?!.* because )/mg : ();
    check("the page of $name has its options", $page =~ /^\.SH SYNOPSIS/m && !@missing, "@missing");
}
check('as many pages as commands', @commands > 15 && -s "$tree/share/man/man1/meshwright.1"
      && @commands + 1 == (() = glob "$tree/share/man/man1/*"));
if (`groff --version 2>/dev/null`) {
    my $said = `cd $tree/share/man/man1 && groff -man -Tutf8 -ww *.1 2>&1 >/dev/null`;
    check('groff warns of nothing', $said eq '', $said);
} else {
    skipped('groff warns of nothing', 'groff is not installed');
}

# Completion of bash: the words it would offer where the cursor stands at the end of a line.
sub offered {
    my @words = split / /, $_[0], -1;
    my $words = join ' ', map { "'$_'" } @words;
    my $script = ". $tree/share/bash-completion/completions/meshwright; COMP_WORDS=($words); "
        . "COMP_CWORD=$#words; _meshwright; printf '%s\\n' \"\${COMPREPLY[\@]}\"";
    write_text("$folder/complete.sh", $script);
    return `cd $folder && PATH=$tree/bin:\$PATH bash complete.sh 2>&1`;
}
my %offers = (
    'meshwright pl'                     => qr/^plan$/,
    'meshwright plan llama-2-7'         => qr/^llama-2-70b\nllama-2-7b$/,
    'meshwright plan gpt2 dgx-h'        => qr/^dgx-h100\ndgx-h200$/,
    'meshwright plan gpt2 dgx-h100 --schedule zb-h' => qr/^zb-h1\nzb-h2$/,
    'meshwright plan gpt2 --explain dgx-h1' => qr/^dgx-h100$/,
    'meshwright plan --seq-len 512 gpt2-x'  => qr/^gpt2-xl$/,
    'meshwright plan gpt2 dgx-h100 --stack megatron-c' => qr/^megatron-core$/,
    'meshwright plan --glo'             => qr/^--global-batch$/,
    'meshwright whatif gpt2 dgx-h100 dgx-b3' => qr/^dgx-b300$/,
    'meshwright schema head'            => qr/^headline$/,
    'meshwright help simu'              => qr/^simulate$/,
    'meshwright simulate pla'           => qr/^plan\.json$/,
    'meshwright completion z'           => qr/^zsh$/,
);
for my $line (sort keys %offers) {
    my $found = offered($line) =~ s/\s+\z//r;
    check("completed: $line", $found =~ $offers{$line}, $found);
}
if (system('command -v zsh >/dev/null') == 0) {
    my $said = `zsh -n $tree/share/zsh/site-functions/_meshwright 2>&1`;
    check('zsh reads its completion', $said eq '', $said);
} else {
    skipped('zsh reads its completion', 'zsh is not installed');
}

rename $tree, "$folder/stage/usr/local" or die $!;
write_text("$folder/stage/usr/local/share/meshwright/mine.txt", "not installed\n");
($status, $out, $err) = answer_of("make -s uninstall BUILD=$build DESTDIR=$folder/stage $pass");
chomp(my @left = `find $folder/stage -type f`);
check('uninstalled, nothing is left but what was not installed',
      $status == 0 && "@left" eq "$folder/stage/usr/local/share/meshwright/mine.txt", "@left$err");
checked();
