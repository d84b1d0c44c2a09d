"""The rules of a trial as numbers and names."""

from reprofs.plan import CELL as CELL

PROTOCOL = 2  # raise when a change of the rules makes new numbers incomparable with old ones
MOUNTPOINT = "/run/reprofs/mnt"
BASE = "/run/reprofs/base"  # for file systems that lie over another: overlay, a network server
WORK = f"{MOUNTPOINT}/trial"
SETUP_LIMIT_S = 600
AGE_LIMIT_S = 86400
PARSED_BYTES = 65536  # of an output whose samples are read later
RESYNC_LIMIT_S = 86400  # of the lab's clock
COLD_METHOD = "unmounted, caches dropped, mounted again"
RECOVERY = ": recovery"  # after the name of a phase: the mount after its power cut
RECOVERY_METHOD = "power cut, caches dropped, mounted"
CHANGES = ("create", "rename", "remove")  # after a power cut in one of these the tree is what is left of it
PROVED_SHARE = 0.1  # of the content read in a cold phase, from the device; compression may make it less than all
