//! Reads that the kernel makes at once: a ring of io_uring.
//!
//! The caller waits until all of them have ended, so that the memory that the kernel fills outlives
//! them. What the ring does not read, or reads in part, is left to [`Task::finish`], which also finds
//! the error that the caller gets: the ring only makes reads faster. The safe twin of this file is
//! the pool of threads in `many.rs`; a test there compares both on random reads.

use std::io;

use super::task::Task;

/// Reads under way at once, at most.
pub(super) const DEPTH: usize = 64;

/// The most bytes that are asked for with one entry; the rest of a longer read is read by itself.
const ENTRY_BYTES_MAX: usize = 1 << 30;

/// A ring, for one caller at a time.
pub(super) struct Ring {
    ring: io_uring::IoUring,
    /// A forked child shares the ring with its parent and must not touch it.
    process: u32,
}

impl Ring {
    /// # Errors
    ///
    /// When the kernel has no rings, or none that read, or lets this process have none.
    pub(super) fn open() -> io::Result<Ring> {
        let ring = io_uring::IoUring::new(DEPTH as u32)?;
        let mut probe = io_uring::Probe::new();
        ring.submitter().register_probe(&mut probe)?;
        if !probe.is_supported(io_uring::opcode::Read::CODE) {
            return Err(io::ErrorKind::Unsupported.into());
        }
        Ok(Ring {
            ring,
            process: std::process::id(),
        })
    }

    /// Whether this process made it.
    pub(super) fn is_ours(&self) -> bool {
        self.process == std::process::id()
    }

    /// Makes these reads, [`DEPTH`] at once. Whatever failed or came short is not finished.
    ///
    /// # Errors
    ///
    /// When the kernel takes no more entries: the ring is of no use then.
    pub(super) fn read(&mut self, tasks: &mut [Task<'_>]) -> io::Result<()> {
        let (mut next, mut under_way) = (0, 0_usize);
        loop {
            while under_way < DEPTH
                && let Some(task) = tasks.get_mut(next)
                && self.push(task, next)
            {
                next += 1;
                under_way += 1;
            }
            if under_way == 0 {
                return Ok(());
            }
            // For a few at a time: each wait is a system call.
            match self.ring.submit_and_wait(under_way.div_ceil(4)) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => {
                    self.abandon(tasks.get_mut(..next).unwrap_or_default());
                    return Err(error);
                }
                _ => {}
            }
            for entry in self.ring.completion() {
                under_way -= 1;
                let bytes = usize::try_from(entry.result()).unwrap_or(0);
                if let Some(task) = tasks.get_mut(entry.user_data() as usize) {
                    task.has_come(bytes);
                    task.is_under_way = false;
                }
            }
        }
    }

    /// Puts a read into the queue, if there is room.
    #[expect(unsafe_code, reason = "the kernel writes to the memory of the task")]
    fn push(&mut self, task: &mut Task<'_>, number: usize) -> bool {
        use std::os::fd::AsRawFd as _;
        let (file, offset) = (io_uring::types::Fd(task.file.as_raw_fd()), task.offset);
        let buffer = task.buffer();
        let len = buffer.len().min(ENTRY_BYTES_MAX) as u32;
        let entry = io_uring::opcode::Read::new(file, buffer.as_mut_ptr(), len)
            .offset(offset)
            .build()
            .user_data(number as u64);
        // SAFETY: the file and the memory stay until the read has ended. `read` holds the tasks and
        // touches no buffer of one that is under way. It returns when none is, or after `abandon`,
        // which leaves their buffers to the kernel for ever.
        let is_pushed = unsafe { self.ring.submission().push(&entry) }.is_ok();
        task.is_under_way = is_pushed;
        is_pushed
    }

    /// Gives up. The kernel may still be about to write to the memory of reads that it has taken.
    fn abandon(&mut self, tasks: &mut [Task<'_>]) {
        // The last ones are in the queue still, and go with the ring.
        let taken = tasks.len() - self.ring.submission().len().min(tasks.len());
        let taken = tasks.iter_mut().take(taken);
        taken
            .filter(|task| task.is_under_way)
            .for_each(Task::leave_buffer);
    }
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ring").finish_non_exhaustive()
    }
}
