//! A web crawler that fetches nothing twice and misses nothing, on top of criba.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program prints"
)]

mod address;
mod escape;
mod page;
mod robots;
mod scope;
mod simhash;
mod site;
mod sitemap;
mod summary;
mod trap;
mod warc;

fn main() {
    println!();
    eprintln!();
}
