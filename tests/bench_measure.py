"""`python tests/bench_measure.py [NAME...]`: what `reprofs measure` takes for twelve programs, each measured twice.

Prints CPU seconds of each program alone (the least of seven runs) and of the whole command, and whether both
measurements are equal. Programs that this machine lacks are left out. Making those of npm and cargo needs their
registries.
"""

import os
import resource
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from reprofs.plan.measured import Row, read

REPROFS = Path(sys.executable).with_name("reprofs")
FILES = 300
PYTHON = f"""
import hashlib, json
for i in range({FILES}):
    text = json.dumps(list(range(i, i + 200)))
    open(f"{{i}}.json", "w").write(text + hashlib.sha256(text.encode()).hexdigest())
"""
NODE = f"""
const fs = require("fs"), zlib = require("zlib");
for (let i = 0; i < {FILES}; i++) fs.writeFileSync(i + ".gz", zlib.gzipSync("line " + i + "\\n".repeat(2000)));
"""
JAVA = f"""
import java.nio.file.*;
class Main {{
    public static void main(String[] words) throws Exception {{
        for (int i = 0; i < {FILES}; i++) Files.writeString(Path.of(i + ".txt"), ("line " + i + "\\n").repeat(200));
    }}
}}
"""
GO = f"""
package main
import ("fmt"; "os"; "strings")
func main() {{
    for i := 0; i < {FILES}; i++ {{
        os.WriteFile(fmt.Sprint(i), []byte(strings.Repeat(fmt.Sprintln("line", i), 200)), 0644)
    }}
}}
"""
RUST = f"""
fn main() {{
    for i in 0..{FILES} {{ std::fs::write(i.to_string(), format!("line {{i}}\\n").repeat(200)).unwrap(); }}
}}
"""
LOOP = "int main(void) { for (volatile unsigned long i = 0; i < 500000000; i++) continue; }"
SHELL = 'for i in $(seq 100); do seq "$i" 200 | sort -r | sed s/1/one/ > "$i"; done'
SQL = (
    "create table t (a integer primary key, b text);"
    + "insert into t (b) values (hex(randomblob(100)));" * 200
    + "select count(*) from t;"
)
# A server of root goes on as another user.
POSTGRES = """
postgres=$(ls -d /usr/lib/postgresql/*/bin | tail -1)
chmod 777 .
exec setpriv --reuid=65534 --regid=65534 --clear-groups sh -ec '
    export PATH=$0:$PATH
    initdb --auth=trust --username=me data > log
    pg_ctl --silent --wait --log=log --options="-k /tmp -h 127.0.0.1" --pgdata=data start
    pgbench --host=127.0.0.1 --username=me --initialize --quiet postgres 2> log.pgbench
    pgbench --host=127.0.0.1 --username=me --transactions=200 postgres > log.pgbench
    pg_ctl --silent --wait --mode=fast --pgdata=data stop' "$postgres"
"""
NPM = """
for package in ms@2.1.3 semver@7.6.3 minimist@1.2.8 picocolors@1.1.0; do npm pack --silent $package; done
echo '{"name": "demo", "version": "1.0.0"}' > package.json
npm install --silent ./*.tgz; rm -r node_modules
"""
CARGO = """
mkdir src .cargo
printf '[package]\\nname = "demo"\\nversion = "0.1.0"\\n' > Cargo.toml
printf '[dependencies]\\nitoa = "=1.0.11"\\nryu = "=1.0.18"\\n' >> Cargo.toml
echo 'fn main() { println!("{} {}", itoa::Buffer::new().format(42), ryu::Buffer::new().format(1.5)); }' > src/main.rs
cargo vendor > .cargo/config.toml 2> /dev/null
"""
# A program's name -> how it is made in a folder, in the shell; its command there; whether the folder is its input.
PROGRAMS = {
    "true": ("", "true", False),
    "Python": ("", "python3 {folder}/main.py", False),
    "Node.js": ("", "node {folder}/main.js", False),
    "Java": ("javac Main.java", "java -cp {folder} Main", False),
    "Go": ("go build -o program main.go", "{folder}/program", False),
    "Rust": ("rustc -O -o program main.rs", "{folder}/program", False),
    "static binary": ("gcc -O2 -static -o program main.c", "{folder}/program", False),
    "shell script": ("", "sh {folder}/main.sh", False),
    "SQLite": ("", "sqlite3 table.db '.read {folder}/main.sql'", False),
    "PostgreSQL": ("", "sh {folder}/postgres.sh", False),
    "git": (
        "git init -q made; mv main.* made; git -C made add .; git -C made -c user.name=a -c user.email=a@example.org "
        "commit -qm 1",
        "git clone -q --no-hardlinks made clone",
        True,
    ),
    "npm": (NPM, "npm ci --offline --silent --cache cache", True),
    "cargo": (CARGO, "cargo build --quiet --offline", True),
}
SOURCES = {"main.py": PYTHON, "main.js": NODE, "Main.java": JAVA, "main.go": GO, "main.rs": RUST, "main.c": LOOP}
SOURCES |= {"main.sh": SHELL, "main.sql": SQL, "postgres.sh": POSTGRES}


def cpu_s(words: list, **options) -> float:
    """CPU seconds of a command and all that it waited for."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **options)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def alone_s(command: str, given: Path | None, place: Path) -> float:
    """CPU seconds of a program, in a new folder or a copy of its input."""
    folder = place / "alone"
    shutil.copytree(given, folder, symlinks=True) if given else folder.mkdir()
    try:
        return cpu_s(["sh", "-c", command], cwd=folder)
    finally:
        shutil.rmtree(folder)


def measured(command: str, given: Path | None, place: Path) -> tuple[float, Row]:
    """CPU seconds of measuring it, and its row."""
    options = ["--filesystem", "ext4", "--no-split", "--output", place / "record.json"]
    options += ["--input", given] if given else []
    taken = cpu_s([REPROFS, "measure", *options, "--", "sh", "-c", command])
    return taken, read(place / "record.json").rows[0]


def main() -> None:
    asked = sys.argv[1:] or list(PROGRAMS)
    print("| program | native (CPU s) | virtual (ms) | measured (CPU s) | twice |\n|---|---|---|---|---|")
    for name in asked:
        make, line, needs_input = PROGRAMS[name]
        with tempfile.TemporaryDirectory() as text:
            place = Path(text)
            place.chmod(0o755)
            folder = place / "program"
            folder.mkdir()
            if not (needs_input and name != "git"):
                for file, content in SOURCES.items():
                    (folder / file).write_text(content)
            if subprocess.run(["sh", "-ec", make], cwd=folder, stdout=subprocess.DEVNULL).returncode:
                print(f"| {name} | cannot be made here | | | |", flush=True)
                continue
            command, given = line.format(folder=folder), folder if needs_input else None
            native = min(alone_s(command, given, place) for _ in range(7))
            runs = [measured(command, given, place) for _ in range(2)]
            taken, rows = zip(*runs, strict=True)
            same = "equal" if rows[0].measurement == rows[1].measurement else "NOT EQUAL"
            virtual = rows[0].numbers.time_ns / 1e6 if rows[0].numbers else rows[0].reason
            print(f"| {name} | {native:.2f} | {virtual:,.3f} | {min(taken):.1f} | {same} |", flush=True)
    print("load of the machine:", *os.getloadavg())


if __name__ == "__main__":
    sys.exit(main())
