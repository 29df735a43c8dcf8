//! Where results go: standard output or a file, buffered, with every error noticed.

use std::fmt;
use std::io::{self, BufWriter, IsTerminal as _, Write};

use crate::exit::Failure;

/// A buffered destination that turns errors into [`Failure`]s.
///
/// `write!` and `writeln!` work on it. Call [`Output::finish`] at the end: what is still in the
/// buffer may fail too.
pub(crate) struct Output {
    writer: BufWriter<Box<dyn Write>>,
    name: String,
    terminal: bool,
}

impl Output {
    pub(crate) fn stdout() -> Output {
        let terminal = io::stdout().is_terminal();
        Output::new(Box::new(io::stdout().lock()), "standard output", terminal)
    }

    pub(crate) fn file(file: std::fs::File, name: impl Into<String>) -> Output {
        Output::new(Box::new(file), name, false)
    }

    fn new(writer: Box<dyn Write>, name: impl Into<String>, terminal: bool) -> Output {
        let writer = BufWriter::with_capacity(64 << 10, writer);
        Output {
            writer,
            name: name.into(),
            terminal,
        }
    }

    /// Whether a person looks at it.
    pub(crate) fn is_terminal(&self) -> bool {
        self.terminal
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.writer
            .write_all(bytes)
            .map_err(|error| Failure::output(&self.name, &error))
    }

    pub(crate) fn write_fmt(&mut self, text: fmt::Arguments<'_>) -> Result<(), Failure> {
        self.writer
            .write_fmt(text)
            .map_err(|error| Failure::output(&self.name, &error))
    }

    /// Writes what is still buffered.
    pub(crate) fn finish(mut self) -> Result<(), Failure> {
        self.writer
            .flush()
            .map_err(|error| Failure::output(&self.name, &error))
    }
}
