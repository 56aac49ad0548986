#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that all C++ is as clang-format writes it. Usage: format.py ROOT CLANG_FORMAT [--fix]"""

import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import style  # noqa: E402


def main():
    root, clang_format = os.path.abspath(sys.argv[1]), sys.argv[2]
    mode = ["-i"] if "--fix" in sys.argv[3:] else ["--dry-run", "-Werror", "--ferror-limit=3"]
    files = [source.path for source in style.sources(root) if source.is_code]
    result = subprocess.run([clang_format, *mode, *files], cwd=root, check=False)
    print(f"{len(files)} files")
    return result.returncode


if __name__ == "__main__":
    sys.exit(main())
