//! The demo's samples against the procedure that painted their volumes: every element of every
//! field.

use super::{CROP, CROP_ELEMENTS, Samples, specimen, store};
use crate::fault::{Outcome, failed};
use crate::feed::List as _;
use specimen::Painter;
use std::sync::{Mutex, PoisonError};

/// The fields of a batch, as their bytes.
pub type Elements<'a> = [&'a [u8]; 3];

/// The part of one sample.
pub fn row<'a>(elements: &Elements<'a>, number: usize, count: usize) -> Elements<'a> {
    elements.map(|field| {
        let bytes = field.len() / count;
        &field[number * bytes..][..bytes]
    })
}

/// What a thread needs to paint a crop again.
pub struct Checker {
    painters: [Painter; store::VOLUMES.len()],
    voxels: Vec<u16>,
}

impl Checker {
    pub fn new() -> Checker {
        Checker {
            painters: store::VOLUMES.map(|(_, stain)| Painter::new(stain)),
            voxels: vec![0; CROP_ELEMENTS],
        }
    }

    /// Compares the fields of a sample: the f32 of both channels, the u8 of the mask, the i64.
    fn check(&mut self, [image, mask, label]: Elements<'_>, begin: [i64; 3]) -> Outcome<()> {
        let channels = image.chunks_exact(4 * CROP_ELEMENTS).map(|channel| (channel, 4));
        for (volume, (bytes, size)) in channels.chain([(mask, 1)]).enumerate() {
            self.painters[volume].paint(begin, CROP, &mut self.voxels);
            for (number, (element, voxel)) in bytes.chunks_exact(size).zip(&self.voxels).enumerate()
            {
                let is_same = match *element {
                    [byte] => u16::from(byte) == *voxel,
                    _ => element == f32::from(*voxel).to_le_bytes(),
                };
                if !is_same {
                    let [z, y, x] =
                        [number / CROP[2] / CROP[1], number / CROP[2] % CROP[1], number % CROP[2]];
                    let name = store::VOLUMES[volume].0;
                    return failed(format!("{name}: voxel [{z}, {y}, {x}] is not {voxel}"));
                }
            }
        }
        let cells = specimen::cells_in(begin, CROP) as i64;
        match label == cells.to_le_bytes() {
            true => Ok(()),
            false => failed(format!("label is not {cells}")),
        }
    }
}

/// Checks the samples of a batch, on as many threads as there are checkers.
pub fn check_batch(
    tags: &[u64],
    elements: &Elements<'_>,
    (samples, places): (&Samples, &[[i64; 3]]),
    checkers: &mut [Checker],
) -> Outcome<()> {
    let waiting = Mutex::new(tags.iter().enumerate());
    let next = || waiting.lock().unwrap_or_else(PoisonError::into_inner).next();
    std::thread::scope(|scope| {
        let workers: Vec<_> = checkers
            .iter_mut()
            .map(|checker| {
                scope.spawn(|| {
                    while let Some((number, tag)) = next() {
                        let index = (*tag - 1) as usize;
                        let checked =
                            checker.check(row(elements, number, tags.len()), places[index]);
                        checked.or_else(|fault| {
                            failed(format!("{} of the demo: {fault}", samples.name(index)))
                        })?;
                    }
                    Ok(())
                })
            })
            .collect();
        let outcomes = workers
            .into_iter()
            .map(|worker| worker.join().unwrap_or_else(|_| failed("a checking thread panicked")));
        outcomes.collect()
    })
}
