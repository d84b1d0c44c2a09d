"""The rules of a trial as numbers and names."""

PROTOCOL = 7  # increase when a change of the rules makes new numbers incomparable with old ones
BESIDE = "/run/reprofs"
MOUNTPOINT = f"{BESIDE}/mnt"
BASE = f"{BESIDE}/base"  # for file systems on top of another: overlayfs, a network server
GROUPS = f"{BESIDE}/groups"  # where control groups are mounted
WORK = f"{MOUNTPOINT}/trial"
SETUP_LIMIT_S = 600
CLUSTER_SEED = 1  # of the UUIDs that servers draw: a cluster is the same in all rounds
AGE_LIMIT_S = 86400
PARSED_BYTES = 65536  # kept of an output whose samples are read later
RESYNC_LIMIT_S = 86400  # of the lab's clock
COLD_METHOD = "unmounted, caches dropped, mounted again"
OFFSET_WITHIN_NS = 10_000_000  # the file system of an exact trial is made up to so much later, from the seed
REST_NS = 200_000_000  # before every phase: what unmounting left is freed (RCU), which took up to 6 % of a cold stat
RECOVERY = ": recovery"  # suffix of a phase's name: the mount after its power cut
RECOVERY_METHOD = "power cut, caches dropped, mounted"
CHANGES = ("create", "rename", "remove")  # after a power cut in one of these, what is left of the tree is only counted
PROVED_SHARE = 0.1  # least share of a cold phase's content to come from the device; compression saves some
