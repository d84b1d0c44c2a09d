"""From a study to its cells: descriptors, read from files and checked. Nothing here starts a process or uses a lab.

Annotations are evaluated as they stand here, without `from __future__ import annotations`: Pydantic would compile each
of hundreds of texts again, in every trial.
"""

import os

# Else Pydantic searches the metadata of all installed packages for plugins, in every trial.
os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")

PROCESSOR = "v2-0.5ns"  # the default in labs that model their processor
NETWORK = "lan-1g"  # the default of file systems with hosts
