#!/usr/bin/perl
# What `make gpu_bundle` makes, on a machine that has neither GPU nor libraries: in a root with
# nothing but a shell and its like, run.sh ends with one line that says so, and 4. Its large
# libraries are packed, and unpacked where there is a device.
use strict;
use warnings;
use Cwd 'abs_path';
use File::Basename qw(basename dirname);
use File::Copy qw(copy);
use File::Path 'make_path';
use File::Temp 'tempdir';
use lib 'tests';
use Script;

my $build  = $ENV{BUILD} // 'build';
my $folder = tempdir(CLEANUP => 1);
my $root   = "$folder/root";
delete @ENV{qw(MESHWRIGHT_GPU_EMULATED LD_LIBRARY_PATH)};

# A file that may be run, in folders that are made for it.
sub put {
    my ($from, $to) = @_;
    make_path(dirname($to));
    copy($from, $to) or die "$from: $!";
    chmod 0755, $to;
}

# What `ldd` finds for a program, and its loader.
sub libraries_of {
    my ($program) = @_;
    return `ldd $program` =~ m{(/\S+)}g;
}

# A folder as the bundle is, of one program and one plug-in.
my $bundle = "$folder/bundle";
put("$build/tests/gpu_compare", "$bundle/tests/gpu_compare");
put("$build/exec_cuda.so",      "$bundle/tests/exec_cuda.so") if -e "$build/exec_cuda.so";
put("$build/meshwright", "$bundle/meshwright");
make_path("$bundle/lib");
open my $large, '>', "$bundle/lib/liblarge.so" or die;
print $large "\0" x (3 << 20);
close $large;
my ($status, $out, $errors) = answer_of("tests/gpu/bundle_libraries.sh $bundle");
check('what a bare machine lacks lies in the bundle', $status == 0
      && (grep { /libcjson\.so/ } glob "$bundle/lib/*") && !-e "$bundle/lib/libc.so.6",
      "$out $errors");
check('large libraries are packed', -e "$bundle/lib/liblarge.so.gz"
      && !-e "$bundle/lib/liblarge.so" && -s "$bundle/lib/liblarge.so.gz" < 1 << 20);
check('the size is told, with that of the tree', $out =~ /: \d+ bytes, beside \d{7,} of the tree$/m
      || !-e '.git', $out);
open my $huge, '>', "$bundle/lib/huge.gz" or die;
truncate $huge, 60e6;
close $huge;
($status, $out, $errors) = answer_of("tests/gpu/bundle_libraries.sh $bundle");
check('more than 55 MB is refused', $status == 1 && $errors =~ /too large: 55 MB/, "$out $errors");
unlink "$bundle/lib/huge.gz";

# The root: the loader and the C library are any system's own, CUDA's are not there.
my @tools = qw(sh awk basename cat cut date dirname env find grep gzip head mkdir mktemp mv nproc
    paste rm sed sort tail timeout tr uname wc);
for my $tool (@tools) {
    my ($path) = grep { -x } map { "$_/$tool" } qw(/bin /usr/bin);
    next unless $path;
    put(abs_path($path), "$root/bin/$tool");
    -e "$root$_" or put($_, "$root$_") for libraries_of($path);
}
for my $library (libraries_of("$build/tests/gpu_compare"),
                 -e "$build/exec_cuda.so" ? libraries_of("$build/exec_cuda.so") : ()) {
    my $is_system = basename($library) =~ /^(?:lib(?:c|m|dl|pthread|rt|gcc_s|stdc\+\+)\.so|ld-)/;
    put($library, "$root$library") if $is_system && !-e "$root$library";
}
put($_, "$root/there/$_") for glob 'tests/gpu/*.sh';
make_path(map { "$root/$_" } qw(tmp proc dev));
answer_of("cp -r $bundle $root/there/bundle");
my $inside = 'cd /there && LD_LIBRARY_PATH=/there/bundle/lib sh tests/gpu/run.sh bundle';
my $bare   = "unshare -rm sh -c 'mount --rbind /proc $root/proc && mount --rbind /dev $root/dev &&"
           . " exec chroot $root /bin/sh -c \"";
if (-e '/dev/nvidiactl' || !-e "$build/exec_cuda.so") {
    skipped('a bare root has no GPU', 'a device, or no CUDA to build with');
} elsif ((answer_of($bare . "exit 7\"'"))[0] != 7) {
    skipped('a bare root has no GPU', 'this system lets nobody make one');
} else {
    ($status, $out, $errors) = answer_of($bare . "$inside\"'");
    my @lines = grep { !/^run\.sh: using/ } split /\n/, $errors;
    check('in a bare root it ends with a line that says what lacks, and 4', $status == 4
          && $out eq '' && @lines == 1 && $lines[0] =~ /libcudart\S*: .*is CUDA installed\?/,
          "$status $out $errors");
    check('and nothing is left behind', !(() = glob "$root/tmp/*")
          && !-e "$root/there/bundle/gpu_result.json"
          && !-e "$root/there/bundle/lib/liblarge.so");
}

# With a device what is packed is unpacked.
make_path("$folder/device/lib");
for my $name (qw(meshwright tests emulated)) {
    symlink abs_path("$build/$name"), "$folder/device/$name" or die;
}
put("$bundle/lib/liblarge.so.gz", "$folder/device/lib/liblarge.so.gz");
($status, $out, $errors) = answer_of(
    "MESHWRIGHT_GPU_EMULATED=1 tests/gpu/run.sh --stages torch_8b $folder/device");
check('large libraries are unpacked where there is a device', $status == 0
      && (-s "$folder/device/lib/liblarge.so" // 0) == 3 << 20
      && !(() = glob "$folder/device/lib/*.new"), "$status $out $errors");
checked();
