//! `export`: one consistent view of the store, line by line.

use criba::Error;

use super::{Kind, Spelling};
use crate::args::ExportArgs;
use crate::exit::{Exit, Failure};
use crate::progress::Progress;
use crate::{files, store};

pub(crate) fn export(args: &ExportArgs) -> Result<Exit, Failure> {
    // The store first: a wrong name must not cost the file that is there.
    let db = store::open_to_combine(&args.store, args.operator.as_ref())?;
    let mut output = files::create_output(&args.file, &args.store)?;
    let spelling = Spelling::new(args.json);
    let mut progress = Progress::new(None, "exporting {pos} entries");
    let snapshot = db.snapshot();
    for entry in &snapshot {
        match entry {
            Ok((key, value)) => spelling.write(&key, Kind::Value, &value, &mut output)?,
            // What cannot be combined here is combined where it comes to.
            Err(Error::NoOperator { key, .. } | Error::Operator { key, .. }) => {
                let (value, operands) = snapshot.operands(&key)?;
                if let Some(value) = value {
                    spelling.write(&key, Kind::Value, &value, &mut output)?;
                }
                for operand in operands {
                    spelling.write(&key, Kind::Operand, &operand, &mut output)?;
                }
            }
            Err(error) => return Err(error.into()),
        }
        progress.step();
    }
    drop(snapshot);
    drop(progress);
    output.finish()?;
    db.close()?;
    Ok(Exit::Done)
}
