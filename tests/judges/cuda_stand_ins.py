import collections, glob, os, re, subprocess, sys, tempfile
folder, = glob.glob(os.path.join(sys.argv[1], 'lib/python3*/site-packages/torch/lib'))
OURS = re.compile(r'lib(cu|nccl|nvrtc|nvshmem)')


def lines(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


needed, library_of, symbols = set(), {}, collections.defaultdict(set)
for path in glob.glob(folder + '/*.so*'):
    needed.update(filter(OURS.match, re.findall(r'NEEDED.*\[(.*)\]', lines('readelf', '-dW', path))))
    library = None
    for file, version in re.findall(r'File: (\S+)|Name: (\S+)', lines('readelf', '-VW', path)):
        library = file or library
        if version:
            library_of[version] = library
    for name, version in re.findall(r' [Uw] (\w+)(?:@@?(\S+))?', lines('nm', '-D', '-u', path)):
        symbols[version].add(name)
loose = {name for name in symbols[''] if re.match(r'p?nccl|cu|nv', name)}
for library in sorted(needed):
    path = os.path.join(folder, library)
    if os.path.lexists(path): continue
    versions = {v: n for v, n in symbols.items() if library_of.get(v) == library}
    names = set().union(loose, *versions.values())
    with tempfile.TemporaryDirectory() as scratch:
        open(scratch+'/stub.c', 'w').write(''.join(f'int {name}(void) {{ return 100; }}\n' for name in sorted(names)))
        open(scratch+'/stub.map', 'w').write(''.join(f'{v} {{ {" ".join(n + ";" for n in ns)} }};\n' for v, ns in versions.items()))
        flags = ['-Wl,--version-script=' + scratch+'/stub.map'] if versions else []
        subprocess.run(['gcc', '-w', '-fno-builtin', '-shared', '-fPIC', '-Wl,-soname,' + library, *flags, scratch+'/stub.c', '-o', path], check=True)
