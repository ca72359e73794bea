//! The parameters of numcodecs' `lzma`, which are those of Python's `lzma.compress`.
//!
//! Comes in: the item of a codec list. Goes out: the container, and the filters of data without
//! one. Streams of the other containers hold their filters themselves: those of the document are
//! checked all the same, as Python does.

use super::node::{Extension, Node};
use crate::base::status::Status;
use crate::fail;
use crate::records::{Lzma, LzmaChain, LzmaProperties};

/// Numbers of filters.
const LZMA1: i64 = 0x4000_0000_0000_0001;
const LZMA2: i64 = 0x21;
const DELTA: i64 = 3;

/// Numbers of checksums, one of which means the default.
const CHECKS: (i64, i64) = (-1, 15);

/// A preset may have it added.
const PRESET_EXTREME: i64 = 1 << 31;

/// Python's preset of a document without one.
const PRESET: i64 = 6;

/// Bits of the size of a dictionary, of each preset.
const DICTIONARY_BITS: [u8; 10] = [18, 20, 21, 22, 22, 23, 23, 24, 25, 26];

/// The codec `lzma` of a list.
pub(super) fn read_lzma(extension: &Extension<'_, '_>) -> Result<Lzma, Status> {
    let [format, check, preset, filters, ..] = extension.pick("format check preset filters", 0)?;
    let format = format.found().map_or(Ok(1), |format| format.numeral().integer(1, 3))?;
    check.numeral().check_integer(CHECKS.0, CHECKS.1)?;
    read_preset(preset)?;
    let chain = filters.present().map(read_chain).transpose()?;
    Ok(match (format, chain) {
        (1, _) => Lzma::Xz,
        (2, _) => Lzma::Alone,
        (_, Some(chain)) => Lzma::Raw(chain),
        (_, None) => {
            let node = extension.node;
            return Err(fail!(node, Decode, "lzma of format 3 without filters cannot be decoded"));
        }
    })
}

/// A preset, without its flag.
fn read_preset(preset: Node<'_, '_>) -> Result<i64, Status> {
    let Some(preset) = preset.present() else { return Ok(PRESET) };
    match preset.integer(0, PRESET_EXTREME + 9)? & !PRESET_EXTREME {
        level @ 0..=9 => Ok(level),
        _ => Err(fail!(preset, Decode, "{preset} is not a preset from 0 to 9")),
    }
}

/// A list of filters, the last of which compresses.
fn read_chain(filters: Node<'_, '_>) -> Result<LzmaChain, Status> {
    let last = filters.items()?.count().wrapping_sub(1);
    let mut deltas = [0; LzmaChain::DELTAS_MAX];
    for (place, filter) in filters.items()?.enumerate() {
        let [id, ..] = filter.pick("id", 1)?;
        match (id.integer(0, i64::MAX)?, deltas.get_mut(place)) {
            (id @ (LZMA1 | LZMA2), _) if place == last && last <= LzmaChain::DELTAS_MAX => {
                return read_last(filter, id == LZMA1, deltas);
            }
            (DELTA, Some(distance)) if place < last => {
                let [_, dist, ..] = filter.pick_but("id dist", 1, |_, _| false)?;
                *distance = dist.found().map_or(Ok(1), |dist| dist.integer(1, 256))? as u16;
            }
            (LZMA1 | LZMA2 | DELTA, _) => break,
            (id, _) => {
                let way = "only delta and LZMA: write the array again without it";
                return Err(fail!(filter, Unsupported, "lzma filter {id} is not read, {way}"));
            }
        }
    }
    Err(fail!(filters, Decode, "{filters} is not up to 3 filters delta and then one of LZMA"))
}

fn read_last(
    filter: Node<'_, '_>,
    is_lzma1: bool,
    deltas: [u16; LzmaChain::DELTAS_MAX],
) -> Result<LzmaChain, Status> {
    let names = "id preset dict_size lc lp pb mode nice_len mf depth";
    let [_, preset, size, lc, lp, pb, others @ ..] = filter.pick_but(names, 1, |_, _| false)?;
    let level = read_preset(preset)? as usize;
    for other in others {
        other.check_integer(0, u32::MAX.into())?;
    }
    let default = 1u32 << DICTIONARY_BITS.get(level).copied().unwrap_or_default();
    let dictionary_bytes = match size.found() {
        Some(size) => size.integer(0, u32::MAX.into())? as u32,
        None => default,
    };
    let standard = LzmaProperties::DEFAULT;
    let read = |node: Node<'_, '_>, default: u8| match node.found() {
        Some(node) => node.integer(0, 4).map(|bits| bits as u8),
        None => Ok(default),
    };
    let bits = (read(lc, standard.lc)?, read(lp, standard.lp)?, read(pb, standard.pb)?);
    let Some(properties) = LzmaProperties::new(bits.0, bits.1, bits.2) else {
        return Err(fail!(filter, Decode, "lc and lp of {filter} are more than 4 in all"));
    };
    let properties = is_lzma1.then_some(properties);
    Ok(LzmaChain { deltas, dictionary_bytes, properties })
}
