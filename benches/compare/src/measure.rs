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

/// Time for which the host of a virtual machine kept its processors waiting, as the system counts it.
pub struct Stolen {
    ticks: u64,
    looked: Instant,
}

/// How often the system is asked, about: 20 us each time.
const STOLEN_EVERY: Duration = Duration::from_millis(10);
/// What takes less is not told apart: a tick of the counter is 10 ms.
const STOLEN_FROM: Duration = Duration::from_millis(1);
const TICKS_PER_SECOND: f64 = 100.0;

impl Stolen {
    pub fn new(now: Instant) -> Result<Stolen> {
        let ticks = stolen_ticks()?;
        Ok(Stolen { ticks, looked: now })
    }

    /// Whether at least half of what took so long until `now` was stolen, as far as the system counts that.
    pub fn has_held_up(&mut self, took: Duration, now: Instant) -> Result<bool> {
        if took < STOLEN_FROM && now - self.looked < STOLEN_EVERY {
            return Ok(false);
        }
        let ticks = stolen_ticks()?;
        let stolen = ticks.saturating_sub(self.ticks) as f64 / TICKS_PER_SECOND;
        *self = Stolen { ticks, looked: now };
        Ok(took >= STOLEN_FROM && stolen >= took.as_secs_f64() / 2.0)
    }
}

fn stolen_ticks() -> Result<u64> {
    let mut text = [0; 256];
    let len = File::open("/proc/stat")?.read(&mut text)?;
    ticks_in(std::str::from_utf8(&text[..len])?)
}

/// Of all processors: the eighth number of the first line.
fn ticks_in(stat: &str) -> Result<u64> {
    let field = stat
        .lines()
        .next()
        .and_then(|line| line.split_whitespace().nth(8));
    let field = field.ok_or("no stolen time in what the system says")?;
    Ok(field.parse()?)
}

/// How many times what took how long: 16 buckets for each doubling, 4 % wide.
pub struct Latencies {
    counts: Vec<u64>,
    total: u64,
    worst: Duration,
    /// The same of what the host did not hold up.
    worst_unstolen: Duration,
}

const BUCKETS_PER_DOUBLING: u32 = 16;

impl Latencies {
    pub fn new() -> Latencies {
        Latencies {
            counts: vec![0; 64 * BUCKETS_PER_DOUBLING as usize],
            total: 0,
            worst: Duration::ZERO,
            worst_unstolen: Duration::ZERO,
        }
    }

    pub fn add(&mut self, took: Duration, is_stolen: bool) {
        let nanos = (took.as_nanos() as u64).max(16);
        let doubling = nanos.ilog2();
        let within = (nanos >> (doubling - 4)) & 15;
        self.counts[(doubling * BUCKETS_PER_DOUBLING) as usize + within as usize] += 1;
        self.total += 1;
        self.worst = self.worst.max(took);
        if !is_stolen {
            self.worst_unstolen = self.worst_unstolen.max(took);
        }
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

    /// Of what the host did not hold up, in microseconds.
    pub fn worst_unstolen(&self) -> f64 {
        self.worst_unstolen.as_secs_f64() * 1e6
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stolen_time_is_the_eighth_number() {
        let stat = "cpu  64125 2755 14845 375105 1228 0 179 208 0 0\ncpu0 31972 1261 7042\n";
        assert_eq!(ticks_in(stat).unwrap(), 208);
        assert!(ticks_in("cpu 1 2 3\n").is_err());
        assert!(ticks_in("").is_err());
    }

    #[test]
    fn what_was_not_stolen_has_a_longest_of_its_own() {
        let mut latencies = Latencies::new();
        for (micros, is_stolen) in [(30_000, true), (5_000, false), (1, false)] {
            latencies.add(Duration::from_micros(micros), is_stolen);
        }
        assert_eq!(
            (latencies.worst(), latencies.worst_unstolen()),
            (30_000.0, 5_000.0)
        );
    }
}
