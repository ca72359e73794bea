#!/bin/sh
# spelling.sh: looks for misspelt words in the documents, the headers, the Python package and the
# tool's texts. Needs codespell (pip install codespell). Exit code 0: none was found.
#
# A word that is right and that codespell knows as a mistake goes to tools/spelling.txt, a line each.
set -eu
cd "$(dirname "$0")/.."
exec codespell --ignore-words tools/spelling.txt README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md \
    docs include python/README.md python/wavetrain src/bin examples fuzz/README.md benches/log
