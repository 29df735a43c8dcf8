//! Is there an order in which these calls could have happened one after the other?
//!
//! Threads wrote down when each call began and ended, by one clock that all of them advance. A
//! history is linearizable if every call can be given a moment between its begin and its end so
//! that each read returns what the last write before it wrote (Herlihy and Wing, 1990).

use std::collections::HashSet;

/// When a call began and when it had returned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Span {
    pub(super) invoked: u64,
    pub(super) returned: u64,
}

/// What a call did to a register, or found in it; `None` is a key that is not there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Effect {
    Write(Option<u64>),
    Read(Option<u64>),
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Operation {
    pub(super) span: Span,
    pub(super) effect: Effect,
}

/// Finds an order for the calls on one register, empty at first; each thread's calls in theirs.
///
/// The search of Wing and Gong (1993). What is left to do is told by how far each thread has come
/// and by the value, so no state is looked at twice.
pub(super) fn is_linearizable(threads: &[Vec<Operation>]) -> bool {
    let mut seen = HashSet::new();
    let mut todo = vec![(vec![0; threads.len()], None)];
    while let Some((mut at, value)) = todo.pop() {
        while pass_a_read(threads, &mut at, value) {}
        if at.iter().zip(threads).all(|(at, calls)| *at == calls.len()) {
            return true;
        }
        if !seen.insert((at.clone(), value)) {
            continue;
        }
        for thread in 0..threads.len() {
            if let Some(Effect::Write(written)) = possible(threads, &at, thread) {
                let mut after = at.clone();
                after[thread] += 1;
                todo.push((after, written));
            }
        }
    }
    false
}

/// A read that is possible now and finds this value can as well come first: it changes nothing.
fn pass_a_read(threads: &[Vec<Operation>], at: &mut [usize], value: Option<u64>) -> bool {
    let read = Some(Effect::Read(value));
    let found = (0..threads.len()).find(|thread| possible(threads, at, *thread) == read);
    if let Some(thread) = found {
        at[thread] += 1;
    }
    found.is_some()
}

/// The next call of a thread, unless another one that is left had returned before it began.
fn possible(threads: &[Vec<Operation>], at: &[usize], thread: usize) -> Option<Effect> {
    let next = |thread: usize| threads[thread].get(at[thread]);
    let call = next(thread)?;
    let is_later = |other: usize| next(other).is_some_and(|o| o.span.returned < call.span.invoked);
    let is_possible = !(0..threads.len()).any(is_later);
    is_possible.then_some(call.effect)
}

/// What a snapshot showed: of each thread, the number of the last write that is in it.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    /// When it was taken, not when it was read.
    pub(super) span: Span,
    pub(super) numbers: Vec<u64>,
}

/// Whether every snapshot shows all that happened up to some moment while it was taken, and
/// nothing of what happened later. `writes` are those of each thread, numbered from 1 on.
pub(super) fn check_prefixes(writes: &[Vec<Span>], seen: &[Seen]) -> Result<(), String> {
    for one in seen {
        let least = one.span.invoked;
        check_one(writes, one, least, "what had returned before it was taken")?;
        for (writes_of, number) in writes.iter().zip(&one.numbers) {
            let Some(last) = number.checked_sub(1) else {
                continue;
            };
            let last = writes_of
                .get(last as usize)
                .ok_or("a write that never was")?;
            if last.invoked > one.span.returned {
                return Err(format!("{one:?} shows a write of the future"));
            }
            check_one(
                writes,
                one,
                last.invoked,
                "what another write in it came after",
            )?;
        }
    }
    check_order(seen)
}

/// Whether all that had returned before a moment is there.
fn check_one(writes: &[Vec<Span>], seen: &Seen, moment: u64, what: &str) -> Result<(), String> {
    for (thread, writes_of) in writes.iter().enumerate() {
        let least = writes_of.partition_point(|write| write.returned < moment) as u64;
        if seen.numbers[thread] < least {
            return Err(format!(
                "{seen:?} lacks {what}: write {least} of thread {thread}"
            ));
        }
    }
    Ok(())
}

