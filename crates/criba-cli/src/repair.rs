//! `repair`: makes a new store of what is intact, and lists what is lost.

use std::path::{Path, PathBuf};

use criba::{Db, Loss, Repaired};
use serde_json::Value;

use crate::args::RepairArgs;
use crate::choice::with_shapes;
use crate::escape::Escaped;
use crate::exit::{Exit, Failure};
use crate::json::Object;
use crate::output::Output;
use crate::progress::Progress;
use crate::store;

pub(crate) fn repair(args: &RepairArgs) -> Result<Exit, Failure> {
    let bar = Progress::new(None, "{msg} {pos} keys");
    bar.phase("repairing");
    let mut watch = |keys| bar.position(keys);
    let (repaired, kept) = match &args.to {
        Some(to) => (
            with_shapes(Db::builder(to), None).repair(&args.store, &mut watch)?,
            None,
        ),
        None => {
            let (repaired, kept) =
                with_shapes(Db::builder(&args.store), None).repair_in_place(&mut watch)?;
            (repaired, Some(kept))
        }
    };
    drop(bar);
    let place = args.to.as_ref().unwrap_or(&args.store);
    // The command lists all losses first, even if the new store could not be opened.
    let counted = store::open_to_read(place).map(|db| db.keyspaces().len());
    let keyspaces = *counted.as_ref().unwrap_or(&0);
    let mut output = Output::stdout();
    if args.json {
        write_json(&repaired, keyspaces, (place, kept), &mut output)?;
    } else {
        write_text(&repaired, keyspaces, (place, kept), &mut output)?;
    }
    output.finish()?;
    counted?;
    Ok(if repaired.lost.is_empty() {
        Exit::Done
    } else {
        Exit::Damaged
    })
}

fn write_text(
    repaired: &Repaired,
    keyspaces: usize,
    (place, kept): (&Path, Option<PathBuf>),
    output: &mut Output,
) -> Result<(), Failure> {
    for loss in &repaired.lost {
        write!(output, "{}", Escaped(loss.to_string().as_bytes()))?;
        if let Some((first, last)) = &loss.keys {
            write!(output, "; keys {} to {}", Escaped(first), Escaped(last))?;
        }
        writeln!(output)?;
    }
    if repaired.more_losses > 0 {
        writeln!(output, "and {} more losses", repaired.more_losses)?;
    }
    for remark in &repaired.remarks {
        writeln!(output, "{}", Escaped(remark.as_bytes()))?;
    }
    let name = |path: &Path| Escaped(path.as_os_str().as_encoded_bytes()).to_string();
    writeln!(
        output,
        "{}: {keyspaces} keyspaces, {} keys, {} bytes, from {} blocks of {} segments and {} operations of journals; {}",
        name(place),
        repaired.keys,
        repaired.bytes,
        repaired.blocks,
        repaired.segments,
        repaired.operations,
        match repaired.lost.len() {
            0 => "nothing is lost".to_owned(),
            1 => "1 loss".to_owned(),
            n => format!("{n} losses"),
        }
    )?;
    match kept {
        Some(kept) => writeln!(output, "the damaged store is kept as {}", name(&kept)),
        None => Ok(()),
    }
}

fn write_json(
    repaired: &Repaired,
    keyspaces: usize,
    (place, kept): (&Path, Option<PathBuf>),
    output: &mut Output,
) -> Result<(), Failure> {
    let lost: Vec<Value> = repaired.lost.iter().map(loss).collect();
    let mut object = Object::new()
        .bytes("store", place.as_os_str().as_encoded_bytes())
        .field("keyspaces", keyspaces)
        .field("keys", repaired.keys)
        .field("bytes", repaired.bytes)
        .field("segments", repaired.segments)
        .field("blocks", repaired.blocks)
        .field("operations", repaired.operations)
        .field("lost", lost)
        .field("more_losses", repaired.more_losses)
        .field("remarks", repaired.remarks.clone());
    if let Some(kept) = kept {
        object = object.bytes("kept", kept.as_os_str().as_encoded_bytes());
    }
    object.write(output)
}

fn loss(loss: &Loss) -> Value {
    let mut object = Object::new()
        .bytes("file", loss.path.as_os_str().as_encoded_bytes())
        .field("offset", loss.offset)
        .field("bytes", loss.bytes)
        .field("what", &*loss.what);
    if let Some((first, last)) = &loss.keys {
        object = object.bytes("first_key", first).bytes("last_key", last);
    }
    object.into()
}
