//! Boxes pushed as maps that lead to the same voxels, so that samples are the same.
//!
//! In: requests. Out: samples of one box with an affine map, of a whole number of voxels along each
//! axis, which is nearest. Boxes of more axes than a map has, or of none, are pushed as they are.

use wavetrain::loader::{AffineMap, Failure, Interpolation, Loader, Part, Request, Sample};

/// A request, its begin and end as those of an output.
struct Mapped<'a> {
    request: Request<'a>,
    begin: Vec<i64>,
    end: Vec<i64>,
}

impl<'a> Mapped<'a> {
    fn new(request: Request<'a>) -> Mapped<'a> {
        let is_mapped = is_mapped(&request);
        let both = request.begin.iter().zip(request.end);
        let end = both.map(|(begin, end)| if is_mapped { end.wrapping_sub(*begin) } else { *end });
        let begin = request.begin.iter().map(|begin| if is_mapped { 0 } else { *begin });
        Mapped { request, begin: begin.collect(), end: end.collect() }
    }

    fn part(&self) -> Part<'_> {
        let rank = self.begin.len();
        let mut map = AffineMap { filter: Interpolation::Nearest, ..AffineMap::default() };
        for axis in 0..rank.min(3) {
            map.matrix[axis][axis] = 1.0;
            map.matrix[axis][3] = self.request.begin[axis] as f64;
        }
        map.axes = &[0, 1, 2][..rank.min(3)];
        let affine = is_mapped(&self.request).then_some(map);
        let (begin, end) = (&self.begin[..], &self.end[..]);
        Part { uri: self.request.uri, begin, end, affine, ..Part::default() }
    }
}

fn is_mapped(request: &Request<'_>) -> bool {
    (1..4).contains(&request.begin.len())
}

/// Pushes requests as maps.
pub fn push_mapped(
    loader: &Loader,
    requests: &[Request<'_>],
    timeout_ns: u64,
) -> Result<usize, Failure> {
    let mapped: Vec<Mapped<'_>> = requests.iter().map(|request| Mapped::new(*request)).collect();
    let parts: Vec<Part<'_>> = mapped.iter().map(Mapped::part).collect();
    let samples = parts
        .iter()
        .zip(requests)
        .map(|(part, request)| Sample { parts: core::slice::from_ref(part), tag: request.tag });
    let samples: Vec<Sample<'_>> = samples.collect();
    match loader.push_samples(&samples, timeout_ns) {
        (0, Err(failure)) => Err(failure),
        (taken, _) => Ok(taken),
    }
}
