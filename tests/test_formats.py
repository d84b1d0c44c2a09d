"""How file systems were made: read back, compared between labs, kernels and stacks, and told by the report."""

import re

import make
import nbformat
import pytest
import run
from helpers import CATALOG, Late, cell, rendered
from reprofs.data import formats
from reprofs.data.formats import Made
from reprofs.errors import FileError
from reprofs.plan.catalog import Catalog
from reprofs.plan.filesystem import Filesystem
from reprofs.report.sentences.formats import warned
from reprofs.stats import runs
from reprofs.stats.formats import unlike

tables = Late("reprofs.report.tables")

# xfs_info of xfsprogs 6.1.0 (Debian 12) and 6.13.0 (Debian 13).
XFS_61 = """meta-data=/dev/loop0             isize=512    agcount=4, agsize=65536 blks
         =                       sectsz=512   attr=2, projid32bit=1
         =                       crc=1        finobt=1, sparse=1, rmapbt=0
         =                       reflink=1    bigtime=1 inobtcount=1 nrext64=0
data     =                       bsize=4096   blocks=262144, imaxpct=25
         =                       sunit=0      swidth=0 blks
naming   =version 2              bsize=4096   ascii-ci=0, ftype=1
log      =internal log           bsize=4096   blocks=16384, version=2
         =                       sectsz=512   sunit=0 blks, lazy-count=1
realtime =none                   extsz=4096   blocks=0, rtextents=0
"""
XFS_613 = """meta-data=/dev/nullb0            isize=512    agcount=4, agsize=65536 blks
         =                       sectsz=512   attr=2, projid32bit=1
         =                       crc=1        finobt=1, sparse=1, rmapbt=1
         =                       reflink=1    bigtime=1 inobtcount=1 nrext64=1
         =                       exchange=0   metadir=0
data     =                       bsize=4096   blocks=262144, imaxpct=25
         =                       sunit=0      swidth=0 blks
naming   =version 2              bsize=4096   ascii-ci=0, ftype=1, parent=0
log      =internal log           bsize=4096   blocks=16384, version=2
         =                       sectsz=512   sunit=0 blks, lazy-count=1
realtime =none                   extsz=4096   blocks=0, rtextents=0
         =                       rgcount=0    rgsize=0 extents
"""
# Lines of dumpe2fs -h, after a first mount; 1.47.0 has a tab before the size of inodes.
EXT4 = """Filesystem features:      has_journal ext_attr orphan_file needs_recovery extent metadata_csum orphan_present
Filesystem flags:         signed_directory_hash
Default mount options:    user_xattr acl
Block size:               4096
Inodes per group:         8192
Flex block group size:    16
Inode size:\t          256
Total journal size:       32M
"""
BTRFS = """Data,RAID6: Size:8388608, Used:0 (0.00%)
   /dev/nullb0\t   8388608

Metadata,RAID6: Size:53673984, Used:131072 (0.24%)
csum_type\t\t0 (crc32c)
sectorsize\t\t4096
nodesize\t\t16384
compat_flags\t\t0x0
compat_ro_flags\t\t0x3
\t\t\t( FREE_SPACE_TREE |
\t\t\t  FREE_SPACE_TREE_VALID )
incompat_flags\t\t0x81
\t\t\t( MIXED_BACKREF |
\t\t\t  RAID56 )
"""


def read(name: str, printed: str) -> dict[str, str]:
    """The format of a file system, by what its file says."""
    told = formats.words(printed, CATALOG.get(Filesystem, name).format)
    return {reading: " ".join(words) for reading, words in told}


