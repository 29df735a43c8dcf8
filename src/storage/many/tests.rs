use std::fs::File;
use std::os::unix::fs::FileExt as _;

use super::*;

const LEN: u64 = 1 << 20;

/// A file of random bytes.
fn file() -> (File, Vec<u8>) {
    let file = tempfile::tempfile().unwrap();
    let mut random = Random(7);
    let bytes: Vec<u8> = (0..LEN).map(|_| random.next() as u8).collect();
    file.write_all_at(&bytes, 0).unwrap();
    (file, bytes)
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(0x5851_f42d_4c95_7f2d)
            .wrapping_add(0x1405_7b7e_f767_814f);
        self.0 >> 33
    }
}

/// Random places and lengths, up to beyond the end of the file.
fn places(count: usize, random: &mut Random) -> Vec<(u64, usize)> {
    let mut place = || {
        let len = match random.next() % 8 {
            0 => 0,
            1 => random.next() % 100_000,
            _ => random.next() % 5_000,
        };
        // Some lie near the end.
        let offset = match random.next() % 8 {
            0 => LEN - random.next() % 3_000,
            _ => random.next() % (LEN + 1_000),
        };
        (offset, len as usize)
    };
    (0..count).map(|_| place()).collect()
}

/// What an engine reads there.
fn read(engine: &Engine, file: &File, places: &[(u64, usize)]) -> Vec<Option<Vec<u8>>> {
    let task = |&(offset, len): &(u64, usize)| Task::new(file, offset, len);
    let mut tasks: Vec<Task<'_>> = places.iter().map(task).collect();
    engine.read(&mut tasks);
    let bytes = |task: Task<'_>| match task.into_result() {
        Ok(slice) => Some(slice.to_vec()),
        Err(error) => {
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
            None
        }
    };
    tasks.into_iter().map(bytes).collect()
}

fn expected(bytes: &[u8], places: &[(u64, usize)]) -> Vec<Option<Vec<u8>>> {
    let part = |&(offset, len): &(u64, usize)| {
        // Nothing is there of no bytes, wherever they are.
        let start = if len == 0 { 0 } else { offset as usize };
        bytes.get(start..start + len).map(<[u8]>::to_vec)
    };
    places.iter().map(part).collect()
}

/// Says whether the kernel lets this process have a ring.
fn has_rings() -> bool {
    Ring::open().map_err(|why| eprint_skipped(&why)).is_ok()
}

#[expect(clippy::print_stderr, reason = "a skipped test is no passed one")]
fn eprint_skipped(why: &io::Error) {
    eprintln!("SKIPPED: no ring of the kernel: {why}");
}

/// Threads and single reads are the safe twins of the ring.
#[test]
fn all_ways_read_the_same() {
    let (file, bytes) = file();
    let engines = [ReadManyBy::OneByOne, ReadManyBy::Threads, ReadManyBy::Uring];
    let engines = engines.map(Engine::by);
    let mut random = Random(1);
    for count in [0, 1, 2, 3, 63, 64, 65, 200, 1000] {
        let places = places(count, &mut random);
        let wanted = expected(&bytes, &places);
        if count >= 63 {
            assert!(wanted.contains(&None), "some reach beyond the end");
        }
        for engine in &engines {
            assert_eq!(read(engine, &file, &places), wanted, "{engine:?}");
        }
    }
    assert_eq!(engines[0].used(), Some(ReadManyBy::OneByOne));
    assert_eq!(engines[1].used(), Some(ReadManyBy::Threads));
    if has_rings() {
        assert_eq!(engines[2].used(), Some(ReadManyBy::Uring));
        assert_eq!(engines[2].rings.lock().unwrap().len(), 1);
    }
}

#[test]
fn one_read_needs_no_ring_and_no_choice() {
    let (file, _) = file();
    let engine = Engine::default();
    read(&engine, &file, &[(0, 100)]);
    assert_eq!(engine.used(), None);
    assert!(engine.rings.lock().unwrap().is_empty());
}

#[test]
fn callers_at_once_have_rings_of_their_own() {
    let (file, bytes) = file();
    let engine = Engine::default();
    thread::scope(|scope| {
        for seed in 0..4 {
            let (engine, file, bytes) = (&engine, &file, &bytes);
            scope.spawn(move || {
                let mut random = Random(seed);
                for _ in 0..20 {
                    let places = places(150, &mut random);
                    assert_eq!(read(engine, file, &places), expected(bytes, &places));
                }
            });
        }
    });
    assert!(engine.rings.lock().unwrap().len() <= 4);
}

/// Refusals of the kernel, as a sandbox makes them.
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
mod refused {
    use super::*;

    /// From now on this system call fails with EPERM, for this thread and those that it starts.
    #[expect(unsafe_code, reason = "the standard library has no seccomp")]
    fn refuse(call: libc::c_long) {
        // The bits of a classic BPF program: load a word, compare it, return.
        let step = |code: u32, jt: u8, jf: u8, k: u32| libc::sock_filter {
            code: code as u16,
            jt,
            jf,
            k,
        };
        let mut steps = [
            step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
            step(
                libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K,
                0,
                1,
                call as u32,
            ),
            step(
                libc::BPF_RET | libc::BPF_K,
                0,
                0,
                libc::SECCOMP_RET_ERRNO | libc::EPERM as u32,
            ),
            step(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
        ];
        let program = libc::sock_fprog {
            len: steps.len() as u16,
            filter: steps.as_mut_ptr(),
        };
        // SAFETY: takes numbers only.
        let is_set = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
        assert_eq!(is_set, 0);
        let mode = libc::SECCOMP_MODE_FILTER;
        // SAFETY: the kernel copies the program, whose steps live until the call returns.
        let is_set = unsafe { libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const program) };
        assert_eq!(is_set, 0, "{}", io::Error::last_os_error());
    }

    /// Reads in a thread of its own, for which a call is refused after the first reads.
    fn check(engine: &Engine, call: libc::c_long) {
        let (file, bytes) = file();
        let mut random = Random(3);
        let places = places(300, &mut random);
        let wanted = expected(&bytes, &places);
        thread::scope(|scope| {
            scope.spawn(|| {
                refuse(call);
                for _ in 0..2 {
                    assert_eq!(read(engine, &file, &places), wanted);
                    assert_eq!(engine.used(), Some(ReadManyBy::Threads));
                }
            });
        });
        assert!(engine.rings.lock().unwrap().is_empty());
    }

    #[test]
    fn where_rings_are_forbidden_threads_read() {
        check(&Engine::default(), libc::SYS_io_uring_setup);
        check(&Engine::default(), libc::SYS_io_uring_register);
        check(&Engine::by(ReadManyBy::Uring), libc::SYS_io_uring_setup);
    }

    /// A ring that takes no more reads is given up.
    #[test]
    fn a_ring_that_fails_is_given_up() {
        check(&Engine::default(), libc::SYS_io_uring_enter);
        if !has_rings() {
            return;
        }
        let engine = Engine::default();
        let (file, bytes) = file();
        let places = [(0, 100), (100, 100)];
        assert_eq!(read(&engine, &file, &places), expected(&bytes, &places));
        assert_eq!(engine.used(), Some(ReadManyBy::Uring));
        check(&engine, libc::SYS_io_uring_enter);
    }
}
