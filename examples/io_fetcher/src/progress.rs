//! A progress line on standard error, drawn only where a person looks.

use indicatif::{HumanBytes, ProgressBar, ProgressStyle};

/// What is being done and how far it is; it erases itself when it is dropped.
pub(crate) struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// A line for work of unknown length, or a bar of `total` steps.
    pub(crate) fn new(total: Option<u64>) -> Progress {
        let bar = total.map_or_else(ProgressBar::no_length, ProgressBar::new);
        let template = match total {
            Some(_) => "{bar:30} {pos}/{len} {msg}",
            None => "{spinner} {pos} documents, {msg} [{elapsed}]",
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        Progress { bar }
    }

    /// Documents looked at, bytes read and stored so far.
    pub(crate) fn show(&self, documents: u64, read: u64, stored: u64) {
        self.bar.set_position(documents);
        self.bar.set_message(format!(
            "{} read, {} stored",
            HumanBytes(read),
            HumanBytes(stored)
        ));
    }

    pub(crate) fn step(&self) {
        self.bar.inc(1);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
