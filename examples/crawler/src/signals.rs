//! SIGINT (Ctrl-C) and SIGTERM: the first one asks the crawl to end in order, the second one ends the
//! process at once, as if nobody had listened.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

/// Set by the first signal. Nothing is here in a process that does not listen.
static ASKED: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// Listens from now on.
///
/// # Errors
///
/// When the system refuses.
pub(crate) fn listen() -> io::Result<()> {
    let asked = ASKED.get_or_init(Arc::default);
    for signal in [SIGINT, SIGTERM] {
        // Handlers run in this order: the first signal finds the flag unset here, and sets it below.
        flag::register_conditional_default(signal, Arc::clone(asked))?;
        flag::register(signal, Arc::clone(asked))?;
    }
    Ok(())
}

/// Whether a signal has come.
pub(crate) fn asked_to_stop() -> bool {
    ASKED
        .get()
        .is_some_and(|asked| asked.load(Ordering::Relaxed))
}
