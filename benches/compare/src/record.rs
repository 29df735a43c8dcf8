//! What one process measured, as a line of JSON, and where it was measured.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::engine::Result;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Record {
    pub engine: String,
    pub group: String,
    pub round: u64,
    pub keys: u64,
    pub reads: u64,
    pub value_bytes: u64,
    pub compression: bool,
    pub environment: Environment,
    pub metrics: BTreeMap<String, f64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Environment {
    pub processor: String,
    pub threads: usize,
    pub memory_bytes: u64,
    pub kernel: String,
    /// Versions of the stores, as this program was built.
    pub versions: BTreeMap<String, String>,
    /// One-minute load average when the process ended: its own load, and what else the machine did.
    pub load: String,
}

const LOCK: &str = include_str!("../Cargo.lock");
const STORES: [&str; 6] = [
    "criba",
    "fjall",
    "coordinode-lsm-tree",
    "redb",
    "lmdb-master-sys",
    "sled",
];

/// `dir` is where the store was.
pub fn environment(dir: &Path) -> Result<Environment> {
    let processors = std::fs::read_to_string("/proc/cpuinfo")?;
    let memory = std::fs::read_to_string("/proc/meminfo")?;
    let kilobytes: u64 = after(&memory, "MemTotal:")
        .trim_end_matches("kB")
        .trim()
        .parse()?;
    let versions = STORES.iter().map(|name| version(name));
    let load = std::fs::read_to_string("/proc/loadavg")?;
    Ok(Environment {
        processor: after(&processors, "model name").to_owned(),
        threads: std::thread::available_parallelism()?.get(),
        memory_bytes: kilobytes << 10,
        kernel: std::fs::read_to_string("/proc/sys/kernel/osrelease")?
            .trim()
            .to_owned(),
        versions: versions.chain(rocksdb_version(dir)).collect(),
        load: load.split(' ').next().unwrap_or_default().to_owned(),
    })
}

fn after<'a>(text: &'a str, name: &str) -> &'a str {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.unwrap_or_default()
        .trim_start_matches([' ', '\t', ':'])
        .trim()
}

fn version(name: &str) -> (String, String) {
    let entry = format!("name = \"{name}\"\nversion = \"");
    let rest = LOCK.split_once(&entry).map_or("", |(_, rest)| rest);
    let version = rest.split('"').next().unwrap_or_default();
    (name.to_owned(), version.to_owned())
}

/// The library may be one that was installed: it says in its files which it is.
fn rocksdb_version(dir: &Path) -> Option<(String, String)> {
    let mut entries = std::fs::read_dir(dir).ok()?.flatten();
    let options = entries.find(|entry| {
        let name = entry.file_name();
        name.to_str()
            .is_some_and(|name| name.starts_with("OPTIONS-"))
    })?;
    let text = std::fs::read_to_string(options.path()).ok()?;
    let version = text
        .lines()
        .find_map(|line| line.trim().strip_prefix("rocksdb_version="))?;
    Some(("rocksdb".to_owned(), version.to_owned()))
}

/// # Errors
///
/// Names the file and the line that is no record.
pub fn read(path: &Path) -> Result<Vec<Record>> {
    let text =
        std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let mut records = Vec::new();
    for (nth, line) in text.lines().enumerate() {
        let record = serde_json::from_str(line)
            .map_err(|error| format!("{}, line {}: {error}", path.display(), nth + 1))?;
        records.push(record);
    }
    Ok(records)
}
