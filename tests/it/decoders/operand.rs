//! Operands of the operators that are ready, of any bytes: read or refused, and alike however they
//! are grouped.

use criba::operator::{Add, Append, MergeOperator, Min, check_laws};
use criba::sketch;
use criba_filters::{CountMin, CountingBloom, HyperLogLog, Insert as _, Sketch as _};

use super::bytes::{Input, prefixed};

/// Each operand is behind its length. The checksum of a frame is made right first.
pub(super) fn operand(input: &[u8]) {
    let mut input = Input(input);
    let mut operands = Vec::new();
    while let Some(bytes) = input.prefixed() {
        let mut bytes = bytes.to_vec();
        repair(&mut bytes);
        operands.push(bytes);
        if operands.len() == 6 {
            break;
        }
    }
    let base = operands.first().map(|base| &base[..]);
    check(&distinct(), base, &operands);
    check(&frequencies(), base, &operands);
    check(&members(), base, &operands);
    check(&Add::u64(), base, &operands);
    check(&Append::with_delimiter(","), base, &operands);
    check(&Min, base, &operands);
}

fn check(operator: &impl MergeOperator, base: Option<&[u8]>, operands: &[Vec<u8>]) {
    if let Err(violation) = check_laws(operator, b"key", base, operands) {
        panic!("{violation}");
    }
}

fn distinct() -> sketch::Distinct {
    sketch::Distinct::with_index_bits(4).unwrap()
}

fn frequencies() -> sketch::Frequencies {
    sketch::Frequencies::with_error(0.2, 0.2).unwrap()
}

fn members() -> sketch::Members {
    sketch::Members::with_rate(40, 0.2).unwrap()
}

/// Length and checksum of a frame, which are behind its magic, kind and version.
fn repair(bytes: &mut [u8]) {
    if bytes.len() < 24 || !bytes.starts_with(b"CRBS") {
        return;
    }
    let len = bytes.len() as u64 - 24;
    bytes[16..24].copy_from_slice(&len.to_le_bytes());
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&bytes[..12]);
    hasher.update(&bytes[16..]);
    let checksum = hasher.finalize();
    bytes[12..16].copy_from_slice(&checksum.to_le_bytes());
}

/// Items, lists and sketches of each operator.
pub(super) fn seeds() -> Vec<Vec<u8>> {
    let items: Vec<Vec<u8>> = (0..9_u8).map(|n| sketch::item([n]).to_vec()).collect();
    let some: Vec<&[u8]> = items.iter().map(|item| &**item).collect();
    let merged = |operator: &dyn MergeOperator| operator.merge(b"", None, &some[..2]).unwrap();
    let mut log = HyperLogLog::with_index_bits(4).unwrap();
    let (width, rows) = frequencies().sketch(b"CRBL").unwrap().shape();
    let mut counts = CountMin::with_shape(width, rows).unwrap();
    let (cells, probes) = members().sketch(b"CRBL").unwrap().shape();
    let mut filter = CountingBloom::with_shape(cells, probes).unwrap();
    for item in &items {
        log.insert(item);
        counts.insert(item);
        filter.insert(item).unwrap();
    }
    let of_each = [
        [merged(&distinct()), log.to_bytes()],
        [merged(&frequencies()), counts.to_bytes()],
        [
            merged(&frequencies()),
            criba_filters::Membership::to_bytes(&filter),
        ],
    ];
    let seed = |[list, sketch]: [Vec<u8>; 2]| {
        let mut seed = Vec::new();
        for operand in [&items[0], &list, &sketch, &items[1]] {
            prefixed(operand, &mut seed);
        }
        seed
    };
    of_each.into_iter().map(seed).collect()
}
