"""Say in one line what a Python lacks to make this project's virtual environment; say nothing where it lacks nothing.

`make install` runs it with the Python that the user chose, so it keeps to what old ones can parse too.
"""

import sys

version = "{}.{}".format(*sys.version_info[:2])
if sys.version_info < (3, 11):
    sys.exit(
        f"make: Python 3.11 or newer is needed, {sys.executable} is {version}: make PYTHON=/path/to/python3.11"
    )
for name in ("venv", "ensurepip"):
    try:
        __import__(name)
    except ImportError:
        sys.exit(
            f"make: {sys.executable} has no module {name}: on Debian and Ubuntu, apt-get install python{version}-venv"
        )
