"""The modules behind the commands. Importing it lets them find the harness that tests use, too."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2] / "test"))
