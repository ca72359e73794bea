//! The memory of a closed loader that is used as long as a batch or a tensor keeps slots of it: by
//! release, batch_info, stats, last_error, deleters, and close.
//!
//! In: the state of a loader that works no more. Out: addresses. Whoever has one of these calls
//! look at something else names it here, else its page is gone (tests/flow/kept.rs).

use crate::base::arena::span_of;
use crate::base::indexes::BatchSlot;
use crate::state::State;
use crate::state::shared::Shared;
use arrayvec::ArrayVec;
use core::ops::Range;

/// Addresses that stay whatever slots are kept.
pub type Spans = ArrayVec<Range<usize>, 16>;

/// Memory that is not a slot's: records, figures, and the engine and fences of a device.
pub fn spans_of_state(shared: &Shared, state: &State) -> Spans {
    let mut spans = Spans::new();
    spans.extend([span_of(shared), span_of(shared.stats), state.slots.span()]);
    spans.extend([state.digests.sums_span(), span_of(&*state.device.uses)]);
    spans.push(state.call_error_span());
    if let Some(engine) = shared.engine() {
        spans.extend([span_of(engine), engine.fences_span()]);
    }
    spans
}

/// Its samples, where they lie in host memory, and what is known of them.
pub fn spans_of_slot(shared: &Shared, slot: BatchSlot, each: &mut dyn FnMut(Range<usize>)) {
    let (settings, views) = (&shared.settings, &shared.views);
    let (row, samples) = (shared.sample_row(slot, 0), settings.config.samples_per_batch);
    if shared.engine().is_none() {
        let bytes = settings.slot_bytes;
        each(shared.batches.part(u64::from(slot.0) * bytes, bytes).span());
    }
    each(views.tags.span(row, samples as usize));
    each(views.statuses.span(row, samples as usize));
    for field in 0..settings.fields.len() as u32 {
        each(span_of(shared.filled_shape(slot, field, samples)));
    }
    if shared.takes_digests() {
        // Slot by slot, as tests/flow/kept.rs finds.
        let count = settings.fields.len() * samples as usize;
        each(views.digests.span(slot.at() * count, count));
    }
    each(shared.exports.span(slot));
}
