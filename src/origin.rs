//! The process in which a store was opened.
//!
//! A child of `fork` has a copy of every handle of its parent, but none of the threads, and a lock
//! that another thread held at that moment stays held for ever. It shares the map of the journal
//! and the lock of the store with its parent, and would cut the one and give up the other. So a
//! handle works in the process that opened it, and in no other.

use std::sync::Arc;

use memmap2::MmapMut;

use crate::error::{Error, Result};

/// Remembers the process in which it was made.
#[derive(Clone, Debug)]
pub(crate) struct Origin {
    /// Memory that the system zeroes in a forked child, which costs a look at it less than a call
    /// that asks for the number of the process. `None` where the system does not offer that.
    page: Option<Arc<MmapMut>>,
    process: u32,
}

impl Origin {
    /// Stands for the calling process.
    pub(crate) fn here() -> Origin {
        Origin {
            page: wiped_on_fork().map(Arc::new),
            process: std::process::id(),
        }
    }

    /// Whether the calling process is another one.
    #[inline]
    pub(crate) fn is_elsewhere(&self) -> bool {
        match &self.page {
            Some(page) => page.first() == Some(&0),
            None => self.process != std::process::id(),
        }
    }

    /// Refuses in any process but the one in which it was made.
    #[inline]
    pub(crate) fn check(&self) -> Result<()> {
        if self.is_elsewhere() {
            return Err(Error::Forked);
        }
        Ok(())
    }
}

/// A page that begins with a one, and in a forked child with a zero.
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "the crate of memory maps lacks this advice")]
fn wiped_on_fork() -> Option<MmapMut> {
    let mut page = MmapMut::map_anon(1).ok()?;
    let start = page.as_mut_ptr().cast();
    // SAFETY: the address and the length are those of a private map that this function owns. The
    // advice leaves its bytes as they are in this process; in a child nobody refers to them yet.
    let advised = unsafe { libc::madvise(start, page.len(), libc::MADV_WIPEONFORK) };
    if advised != 0 {
        return None;
    }
    *page.first_mut()? = 1;
    Some(page)
}

#[cfg(not(target_os = "linux"))]
fn wiped_on_fork() -> Option<MmapMut> {
    None
}

#[cfg(test)]
#[expect(unsafe_code, reason = "the standard library has no fork")]
mod tests {
    use super::*;

    /// The answers of a forked child and of its parent.
    fn in_child_and_parent(origin: &Origin) -> (bool, bool) {
        // SAFETY: the child allocates nothing, takes no lock and ends at once.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let code = i32::from(origin.is_elsewhere());
            // SAFETY: ends the process without running anything of this program.
            unsafe { libc::_exit(code) };
        }
        let mut status = 0;
        // SAFETY: the status outlives the call.
        let ended = unsafe { libc::waitpid(child, &raw mut status, 0) };
        assert_eq!(ended, child);
        assert!(libc::WIFEXITED(status), "{status}");
        (libc::WEXITSTATUS(status) == 1, origin.is_elsewhere())
    }

    #[test]
    fn a_forked_child_is_elsewhere() {
        let by_page = Origin::here();
        assert!(by_page.page.is_some() || cfg!(not(target_os = "linux")));
        let by_number = Origin {
            page: None,
            ..by_page.clone()
        };
        for origin in [by_page, by_number] {
            assert_eq!(in_child_and_parent(&origin), (true, false), "{origin:?}");
            origin.check().unwrap();
        }
    }
}
