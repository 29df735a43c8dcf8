//! Options about what is sent with requests, and which way.

use std::path::PathBuf;
use std::sync::Arc;

use common::escape::Plain;
use url::Url;

use crate::failure::Failure;
use crate::hosts::{HostSettings, read_cookies};
use crate::http::{Extra, Extras, Header, Proxy};
use crate::scope::Scope;

// No doc comment: clap would show it in place of that of the program.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct RequestOptions {
    /// Send this header to the hosts of the seeds, with --scope domain also to those below them; it
    /// stands for our own of the same name, like Accept (User-Agent is --agent). Once for each
    #[arg(
        long = "header",
        value_name = "NAME: VALUE",
        help_heading = "What is sent"
    )]
    headers: Vec<String>,
    /// Send the cookies of this file to their hosts (Netscape format, as curl and browsers export
    /// it). Those that servers set are not kept
    #[arg(long, value_name = "FILE", help_heading = "What is sent")]
    cookies: Option<PathBuf>,
    /// Ask through this HTTP proxy: http://HOST:PORT or http://USER:PASSWORD@HOST:PORT
    #[arg(long, value_name = "URL", help_heading = "What is sent")]
    proxy: Option<String>,
    /// Settings for single hosts: TOML with sections ["example.org"], ["*.example.org"] (all below
    /// it) or ["*"], each with connections, delay (ms), headers, proxy, cookies, pages, include,
    /// exclude
    #[arg(long, value_name = "FILE", help_heading = "What is sent")]
    hosts: Option<PathBuf>,
}

impl RequestOptions {
    /// The settings of `--hosts`, or none.
    pub(crate) fn host_settings(&self) -> Result<HostSettings, Failure> {
        match &self.hosts {
            Some(path) => HostSettings::load(path).map_err(wrong("--hosts")),
            None => Ok(HostSettings::default()),
        }
    }

    /// What is added to requests in a crawl from these seeds.
    pub(crate) fn extras(
        &self,
        settings: &HostSettings,
        scope: Scope,
        seeds: &[Url],
    ) -> Result<Arc<Extras>, Failure> {
        let headers: Result<_, _> = self
            .headers
            .iter()
            .map(|line| Header::parse(line))
            .collect();
        let cookies = self.cookies.as_deref().map(read_cookies).transpose();
        let proxy = self.proxy.as_deref().map(Proxy::parse).transpose();
        let general = Extra {
            headers: headers.map_err(wrong("--header"))?,
            cookies: cookies.map_err(wrong("--cookies"))?,
            proxy: proxy.map_err(wrong("--proxy"))?.map(Arc::new),
        };
        let extras = Extras::new(&general, settings.extras(), (scope, seeds));
        Ok(Arc::new(extras))
    }
}

fn wrong(option: &str) -> impl FnOnce(String) -> Failure {
    move |what| Failure::Usage(format!("{option}: {}", Plain(&what)))
}
