//! `export`: one consistent view of the store, line by line.

use super::Spelling;
use crate::args::ExportArgs;
use crate::exit::{Exit, Failure};
use crate::progress::Progress;
use crate::{files, store};

pub(crate) fn export(args: &ExportArgs) -> Result<Exit, Failure> {
    // The store first: a wrong name must not cost the file that is there.
    let db = store::open_to_read(&args.store)?;
    let mut output = files::create_output(&args.file, &args.store)?;
    let spelling = Spelling::new(args.json);
    let mut progress = Progress::new(None, "exporting {pos} entries");
    for entry in db.iter() {
        let (key, value) = entry?;
        spelling.write(&key, &value, &mut output)?;
        progress.step();
    }
    drop(progress);
    output.finish()?;
    db.close()?;
    Ok(Exit::Done)
}
