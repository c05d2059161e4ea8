"""``python -m pinets`` is ``pinets``."""

import sys

from pinets.cli.app import main

if __name__ == "__main__":
    sys.exit(main())
