//! `export`: one consistent view of a keyspace, or of all, line by line.

use std::io::{self, Write as _};

use criba::{Error, Snapshot};

use super::{Kind, Spelling};
use crate::args::ExportArgs;
use crate::exit::{Exit, Failure};
use crate::keyspaces::{Name, quoted};
use crate::output::Output;
use crate::progress::Progress;
use crate::{files, store};

pub(crate) fn export(args: &ExportArgs) -> Result<Exit, Failure> {
    let name = Name::given(&args.place, &args.unescape)?;
    // The store first: a wrong name must not cost the file that is there.
    let operator = args.operator.as_ref();
    let (db, keyspaces) = if args.all {
        store::combine_all(&args.store, operator)?
    } else {
        let (db, keyspace) = store::combine_in(&args.store, &name, operator)?;
        (db, vec![keyspace])
    };
    let mut export = Export {
        output: files::create_output(&args.file, &args.store)?,
        spelling: Spelling::new(args.json),
        progress: Progress::new(None, "exporting {pos} entries"),
        operator: None,
    };
    let snapshot = db.snapshot();
    for keyspace in &keyspaces {
        if args.all {
            let name = keyspace.name();
            export.spelling.write_keyspace(name, &mut export.output)?;
        }
        export.entries(&snapshot.keyspace(keyspace))?;
    }
    drop(snapshot);
    drop(export.progress);
    export.output.finish()?;
    let others = db.keyspaces().len().saturating_sub(1);
    db.close()?;
    if others > 0 && !args.all && args.place.keyspace.is_none() {
        // Nothing is to be done when standard error is gone.
        let note = "the default keyspace was exported; with --all,";
        writeln!(io::stderr(), "{note} {others} other keyspaces are too").ok();
    }
    Ok(Exit::Done)
}

struct Export {
    output: Output,
    spelling: Spelling,
    progress: Progress,
    /// That of the operands so far.
    operator: Option<Box<str>>,
}

impl Export {
    fn entries(&mut self, snapshot: &Snapshot) -> Result<(), Failure> {
        for entry in snapshot {
            match entry {
                Ok((key, value)) => self.write(&key, Kind::Value, &value)?,
                // The store that imports them combines these operands.
                Err(Error::NoOperator { name, key }) => {
                    self.check_operator(name)?;
                    self.parts(snapshot, &key)?;
                }
                Err(Error::Operator { key, .. }) => self.parts(snapshot, &key)?,
                Err(error) => return Err(error.into()),
            }
            self.progress.step();
        }
        Ok(())
    }

    /// Lines do not name the operator, and `import` has one for all.
    fn check_operator(&mut self, name: Option<Box<str>>) -> Result<(), Failure> {
        match (&self.operator, name) {
            (Some(first), Some(other)) if *first != other => Err(Failure::usage(format!(
                "keyspaces have operands of the operators {} and {}; \
                 export them one by one with --keyspace",
                quoted(first.as_bytes()),
                quoted(other.as_bytes())
            ))),
            (None, Some(name)) => {
                self.operator = Some(name);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// A key with operands, as they are.
    fn parts(&mut self, snapshot: &Snapshot, key: &[u8]) -> Result<(), Failure> {
        let (value, operands) = snapshot.operands(key)?;
        if let Some(value) = value {
            self.write(key, Kind::Value, &value)?;
        }
        for operand in operands {
            self.write(key, Kind::Operand, &operand)?;
        }
        Ok(())
    }

    fn write(&mut self, key: &[u8], kind: Kind, value: &[u8]) -> Result<(), Failure> {
        self.spelling.write(key, kind, value, &mut self.output)
    }
}
