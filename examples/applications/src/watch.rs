//! Changes a list of bans while another thread watches that no banned address passes.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use crate::networks::Network;
use crate::{Error, Random, Result};

/// A list of bans that any number of threads use.
pub trait Bans: Sync {
    /// From when this returns, no address of the network may pass.
    ///
    /// # Errors
    ///
    /// If the store fails.
    fn ban(&self, network: &Network) -> Result<()>;
    /// From when this is called, addresses of the network may pass.
    ///
    /// # Errors
    ///
    /// If the store fails.
    fn unban(&self, network: &Network) -> Result<()>;
    /// Whether an address does not pass.
    ///
    /// # Errors
    ///
    /// If the store fails.
    fn is_banned(&self, address: IpAddr) -> Result<bool>;
    /// Makes its filter anew, and calls `before_swap` between building and using it.
    ///
    /// # Errors
    ///
    /// If the store fails.
    fn rebuild(&self, before_swap: &mut dyn FnMut()) -> Result<()>;
}

/// What happened while a list changed.
#[derive(Debug, Clone, Copy, Default)]
pub struct Watch {
    /// How often the filter was made anew.
    pub rebuilds: u64,
    /// Lookups of addresses that were banned all the while; none passed.
    pub checks: u64,
    /// Those of them that began during a rebuild.
    pub checks_in_rebuild: u64,
}

/// The networks of a list, and how often each was banned or unbanned: odd while it is banned.
struct Watched<'a, B> {
    bans: &'a B,
    networks: &'a [Network],
    turns: Vec<AtomicU64>,
    is_rebuilding: AtomicBool,
    is_done: AtomicBool,
}

/// The networks that are banned before and after [`watch`].
pub fn banned_before(networks: &[Network]) -> &[Network] {
    &networks[..networks.len() / 2]
}

/// As [`banned_before`].
pub fn banned_after(networks: &[Network]) -> Vec<Network> {
    let (half, quarter) = (networks.len() / 2, networks.len() / 4);
    [
        &networks[..half - quarter],
        &networks[networks.len() - quarter..],
    ]
    .concat()
}

/// Changes a list that begins with the first half of these networks: each of the others comes, and
/// with it the one goes that is a quarter of all before it. With `rebuilds`, the filter is made anew
/// again and again, and each time bans come while that is under way.
///
/// # Errors
///
/// [`Error::Wrong`] if a banned address passed.
pub fn watch<B: Bans>(bans: &B, networks: &[Network], rebuilds: bool, seed: u64) -> Result<Watch> {
    let first = banned_before(networks).len();
    let turns = (0..networks.len()).map(|at| AtomicU64::new(u64::from(at < first)));
    let watched = Watched {
        bans,
        networks,
        turns: turns.collect(),
        is_rebuilding: AtomicBool::new(false),
        is_done: AtomicBool::new(false),
    };
    // A tick waits until the rebuilder takes it.
    let (ticks, each_tick) = sync_channel(0);
    thread::scope(|threads| {
        let watcher = threads.spawn(|| watched.look(Random::new(seed, 0)));
        let rebuilder = threads.spawn({
            let watched = &watched;
            move || watched.rebuild(rebuilds, each_tick)
        });
        let changes = watched.change(ticks);
        let rebuilds = rebuilder.join();
        watched.is_done.store(true, Ordering::SeqCst);
        let broken = |_| Error::Other("a thread panicked".into());
        let (checks, checks_in_rebuild) = watcher.join().map_err(broken)??;
        changes?;
        Ok(Watch {
            rebuilds: rebuilds.map_err(broken)??,
            checks,
            checks_in_rebuild,
        })
    })
}

