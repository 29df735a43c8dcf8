//! Real file systems of a chosen kind and size, for tests that fill one or take its rights away.
//!
//! Mounting needs root, and an image needs a loop device and the `mkfs` of its kind. Where one of
//! these is missing, the constructors return `None` and say on stderr which test was skipped and
//! why, so that nobody takes a skipped test for a passed one.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// The kind of file system of an image.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    Ext4,
    /// At least 300 MiB.
    Xfs,
    /// At least 110 MiB.
    Btrfs,
}

impl Kind {
    /// The command that makes a file system of this kind. Everything may be used: ext4 keeps no
    /// blocks for root.
    fn mkfs(self) -> (&'static str, &'static [&'static str]) {
        match self {
            Kind::Ext4 => ("mkfs.ext4", &["-q", "-F", "-m", "0"]),
            Kind::Xfs => ("mkfs.xfs", &["-q", "-f"]),
            Kind::Btrfs => ("mkfs.btrfs", &["-q", "-f"]),
        }
    }
}

/// A mounted file system of its own, unmounted when it is dropped. Declare it before the stores
/// that live on it, so that they are dropped first.
#[derive(Debug)]
pub(crate) struct Mount {
    /// Holds the mount point and the image; removed after the unmount.
    directory: TempDir,
}

impl Mount {
    /// A file system in memory of `size` bytes.
    pub(crate) fn tmpfs(size: u64) -> Option<Mount> {
        let size = format!("size={size},mode=0755");
        Mount::of("tmpfs", &["-t", "tmpfs", "-o", &size], |_| {
            Ok("tmpfs".into())
        })
    }

    /// A file system in an image of `size` bytes, on a loop device. The image is sparse: it takes
    /// the room of the bytes that the test writes.
    pub(crate) fn image(kind: Kind, size: u64) -> Option<Mount> {
        Mount::of(&format!("{kind:?}"), &["-o", "loop"], |directory| {
            let image = directory.join("image");
            let made = File::create(&image).and_then(|file| file.set_len(size));
            made.map_err(|error| error.to_string())?;
            let (mkfs, arguments) = kind.mkfs();
            run(Command::new(mkfs).args(arguments).arg(&image))?;
            Ok(image)
        })
    }

    /// Mounts what `source` makes in the directory that is to hold image and mount point.
    fn of(
        what: &str,
        options: &[&str],
        source: impl Fn(&Path) -> Result<PathBuf, String>,
    ) -> Option<Mount> {
        let directory = tempfile::tempdir().unwrap();
        let point = directory.path().join("mount");
        std::fs::create_dir(&point).unwrap();
        let mounted = source(directory.path()).and_then(|source| {
            let mut mount = Command::new("mount");
            run(mount.args(options).arg(source).arg(&point))
        });
        match mounted {
            Ok(()) => Some(Mount { directory }),
            Err(why) => {
                skipped(&format!("no {what} can be mounted here: {why}"));
                None
            }
        }
    }

    /// The root of the file system.
    pub(crate) fn path(&self) -> PathBuf {
        self.directory.path().join("mount")
    }

    /// Takes all free room with the file `filler`, to the last byte that the system gives.
    /// Removing that file makes room again.
    pub(crate) fn fill(&self) -> PathBuf {
        let path = self.path().join("filler");
        let mut file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&path)
            .unwrap();
        let zeros = vec![0; 256 << 10];
        let mut len = zeros.len();
        while len > 0 {
            // What a delayed allocation has promised is taken by the sync.
            let written = file
                .write_all(&zeros[..len])
                .and_then(|()| if len < 4096 { file.sync_all() } else { Ok(()) });
            match written {
                Ok(()) => {}
                Err(error) if is_full(&error) => len /= 8,
                Err(error) => panic!("{}: {error}", path.display()),
            }
        }
        if let Err(error) = file.sync_all() {
            assert!(is_full(&error), "{}: {error}", path.display());
        }
        path
    }

    /// Mounts the file system anew so that nothing can be written. No file of it may be open for
    /// writing.
    pub(crate) fn make_read_only(&self) {
        self.remount("remount,ro");
    }

    /// Undoes [`Mount::make_read_only`].
    pub(crate) fn make_writable(&self) {
        self.remount("remount,rw");
    }

    fn remount(&self, option: &str) {
        run(Command::new("mount").args(["-o", option]).arg(self.path())).unwrap();
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let point = self.path();
        if run(Command::new("umount").arg(&point)).is_err() {
            // A test that failed may hold files open: the file system goes with the last of them.
            let detached = run(Command::new("umount").arg("-l").arg(&point));
            if let Err(why) = detached {
                writeln!(io::stderr(), "{} stays mounted: {why}", point.display()).ok();
            }
        }
    }
}

/// Says on stderr that the test of this thread checks nothing, and why.
pub(crate) fn skipped(why: &str) {
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a test").to_owned();
    writeln!(io::stderr(), "SKIPPED {test}: {why}").ok();
}

fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded
    )
}

/// Runs a command to its end; an error is what it said.
fn run(command: &mut Command) -> Result<(), String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = match command.output() {
        Ok(output) => output,
        Err(error) => return Err(format!("{program}: {error}")),
    };
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("{program}: {}", said.trim()))
}

/// Each kind can be filled to the last byte, made read-only, and is gone when it is dropped.
#[test]
fn a_mount_fills_up_and_goes() {
    let makers: [fn() -> Option<Mount>; 4] = [
        || Mount::tmpfs(1 << 20),
        || Mount::image(Kind::Ext4, 8 << 20),
        || Mount::image(Kind::Xfs, 300 << 20),
        || Mount::image(Kind::Btrfs, 128 << 20),
    ];
    for mount in makers.iter().filter_map(|make| make()) {
        let filler = mount.fill();
        let block = vec![1; 64 << 10];
        let file = mount.path().join("file");
        let full = std::fs::write(&file, &block).unwrap_err();
        assert!(is_full(&full), "{mount:?}: {full}");
        std::fs::remove_file(filler).unwrap();
        mount.make_read_only();
        let refused = std::fs::write(&file, &block).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ReadOnlyFilesystem, "{mount:?}");
        mount.make_writable();
        std::fs::write(&file, &block).unwrap();
        assert_eq!(std::fs::read(&file).unwrap(), block, "{mount:?}");
        let point = mount.path();
        drop(mount);
        assert!(!point.exists(), "{}", point.display());
    }
}
