"""Packs an installed tree as a wheel: wheel.py TREE VERSION FOLDER.

The binary becomes a script of the environment, share/ and lib/ data beside it, so that it finds
them as in any installed tree. Libraries that a bare system lacks go along. The same tree gives the
same bytes.
"""
import base64
import hashlib
import os
import subprocess
import sys
import sysconfig
import zipfile

tree, version, folder = sys.argv[1:]
tag = "py3-none-" + sysconfig.get_platform().replace("-", "_").replace(".", "_")
name = f"meshwright-{version}"
scripts, data, info = f"{name}.data/scripts/", f"{name}.data/data/", f"{name}.dist-info/"
# The C library and its like are of every system, and older ones do not go with newer.
SYSTEM = ("libc.so", "libm.so", "libdl.so", "libpthread.so", "librt.so", "ld-linux", "libgcc_s.so")


def libraries(program):
    """The paths of what a program is linked with, but for the system's own."""
    for line in subprocess.run(["ldd", program], capture_output=True, text=True).stdout.splitlines():
        words = line.split()
        if len(words) > 2 and words[1] == "=>" and words[2].startswith("/"):
            if not os.path.basename(words[2]).startswith(SYSTEM):
                yield words[2]


files = {}
for root, _, names in os.walk(tree):
    for file in names:
        path = os.path.join(root, file)
        inside = os.path.relpath(path, tree)
        if inside == "bin/meshwright":
            files[scripts + "meshwright"] = path
        elif inside.startswith(("share/meshwright/", "share/man/", "lib/meshwright/")):
            files[data + inside] = path
plugins = os.path.join(tree, "lib/meshwright")
linked = [os.path.join(tree, "bin/meshwright")]
linked += [os.path.join(plugins, file) for file in os.listdir(plugins) if "_cpu" in file]
for library in {path for program in linked for path in libraries(program)}:
    files[f"{data}lib/meshwright/libraries/{os.path.basename(library)}"] = library

texts = {
    info + "METADATA": f"Metadata-Version: 2.1\nName: meshwright\nVersion: {version}\n"
    "Summary: planner, simulator and executor for training large models\n",
    info + "WHEEL": f"Wheel-Version: 1.0\nGenerator: meshwright\nRoot-Is-Purelib: false\nTag: {tag}\n",
}
record = []
path = os.path.join(folder, f"{name}-{tag}.whl")
with zipfile.ZipFile(path + ".part", "w", zipfile.ZIP_DEFLATED) as wheel:
    def put(inside, content, mode):
        """One file, with its line of the record."""
        entry = zipfile.ZipInfo(inside, (1980, 1, 1, 0, 0, 0))
        entry.external_attr = (0o100000 | mode) << 16
        entry.compress_type = zipfile.ZIP_DEFLATED
        wheel.writestr(entry, content)
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        record.append(f"{inside},sha256={digest},{len(content)}")

    for inside in sorted(files):
        with open(files[inside], "rb") as source:
            put(inside, source.read(), 0o755 if "/scripts/" in inside or ".so" in inside else 0o644)
    for inside, text in sorted(texts.items()):
        put(inside, text.encode(), 0o644)
    record.append(f"{info}RECORD,,")
    wheel.writestr(zipfile.ZipInfo(info + "RECORD", (1980, 1, 1, 0, 0, 0)), "\n".join(record) + "\n")
os.replace(path + ".part", path)
print(path)