impl<B: Bans> Watched<'_, B> {
    /// Bans and unbans; sends a tick from time to time.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "when it is dropped, all is changed"
    )]
    fn change(&self, ticks: SyncSender<()>) -> Result<()> {
        let (half, quarter) = (self.networks.len() / 2, self.networks.len() / 4);
        let turn = |at: usize| self.turns[at].fetch_add(1, Ordering::SeqCst);
        for at in half..self.networks.len() {
            let (new, old) = (&self.networks[at], &self.networks[at - quarter]);
            self.bans.ban(new)?;
            turn(at);
            if at % 8 == 0 {
                // Some come who are banned already.
                self.bans.ban(new)?;
            }
            turn(at - quarter);
            self.bans.unban(old)?;
            if at % 8 == 0 {
                // Some go who are not banned.
                self.bans.unban(old)?;
            }
            if (at - half).is_multiple_of(self.networks.len() / 64 + 1) {
                // Nobody listens if the rebuilder has failed.
                ticks.send(()).unwrap_or_default();
            }
        }
        Ok(())
    }

    /// Makes the filter anew until the list no longer changes. Returns how often.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "when it is dropped, ticks do not wait"
    )]
    fn rebuild(&self, rebuilds: bool, ticks: Receiver<()>) -> Result<u64> {
        let mut count = 0;
        while ticks.recv().is_ok() {
            if !rebuilds {
                continue;
            }
            self.is_rebuilding.store(true, Ordering::SeqCst);
            // The changes between two ticks come after it has begun and before the new filter is used.
            self.bans.rebuild(&mut || {
                ticks.recv().and_then(|()| ticks.recv()).unwrap_or_default();
            })?;
            self.is_rebuilding.store(false, Ordering::SeqCst);
            count += 1;
        }
        Ok(count)
    }

    /// Looks up addresses until all is done. One that was banned before and after must not have
    /// passed. Returns how many that were, and how many of them during a rebuild.
    fn look(&self, mut random: Random) -> Result<(u64, u64)> {
        let (mut checks, mut in_rebuild) = (0, 0);
        while !self.is_done.load(Ordering::SeqCst) {
            let at = random.below(self.networks.len() as u64) as usize;
            let address = self.networks[at].random_address(&mut random);
            let is_rebuilding = self.is_rebuilding.load(Ordering::SeqCst);
            let before = self.turns[at].load(Ordering::SeqCst);
            let is_banned = self.bans.is_banned(address)?;
            if before.is_multiple_of(2) || self.turns[at].load(Ordering::SeqCst) != before {
                continue;
            }
            if !is_banned {
                let network = self.networks[at];
                return Err(Error::Wrong(format!(
                    "{address} passes, and {network} is banned"
                )));
            }
            checks += 1;
            in_rebuild += u64::from(is_rebuilding);
        }
        Ok((checks, in_rebuild))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::sync::Mutex;

    use super::*;

    /// A list that may forget bans that come while its filter is made anew.
    struct Plain {
        all: Mutex<HashSet<Network>>,
        forgets: bool,
    }

    impl Bans for Plain {
        fn ban(&self, network: &Network) -> Result<()> {
            self.all.lock().unwrap().insert(*network);
            Ok(())
        }

        fn unban(&self, network: &Network) -> Result<()> {
            self.all.lock().unwrap().remove(network);
            Ok(())
        }

        fn is_banned(&self, address: IpAddr) -> Result<bool> {
            Ok(self.all.lock().unwrap().contains(&Network::single(address)))
        }

        fn rebuild(&self, before_swap: &mut dyn FnMut()) -> Result<()> {
            let old = self.all.lock().unwrap().clone();
            before_swap();
            if self.forgets {
                *self.all.lock().unwrap() = old;
            }
            Ok(())
        }
    }

    fn watch_plain(forgets: bool, rebuilds: bool) -> Result<Watch> {
        let networks = crate::ban_list::singles(20_000, &mut Random::new(1, 0));
        let all = Mutex::new(banned_before(&networks).iter().copied().collect());
        let bans = Plain { all, forgets };
        let watch = watch(&bans, &networks, rebuilds, 1)?;
        let after: HashSet<Network> = banned_after(&networks).into_iter().collect();
        let all = bans.all.into_inner().unwrap();
        if !forgets {
            assert_eq!(all, after);
        } else if !after.is_subset(&all) {
            return Err(Error::Wrong("a ban is lost".into()));
        }
        Ok(watch)
    }

    #[test]
    fn a_list_that_keeps_its_bans_passes() {
        assert!(watch_plain(false, true).unwrap().rebuilds > 0);
        assert_eq!(watch_plain(true, false).unwrap().rebuilds, 0);
    }

    #[test]
    fn a_list_that_forgets_bans_is_found_out() {
        assert!(matches!(watch_plain(true, true), Err(Error::Wrong(_))));
    }
}
