"""What the judges share: the files of a target, and a count of what its parser says of them."""
import glob
import os
import re
import sys


def files(target):
    """(path, GPUs) of every drawn export of the target."""
    for path in sorted(glob.glob(os.path.join(sys.argv[1], target + '-*'))):
        match = re.match(re.escape(target) + r'-\d+-(\d+)-', os.path.basename(path))
        if match:
            yield path, int(match.group(1))


def judge(target, program, accept):
    """Calls accept(path, world) for every file; prints what it raised, and the count."""
    right, wrong = 0, 0
    for path, world in files(target):
        try:
            accept(path, world)
            right += 1
        except (Exception, SystemExit) as fault:
            wrong += 1
            if wrong <= 10:
                text = ' '.join(str(fault).split())[:300]
                print(f'{os.path.basename(path)}: {type(fault).__name__}: {text}')
    print(f'{program}: {right} of {right + wrong} accepted')
    sys.exit(1 if wrong or not right else 0)
