//! A progress bar on standard error, drawn only where a person looks.

use indicatif::{ProgressBar, ProgressStyle};

/// How often a bar learns of progress, in steps: often enough to look alive, too seldom to cost.
const STEP: u64 = 1024;

/// A bar; it erases itself when it is dropped.
pub(crate) struct Progress {
    bar: ProgressBar,
    pending: u64,
}

impl Progress {
    /// A bar of `total` steps, or a counter where the total is unknown.
    pub(crate) fn new(total: Option<u64>, template: &str) -> Progress {
        let bar = total.map_or_else(ProgressBar::no_length, ProgressBar::new);
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("=> "));
        }
        Progress { bar, pending: 0 }
    }

    /// One step.
    pub(crate) fn step(&mut self) {
        self.pending += 1;
        if self.pending == STEP {
            self.bar.inc(self.pending);
            self.pending = 0;
        }
    }

    /// Many steps.
    pub(crate) fn steps(&mut self, count: u64) {
        self.bar.inc(count + std::mem::take(&mut self.pending));
    }

    /// Where it stands, for callers that count themselves.
    pub(crate) fn position(&self, position: u64) {
        self.bar.set_position(position);
    }

    /// The same, of so many.
    pub(crate) fn position_of(&self, position: u64, total: u64) {
        self.bar.set_length(total);
        self.bar.set_position(position);
    }

    /// What is being done. The text must come from the program, not from its input.
    pub(crate) fn phase(&self, text: impl Into<String>) {
        self.bar.set_message(text.into());
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
