//! The inner steps of the filters, in a form for each kind of processor.
//!
//! Which form this processor executes is found out when a filter is parsed or built. All forms of a step
//! give the same result, bit by bit, so nothing on disk tells them apart; the tests compare each with
//! the portable one.
//!
//! A function for some processors cannot be inlined into code for all of them. So the form is chosen
//! once for a lookup, and what follows is compiled for each form as a whole.
#![cfg_attr(
    any(target_arch = "x86_64", target_arch = "aarch64"),
    expect(
        unsafe_code,
        reason = "a function that not every processor executes is called on a promise"
    )
)]

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "aarch64")]
mod neon;
#[cfg(target_arch = "x86_64")]
mod popcnt;
mod portable;
#[cfg(test)]
mod tests;

use super::band::Row;
use super::blocked::{Blocked, LINE_WORDS, probes};
use super::bloomier::Bloomier;
#[cfg(target_arch = "x86_64")]
use super::ribbon::Planes;
use super::{Answer, KeyHash, Window};

/// Slots of a block, and most planes.
pub(crate) const SLOTS: usize = 64;
/// Planes handled together.
const LANES: usize = 8;
/// Words of four planes.
pub(crate) type Four = [u64; 4];
/// The portable form counts bits where it is compiled for processors that can.
const COUNTED: bool = cfg!(target_feature = "popcnt");

/// What each probe of a key is multiplied by from the first on: powers of one number.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
const PROBE_POWERS: [u32; super::math::PROBES_MAX as usize] = {
    let mut powers = [1u32; super::math::PROBES_MAX as usize];
    let mut i = 1;
    while i < powers.len() {
        powers[i] = powers[i - 1].wrapping_mul(super::blocked::PROBE_FACTOR);
        i += 1;
    }
    powers
};

/// The form that this processor executes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Form(Kind);

/// Invariant: the others than the portable one are made only where all their features were detected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Portable,
    #[cfg(target_arch = "x86_64")]
    Popcnt,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
    #[cfg(target_arch = "aarch64")]
    Neon,
}

/// Calls a function of the form.
macro_rules! in_form {
    ($form:expr, $step:ident, $portable:expr, ($($argument:expr),*)) => {
        match $form.0 {
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512 => {
                // SAFETY: the features were detected, by the invariant of `Kind`.
                unsafe { avx512::$step($($argument),*) }
            }
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2 => {
                // SAFETY: the features were detected, by the invariant of `Kind`.
                unsafe { avx2::$step($($argument),*) }
            }
            #[cfg(target_arch = "x86_64")]
            Kind::Popcnt => {
                // SAFETY: the features were detected, by the invariant of `Kind`.
                unsafe { popcnt::$step($($argument),*) }
            }
            #[cfg(target_arch = "aarch64")]
            Kind::Neon => {
                // SAFETY: the features were detected, by the invariant of `Kind`.
                unsafe { neon::$step($($argument),*) }
            }
            Kind::Portable => $portable,
        }
    };
}

impl Form {
    /// The fastest form of those that this processor executes.
    pub(crate) fn detect() -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            if avx512::is_available() {
                return Self(Kind::Avx512);
            }
            if avx2::is_available() {
                return Self(Kind::Avx2);
            }
            if popcnt::is_available() {
                return Self(Kind::Popcnt);
            }
        }
        #[cfg(target_arch = "aarch64")]
        if neon::is_available() {
            return Self(Kind::Neon);
        }
        Self(Kind::Portable)
    }

    /// All forms that this processor executes, the portable one first.
    #[cfg(test)]
    pub(crate) fn all() -> Vec<Self> {
        let mut all = vec![Kind::Portable];
        #[cfg(target_arch = "x86_64")]
        {
            let others = [
                (Kind::Popcnt, popcnt::is_available()),
                (Kind::Avx2, avx2::is_available()),
                (Kind::Avx512, avx512::is_available()),
            ];
            all.extend(others.iter().filter(|other| other.1).map(|other| other.0));
        }
        #[cfg(target_arch = "aarch64")]
        all.extend(neon::is_available().then_some(Kind::Neon));
        all.into_iter().map(Self).collect()
    }

    /// The value at one window: bit `j` is the parity of the 64 slots of plane `j` that begin at `shift`,
    /// masked with `row`.
    ///
    /// `words` holds the planes of one block of 64 slots and, when `shift` is not 0, those of the next:
    /// `planes` or `2 * planes` words, `planes` from 1 to 64.
    #[inline]
    pub(crate) fn evaluate(self, words: &[u64], planes: usize, row: u64, shift: u32) -> u64 {
        in_form!(
            self,
            evaluate,
            portable::evaluate::<COUNTED>(words, planes, row, shift),
            (words, planes, row, shift)
        )
    }

    /// The value at a window without the fingerprint, cut to its planes. `words` are those of the window.
    #[inline(always)]
    pub(crate) fn open(self, window: &Window, words: &[u64]) -> u64 {
        in_form!(
            self,
            open,
            portable::open::<COUNTED>(window, words),
            (window, words)
        )
    }

    /// [`Form::evaluate`] for four planes: `low` are those of the block, `high` those of the next one or,
    /// when `shift` is 0, any.
    #[inline(always)]
    pub(crate) fn evaluate_four(self, low: &Four, high: &Four, row: u64, shift: u32) -> u64 {
        in_form!(
            self,
            evaluate_four,
            portable::evaluate_four(low, high, row, shift),
            (low, high, row, shift)
        )
    }

    /// Moves the state of a back substitution down over one block: before, bit `k` of a plane is slot
    /// `k` of the next block; after, of this one.
    #[inline]
    pub(crate) fn substitute(self, rows: &[Row; SLOTS], planes: usize, state: &mut [u64; SLOTS]) {
        in_form!(
            self,
            substitute,
            portable::substitute::<COUNTED>(rows, planes, state),
            (rows, planes, state)
        );
    }

    /// [`Bloomier::ask`] in this form.
    #[inline]
    pub(crate) fn ask_bloomier(self, filter: &Bloomier, hash: KeyHash, body: &[u64]) -> Answer {
        in_form!(
            self,
            ask_bloomier,
            filter.ask::<true>(hash, body, portable::open::<COUNTED>),
            (filter, hash, body)
        )
    }

    /// [`Blocked::ask`] in this form.
    #[inline]
    pub(crate) fn ask_bloom(self, filter: &Blocked, hash: KeyHash, body: &[u64]) -> Answer {
        in_form!(
            self,
            ask_bloom,
            filter.ask(hash, body, portable::has_all),
            (filter, hash, body)
        )
    }

    /// Whether all bits of a key are set in its line: as many [`probes`](super::blocked::probes) as
    /// `count`, 1 to 32.
    #[inline]
    pub(crate) fn has_all(self, line: &[u64; LINE_WORDS], mixed: u64, count: u8) -> bool {
        in_form!(
            self,
            has_all,
            portable::has_all(line, mixed, count),
            (line, mixed, count)
        )
    }
}
