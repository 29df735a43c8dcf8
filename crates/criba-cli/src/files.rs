//! Files that the person names on the command line: input to read, reports to write.
//!
//! They are not files of a live store, which only the library touches; a study may copy one that is
//! at rest.
#![expect(
    clippy::disallowed_methods,
    reason = "files outside the store, named by the user"
)]

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader};
use std::path::Path;

use crate::escape::Escaped;
use crate::exit::Failure;
use crate::output::Output;

/// An open input: a file, or standard input.
pub(crate) struct Input {
    pub(crate) reader: Box<dyn BufRead>,
    pub(crate) name: String,
    /// Bytes of it, where that is known: for a progress bar only.
    pub(crate) bytes: Option<u64>,
}

fn is_stdio(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Opens an input; `-` is standard input.
///
/// # Errors
///
/// When the file cannot be opened, or is a directory.
pub(crate) fn open_input(path: &Path) -> Result<Input, Failure> {
    if is_stdio(path) {
        let reader = Box::new(BufReader::with_capacity(256 << 10, io::stdin()));
        return Ok(Input {
            reader,
            name: "standard input".into(),
            bytes: None,
        });
    }
    let name = path.display().to_string();
    let fail = |error: &io::Error| Failure::io(format_args!("cannot read {name}"), error);
    let file = File::open(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => Failure::usage(format!("there is no file {name}")),
        _ => fail(&error),
    })?;
    let metadata = file.metadata().map_err(|error| fail(&error))?;
    if metadata.is_dir() {
        return Err(Failure::usage(format!(
            "{name} is a directory; name a file"
        )));
    }
    let bytes = metadata.is_file().then_some(metadata.len());
    Ok(Input {
        reader: Box::new(BufReader::with_capacity(256 << 10, file)),
        name,
        bytes,
    })
}

/// Opens an output and empties the file if it is there; `-` is standard output.
///
/// # Errors
///
/// When it cannot be created, or lies inside `store`, whose files it might overwrite.
pub(crate) fn create_output(path: &Path, store: &Path) -> Result<Output, Failure> {
    if is_stdio(path) {
        return Ok(Output::stdout());
    }
    check_outside(path, store)?;
    let name = path.display().to_string();
    let file = File::create(path).map_err(|error| Failure::output(&name, &error))?;
    Ok(Output::file(file, name))
}

/// # Errors
///
/// When something at this path, which need not be there, would lie inside the store.
pub(crate) fn check_outside(path: &Path, store: &Path) -> Result<(), Failure> {
    let Ok(store) = fs::canonicalize(store) else {
        return Ok(());
    };
    let folders = path.ancestors().skip(1).map(|folder| {
        if folder.as_os_str().is_empty() {
            Path::new(".")
        } else {
            folder
        }
    });
    // The nearest folder that is there.
    let folder = folders.map(fs::canonicalize).find_map(Result::ok);
    if folder.is_some_and(|folder| folder.starts_with(store)) {
        return Err(Failure::usage(format!(
            "{} lies inside the store; choose another place",
            Escaped(path.as_os_str().as_encoded_bytes())
        )));
    }
    Ok(())
}

/// Checks that a report can be written, before the work that leads to it. The file is created,
/// but an existing one is not changed yet.
///
/// # Errors
///
/// When it cannot be opened for writing.
pub(crate) fn check_report(path: &Path) -> Result<(), Failure> {
    let opened = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .open(path);
    opened
        .map(drop)
        .map_err(|error| Failure::output(&path.display().to_string(), &error))
}

/// Writes a report in place of what was there.
///
/// # Errors
///
/// When it cannot be written whole.
pub(crate) fn write_report(path: &Path, text: &str) -> Result<(), Failure> {
    fs::write(path, text).map_err(|error| Failure::output(&path.display().to_string(), &error))
}

/// Copies the files of a directory, which has no others in it, to a new one. One that goes meanwhile
/// is passed over: a store at rest may still be removing what it no longer has.
///
/// # Errors
///
/// When a file cannot be read or written.
pub(crate) fn copy_directory(from: &Path, to: &Path) -> Result<(), Failure> {
    let copy = || -> io::Result<()> {
        fs::create_dir(to)?;
        for entry in fs::read_dir(from)? {
            let entry = entry?;
            match fs::copy(entry.path(), to.join(entry.file_name())) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                copied => _ = copied?,
            }
        }
        Ok(())
    };
    copy().map_err(|error| {
        let what = format!("cannot copy {} to {}", from.display(), to.display());
        Failure::io(format_args!("{what}"), &error)
    })
}
