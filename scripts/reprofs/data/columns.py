"""The data dictionary: every table with its columns, their types, units and meanings; the tables' schema follows."""

import functools

import pyarrow as pa

from reprofs import files

# The first columns of every table: which trial a row belongs to.
_IDENTITY = """
trial        | string |    | Name of the trial: the stem of its raw record
label        | string |    | File system, +variant unless that is "default", @network where the study has several
role         | string |    | contender; no part in ranks have variant, ceiling (a bound), no-promise (not durable)
status       | string |    | ok, failed, skipped, timeout, or missing when there is no record
lab          | string |    | Where the trial ran and whose clock it read
stack        | string |    | Block devices under the file system
profile      | string |    | What each block device behaves like
filesystem   | string |    | Name of the file system's descriptor
variant      | string |    | Name of the set of make and mount options; of a file system with hosts its network after @
workload     | string |    | Name of the workload's descriptor
scale        | string |    | Name of the workload's set of parameters
round        | int64  |    | Repetition of all cells; every round has its own seed
seed         | int64  |    | Seed of names, sizes, order and hash functions
order        | int64  |    | Place in the randomised order of the study
"""
IDENTITY = [line.partition("|")[0].strip() for line in _IDENTITY.strip().splitlines()]
OVER_TIME = "-over-time"  # ends the names of samples that are intervals of a part (engine mdtest --series)
# The data dictionary and the schema of the tables in one: column | type | unit | meaning. A column of `phases` that has
# the name of a phase's key in workflow/schemas/record.schema.yaml gets its value; so does one with the names of an
# object there and of a key in it, such as device_reads, or mounted_type in `trials`. `rows` makes all others.
TABLES = {
    "trials": _IDENTITY
    + """
reason               | string |       | Why the trial has no complete result; empty when it has
clock_name           | string |       | What the lab's clock counts
clock_read_ns        | int64  | ns    | Cost of one reading of the clock
devices              | string |       | Block devices with size, completion time and bandwidth
stack_disks          | int64  |       | Disks of the stack
stack_state          | string |       | State in the measured phases: healthy, degraded, rebuilding or snapshot
stack_initial_sync   | string |       | Whether redundancy was complete before mkfs, and how that is known
stack_fault          | string |       | Commands that put the fault into the stack, as executed
stack_readback       | string |       | Key lines of what the stack said of itself before the measured phases
network_frames       | int64  |       | Frames sent by all ends of the cables of hosts; empty where nothing shaped them
network_dropped      | int64  |       | Those of them that found a queue full, or that a network with loss lost
prepared_items       | int64  |       | Things made before the measured phases; they enter no statistic
prepared_bytes       | int64  | bytes | Content written with them
ageing               | string |       | What filling and churning printed; empty without
extents_before       | double |       | Extents a file after the fill and before the churn; empty if unknown (no FIEMAP)
extents_after        | double |       | The same after the churn
layout_score_before  | double |       | Share of blocks that directly follow the block before them in their file, then
layout_score_after   | double |       | The same after the churn
make_command         | string |       | Command that made the file system, as executed
mount_command        | string |       | Command that mounted it, as executed
mounted_type         | string |       | Type of the mounted file system, read back from the kernel
mounted_options      | string |       | Mount options, read back from the kernel
mounted_block_bytes  | int64  | bytes | Block size of the mounted file system
mounted_total_bytes  | int64  | bytes | Size of the mounted file system
mounted_free_bytes   | int64  | bytes | Free space directly after mounting
mounted_used_inodes  | int64  |       | Inodes in use then; empty where the file system has no number of them
start_offset_ns      | int64  | ns    | Exact lab: waited before the file system was made, drawn from the seed
commands             | int64  |       | Commands executed outside the measured phases
commands_failed      | int64  |       | Those of them that ended with an exit code or by a signal
phases               | int64  |       | Measured phases in the record
wear_flash_written   | int64  |       | Flash of modelled disks, whole trial: pages that the host wrote; else empty
wear_flash_moved     | int64  |       | Pages that garbage collection wrote again elsewhere
wear_flash_erased    | int64  |       | Blocks erased
wear_flash_fast      | int64  |       | Pages of those written that went into the fast region (SLC cache)
wear_discarded_bytes | int64  | bytes | Bytes that the host discarded
verified_files       | int64  |       | Files whose content was compared after it was written
verified_bytes       | int64  | bytes | Size of those files
verified_mismatches  | int64  |       | Files that differed
checks               | int64  |       | Commands of the workload that compared what it had written, and succeeded
verified_digest      | string |       | Digests of names and contents, one a verification
settled              | bool   |       | Real clocks: whether the host was quiet before the trial
settling_s           | double | s     | Real clocks: how long that was waited for
settling_reason      | string |       | Real clocks: why the host was not quiet
starts_within_ns     | int64  | ns    | Clients on several machines: first to last start of a phase, the widest
clocks_within_ns     | int64  | ns    | How well the machines' clocks are known on one, from their answers at each start
load_before          | double |       | Real clocks: load of the host over one minute, before the trial
load_after           | double |       | The same after the trial
steal_share          | double |       | Real clocks: share of processor time the hypervisor gave to others
frequency_low_mhz    | double | MHz   | Real clocks: lowest processor frequency seen before and after the trial
frequency_high_mhz   | double | MHz   | Highest processor frequency seen before and after the trial
governor             | string |       | Real clocks: what governs the processor frequency
temperature_c        | double | °C    | Real clocks: highest temperature seen before and after the trial
""",
    "phases": _IDENTITY
    + """
position             | int64   |       | Place of the phase in its trial, from 0
phase                | string  |       | Name of the phase
cache                | string  |       | State of the caches before the phase: cold or warm
operation            | string  |       | Operation of the load engine, or exec for a command
command              | string  |       | Command line of an exec phase, otherwise empty
part                 | string  |       | Of a part of a command: in-turn, at-once (with others), repeated (a mean)
wall_ns              | int64   | ns    | Time of the whole phase: operations, the driver's share, the final sync
user_ns              | int64   | ns    | User CPU time of the process that did the work
system_ns            | int64   | ns    | System CPU time of the process that did the work
sync_ns              | int64   | ns    | Share of wall_ns spent in the final sync
driver_ns            | int64   | ns    | Share of wall_ns between the operations: the driver's work and what else ran
processor_busy       | double  |       | Share of the time of all processors together, 0 to 1, in which they worked
settle_ns            | int64   | ns    | Waiting after the phase, outside wall_ns, until the device was idle
items                | int64   |       | Things done: files, directories or commands
bytes                | int64   | bytes | Content read or written by the operations
wall_ns_per_item     | double  | ns    | wall_ns / items; empty when there are no items
exit                 | int64   |       | Exit code of the phase
rebuilding           | bool    |       | Whether the array was rebuilding still at its end; empty without a rebuild
device_reads         | int64   |       | Read requests completed by the block devices; empty without a device
device_read_bytes    | int64   | bytes | Bytes read from the block devices
device_writes        | int64   |       | Write requests completed by the block devices
device_written_bytes | int64   | bytes | Bytes written to the block devices
device_flushes       | int64   |       | Flush requests completed by the block devices
device_discards      | int64   |       | Discard requests completed by the block devices
device_busy_ns       | int64   | ns    | Time with at least one request under way
device_model_ns      | int64   | ns    | Processor time that the code of modelled disks took; empty without such a disk
device_flash_written | int64   |       | Flash of modelled disks: pages of 4 KiB that the host wrote; else empty
device_flash_moved   | int64   |       | Pages that garbage collection wrote again elsewhere
device_flash_erased  | int64   |       | Blocks erased
device_flash_fast    | int64   |       | Pages of those written that went into the fast region (SLC cache)
device_discarded_bytes | int64 | bytes | Bytes that the host discarded; empty without flash
whole_read_bytes     | int64   | bytes | Bytes read from the devices in the phase of which this is a part; empty else
whole_written_bytes  | int64   | bytes | The same of bytes written
whole_flushes        | int64   |       | The same of flush requests
whole_flash_written  | int64   |       | The same of pages of flash written
whole_flash_moved    | int64   |       | The same of pages moved
whole_wall_ns        | int64   | ns    | Time of that phase
whole_items          | int64   |       | Things done in it
whole_used_bytes     | int64   | bytes | In use after that phase, as the file system says; empty if it does not
used_bytes           | int64   | bytes | In use after the phase, as the file system says; empty if it does not
used_inodes          | int64   |       | Inodes in use then; empty where the file system has no number of them
cold_proved          | bool    |       | Whether device reads prove cold caches; empty if that cannot be proved
cold_method          | string  |       | How the caches were made cold; empty for a warm phase
cold_read_bytes      | int64   | bytes | Bytes read from the device, the proof
cold_why             | string  |       | Why that is a proof, or why there is none
crash_cut_ns         | int64   | ns    | Power cut after the start of the phase; wall_ns ends there. Empty without a cut
crash_lost_bytes     | int64   | bytes | Taken by the devices and lost, with what was written in vain after the cut
crash_recovery_ns    | int64   | ns    | Time of the mount after it, with what the file system wants done before
crash_written        | int64   |       | Files looked for afterwards: those the phase had written, or had to change
crash_promised       | int64   |       | Those of them whose fsync had returned before the cut
crash_broken         | int64   |       | Those of the promised ones that were not whole
crash_kept           | int64   |       | Files looked for that were whole and right
crash_short          | int64   |       | Files of which only a right beginning was left
crash_wrong          | int64   |       | Files with other content than was written, such as zeros
crash_missing        | int64   |       | Files that were not there
crash_extra          | int64   |       | Files there that were not looked for, such as one that was being written
outage_what          | string  |       | How nodes were lost: server-killed, link-cut, ... Empty without an outage
outage_nodes         | string  |       | Which, with addresses, where that follows from the seed; both sides of a cut
outage_after_ns      | int64   | ns    | From the start of the phase until then
outage_ns            | int64   | ns    | From then until it was started again, or the cable mended
outage_healed        | bool    |       | Whether all copies were back in the end. Empty where nothing is copied
outage_heal_ns       | int64   | ns    | From the server's return until then, or until nobody looked any more
outage_promised      | int64   |       | Files that the client wrote and flushed with success
outage_failed        | int64   |       | Files of which it got an error
outage_errors        | string  |       | Which errors, and how many of each
outage_longest_ns    | int64   | ns    | Longest time of one file
outage_stall_ns      | int64   | ns    | Longest time in which no file was flushed with success
outage_broken        | int64   |       | Files flushed with success that were not whole afterwards
latency_count        | int64   |       | Single operations in the latency histogram; empty for exec
latency_sum_ns       | int64   | ns    | Sum of their latencies
latency_min_ns       | int64   | ns    | Shortest operation
latency_max_ns       | int64   | ns    | Longest operation
flush_count          | int64   |       | Flushes (fsync, fdatasync) that fio timed one by one; empty without
flush_sum_ns         | int64   | ns    | Sum of their latencies
flush_min_ns         | int64   | ns    | Shortest flush
flush_max_ns         | int64   | ns    | Longest flush
flush_p99_ns         | int64   | ns    | 99th percentile of the flushes, by fio's own histogram
""",
    "samples": _IDENTITY
    + """
phase        | string |       | Name of the phase
cache        | string |       | State of the caches before the phase: cold or warm
name         | string |       | What was timed: a part of the command's work, or the phase itself when it was repeated
client       | int64  |       | Client or task that did it; empty without clients
iteration    | int64  |       | Repetition within the trial, or number in a series; empty without
file_bytes   | int64  | bytes | Size of the file; empty where it varies
record_bytes | int64  | bytes | Size of one read or write; empty where it varies
start_ns     | int64  | ns    | Start of the sample after the start of its command; empty for a phase
wall_ns      | int64  | ns    | Time of the sample
items        | int64  |       | Things done
bytes        | int64  | bytes | Content read or written
""",
    "states": _IDENTITY
    + """
phase    | string |    | Name of the phase: the operation whose sequences it visits
cache    | string |    | State of the caches before the phase
sequence | string |    | File-system calls, separated by semicolons
failed   | string |    | Why the calls are not possible there; empty when they are
writes   | int64  |    | Writes that reached the disk while the calls were made
flushes  | int64  |    | Flush requests among them
fua      | int64  |    | Writes that asked to be on the disk when acknowledged (FUA)
states   | int64  |    | Crash states that were visited, those of second cuts too
wall_ns  | int64  | ns | Time for all of them
kind     | string |    | What was found in some of them; empty in the one row of a sequence that tells nothing found
after    | bool   |    | Whether all calls had returned at the cut
broken   | bool   |    | Whether it breaks what the file system promises (key promises of its file)
found    | int64  |    | States in which it was found
at       | int64  |    | Number of the first of them, for reprofs state --at
again    | int64  |    | Its number among those of a second cut, for --again-at; empty without one
what     | string |    | What was seen there
""",
    "faults": _IDENTITY
    + """
phase        | string |    | Name of the phase: the fault
cache        | string |    | State of the caches before the phase
kind         | string |    | Kind of the block or request, by the file system's own tools; other: of no kind
nth          | int64  |    | So many requests of the kind were served before; empty where each block is tried
sector       | int64  |    | First sector (512 bytes) of the first request that failed, or of the block
hits         | int64  |    | Requests that failed; 0 where only what is on the disk is another
fsync        | string |    | Of a file that was overwritten: what its first fsync says, ok or the name of an error
fsync_again  | string |    | The second one, of the same descriptor
fsync_other  | string |    | One of another descriptor, opened before
fsync_later  | string |    | One of a descriptor that was opened then
fsync_ns     | int64  | ns | Time of the first three
cached       | string |    | What is read then: new, old, mixed, zeros, foreign, short, absent, or an error
new_file     | string |    | What creating, writing and flushing another file says
fsync_folder | string |    | What fsync of the folder says then
syncfs       | string |    | What flushing the file system says then
usable       | string |    | Whether files can be made then: ok, EROFS of a read-only mount, or another error
cold         | string |    | What is read of the overwritten file without a cache
mount        | string |    | What the next mount says, of the whole disk; with the fault where it is one of reads
after        | string |    | What is read of the overwritten file then
new_after    | string |    | What is read of the new file then
errors       | int64  |    | Other names, made before, that give an error then
others       | int64  |    | Other names, made before, that are absent or silently others
mended       | bool   |    | Whether the block on the disk is right again after everything was read
checker      | int64  |    | Exit code of the file system's checker then; 0 without one
what         | string |    | The first thing that was seen, in words
""",
    "rot": _IDENTITY
    + """
phase       | string |    | Name of the phase
cache       | string |    | State of the caches before the phase
kind        | string |    | data: of the file; parity: of its pages alone; other: metadata, logs, what the array keeps
page        | int64  |    | Number of the page of the file (4 KiB), or of the block on its disk, that has another bit
disk        | int64  |    | Disk of the array that has the copy, from 0
copies      | int64  |    | Blocks on all disks that are alike, of data its copies; parity is none
read        | string |    | What is read after the array was started: whole, rotten, an error, or no mount
read_left   | int64  |    | Rotten copies then
found       | bool   |    | Whether a scrub finds it, of an array that nobody has read from; empty: none can be made
scrubbed    | string |    | What is read after the scrub and another start
scrub_left  | int64  |    | Rotten copies then
repaired    | string |    | What is read after the repair and another start; empty: no repair beside the scrub
repair_left | int64  |    | Rotten copies then
found_again | bool   |    | Whether another scrub finds it then
""",
    "clients": _IDENTITY
    + """
phase    | string |       | Name of the phase
cache    | string |       | State of the caches before the phase: cold or warm
client   | int64  |       | Number of the client, from 0
host     | string |       | Host that it ran on, of a file system with hosts: c1, c2, ...
start_ns | int64  | ns    | Start of the client after that of the first one
wall_ns  | int64  | ns    | Time of this client
items    | int64  |       | Things done by it
bytes    | int64  | bytes | Content read or written by it
""",
    "calls": _IDENTITY
    + """
phase    | string |       | Name of the phase
cache    | string |       | State of the caches before the phase: cold or warm
client   | int64  |       | Number of the client, from 0; from 1000 those who read through a new mount in the end
call     | string |       | create (exclusively), open, read, write, fsync, close, rename, unlink
name     | string |       | File, as it was named at its open
other    | string |       | New name of a rename; else empty
start_ns | int64  | ns    | When the call was made, by the one clock of all clients
wall_ns  | int64  | ns    | Until it returned; empty if it did not
result   | string |       | ok, or the error; empty if it did not return
records  | string |       | Hexadecimal numbers of the records written or read, in order; ! for anything else
""",
    "latency": _IDENTITY
    + """
phase        | string |    | Name of the phase
cache        | string |    | State of the caches before the phase: cold or warm
lower_ns     | int64  | ns | Lower bound of the bucket, included
upper_ns     | int64  | ns | Upper bound of the bucket, not included
count        | int64  |    | Operations whose latency is in the bucket
""",
}


def dictionary() -> list[dict]:
    """The data dictionary: one row per column, with the keys table, column, type, unit, meaning."""
    return files.dictionary(TABLES)


@functools.cache
def schema(table: str) -> pa.Schema:
    """Names and types of the columns of a table."""
    return pa.schema([(row["column"], pa.type_for_alias(row["type"])) for row in dictionary() if row["table"] == table])
