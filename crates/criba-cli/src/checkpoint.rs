//! `checkpoint`: a complete store of this moment, beside the one there is.

use criba::Create;

use crate::args::CheckpointArgs;
use crate::escape::Escaped;
use crate::exit::{Exit, Failure};
use crate::files;
use crate::json::Object;
use crate::output::Output;
use crate::store;

pub(crate) fn checkpoint(args: &CheckpointArgs) -> Result<Exit, Failure> {
    let db = store::open_to_write(&args.store, Create::Never)?;
    files::check_outside(&args.target, &args.store)?;
    let made = db.checkpoint(&args.target)?;
    let keyspaces = db.keyspaces().len();
    db.close()?;
    let target = args.target.as_os_str().as_encoded_bytes();
    let mut output = Output::stdout();
    if args.json {
        Object::new()
            .bytes("store", target)
            .field("sequence", made.sequence)
            .field("keyspaces", keyspaces)
            .field("linked_files", made.linked_files)
            .field("copied_files", made.copied_files)
            .field("copied_bytes", made.copied_bytes)
            .write(&mut output)?;
    } else {
        writeln!(
            output,
            "{}: {keyspaces} keyspaces up to sequence {}; {} files linked, {} copied ({} bytes)",
            Escaped(target),
            made.sequence,
            made.linked_files,
            made.copied_files,
            made.copied_bytes
        )?;
    }
    output.finish()?;
    Ok(Exit::Done)
}