def test_what_the_tools_print_is_read():
    old, new = read("xfs", XFS_61), read("xfs", XFS_613)
    assert old["features"] == "bigtime crc finobt ftype inobtcount lazy-count projid32bit reflink sparse"
    assert set(new["features"].split()) - set(old["features"].split()) == {"nrext64", "rmapbt"}
    assert {key: new[key] for key in new if key != "features"} == {key: old[key] for key in old if key != "features"}
    assert (new["inode size"], new["allocation groups"], new["log blocks"]) == ("512", "4", "16384")
    ext4 = read("ext4", EXT4)  # without the words for the state of its journal
    assert ext4["features"] == "ext_attr extent has_journal metadata_csum orphan_file"
    assert (ext4["journal"], ext4["mount defaults"]) == ("32M", "acl user_xattr") and "stride" not in ext4
    btrfs = read("btrfs", BTRFS)
    assert (btrfs["incompatible features"], btrfs["read-only features"]) == ("MIXED_BACKREF RAID56", "FREE_SPACE_TREE")
    assert (btrfs["data"], btrfs["checksum"]) == ("RAID6", "crc32c")
    none = re.sub(r"0x3\n.*\n.*\)", "0x0", BTRFS)
    assert read("btrfs", none)["read-only features"] == ""  # printed, and none: not as if it was not told
    assert read("ext4", "dumpe2fs: Bad magic number") == {}


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"format": {"features": {"read": "("}}}, r"format\.features\.read is not a regular expression: missing \)"),
        ({"format": {"features": {"read": "a"}}}, r"read has 0 groups, but must have exactly one"),
        ({"format": {"features": {"read": "(a)(b)"}}}, r"read has 2 groups, but must have exactly one"),
        ({"format": {"features": "(a)"}}, r"format\.features is '\(a\)', but must be of type mapping"),
        ({"format": {"Features": {"read": "(a)"}}}, r"a key at format is 'Features', but must be up to 32 lower-case"),
        ({"inspect": []}, "has the key format without the key inspect"),
    ],
)
def test_a_mistake_is_a_sentence(change, told):
    data = CATALOG.get(Filesystem, "xfs").as_json()
    with pytest.raises(FileError, match=told):
        Catalog().add(Filesystem, "xfs", data | change)


def test_it_is_no_part_of_a_trial():
    without = Catalog()
    without.add(Filesystem, "xfs", CATALOG.get(Filesystem, "xfs").as_json() | {"format": {}})
    assert rendered(cell("xfs"), without).text() == rendered(cell("xfs")).text()


def place(lab="exact", stack="single", mib=1024, **more) -> Made:
    names = {"filesystem": "xfs", "variant": "default", "profile": "ssd", "workload": "metadata", "scale": "smoke"}
    return Made(**names | more, lab=lab, stack=stack, disks=(mib << 20,))


def differing(filesystem: str, *made: tuple[Made, str]) -> dict:
    """Feature -> lab -> value -> stacks, of texts that tools printed in these places."""
    plan = make.plan(systems=[filesystem], stacks=["single", "md-raid5", "btrfs-raid1"], told=[filesystem])
    readings = plan.filesystems[filesystem].format
    told = [
        ("label", one._replace(filesystem=filesystem), {n: frozenset(w) for n, w in formats.words(text, readings)})
        for one, text in made
    ]
    return {one.feature: one.values for one in unlike(plan, told)}


def test_features_are_compared_everywhere_and_sizes_on_the_same_device():
    larger = XFS_613.replace("agcount=4", "agcount=8")
    assert not differing("xfs", (place(), XFS_613), (place("host"), XFS_613))
    assert differing("xfs", (place(), XFS_613), (place("host"), larger)) == {
        "allocation groups": {"exact": {"4": ["single"]}, "host": {"8": ["single"]}}
    }
    for other in (place("host", mib=2048), place("host", stack="md-raid5"), place("host", profile="ram")):
        assert not differing("xfs", (place(), XFS_613), (other, larger))
    found = differing("xfs", (place(), XFS_613), (place("host", mib=2048), XFS_61), (place(stack="md-raid5"), XFS_61))
    assert found["rmapbt"] == {
        "exact": {"no": ["md-raid5"], "yes": ["single"]},
        "host": {"no": ["single"]},
    }
    assert set(found) == {"rmapbt", "nrext64"}


def test_what_is_not_told_is_not_the_same_and_a_file_systems_own_stack_is_its_own():
    striped = EXT4 + "RAID stride:              128\n"
    assert differing("ext4", (place(), EXT4), (place("host"), striped)) == {
        "stride": {"exact": {"": ["single"]}, "host": {"128": ["single"]}}
    }
    single = re.sub("RAID6|RAID56", "single", BTRFS)
    own = place(stack="btrfs-raid1")
    assert not differing("btrfs", (place(), single), (own, BTRFS))
    assert set(differing("btrfs", (own, single), (own._replace(lab="host"), BTRFS))) >= {"RAID56", "data"}