/// Of two snapshots one shows all that the other one does; the later one, if they do not overlap.
fn check_order(seen: &[Seen]) -> Result<(), String> {
    let mut ordered: Vec<&Seen> = seen.iter().collect();
    ordered.sort_by_key(|one| (one.numbers.iter().sum::<u64>(), one.span.invoked));
    for pair in ordered.windows(2) {
        let mut numbers = pair[0].numbers.iter().zip(&pair[1].numbers);
        if !numbers.all(|(left, right)| left <= right) {
            return Err(format!("{pair:?}: neither is a prefix of the other"));
        }
    }
    let mut latest_begin = 0;
    for one in ordered {
        if one.span.returned < latest_begin {
            return Err(format!("{one:?} shows less than one that was taken before"));
        }
        latest_begin = latest_begin.max(one.span.invoked);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(invoked: u64, returned: u64) -> Span {
        Span { invoked, returned }
    }

    fn write((invoked, returned): (u64, u64), value: u64) -> Operation {
        let effect = Effect::Write(Some(value));
        let span = span(invoked, returned);
        Operation { span, effect }
    }

    fn read((invoked, returned): (u64, u64), value: u64) -> Operation {
        let effect = Effect::Read(Some(value).filter(|value| *value > 0));
        let span = span(invoked, returned);
        Operation { span, effect }
    }

    #[test]
    fn orders_are_found_where_there_are_some() {
        let overlapping = [
            vec![write((0, 9), 1)],
            vec![read((1, 2), 0), read((3, 4), 1)],
        ];
        assert!(is_linearizable(&overlapping));
        let back_in_time = [
            vec![write((0, 9), 1)],
            vec![read((1, 2), 1), read((3, 4), 0)],
        ];
        assert!(!is_linearizable(&back_in_time));
        let stale = [
            vec![write((0, 1), 1), write((2, 3), 2)],
            vec![read((4, 5), 1)],
        ];
        assert!(!is_linearizable(&stale));
        let two_orders = [
            vec![write((0, 9), 1)],
            vec![write((0, 9), 2)],
            vec![read((10, 11), 1), read((12, 13), 1)],
            vec![read((1, 8), 2)],
        ];
        assert!(is_linearizable(&two_orders));
        let torn_apart = [
            vec![write((0, 9), 1), read((20, 21), 2)],
            vec![write((0, 9), 2), read((20, 21), 1)],
        ];
        assert!(!is_linearizable(&torn_apart));
    }

    #[test]
    fn prefixes_are_told_from_others() {
        let writes = [vec![span(0, 1), span(4, 9)], vec![span(2, 3)]];
        let check = |all: &[((u64, u64), [u64; 2])]| {
            let seen = |((invoked, returned), numbers): &((u64, u64), [u64; 2])| Seen {
                span: span(*invoked, *returned),
                numbers: numbers.to_vec(),
            };
            check_prefixes(&writes, &all.iter().map(seen).collect::<Vec<_>>())
        };
        assert_eq!(
            check(&[((0, 9), [0, 0]), ((5, 6), [1, 1]), ((5, 6), [2, 1])]),
            Ok(())
        );
        assert!(check(&[((4, 5), [1, 0])]).is_err(), "a write is missing");
        assert!(check(&[((0, 1), [1, 1])]).is_err(), "a write of the future");
        assert!(
            check(&[((0, 9), [0, 1])]).is_err(),
            "not what came before it"
        );
        assert!(
            check(&[((0, 9), [3, 1])]).is_err(),
            "a write that never was"
        );
        let backwards = [((5, 6), [2, 1]), ((7, 8), [1, 1])];
        assert!(check(&backwards).is_err(), "time runs backwards");
    }
}
