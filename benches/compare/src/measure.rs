//! What the system says about this process and its files, and how long things take.

use std::fs::File;
use std::io::Read;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::engine::Result;

/// Counters of this process.
#[derive(Clone, Copy, Debug)]
pub struct Io {
    /// Bytes fetched from the device for it, page faults and read-ahead included.
    pub device_read: u64,
    /// Bytes it made dirty in the page cache, through system calls or mapped files.
    pub device_written: u64,
    /// System calls that read.
    pub read_calls: u64,
    /// Page faults that had to read.
    pub faults: u64,
    /// Time of processors, in user code and in the system, over all threads.
    pub processor: Duration,
}

impl Io {
    pub fn now() -> Result<Io> {
        // One call, however long the text is, so that callers know what counting adds to the count.
        let mut text = [0; 1024];
        let len = File::open("/proc/self/io")?.read(&mut text)?;
        let text = std::str::from_utf8(&text[..len])?;
        // SAFETY: all bytes zero are a valid `rusage`, which the call then fills in.
        let usage = unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            libc::getrusage(libc::RUSAGE_SELF, &raw mut usage);
            usage
        };
        Ok(Io {
            device_read: field(text, "read_bytes:")?,
            device_written: field(text, "write_bytes:")?,
            read_calls: field(text, "syscr:")?,
            faults: usage.ru_majflt as u64,
            processor: duration(usage.ru_utime) + duration(usage.ru_stime),
        })
    }

    pub fn since(self, earlier: Io) -> Io {
        Io {
            device_read: self.device_read - earlier.device_read,
            device_written: self.device_written - earlier.device_written,
            read_calls: self.read_calls - earlier.read_calls,
            faults: self.faults - earlier.faults,
            processor: self.processor - earlier.processor,
        }
    }
}

fn duration(time: libc::timeval) -> Duration {
    Duration::new(time.tv_sec as u64, time.tv_usec as u32 * 1000)
}

fn field(text: &str, name: &str) -> Result<u64> {
    let line = text.lines().find(|line| line.starts_with(name));
    let value = line.and_then(|line| line[name.len()..].split_whitespace().next());
    let value = value.ok_or_else(|| format!("no {name} in what the system says"))?;
    Ok(value.parse()?)
}

/// Memory of this process.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    /// The most it ever had, mapped files included, since `forget_peak`.
    pub peak_bytes: u64,
    /// What it has now, mapped files not included.
    pub own_bytes: u64,
}

impl Memory {
    pub fn now() -> Result<Memory> {
        let text = std::fs::read_to_string("/proc/self/status")?;
        Ok(Memory {
            peak_bytes: field(&text, "VmHWM:")? << 10,
            own_bytes: field(&text, "RssAnon:")? << 10,
        })
    }

    pub fn forget_peak() -> Result<()> {
        Ok(std::fs::write("/proc/self/clear_refs", "5")?)
    }
}

/// Bytes allocated on disk by all files below.
pub fn disk_bytes(dir: &Path) -> Result<u64> {
    let mut bytes = 0;
    for_each_file(dir, &mut |path| {
        bytes += path.metadata()?.blocks() * 512;
        Ok(())
    })?;
    Ok(bytes)
}

/// Makes all files below durable and takes them out of the page cache, mapped ones included.
pub fn drop_page_cache(dir: &Path) -> Result<()> {
    for_each_file(dir, &mut |path| Ok(File::open(path)?.sync_all()?))?;
    unmap_pages(dir)?;
    for_each_file(dir, &mut |path| {
        let file = File::open(path)?;
        // SAFETY: the descriptor is open; the call only gives advice.
        let code =
            unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
        match code {
            0 => Ok(()),
            code => Err(std::io::Error::from_raw_os_error(code).into()),
        }
    })
}

/// Lets go of the pages that this process has mapped of files below, which would stay in the page
/// cache otherwise. Shared mappings only: nothing is lost, the next access faults them in again.
fn unmap_pages(dir: &Path) -> Result<()> {
    let dir = dir.canonicalize()?;
    for line in std::fs::read_to_string("/proc/self/maps")?.lines() {
        let fields: Vec<_> = line.split_whitespace().collect();
        let [range, access, .., path] = &fields[..] else {
            continue;
        };
        let Some((from, to)) = range.split_once('-') else {
            continue;
        };
        if !access.ends_with('s') || !Path::new(path).starts_with(&dir) {
            continue;
        }
        let (from, to) = (
            usize::from_str_radix(from, 16)?,
            usize::from_str_radix(to, 16)?,
        );
        // SAFETY: the range is a shared mapping of a file of ours, whose content the advice keeps.
        unsafe { libc::madvise(from as *mut libc::c_void, to - from, libc::MADV_DONTNEED) };
    }
    Ok(())
}

/// Files that go meanwhile, because a store removes them, are none.
fn for_each_file(dir: &Path, see: &mut dyn FnMut(&Path) -> Result<()>) -> Result<()> {
    for entry in std::fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            for_each_file(&path, see)?;
            continue;
        }
        match see(&path) {
            Err(error) if path.exists() => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// How many times what took how long: 16 buckets for each doubling, 4 % wide.
pub struct Latencies {
    counts: Vec<u64>,
    total: u64,
    worst: Duration,
}

const BUCKETS_PER_DOUBLING: u32 = 16;

impl Latencies {
    pub fn new() -> Latencies {
        Latencies {
            counts: vec![0; 64 * BUCKETS_PER_DOUBLING as usize],
            total: 0,
            worst: Duration::ZERO,
        }
    }

    pub fn add(&mut self, took: Duration) {
        let nanos = (took.as_nanos() as u64).max(16);
        let doubling = nanos.ilog2();
        let within = (nanos >> (doubling - 4)) & 15;
        self.counts[(doubling * BUCKETS_PER_DOUBLING) as usize + within as usize] += 1;
        self.total += 1;
        self.worst = self.worst.max(took);
    }

    /// In microseconds; the upper end of the bucket.
    pub fn quantile(&self, part: f64) -> f64 {
        let wanted = (part * self.total as f64).ceil() as u64;
        let mut seen = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= wanted && *count > 0 {
                let (doubling, within) = (bucket / 16, bucket % 16);
                let upper = (1u64 << doubling) + ((within as u64 + 1) << (doubling - 4));
                return (upper as f64 / 1e3).min(self.worst());
            }
        }
        self.worst()
    }

    /// In microseconds.
    pub fn worst(&self) -> f64 {
        self.worst.as_secs_f64() * 1e6
    }
}

/// Ends a piece of work that takes too long for some store.
#[derive(Clone, Copy)]
pub struct Limit {
    begun: Instant,
    limit: Duration,
}

impl Limit {
    pub fn new(limit: Duration) -> Limit {
        Limit {
            begun: Instant::now(),
            limit,
        }
    }

    /// Looks at the clock only now and then.
    pub fn is_over(&self, step: u64) -> bool {
        step.is_multiple_of(256) && self.begun.elapsed() > self.limit
    }

    pub fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }
}
