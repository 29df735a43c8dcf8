//! Tests of the program as a whole: real files, real stores, no network but loopback.
