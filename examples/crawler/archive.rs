//! `--warc`: every exchange into a web archive, from all threads.

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use url::Url;

use crate::failure::Failure;
use crate::http::Response;
use crate::warc::{Exchange, WarcWriter};

/// An archive that is being written. An exchange stands in it before its page is committed: after a
/// kill, a page can be in two archives, never in none.
pub(crate) struct Archive {
    writer: Mutex<WarcWriter<BufWriter<File>>>,
    path: String,
}

impl Archive {
    /// Begins a new file.
    pub(crate) fn create(path: &Path, software: &str) -> Result<Archive, Failure> {
        let shown = path.display().to_string();
        let doing = format!("cannot make {shown} (each run needs a new file)");
        #[expect(clippy::disallowed_methods, reason = "the user names this file")]
        let file = File::options().write(true).create_new(true).open(path);
        let file = file.map_err(Failure::io(doing))?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let writer = WarcWriter::new(BufWriter::new(file), &name, software);
        let writer = writer.map_err(Failure::io(format!("cannot write {shown}")))?;
        Ok(Archive {
            writer: Mutex::new(writer),
            path: shown,
        })
    }

    pub(crate) fn add(
        &self,
        url: &Url,
        request: &[u8],
        response: &Response,
    ) -> Result<(), Failure> {
        let response_head = response.head.for_whole_body(response.wire.len());
        let exchange = Exchange {
            url,
            at: SystemTime::now(),
            request,
            response_head: &response_head,
            body: &response.wire,
            truncated: response.truncated,
        };
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        writer
            .add(&exchange)
            .map_err(Failure::io(format!("cannot write {}", self.path)))
    }

    /// Everything is written when this returns.
    pub(crate) fn finish(self) -> Result<(), Failure> {
        let writer = self
            .writer
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        let file = writer
            .finish()
            .map_err(Failure::io(format!("cannot write {}", self.path)))?;
        let file = file.into_inner().map_err(|error| error.into_error());
        let doing = format!("cannot write {}", self.path);
        file.and_then(|file| file.sync_all())
            .map_err(Failure::io(doing))
    }
}
