//! The program as a whole: real files, real stores, no network but loopback.

mod content;
mod damage;
mod extract;
mod gc;
mod index;
mod json;
mod kill;
mod lookups;
mod unusual;
mod web;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{self, Stdio};
use std::time::{Duration, Instant};

use clap::Parser as _;

use crate::args::{Cli, Command};
use crate::exit::{Exit, Failure};
use crate::ingest::{self, Ended};

/// A directory to fetch from and one for the store.
pub(crate) struct Place {
    _dir: tempfile::TempDir,
    pub(crate) tree: PathBuf,
    pub(crate) store: PathBuf,
    pub(crate) out: PathBuf,
}

impl Place {
    pub(crate) fn new() -> Place {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let tree = root.join("tree");
        fs::create_dir(&tree).unwrap();
        Place {
            tree,
            store: root.join("store"),
            out: root.join("out"),
            _dir: dir,
        }
    }

    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.tree.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }

    /// Runs a command on the store.
    pub(crate) fn run(&self, arguments: &[&str]) -> Result<Exit, Failure> {
        crate::run(&self.command(arguments))
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let store = self.store.to_str().unwrap();
        let (name, rest) = arguments.split_first().unwrap();
        let all = ["io_fetcher", name, "--store", store];
        let all = all.iter().chain(rest);
        Cli::try_parse_from(all).unwrap().command
    }

    /// Ingests the tree, once the file system's clock has left the last change behind.
    pub(crate) fn ingest(&self, options: &[&str]) -> Ended {
        self.ingest_these(&[&[self.tree.to_str().unwrap()], options].concat())
    }

    pub(crate) fn ingest_these(&self, arguments: &[&str]) -> Ended {
        pause();
        let command = self.command(&[&["ingest"], arguments].concat());
        let Command::Ingest(args) = command else {
            panic!("ingest")
        };
        ingest::ingest(&args).unwrap()
    }

    /// Extracts everything; the files that were extracted from the tree, by their names in it.
    pub(crate) fn extract(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        self.clear_out();
        let to = self.out.to_str().unwrap();
        assert_eq!(self.run(&["extract", "--to", to]).unwrap(), Exit::Done);
        files(&self.out.join(self.tree.strip_prefix("/").unwrap()))
    }

    /// Without what was extracted.
    pub(crate) fn clear_out(&self) {
        if self.out.exists() {
            fs::remove_dir_all(&self.out).unwrap();
        }
    }

    pub(crate) fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        files(&self.tree)
    }
}

/// Longer than a tick of any file system's clock, so that what was written before is not racy.
pub(crate) fn pause() {
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(30) {
        std::thread::park_timeout(Duration::from_millis(30));
    }
}

const CHILD: &str = "IO_FETCHER_TEST_CHILD";

/// A command in a process of its own: this test, run by [`is_killed`] and [`output`].
#[test]
#[ignore = "is run by other tests"]
fn child() {
    let arguments = std::env::var(CHILD).unwrap();
    let arguments = ["io_fetcher"].into_iter().chain(arguments.split('\n'));
    let cli = Cli::try_parse_from(arguments).unwrap();
    process::exit(crate::finish(&cli.command) as i32);
}

fn process_of(arguments: &[&str]) -> process::Command {
    let mut command = process::Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "tests::child", "--ignored"]);
    command.env(CHILD, arguments.join("\n"));
    command
}

/// Runs a command in a process of its own.
fn output(arguments: &[&str]) -> process::Output {
    process_of(arguments).output().unwrap()
}

/// Runs a command in a process of its own and kills it after some time, unless it has ended before.
fn is_killed(arguments: &[&str], after: Duration) -> bool {
    let mut child = process_of(arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    std::thread::park_timeout(after);
    let runs = child.try_wait().unwrap().is_none();
    child.kill().unwrap();
    child.wait().unwrap();
    runs
}

/// All regular files below a directory, with their content.
pub(crate) fn files(root: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let (mut found, mut folders) = (BTreeMap::new(), vec![root.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let meta = path.symlink_metadata().unwrap();
            if meta.is_dir() {
                folders.push(path);
            } else if meta.is_file() {
                let name = path.strip_prefix(root).unwrap().to_owned();
                found.insert(name, fs::read(&path).unwrap());
            }
        }
    }
    found
}

/// Bytes that do not compress, the same for the same seed.
pub(crate) fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    (0..len).map(|_| next()).collect()
}

/// A tree with some of everything: small and large, duplicates, text, empty files.
pub(crate) fn plant(place: &Place, files: usize) {
    for n in 0..files {
        let name = format!("d{}/e{}/f{n}", n % 7, n % 3);
        match n % 5 {
            0 => place.write(&name, format!("small {n}\n")),
            1 => place.write(&name, noise(n as u64, 3000 + n)),
            2 => place.write(&name, noise(n as u64 / 10, 9000)),
            3 => place.write(&name, format!("line {n}\n").repeat(500 + n)),
            _ => place.write(
                &name,
                if n % 10 == 4 {
                    vec![]
                } else {
                    b"same".to_vec()
                },
            ),
        };
    }
}
