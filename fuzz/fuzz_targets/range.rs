#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| criba_fuzz::run("range", input));
