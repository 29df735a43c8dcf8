//! What must hold of every state that a crash leaves.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use criba::storage::{CrashState, Memory, Storage as _};
use criba::{Access, Db, Durability};

use super::workload::{Model, builder, write};

/// Opens the image, reads, writes, closes and reads again. The batch up to which it had everything,
/// or what is wrong.
pub(crate) fn check(
    state: &CrashState,
    image: &Memory,
    (least, most): (usize, usize),
    models: &[Model],
) -> Result<usize, String> {
    let checked = catch_unwind(AssertUnwindSafe(|| {
        check_image(image, (least, most), models)
    }));
    let checked = checked.unwrap_or_else(|panic| Err(format!("panic: {}", message(&*panic))));
    checked.map_err(|what| format!("{what}; {}", state.describe()))
}

fn message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    text.unwrap_or_default()
}

fn told(what: &str) -> impl Fn(criba::Error) -> String {
    move |error| {
        let cause = std::error::Error::source(&error);
        format!(
            "{what}: {error}, {}",
            cause.map_or_else(String::new, ToString::to_string)
        )
    }
}

fn check_image(
    image: &Memory,
    (least, most): (usize, usize),
    models: &[Model],
) -> Result<usize, String> {
    let db = builder(Arc::new(image.clone()))
        .open()
        .map_err(told("open"))?;
    let found = read(&db)?;
    let n = found.get(&b"left"[..]).map_or(0, |stamp| {
        usize::from_le_bytes(stamp[..].try_into().unwrap_or_default())
    });
    if !(least..=most).contains(&n) {
        return Err(format!("state {n}, promised {least} to {most}"));
    }
    if models.get(n) != Some(&found) {
        return Err(format!("not state {n}: {:?}", found.keys()));
    }
    let stats = db.stats();
    if !stats.recovery.unknown_files.is_empty() {
        return Err(format!("unknown files {:?}", stats.recovery.unknown_files));
    }
    if let Some(damage) = stats
        .segments()
        .find_map(|one| one.filter.as_ref()?.damage.as_ref())
    {
        return Err(format!("a filter is damaged: {damage}"));
    }
    write(&db, n + 1, Durability::Sync).map_err(told("write"))?;
    // Journals that recovery has read are needed until then.
    db.flush().map_err(told("flush"))?;
    db.close().map_err(told("close"))?;
    let db = builder(Arc::new(image.clone()))
        .access(Access::ReadOnly)
        .open()
        .map_err(told("open again"))?;
    if !db.stats().recovery.clean {
        return Err("not clean after close".to_owned());
    }
    if models.get(n + 1) != Some(&read(&db)?) {
        return Err(format!("not state {} after a write", n + 1));
    }
    check_files(image, &db)?;
    Ok(n)
}

fn read(db: &Db) -> Result<Model, String> {
    let mut found = Model::new();
    for entry in db.iter() {
        let (key, value) = entry.map_err(told("scan"))?;
        found.insert(key.to_vec(), value.to_vec());
    }
    for (key, value) in &found {
        let got = db.get(key).map_err(told("get"))?;
        if got.as_deref() != Some(&value[..]) {
            return Err(format!("get and scan differ at {}", key.escape_ascii()));
        }
    }
    if db.get("nothing").map_err(told("get"))?.is_some() {
        return Err("something where nothing is".to_owned());
    }
    Ok(found)
}

/// Live segments with their filters, one journal, two manifests, `CURRENT` and `LOCK`: nothing
/// else.
fn check_files(image: &Memory, db: &Db) -> Result<(), String> {
    let names = image.list().map_err(|error| error.to_string())?;
    let stats = db.stats();
    let live: Vec<String> = stats
        .segments()
        .map(|one| format!("{:06}", one.id))
        .collect();
    let mut manifests = 0;
    let mut journals = 0;
    let mut filters = 0;
    for name in &names {
        let is_known = match name.split_once('.') {
            Some((stem, "seg")) => live.iter().any(|id| id == stem),
            Some((_, "filter")) => {
                filters += 1;
                filters <= live.len()
            }
            Some((_, "journal")) => {
                journals += 1;
                journals <= 1
            }
            None if name.starts_with("MANIFEST-") => {
                manifests += 1;
                manifests <= 2
            }
            _ => name == "CURRENT" || name == "LOCK",
        };
        if !is_known {
            return Err(format!("{name} is left over: {names:?}"));
        }
    }
    Ok(())
}
