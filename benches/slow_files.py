#!/usr/bin/env python3
"""Shows a folder at another place, where every read of a file takes some milliseconds longer.

    slow_files.py FOLDER MOUNT MILLISECONDS      # until it is unmounted: fusermount3 -u MOUNT

Stands for a store that is far away. Needs FUSE (Debian: fuse3 and libfuse2) and mfusepy.
"""

import os
import sys
import time

import mfusepy

NAMES = ("st_mode", "st_nlink", "st_size", "st_uid", "st_gid")
TIMES = ("st_atime", "st_mtime", "st_ctime")


class SlowFiles(mfusepy.Operations):
    use_ns = True

    def __init__(self, folder, seconds):
        self.folder, self.seconds = folder, seconds

    def getattr(self, path, fh=None):
        found = os.lstat(self.folder + path)
        times = {name: getattr(found, f"{name}_ns") for name in TIMES}
        return {name: getattr(found, name) for name in NAMES} | times

    def readdir(self, path, fh):
        return [".", "..", *os.listdir(self.folder + path)]

    def open(self, path, flags):
        return os.open(self.folder + path, os.O_RDONLY)

    def read(self, path, size, offset, fh):
        time.sleep(self.seconds)
        return os.pread(fh, size, offset)

    def release(self, path, fh):
        os.close(fh)


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    folder, mount, milliseconds = sys.argv[1:]
    files = SlowFiles(os.path.abspath(folder), float(milliseconds) / 1000)
    # What is looked up once is known, and nothing is read ahead: only reads take long.
    known = {"attr_timeout": 600, "entry_timeout": 600, "max_readahead": 0}
    mfusepy.FUSE(files, mount, foreground=True, max_background=200, **known)


if __name__ == "__main__":
    main()
