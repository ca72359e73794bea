//! The memory of a closed loader that is used as long as a batch or a tensor keeps slots of it: by
//! release, batch_info, stats, last_error, deleters, and close.
//!
//! In: the state of a loader that works no more. Out: addresses. A change that makes one of these
//! calls read more memory must name it in this file, or its page is freed (tests/flow/kept.rs).

use crate::base::arena::span_of;
use crate::base::indexes::BatchSlot;
use crate::state::State;
use crate::state::shared::Shared;
use arrayvec::ArrayVec;
use core::ops::Range;

/// Addresses that stay whatever slots are held.
pub type Spans = ArrayVec<Range<usize>, 16>;

/// Memory that is not a slot's: records, figures, and the engine and fences of a device.
pub fn spans_of_state(shared: &Shared, state: &State) -> Spans {
    let mut spans = Spans::new();
    spans.extend([span_of(shared), span_of(shared.settings), span_of(shared.stats)]);
    spans.extend(state.slots.spans());
    spans.extend([span_of(&*state.device.uses), state.call_error_span()]);
    spans.push(shared.views.rows.places_span());
    if let Some(engine) = shared.engine() {
        spans.extend([span_of(engine), engine.fences_span()]);
    }
    spans
}

/// Its samples, if they lie in host memory of the loader's, and their records. Reads what stays
/// whatever slots are held: another close may give the pages of this one back meanwhile.
pub fn spans_of_slot(shared: &Shared, slot: BatchSlot, each: &mut dyn FnMut(Range<usize>)) {
    if shared.engine().is_none()
        && let Some(samples) = shared.own_samples(slot)
    {
        each(samples.span());
    }
    each(shared.views.rows.span(slot));
    each(shared.exports.span(slot));
}