def of(folder, **options):
    make.make(folder, **{"rounds": 1, "systems": ["ext4", "xfs"], "workloads": ["metadata"], "failures": {}} | options)
    return run.build(folder, results=False)


def shown(study, *names: str) -> str:
    """The text that notebooks show."""
    executed = run.execute(study.folder.parent, list(names))
    cells = [cell for name in names for cell in nbformat.read(executed / f"{name}.ipynb", as_version=4).cells]
    outputs = [output.data for cell in cells for output in cell.get("outputs", [])]
    text = " ".join(output.get("text/markdown", output.get("text/html", "")) for output in outputs)
    return " ".join(text.replace("\N{NO-BREAK SPACE}", " ").split())


LABS = {"labs": ["exact", "host"]}


@pytest.fixture(scope="module")
def apart(tmp_path_factory):
    """XFS was made otherwise by the host; ext4 alike; JFS's tools told nothing."""
    printed = {("xfs", "exact"): XFS_613, ("xfs", "host"): XFS_61, ("ext4", "exact"): EXT4, ("ext4", "host"): EXT4}
    study = of(tmp_path_factory.mktemp("apart"), systems=["ext4", "xfs", "jfs"], printed=printed, rounds=2, **LABS)
    study.save_results()
    return study


@pytest.mark.wide
def test_the_report_names_what_two_labs_made_otherwise(apart):
    assert warned(apart) == warned(apart, ("exact", "host")) == ["xfs (nrext64 and rmapbt)"]
    assert warned(apart, ("exact",)) == []
    formats_table, unlike_table = tables.formats(apart)
    assert unlike_table.rows == [
        {"file system": "xfs", "what": "nrext64", "exact": "yes", "host": "no"},
        {"file system": "xfs", "what": "rmapbt", "exact": "yes", "host": "no"},
    ]
    ext4, xfs = formats_table.rows
    assert ext4["file systems"] == "ext4" and ext4["read back"].startswith("features: ext_attr, extent, ")
    assert ext4["read back"].endswith("; inodes a group: 8192; journal: 32M")
    assert "sparse" in xfs["read back"] and "rmapbt (not everywhere)" in xfs["read back"]
    text = shown(apart, "methods")
    assert "mkfs did not make the same file system everywhere: xfs (nrext64 and rmapbt)." in text
    assert 'id="tbl-unlike"' in text and 'id="tbl-formats"' in text


def test_the_report_says_nothing_where_all_was_made_alike(tmp_path):
    study = of(tmp_path, printed={("xfs", lab): XFS_613 for lab in ("exact", "host")}, **LABS)
    assert warned(study) == [] and len(tables.formats(study)) == 1
    nothing = of(tmp_path / "none", **LABS)
    assert "formats" not in nothing.environment and tables.formats(nothing) == []


@pytest.mark.wide
def test_runs_that_made_a_file_system_otherwise(apart, tmp_path):
    other = of(tmp_path, printed={("xfs", lab): XFS_613 for lab in ("exact", "host")}, **LABS)
    differences = runs.differences({"a": apart, "b": other})
    told = {one.key: one.values for one in differences if one.what == "file system" and ":" in one.key}
    # Of ext4 only one run tells, and within one run the labs are not compared.
    assert told == {"xfs in host: nrext64": ["no", "yes"], "xfs in host: rmapbt": ["no", "yes"]}
    assert not [one for one in differences if ".format" in one.key]  # nobody made anything otherwise by how it is read


def test_stacks_on_which_a_file_system_is_made_otherwise(tmp_path):
    study = of(tmp_path, systems=["xfs"], stacks=["single", "md-raid5"], printed={("xfs", "exact"): XFS_613})
    assert warned(study) == []
    (entry,) = study.environment["formats"]
    raid, single = entry["made"]
    other = dict(entry["format"]) | {"features": [word for word in entry["format"]["features"] if word != "rmapbt"]}
    study.environment["formats"] = [
        {"format": other, "made": [raid]},
        {"format": entry["format"], "made": [single]},
    ]
    assert tables.formats(study)[1].rows == [
        {"file system": "xfs", "what": "rmapbt", "exact": "no (md-raid5); yes (single)"}
    ]
