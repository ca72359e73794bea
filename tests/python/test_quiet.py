"""What the package says without being asked: nothing."""

import os
import subprocess
import sys

LOG = """
import wavetrain
from wavetrain import _log
_log.write(None, wavetrain.LOG_WARN, 0, b"a line of the library", 21)
"""


def test_a_warning_is_not_printed_where_nobody_set_up_logging():
    done = subprocess.run(
        [sys.executable, "-c", LOG], env=os.environ, capture_output=True, text=True, check=True
    )
    assert done.stderr == ""


def test_a_warning_is_printed_where_logging_is_set_up():
    code = "import logging; logging.basicConfig()" + LOG
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ, capture_output=True, text=True, check=True
    )
    assert "a line of the library" in done.stderr
